"""init_biases: what the first bits of a new network distinguish, and which weights change."""

import pytest
import torch

from bipointnet.config import Config
from bipointnet.errors import UserError
from bipointnet.models import MODELS, PartPointNet, PointNet, ScenePointNet, vanilla_pointnet
from bipointnet.nn import init_biases


def new_network(in_channels: int = 3, **options) -> PointNet:
    torch.manual_seed(3)
    return vanilla_pointnet(num_classes=5, in_channels=in_channels, linear="lsr", pool="ema-max", **options).train()


def distinct_codes(network: PointNet, points: torch.Tensor) -> int:
    """The number of different first bits among the points."""
    return len((network.first(points) >= 0).reshape(-1, 64).unique(dim=0))


def test_planes_through_the_mean_distinguish_directions_only():
    """60 points on a ray: 2 codes without biases. With them 31 to 41, over 20 seeds and 2 instruction sets."""
    radius = torch.linspace(0.1, 3, 30).reshape(1, -1, 1)
    ray = torch.cat([radius, -radius], dim=1) * torch.tensor([0.3, -0.8, 0.5])  # (1, 60, 3), its mean at 0
    network = new_network()
    assert distinct_codes(network, ray) == 2
    init_biases(network, 1.0, ray)
    assert distinct_codes(network, ray) > 20


def changed(network: torch.nn.Module, points: torch.Tensor, std: float = 0.5) -> set[str]:
    """Names of the tensors that init_biases changes."""
    before = {name: value.clone() for name, value in network.state_dict().items()}
    init_biases(network, std, points)
    return {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}


def norm_biases(network: torch.nn.Module) -> set[str]:
    return {f"{n}.bias" for n, m in network.named_modules() if isinstance(m, torch.nn.BatchNorm1d)}


def test_biases_have_the_given_deviation_and_only_first_layers_change_besides():
    network = new_network()
    assert changed(network, torch.rand(2, 50, 3)) == norm_biases(network) | {"first.0.weight"}
    biases = torch.cat([network.state_dict()[name] for name in norm_biases(network)])
    # 1984 draws: the standard errors are 1.6 % of the deviation and 0.011.
    assert biases.std() == pytest.approx(0.5, rel=0.08)
    assert biases.mean() == pytest.approx(0, abs=0.06)


# Layers that read the channels of a point, or offsets in xyz.
POINT_LAYERS = {
    "pointnet-vanilla": {"first.0"},
    "pointnet": {"first.0", "input_transform.points.0.0"},
    "pointnet2": {"near.points.0.0"},
    "dgcnn": set(),
    "pointcnn": {f"convs.{i}.lift.0.0" for i in range(4)},
    "pointconv": {"near.points.0.0", *(f"{conv}.weights.0.0" for conv in ("near", "far", "all"))},
    "local-tiny": {"levels.0.points.0.0", "place.0"},
    "local-small": {"levels.0.points.0.0", "place.0"},
    "local-base": {"levels.0.points.0.0", "levels.1.place.0", "place.0"},
}


@pytest.mark.parametrize("in_channels", [3, 8, 24, 64, 256])
@pytest.mark.parametrize("name", MODELS)
def test_hidden_layers_as_wide_as_the_input_do_not_change(name, in_channels):
    """The last layer of 256 inputs, or PointCNN's layer of 24, was rescaled if a point had as many channels."""
    torch.manual_seed(0)
    network = MODELS[name](num_classes=5, in_channels=in_channels, linear="lsr", pool="ema-max")
    weights = {f"{layer}.weight" for layer in POINT_LAYERS[name]}
    assert changed(network, torch.rand(2, 50, in_channels)) == norm_biases(network) | weights


@pytest.mark.parametrize("make", [PartPointNet, ScenePointNet])
def test_first_layers_of_segmentation_networks_are_rescaled(make):
    network = make(num_classes=5, in_channels=9, linear="lsr", pool="ema-max")
    weights = {f"{layer}.weight" for layer in POINT_LAYERS["pointnet"]}
    assert changed(network, torch.rand(2, 50, 9)) == norm_biases(network) | weights


def test_the_unit_of_an_input_does_not_matter():
    """A first layer has the same output, up to one factor, for any unit of each input."""
    torch.manual_seed(0)
    points = torch.randn(4, 200, 9)
    units = torch.tensor([1.0, 1, 3, 0.1, 0.2, 0.1, 1, 1, 0.05])
    outputs = []
    for cloud in (points, points * units):
        torch.manual_seed(5)
        network = ScenePointNet(13, linear="lsr", pool="ema-max", tnets=False)
        init_biases(network, 1.0, cloud)
        outputs.append(cloud @ network.state_dict()["first.0.weight"].T)
    factor = outputs[1].std() / outputs[0].std()
    assert torch.allclose(outputs[1], factor * outputs[0], atol=1e-3 * float(outputs[1].abs().max()))


def test_an_input_that_hardly_varies_keeps_its_weights():
    network, before = new_network(), new_network().state_dict()["first.0.weight"]
    cloud = torch.rand(2, 50, 3)
    cloud[..., 1] = 0.25 + 1e-7 * torch.rand(2, 50)
    init_biases(network, 1.0, cloud)
    assert torch.equal(network.state_dict()["first.0.weight"][:, 1], before[:, 1])
    init_biases(network, 1.0, torch.zeros(2, 50, 3))
    assert network.state_dict()["first.0.weight"].isfinite().all()


def test_norms_without_a_bias_and_layers_of_other_networks_do_not_change():
    network = torch.nn.Sequential(torch.nn.BatchNorm1d(3, affine=False), torch.nn.Linear(3, 3))
    assert not changed(network, torch.rand(5, 3))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "fp"}, "init_bias_std"),
        ({"norm": False}, "init_bias_std is 1.0 without BatchNorm"),
        ({"init_bias_std": float("inf")}, "init_bias_std is inf"),
        ({"init_bias_std": -1.0}, "init_bias_std is -1.0"),
    ],
)
def test_configurations_without_biases_to_draw_are_rejected(options, sentence):
    with pytest.raises(UserError, match=sentence):
        Config(**{"init_bias_std": 1.0, **options})

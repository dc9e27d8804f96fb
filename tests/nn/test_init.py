"""Planes that start apart: what the first bits of a fresh network tell, and what a run with --init-bias-std is."""

import pytest
import torch

from bipointnet.config import Config
from bipointnet.errors import UserError
from bipointnet.models.pointnet import PointNet, vanilla_pointnet
from bipointnet.models.segmentation import ScenePointNet
from bipointnet.nn import LSR, BinaryLinear, EntropyMax, init_biases


def fresh() -> PointNet:
    torch.manual_seed(3)
    return vanilla_pointnet(num_classes=5, linear=BinaryLinear.of(LSR()), pool=EntropyMax()).train()


def codes(network: PointNet, points: torch.Tensor) -> int:
    """How many of the points the first bits tell apart."""
    return len((network.first(points) >= 0).reshape(-1, 64).unique(dim=0))


def test_planes_through_the_mean_see_directions_only():
    radius = torch.linspace(0.1, 3, 30).reshape(1, -1, 1)
    ray = torch.cat([radius, -radius], dim=1) * torch.tensor([0.3, -0.8, 0.5])  # (1, 60, 3), its mean at 0
    network = fresh()
    assert codes(network, ray) == 2
    init_biases(network, 1.0, ray)
    assert codes(network, ray) > 20


def test_shifts_have_the_asked_width_and_of_the_rest_only_layers_that_read_points_change():
    network, plain = fresh(), fresh().state_dict()
    init_biases(network, 0.5, torch.rand(2, 50, 3))
    moved = {name for name, value in network.state_dict().items() if not torch.equal(value, plain[name])}
    norms = {f"{n}.bias" for n, m in network.named_modules() if isinstance(m, torch.nn.BatchNorm1d)}
    assert moved == norms | {"first.0.weight"}
    shifts = torch.cat([network.state_dict()[name] for name in norms])
    assert shifts.std() == pytest.approx(0.5, rel=0.05)
    assert shifts.mean() == pytest.approx(0, abs=0.05)


def test_inputs_that_vary_little_weigh_as_much_as_those_that_vary_much():
    """A first layer sees the same, up to one factor, whatever unit each input has."""
    points = torch.randn(4, 200, 9)
    units = torch.tensor([1.0, 1, 3, 0.1, 0.2, 0.1, 1, 1, 0.05])
    seen = []
    for cloud in (points, points * units):
        torch.manual_seed(5)
        network = ScenePointNet(13, linear=BinaryLinear.of(LSR()), pool=EntropyMax(), tnets=False)
        init_biases(network, 1.0, cloud)
        seen.append(cloud @ network.state_dict()["first.0.weight"].T)
    factor = seen[1].std() / seen[0].std()
    assert torch.allclose(seen[1], factor * seen[0], atol=1e-3 * float(seen[1].abs().max()))


def test_an_input_that_hardly_varies_is_left_alone():
    network, plain = fresh(), fresh().state_dict()["first.0.weight"]
    cloud = torch.rand(2, 50, 3)
    cloud[..., 1] = 0.25 + 1e-7 * torch.rand(2, 50)
    init_biases(network, 1.0, cloud)
    assert torch.equal(network.state_dict()["first.0.weight"][:, 1], plain[:, 1])
    init_biases(network, 1.0, torch.zeros(2, 50, 3))
    assert network.state_dict()["first.0.weight"].isfinite().all()


def test_norms_without_a_shift_are_left_alone():
    network = torch.nn.Sequential(torch.nn.BatchNorm1d(3, affine=False), torch.nn.Linear(3, 3))
    init_biases(network, 1.0, torch.rand(5, 3))
    assert not list(network[0].parameters())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "fp"}, "init_bias_std need a 1-bit method; found method 'fp'"),
        ({"norm": False}, "init_bias_std is 1.0 without BatchNorm; expected 0"),
        ({"init_bias_std": float("inf")}, "init_bias_std is inf; expected at most 10"),
        ({"init_bias_std": -1.0}, "init_bias_std is -1.0; expected at least 0"),
    ],
)
def test_what_cannot_be_spread(options, sentence):
    with pytest.raises(UserError, match=sentence):
        Config(**{"init_bias_std": 1.0, **options})


def test_a_run_that_spreads_is_not_the_papers():
    assert Config().recipe == "paper"
    assert Config(init_bias_std=1.0).recipe == "custom"

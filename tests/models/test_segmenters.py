"""Laws of the networks that label points, in float and in 1 bit."""

import pytest
import torch
from conftest import VARIANTS
from gradient_laws import require_compiled_gradients
from torch import nn

from bipointnet.config import LABELING
from bipointnet.models import SEGMENTERS, PartPointNet, ScenePointNet, pointnet2
from bipointnet.nn import LSR, METHODS, POOLS, BinaryLinear, EntropyMax, calibrate, in_full
from bipointnet.nn.geometry import Neighbors, ball

LINEARS = {"fp": nn.Linear} | {name: BinaryLinear.of(method) for name, method in METHODS.items()}
NETWORKS = [
    (task, model, linear) for task in SEGMENTERS for model in SEGMENTERS[task] for linear in ("fp", "lsr", "xnor")
]
everywhere = pytest.mark.parametrize(
    ("make", "linear"),
    [(SEGMENTERS[task][model], LINEARS[linear]) for task, model, linear in NETWORKS],
    ids=["-".join(network) for network in NETWORKS],
)


@everywhere
def test_labels_move_with_their_points(make, linear):
    torch.manual_seed(0)
    model, x = (
        make(num_classes=5, in_channels=4, linear=linear, pool=EntropyMax()).double().eval(),
        torch.randn(2, 30, 4).double(),
    )
    order = torch.randperm(30)
    torch.testing.assert_close(model(x[:, order]).logits, model(x).logits[:, order])


@pytest.mark.parametrize("make", [PartPointNet, ScenePointNet])
@pytest.mark.parametrize("method", METHODS)
def test_copies_of_points_change_no_label(make, method):
    torch.manual_seed(0)
    model = make(num_classes=5, in_channels=3, tnets=False, linear=method, pool="ema-max").double().eval()
    x = torch.randn(2, 30, 3).double()
    uneven = torch.cat([x, x[:, :12].repeat(1, 7, 1)], dim=1)
    torch.testing.assert_close(model(uneven).logits[:, :30], model(x).logits)
    counting_points = make(num_classes=5, in_channels=3, tnets=False, linear=method, pool="ema-max-points").double()
    counting_points.load_state_dict(model.state_dict())
    assert not torch.equal(counting_points.eval()(uneven).pooled, model(uneven).pooled)


@everywhere
@pytest.mark.parametrize("points", [1, 65])
def test_any_number_of_points_channels_and_classes(make, linear, points):
    output = make(num_classes=7, in_channels=6, linear=linear, pool=EntropyMax())(torch.randn(2, points, 6))
    assert output.logits.shape == (2, points, 7)
    assert output.logits.isfinite().all()


@everywhere
def test_gradients_reach_every_parameter(make, linear):
    torch.manual_seed(0)
    model, x = make(num_classes=5, in_channels=3, linear=linear, pool=EntropyMax()), torch.randn(4, 24, 3)
    calibrate(model, x)
    output = model(x)
    loss = output.logits.square().sum() + (0 if output.transform is None else output.transform.square().sum())
    loss.backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]


@everywhere
def test_fused_layers_equal_their_steps(make, linear):
    torch.manual_seed(0)
    model, x = (
        make(num_classes=5, in_channels=3, linear=linear, pool=EntropyMax()).double().eval(),
        torch.randn(2, 24, 3).double(),
    )
    fused = model(x).logits
    with in_full(model):
        torch.testing.assert_close(model(x).logits, fused)


@pytest.mark.parametrize("backbone", ["pointnet2", "dgcnn"])
def test_the_category_changes_the_labels_of_every_backbone(backbone):
    torch.manual_seed(0)
    model = SEGMENTERS["part"][backbone](num_classes=5, categories=3, linear="lsr", pool="ema-max")
    x = torch.randn(1, 40, 3).expand(3, -1, -1)
    calibrate(model, (x, torch.arange(3)))
    logits = model(x, torch.arange(3)).logits
    assert not torch.equal(logits[0], logits[1])
    with pytest.raises(ValueError, match="category is None, expected one of 3 categories per cloud"):
        model(x)


@pytest.mark.parametrize("task", SEGMENTERS)
@pytest.mark.parametrize("points", [40, 5000])
def test_balls_of_pointnet2_keep_their_limit_for_any_number_of_points(task, points, monkeypatch):
    """So a packed file needs no rule for sizes that were not recorded."""
    limits = []

    def watched(centers: torch.Tensor, cloud: torch.Tensor, radius: float, limit: int) -> Neighbors:
        limits.append(limit)
        return ball(centers, cloud, radius, limit)

    monkeypatch.setattr(pointnet2, "ball", watched)
    model = SEGMENTERS[task]["pointnet2"](num_classes=2, in_channels=3).eval()
    with torch.no_grad():
        model(torch.rand(1, points, 3))
    assert limits == [32] * (3 if task == "semantic" else 2)


@pytest.mark.parametrize("pool", POOLS)
def test_the_category_is_an_input_of_networks_with_categories(pool):
    torch.manual_seed(0)
    model = PartPointNet(num_classes=5, categories=3, tnets=False, linear=BinaryLinear.of(LSR()), pool=POOLS[pool]())
    x = torch.randn(1, 20, 3).expand(3, -1, -1)
    calibrate(model, (x, torch.arange(3)))
    logits = model(x, torch.arange(3)).logits
    assert not torch.equal(logits[0], logits[1])
    with pytest.raises(ValueError, match="PartPointNet: category is None, expected one of 3 categories per cloud"):
        model(x)
    with pytest.raises(ValueError, match=r"category is tensor\(\[0, 1, 2\]\), expected no category input"):
        PartPointNet(num_classes=5, tnets=False)(x, torch.arange(3))


def sizes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    linears = {name: m for name, m in model.named_modules() if isinstance(m, (nn.Linear, BinaryLinear))}
    return {name: tuple(layer.weight.shape) for name, layer in linears.items() if "transform" not in name}


def test_layers_match_the_paper():
    part = PartPointNet(num_classes=4, linear=BinaryLinear.of(LSR()), pool=EntropyMax())
    outputs = [64, 128, 128, 512, 2048, 256, 256, 128, 4]
    assert [shape[0] for shape in sizes(part).values()] == outputs
    assert sizes(part)["concat.0.linear"] == (256, 64 + 128 + 128 + 512 + 2048 + 2048) == (256, 4928)
    assert part.feature_transform is not None
    assert part.feature_transform.last.out_features == 128 * 128
    scene = ScenePointNet(num_classes=13, linear=BinaryLinear.of(LSR()), pool=EntropyMax())
    assert list(sizes(scene).values()) == [
        (64, 9),
        (128, 64),
        (1024, 128),
        (512, 1088),
        (256, 512),
        (128, 256),
        (13, 128),
    ]
    for model in (part, scene):
        floats = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
        assert floats == ["input_transform.points.0.0", "first.0", "last"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_deployment_variants(variant):
    model = ScenePointNet(
        num_classes=3, linear=BinaryLinear.of(LSR()), pool=EntropyMax(), tnets=False, **VARIANTS[variant]
    )
    floats = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    expected = [] if VARIANTS[variant].get("binary_first") else ["first.0"]
    assert floats == expected + ([] if VARIANTS[variant].get("binary_last") else ["last"])
    assert any(isinstance(module, nn.BatchNorm1d) for module in model.modules()) == (variant != "f")


def test_options_allow_the_backbones_that_label_points_and_no_others():
    assert all(set(backbones) == set(LABELING) for backbones in SEGMENTERS.values())


@pytest.mark.parametrize("task", SEGMENTERS)
@pytest.mark.parametrize("linear", ["fp", "lsr"])
def test_compiled_gradients_equal_eager_ones(task, linear):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = SEGMENTERS[task]["pointnet-vanilla"](
        num_classes=5, in_channels=3, linear=LINEARS[linear], pool=EntropyMax()
    ).double()
    x = torch.randn(4, 12, 3).double()
    calibrate(model, x)
    require_compiled_gradients(model, x)

"""Laws of every backbone, in float and with every 1-bit method."""

import pytest
import torch
from conftest import VARIANTS
from gradient_laws import require_compiled_gradients
from torch import nn

from bipointnet.models import MODELS, PointNet, vanilla_pointnet
from bipointnet.nn import (
    LSR,
    METHODS,
    POOLS,
    BinaryLinear,
    EntropyMax,
    MaxPool,
    MeanPool,
    MeasuredMax,
    calibrate,
    deployed_bytes,
)

LINEARS = {"fp": nn.Linear} | {name: BinaryLinear.of(method) for name, method in METHODS.items()}
# Every method on PointNets. The other backbones have the same layers; they are tested in float, with the paper's
# method, and with the method that scales points.
POINTNETS = {"pointnet-vanilla", "pointnet"}
NETWORKS = [(name, linear) for name in MODELS for linear in (LINEARS if name in POINTNETS else ("fp", "lsr", "xnor"))]


def on(networks: list[tuple[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("make", "linear"),
        [(MODELS[name], LINEARS[linear]) for name, linear in networks],
        ids=[f"{name}-{linear}" for name, linear in networks],
    )


everywhere = on(NETWORKS)
# Compiling takes ten seconds per network on a CPU: every method once, every backbone with the paper's method.
COMPILED = [(name, linear) for name, linear in NETWORKS if name == "pointnet-vanilla" or linear in ("fp", "lsr")]


def binary_layers(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, BinaryLinear)]


def float_layers(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]


@everywhere
def test_order_of_points_does_not_matter(make, linear):
    torch.manual_seed(0)
    model, x = make(num_classes=5, linear=linear, pool=EntropyMax()).double().eval(), torch.randn(3, 40, 3).double()
    torch.testing.assert_close(model(x).logits, model(x[:, torch.randperm(40)]).logits)


@everywhere
@pytest.mark.parametrize("points", [1, 2, 63, 130])
def test_any_number_of_points_channels_and_classes(make, linear, points):
    model = make(num_classes=7, in_channels=6, linear=linear, pool=EntropyMax())
    output = model(torch.randn(4, points, 6))
    assert output.logits.shape == (4, 7)
    assert output.pooled.shape == (4, model.head[0][0].in_features)
    assert output.logits.isfinite().all()


@everywhere
@pytest.mark.parametrize("pool", POOLS)
def test_gradients_reach_every_parameter(make, linear, pool):
    torch.manual_seed(0)
    model, x = make(num_classes=5, linear=linear, pool=POOLS[pool]()), torch.randn(6, 32, 3)
    calibrate(model, x)
    output = model(x)
    loss = output.logits.square().sum() + (0 if output.transform is None else output.transform.square().sum())
    loss.backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None]
    assert not missing
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@everywhere
def test_state_dict_round_trip(make, linear):
    torch.manual_seed(0)
    one, other, x = make(num_classes=5, linear=linear), make(num_classes=5, linear=linear), torch.randn(3, 20, 3)
    calibrate(one, x)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.eval()(x).logits, other.eval()(x).logits)


@pytest.mark.long
@on(COMPILED)
def test_compiled_gradients_equal_eager_ones(make, linear):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, x = make(num_classes=5, linear=linear, pool=EntropyMax()).double(), torch.randn(8, 16, 3).double()
    model.dropout = nn.Identity()
    calibrate(model, x)
    require_compiled_gradients(model, x)


def test_vanilla_has_805056_weights_and_4_binary_layers():
    model = vanilla_pointnet(num_classes=40, linear=BinaryLinear.of(LSR()))
    weights = [m.weight.numel() for m in model.modules() if isinstance(m, (nn.Linear, BinaryLinear))]
    assert sum(weights) == 805_056
    assert len(binary_layers(model)) == 4


def test_pointnet_has_15_binary_and_3_float_layers():
    model = PointNet(num_classes=40, linear=BinaryLinear.of(LSR()), pool=EntropyMax())
    assert len(binary_layers(model)) == 15
    assert float_layers(model) == ["input_transform.points.0.0", "first.0", "last"]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("tnets", [False, True])
def test_deployment_variants_are_those_of_the_paper(variant, tnets):
    model = PointNet(num_classes=40, linear=BinaryLinear.of(LSR()), pool=EntropyMax(), tnets=tnets, **VARIANTS[variant])
    coordinate_layers = ["input_transform.points.0.0", "first.0"] if tnets else ["first.0"]
    expected = [] if VARIANTS[variant].get("binary_first") else list(coordinate_layers)
    expected += [] if VARIANTS[variant].get("binary_last") else ["last"]
    assert float_layers(model) == expected
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
    assert bool(norms) == (variant != "f")
    assert any(isinstance(m, MeasuredMax) for m in model.modules()) == (variant == "f")


def test_pools_without_norm_measure_their_own_shift():
    torch.manual_seed(0)
    model = PointNet(num_classes=4, linear=BinaryLinear.of(LSR()), pool=EntropyMax(), norm=False)
    x = torch.randn(16, 64, 3)
    calibrate(model, x)
    shifts = [m.shift.item() for m in model.modules() if isinstance(m, MeasuredMax)]
    assert len(set(shifts)) == 3
    pooled = model(x).pooled
    assert (pooled > 0).float().mean() <= 0.5 <= (pooled >= 0).float().mean(), "half of the values, up to ties"


BACKBONES = {
    "pointnet2": (["near.points.0.0", "last"], 10),
    "dgcnn": (["near.edges.0.0", "last"], 6),
    "pointcnn": ([*(f"convs.{i}.{net}.0.0" for i in range(4) for net in ("lift", "order")), "last"], 22),
    "pointconv": (
        [
            "near.points.0.0",
            *(f"{conv}.{net}.0.0" for conv in ("near", "far", "all") for net in ("weights", "thinness.0")),
            "last",
        ],
        25,
    ),
    "local-tiny": (["levels.0.points.0.0", "place.0", "last"], 5),
    "local-small": (["levels.0.points.0.0", "place.0", "last"], 6),
    "local-base": (["levels.0.points.0.0", "levels.1.place.0", "place.0", "last"], 10),
}


@pytest.mark.parametrize("name", BACKBONES)
def test_float_layers_match_the_specification(name):
    kept, binary = BACKBONES[name]
    model = MODELS[name](num_classes=40, linear=BinaryLinear.of(LSR()), pool=EntropyMax())
    assert float_layers(model) == kept
    assert len(binary_layers(model)) == binary
    assert float_layers(MODELS[name](num_classes=40, linear=BinaryLinear.of(LSR()), binary_first=True)) == ["last"]
    everything = MODELS[name](num_classes=40, linear=BinaryLinear.of(LSR()), binary_first=True, binary_last=True)
    assert not float_layers(everything)


def shapes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {n: tuple(m.weight.shape) for n, m in model.named_modules() if isinstance(m, (nn.Linear, BinaryLinear))}


def test_layers_have_the_sizes_of_the_specification():
    """Shapes of weight matrices: outputs, inputs; a grouped convolution has one row per output."""
    sizes = {name: list(shapes_of(MODELS[name](num_classes=40)).values()) for name in BACKBONES}
    head = [(512, 1024), (256, 512), (40, 256)]
    assert sizes["pointnet2"] == [
        *[(64, 3), (64, 64), (128, 64)],
        *[(128, 131), (128, 128), (256, 128)],
        *[(256, 259), (512, 256), (1024, 512), *head],
    ]
    assert sizes["local-tiny"] == [
        *[(32, 3), (64, 32), (64, 64)],
        *[(64, 3), (128, 128), (512, 128)],
        *[(256, 512), (40, 256)],
    ]
    assert sizes["local-small"] == [*[(64, 3), (64, 64), (128, 64)], *[(64, 3), (256, 192), (1024, 256), *head]]
    assert sizes["local-base"] == [
        *[(64, 3), (64, 64), (128, 64)],
        *[(64, 3), (128, 192), (128, 128), (256, 128)],
        *[(64, 3), (256, 320), (512, 256), (1024, 512), *head],
    ]
    assert sizes["dgcnn"] == [(64, 6), (64, 64), (64, 64), (128, 128), (1024, 192), *head]
    assert sizes["pointcnn"] == [
        layer
        for channels, out, k, h in ((0, 48, 8, 32), (48, 96, 12, 64), (96, 192, 16, 128), (192, 384, 16, 256))
        for layer in (
            *[(h, 3), (h, h), (k * k, 3 * k), (k * k, k), (k * k, k)],
            *[(max(channels + h, 64 if k == 8 else 0), k), (out, max(channels + h, 64 if k == 8 else 0))],
        )
    ] + [(256, 384), (128, 256), (40, 128)]
    assert (
        sizes["pointconv"]
        == [
            layer
            for channels, mlp in ((0, (64, 64, 128)), (128, (128, 128, 256)), (256, (256, 512, 1024)))
            for layer in (
                *[(mlp[0], 3 + channels), (mlp[1], mlp[0]), (mlp[2], mlp[1])],
                *[(8, 3), (8, 8), (16, 8), (16, 1), (8, 16), (1, 8), (mlp[2], 16 * mlp[2])],
            )
        ]
        + head
    )


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("linear", [nn.Linear, BinaryLinear.of(LSR())], ids=["fp", "lsr"])
def test_clouds_of_identical_points_have_finite_logits(name, linear):
    torch.manual_seed(0)
    model = MODELS[name](num_classes=4, linear=linear, pool=EntropyMax())
    for x in (torch.ones(2, 40, 3), torch.randn(2, 4, 3).repeat(1, 10, 1), torch.randn(2, 3, 3)):
        calibrate(model, x)
        output = model(x)
        output.logits.square().sum().backward()
        assert output.logits.isfinite().all()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_invalid_points_are_rejected_with_their_index(name, bad):
    x = torch.randn(3, 40, 3)
    x[1, 7, 2] = bad
    with pytest.raises(ValueError, match=rf"(points|centers)\[1, 7, 2\] is {bad}, expected .*drop such points"):
        MODELS[name](num_classes=4).eval()(x)


@pytest.mark.parametrize("name", ["pointnet2", "dgcnn"])
def test_pools_over_neighbors_shift_by_the_number_of_true_neighbors(name):
    """A pooled layer passes the counts to its pool; repeated neighbors do not count."""
    torch.manual_seed(0)
    model = MODELS[name](num_classes=4, linear=BinaryLinear.of(LSR()), pool=EntropyMax()).eval()
    x = torch.nn.functional.normalize(torch.randn(2, 200, 3), dim=-1)
    counts = []
    model.get_submodule("near.pooled").register_forward_pre_hook(lambda module, inputs: counts.append(inputs[1]))
    model(x)
    distances = torch.cdist(x, x)
    if name == "dgcnn":
        assert torch.equal(counts[0], torch.full((2, 200), 20))
    else:
        within = (distances <= 0.2).sum(dim=2)  # (2, 200) with the point itself
        limit = 13  # 64 of 1024 is 13 of 200
        assert counts[0].shape == (2, 100)
        assert 1 < counts[0].double().mean() < limit
        for b in range(2):
            possible = within[b].clamp(max=limit).sort(descending=True).values[:100]
            assert (counts[0][b].sort(descending=True).values <= possible).all()


def test_pointcnn_pools_a_mean_and_pointconv_has_no_pool():
    assert any(isinstance(m, MeanPool) for m in MODELS["pointcnn"](num_classes=4).modules())
    assert not any(isinstance(m, (MaxPool, MeanPool)) for m in MODELS["pointconv"](num_classes=4).modules())


def test_hardtanh_replaces_relu_except_before_a_pool():
    one_bit = PointNet(num_classes=4, linear=BinaryLinear.of(LSR()), pool=EntropyMax())
    plain = PointNet(num_classes=4)
    relus = {name for name, m in plain.named_modules() if isinstance(m, nn.ReLU)}
    tanhs = {name for name, m in one_bit.named_modules() if isinstance(m, nn.Hardtanh)}
    before_pools = {"input_transform.pooled.activation", "feature_transform.pooled.activation", "pooled.activation"}
    assert relus - tanhs == before_pools
    assert tanhs < relus


def test_the_input_transform_changes_xyz_only():
    torch.manual_seed(0)
    model = PointNet(num_classes=4, in_channels=5).double().eval()
    seen = []
    model.first.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    x = torch.randn(2, 9, 5).double()
    model(x)
    torch.testing.assert_close(seen[0][..., 3:], x[..., 3:])
    assert model.input_transform is not None
    torch.testing.assert_close(seen[0][..., :3], x[..., :3] @ model.input_transform(x))


def test_the_deployed_size_of_the_float_network_is_that_of_the_paper():
    assert deployed_bytes(vanilla_pointnet(num_classes=40)) == 3_228_320


def test_only_float_networks_have_dropout():
    assert isinstance(PointNet(num_classes=4).dropout, nn.Dropout)
    assert not any(isinstance(m, nn.Dropout) for m in PointNet(num_classes=4, linear=BinaryLinear.of(LSR())).modules())

"""Bi-linear layers: product, calibration, names, and laws that hold for every method."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bipointnet.errors import UserError
from bipointnet.models import MODELS, PointNet
from bipointnet.nn import (
    LSR,
    METHODS,
    POOLS,
    BinaryConv,
    BinaryGrouped,
    BinaryLinear,
    EntropyMax,
    MeasuredMax,
    PointPool,
    calibrate,
    hard_sign,
    in_full,
    polynomial,
    set_progress,
)
from bipointnet.nn.product import binary_product

sizes = st.tuples(st.integers(1, 9), st.integers(1, 70), st.integers(1, 12))


@settings(max_examples=30)
@given(sizes, st.integers(0, 2**32 - 1), st.booleans())
def test_product_has_the_gradients_of_plain_autograd(size, seed, per_output):
    """One scale per layer or per output: the small-matrix formulas equal plain autograd."""
    rng = torch.Generator().manual_seed(seed)
    rows, inputs, outputs = size

    def leaves():
        rng.manual_seed(seed)
        a = hard_sign(torch.randn(rows, inputs, generator=rng, dtype=torch.float64)).requires_grad_()
        w = hard_sign(torch.randn(outputs, inputs, generator=rng, dtype=torch.float64)).requires_grad_()
        s = torch.randn((outputs,) if per_output else (), generator=rng, dtype=torch.float64).requires_grad_()
        return (a, w, s), torch.randn(rows, outputs, generator=rng, dtype=torch.float64)

    ours, g = leaves()
    binary_product(*ours).backward(g)
    plain, _ = leaves()
    (plain[2] * (plain[0] @ plain[1].T)).backward(g)
    for mine, theirs in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_lsr_alpha_starts_at_the_ratio_of_deviations():
    torch.manual_seed(0)
    layer, x = BinaryLinear(40, 30, LSR()).requires_grad_(False), torch.randn(8, 50, 40) * 3
    calibrate(layer, x)
    centered = layer.weight - layer.weight.mean()
    expected = (x @ centered.T).std() / (hard_sign(x) @ hard_sign(centered).T).std()
    assert layer.alpha.item() == pytest.approx(expected.item(), rel=1e-5)
    assert layer(x).std().item() == pytest.approx((x @ centered.T).std().item(), rel=1e-5)


@pytest.mark.parametrize("weight", [torch.zeros(1, 1), torch.ones(1, 1) * 3, torch.full((1, 1), -0.7)])
def test_lsr_alpha_is_finite_even_for_one_channel(weight):
    layer = BinaryLinear(1, 1, LSR())
    with torch.no_grad():
        layer.weight.copy_(weight)
    calibrate(layer, torch.ones(1, 1))
    assert layer.alpha.isfinite()


def test_calibration_restores_running_statistics_and_modes():
    torch.manual_seed(0)
    model = torch.nn.Sequential(BinaryLinear(4, 8, LSR()), torch.nn.BatchNorm1d(8), BinaryLinear(8, 2, LSR())).eval()
    before = {k: v.clone() for k, v in model.state_dict().items() if "alpha" not in k}
    calibrate(model, torch.randn(16, 4))
    assert not model.training
    assert all(torch.equal(model.state_dict()[k], v) for k, v in before.items())


def frozen_inside_training() -> torch.nn.Sequential:
    """A training network whose BatchNorm is frozen, with statistics unlike those of a batch."""
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm1d(8)
    model = torch.nn.Sequential(BinaryLinear(4, 8, "lsr"), norm, torch.nn.Dropout(0.0), BinaryLinear(8, 2, "lsr"))
    assert norm.running_mean is not None
    norm.running_mean.fill_(100.0)
    model.train()
    norm.eval()
    return model


def test_calibration_keeps_a_frozen_norm_frozen_and_runs_it_frozen():
    """It came back in train mode, and the layer after it was calibrated on a batch-normalized input."""
    model, x = frozen_inside_training(), torch.randn(16, 4)
    modes = [module.training for module in model.modules()]
    calibrate(model, x)
    assert [module.training for module in model.modules()] == modes
    assert modes == [True, True, False, True, True]
    read = []
    model[3].register_forward_pre_hook(lambda module, inputs: read.append(inputs[0]))
    last = model[3]
    assert isinstance(last, BinaryLinear)
    alpha = last.alpha.item()
    model(x)
    calibrate(last, read[0])  # the input of the layer in training
    assert alpha == pytest.approx(last.alpha.item(), rel=1e-5)


def test_step_by_step_evaluation_keeps_every_mode():
    model = frozen_inside_training()
    modes = [module.training for module in model.modules()]
    with in_full(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == modes


def test_calibration_calls_no_method_of_foreign_modules():
    """A module of another library may have a `calibrate` of its own."""

    class Foreign(torch.nn.Linear):
        def calibrate(self, x):
            raise AssertionError("called")

    torch.manual_seed(0)
    layer = BinaryLinear(8, 2, "lsr")
    before = layer.alpha.item()
    calibrate(torch.nn.Sequential(Foreign(4, 8), layer), torch.randn(16, 4))
    assert layer.alpha.item() != before


@pytest.mark.parametrize("name", METHODS)
def test_a_name_makes_the_same_layer_as_the_object(name):
    layers = []
    for method in (name, METHODS[name]):
        torch.manual_seed(0)
        layers += [BinaryLinear(5, 4, method), BinaryLinear.of(method)(5, 4)]
        layers += [BinaryConv(5, 4, method, places=1), BinaryGrouped(2, 5, 2, method)]
    for one, other in zip(layers[:4], layers[4:], strict=True):
        assert one.method is other.method
        assert repr(one) == repr(other)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: BinaryLinear(3, 4, "lrs"), "BinaryLinear: method is 'lrs', .* one of bnn, .*; did you mean 'lsr'?"),
        (lambda: BinaryLinear.of("bireal"), "BinaryLinear.of: method is 'bireal', .*did you mean 'bi-real'?"),
        (lambda: BinaryConv(3, 4, None, 1), "BinaryConv: method is None, expected a Method such as LSR()"),  # pyright: ignore
        (lambda: PointPool("ema_max"), "PointPool: pool is 'ema_max', .*; did you mean 'ema-max'?"),
        (lambda: PointNet(4, linear="lsrr"), "PointNet: linear is 'lsrr', .* one of fp, bnn, .*; did you mean 'lsr'?"),
        (lambda: PointNet(4, linear=3), "PointNet: linear is 3"),  # pyright: ignore
        (
            lambda: PointNet(4, pool="maximum"),
            "PointNet: pool is 'maximum', .* one of max, avg, ema-max, ema-max-points, ema-avg",
        ),
        (lambda: set_progress(torch.nn.Linear(1, 1), 1.5), "set_progress: fraction is 1.5, expected 0 to 1"),
        (lambda: set_progress(torch.nn.Linear(1, 1), -0.1), "set_progress: fraction is -0.1"),
        (lambda: set_progress(torch.nn.Linear(1, 1), float("nan")), "set_progress: fraction is nan"),
    ],
)
def test_a_mistake_is_one_sentence(call, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", METHODS)
def test_methods_print_as_the_expression_that_makes_them(name):
    names = {cls.__name__: cls for cls in map(type, METHODS.values())} | {"polynomial": polynomial}
    for method in (METHODS[name], type(METHODS[name])(slope=polynomial)):
        assert eval(repr(method), names) == method


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("name", MODELS)
def test_no_public_object_prints_a_memory_address(name, pool):
    objects = [*METHODS.values(), *map(BinaryLinear.of, METHODS), *(make() for make in POOLS.values())]
    objects += [MODELS[name](num_classes=4, linear=method, pool=pool) for method in ("fp", "lsr")]
    objects += [
        PointPool(pool, dims=(1,)),
        MeasuredMax(),
        BinaryConv(3, 4, "ir-net", 1),
        BinaryGrouped(2, 3, 4, "xnor"),
    ]
    assert not [shown for shown in map(repr, objects) if "0x" in shown]


def test_a_network_takes_names_methods_and_factories():
    networks = []
    for linear, pool in (("lsr", "ema-max"), (LSR(), EntropyMax()), (BinaryLinear.of(LSR()), EntropyMax())):
        networks.append(repr(PointNet(num_classes=4, linear=linear, pool=pool)))
    assert networks[0] == networks[1] == networks[2]
    assert repr(PointNet(num_classes=4, linear="fp")) == repr(PointNet(num_classes=4))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_output_depends_only_on_input_signs_and_the_scale_of_a_point(method):
    torch.manual_seed(0)
    layer, x = BinaryLinear(33, 7, method), torch.randn(5, 4, 33)
    if layer.bias is not None:
        torch.nn.init.normal_(layer.bias)
    size = x.abs().mean(dim=-1, keepdim=True) if method.scales_points else 1.0
    torch.testing.assert_close(layer(x), layer(hard_sign(x) * size))
    assert (method.point_scale(x) is not None) == method.scales_points
    assert layer(x).shape == (5, 4, 7)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_state_dict_is_complete_from_construction_on(method):
    torch.manual_seed(0)
    trained, fresh = BinaryLinear(12, 6, method), BinaryLinear(12, 6, method)
    calibrate(trained, torch.randn(20, 12))
    fresh.load_state_dict(trained.state_dict())
    x = torch.randn(9, 12)
    assert torch.equal(fresh(x), trained(x))


def test_bits_survive_a_product_too_long_for_half_precision():
    """The pieces of 2048 inputs that a GPU needs, tested on the CPU: float16 factors, exact integers."""
    from bipointnet.nn.product import _integer_product

    torch.manual_seed(0)
    a, w = hard_sign(torch.randn(3, 5001)), hard_sign(torch.randn(4, 5001))
    a[0] = w[0] = 1
    assert torch.equal(_integer_product(a.half(), w.half()), a @ w.T)

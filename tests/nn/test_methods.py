"""Every binarization method against its closed form in NumPy at float64: output, and all gradients."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from bipointnet.models import PointNet
from bipointnet.nn import METHODS, BinaryLinear, calibrate, set_progress
from bipointnet.nn.methods import Method

sizes = st.tuples(st.integers(1, 9), st.integers(1, 70), st.integers(1, 12))
seeds = st.integers(0, 2**32 - 1)


class Case(NamedTuple):
    """Inputs (R, K), weights (M, K), an incoming gradient (R, M), and learned or scheduled values by name."""

    x: np.ndarray
    w: np.ndarray
    g: np.ndarray
    values: dict[str, float]


class Answer(NamedTuple):
    """Output (R, M) without bias, and gradients of the input, the weight and the learned values."""

    z: np.ndarray
    grad_x: np.ndarray
    grad_w: np.ndarray
    learned: dict[str, float]


def np_sign(x: np.ndarray) -> np.ndarray:
    return np.where(x >= 0, 1.0, -1.0)


def clip_slope(x: np.ndarray) -> np.ndarray:
    return (np.abs(x) <= 1).astype(float)


def row_centered(x: np.ndarray) -> np.ndarray:
    return x - x.mean(axis=1, keepdims=True)


def draw(size: tuple[int, int, int], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs and weights that include zeros, ones, constant rows and values above 1; and an incoming gradient."""
    rows, inputs, outputs = size
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, inputs))
    x.flat[rng.integers(0, x.size, 3)] = [0.0, 1.0, -1.0]
    x[0] = 0.5
    w = rng.normal(size=(outputs, inputs))
    w.flat[rng.integers(0, w.size, 3)] = [0.0, 1.0, -1.0]
    w[-1] = [0.0, 0.25, w[-1, 0]][seed % 3]  # zero, constant, or some constant
    return x, w, rng.normal(size=(rows, outputs))


def bnn(case: Case) -> Answer:
    a, b = np_sign(case.x), np_sign(case.w)
    return Answer(a @ b.T, (case.g @ b) * clip_slope(case.x), (case.g.T @ a) * clip_slope(case.w), {})


def xnor(case: Case) -> Answer:
    centered = row_centered(case.w)
    a, b = np_sign(case.x), np_sign(centered)
    scale, point_scale = np.abs(centered).mean(axis=1), np.abs(case.x).mean(axis=1, keepdims=True)
    g = point_scale * case.g * scale
    through = (g.T @ a) * clip_slope(centered)
    return Answer(point_scale * (a @ b.T) * scale, (g @ b) * clip_slope(case.x), row_centered(through), {})


def xnor_plus_plus(case: Case) -> Answer:
    alpha, plain = case.values["alpha"], bnn(case)
    slope = float((case.g * plain.z).sum())
    return Answer(alpha * plain.z, alpha * plain.grad_x, alpha * plain.grad_w, {"alpha": slope})


def bi_real(case: Case) -> Answer:
    a, b, scale = np_sign(case.x), np_sign(case.w), np.abs(case.w).mean(axis=1)
    slope = np.where(np.abs(case.x) < 1, 2 - 2 * np.abs(case.x), 0)
    return Answer((a @ b.T) * scale, ((case.g * scale) @ b) * slope, (case.g.T @ a) * clip_slope(case.w), {})


def abc_net(case: Case) -> Answer:
    shifted = case.x + case.values["offset"]
    a, b = np_sign(np.clip(shifted, 0, 1) - 0.5), np_sign(case.w - case.w.mean())
    base = (case.w * b).sum() / (b * b).sum()
    scale = base * case.values["beta"]
    grad_x = scale * (case.g @ b) * ((shifted >= 0) & (shifted <= 1))
    through = scale * (case.g.T @ a)
    learned = {"beta": float(base * (case.g * (a @ b.T)).sum()), "offset": float(grad_x.sum())}
    return Answer(scale * (a @ b.T), grad_x, through - through.mean(), learned)


def ir_net(case: Case) -> Answer:
    t, inputs = case.values["narrowness"], case.w.shape[1]
    centered = row_centered(case.w)
    deviation = np.sqrt((centered**2).sum(axis=1, keepdims=True) / max(inputs - 1, 1))
    divisor = np.where(deviation > 0, deviation, 1)
    standard = centered / divisor

    def slope(x: np.ndarray) -> np.ndarray:
        return max(1 / t, 1) * t * (1 - np.tanh(t * x) ** 2)

    a, b = np_sign(case.x), np_sign(standard)
    with np.errstate(divide="ignore"):
        exponent = np.log2(np.abs(standard).mean(axis=1))
    finite = exponent[np.isfinite(exponent)]
    assume((np.abs(finite % 1 - 0.5) > 1e-9).all())  # halfway, the last digit decides
    scale = 2.0 ** np.round(exponent)
    g = case.g * scale
    through = (g.T @ a) * slope(standard)
    # The divisor of a row moves with its weights, unless the row is constant.
    along = (through * standard).sum(axis=1, keepdims=True) / max(inputs - 1, 1) * (deviation > 0)
    return Answer((a @ b.T) * scale, (g @ b) * slope(case.x), row_centered(through - standard * along) / divisor, {})


def lsr(case: Case) -> Answer:
    centered = case.w - case.w.mean()
    alpha, plain = case.values["alpha"], bnn(case._replace(w=centered))
    through = alpha * plain.grad_w
    learned = {"alpha": float((case.g * plain.z).sum())}
    return Answer(alpha * plain.z, alpha * plain.grad_x, through - through.mean(), learned)


CLOSED_FORMS: dict[str, Callable[[Case], Answer]] = {
    "bnn": bnn,
    "xnor": xnor,
    "xnor++": xnor_plus_plus,
    "bi-real": bi_real,
    "abc-net": abc_net,
    "ir-net": ir_net,
    "lsr": lsr,
}
BIASED = {"bnn", "xnor", "ir-net"}


def test_every_method_has_a_closed_form_here():
    assert set(CLOSED_FORMS) == set(METHODS)


def rounded(w: np.ndarray) -> np.ndarray:
    """Weights in steps of 1/64: their sums are exact, so NumPy and PyTorch both center a constant row to 0."""
    return np.round(w * 64) / 64


@pytest.mark.parametrize("name", METHODS)
@given(size=sizes, seed=seeds, first=st.floats(-3, 3), second=st.floats(-1.5, 2.5))
def test_output_and_gradients_equal_the_closed_form(name, size, seed, first, second):
    x, w, g = draw(size, seed)
    w = rounded(w)
    layer = BinaryLinear(x.shape[1], w.shape[0], METHODS[name]).double()
    learned = METHODS[name].learned(layer.weight)
    values = dict(zip(learned, (first, second), strict=False))
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w))
        for key, value in values.items():
            getattr(layer, key).fill_(value)
        if "narrowness" in METHODS[name].scheduled():
            values["narrowness"] = 10.0 ** (2 * first / 3 - 1)
            layer.narrowness.fill_(values["narrowness"])
        if layer.bias is not None:
            layer.bias.copy_(torch.linspace(-1, 1, w.shape[0]))
    inputs = torch.from_numpy(x).requires_grad_()
    output = layer(inputs)
    output.backward(torch.from_numpy(g))
    expected = CLOSED_FORMS[name](Case(x, w, g, values))
    bias = 0.0 if layer.bias is None else layer.bias.detach().numpy()
    assert inputs.grad is not None
    assert layer.weight.grad is not None
    np.testing.assert_allclose(output.detach().numpy(), expected.z + bias, atol=1e-9)
    np.testing.assert_allclose(inputs.grad.numpy(), expected.grad_x, atol=1e-9)
    np.testing.assert_allclose(layer.weight.grad.numpy(), expected.grad_w, atol=1e-9)
    for key, value in expected.learned.items():
        np.testing.assert_allclose(getattr(layer, key).grad.item(), value, atol=1e-8)
    assert (layer.bias is not None) == (name in BIASED)
    if layer.bias is not None:
        np.testing.assert_allclose(layer.bias.grad.numpy(), g.sum(axis=0), atol=1e-12)  # pyright: ignore


def test_learned_values_start_as_in_the_papers():
    torch.manual_seed(0)
    layers = {name: BinaryLinear(40, 20, method) for name, method in METHODS.items()}
    assert layers["xnor++"].alpha.item() == pytest.approx(layers["xnor++"].weight.abs().mean().item())
    assert (layers["abc-net"].beta.item(), layers["abc-net"].offset.item()) == (1.0, 0.5)
    before = layers["xnor++"].alpha.item()
    calibrate(layers["xnor++"], torch.randn(8, 40))
    assert layers["xnor++"].alpha.item() == before, "only LSR starts from the first batch"


def test_the_slope_of_ir_net_narrows_during_training():
    layer = BinaryLinear(3, 2, METHODS["ir-net"])
    ts = []
    for fraction in (0.0, 0.25, 0.5, 1.0):
        set_progress(torch.nn.Sequential(layer), fraction)
        ts.append(layer.narrowness.item())
    np.testing.assert_allclose(ts, [1e-3, 1e-2, 1e-1, 10.0], rtol=1e-5)
    assert "narrowness" not in layer.state_dict()


@pytest.mark.parametrize("name", [n for n in METHODS if not METHODS[n].scheduled()])
def test_progress_changes_no_method_without_a_schedule(name):
    layer = BinaryLinear(5, 4, METHODS[name])
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    set_progress(layer, 0.7)
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())


# The paper's table counts all 18 linear layers, though three stay float; for XNOR it adds 1024 points per layer.
PAPER = {"bnn": 0, "ir-net": 10097, "bi-real": 10097, "abc-net": 51, "xnor++": 18, "xnor": 28529, "lsr": 18}
OURS = {"bnn": 0, "ir-net": 9929, "bi-real": 9929, "abc-net": 45, "xnor++": 15, "xnor": 9929, "lsr": 15}
FLOAT_OUTPUTS = 64 + 64 + 40


@pytest.mark.parametrize("name", METHODS)
def test_scaling_factors_of_pointnet(name):
    model = PointNet(num_classes=40, linear=BinaryLinear.of(METHODS[name]))
    layers = [m for m in model.modules() if isinstance(m, BinaryLinear)]
    assert len(layers) == 15
    assert sum(layer.method.scale_count(layer.out_features) for layer in layers) == OURS[name]
    if OURS[name] == 9929:
        assert OURS[name] + FLOAT_OUTPUTS + (18 * 1024 if METHODS[name].scales_points else 0) == PAPER[name]
    elif name != "abc-net":
        assert OURS[name] * 18 == PAPER[name] * 15


def test_a_constant_row_gives_a_constant_output_with_scales_per_row():
    """A centered constant row is 0: the output does not depend on the input, and has no NaN."""
    for name in ("xnor", "ir-net"):
        layer = BinaryLinear(6, 2, METHODS[name])
        with torch.no_grad():
            layer.weight[0].fill_(0.5)
        z = layer(torch.randn(9, 6))
        z.sum().backward()
        assert torch.equal(z[:, 0], torch.zeros(9)), name
        assert layer.weight.grad is not None
        assert layer.weight.grad.isfinite().all(), name


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_one_channel_is_finite(method: Method):
    layer = BinaryLinear(1, 1, method)
    x = torch.tensor([[0.0], [2.0]], requires_grad=True)
    z = layer(x)
    z.sum().backward()
    assert z.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()

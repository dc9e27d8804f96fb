"""The kernels for GPUs compute what the operations they replace compute. On a machine without a GPU, Triton interprets
them (tests/conftest.py), so shapes are small."""

import copy
import inspect
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from bipointnet.models import vanilla_pointnet
from bipointnet.models.blueprint import PointNorm
from bipointnet.nn import (
    BinaryLinear,
    EntropyMax,
    NormalizedLayer,
    PooledLayer,
    as_method,
    calibrate,
    clipped,
    fused_layer,
    fused_layers,
    fused_pool,
    geometry,
    hard_sign,
    polynomial,
    straight,
)
from bipointnet.nn.fused_layer import plain_signs
from bipointnet.nn.fused_pool import pool_counts

pytest.importorskip("triton", reason="Triton has no build for this machine")
from bipointnet.nn import farthest_gpu, nearest_gpu, norm_gpu, peak_gpu

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(1, 1), (2, 3), (70, 5), (300, 64), (40, 131)]
ROUNDED = 0.02  # gradients of products of signs are rounded to bfloat16, 8 bits


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def distance(found: Any, expected: Any) -> float:
    """The relative distance of two tensors."""
    found, expected = found.double(), expected.double()
    return ((found - expected).norm() / expected.norm().clamp_min(1e-12)).item()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [torch.float16, torch.float32])
def test_moments_are_mean_and_variance_even_far_from_zero(shape, kind):
    z = (normal(*shape) * 3 + 500).to(kind)
    mean, variance = norm_gpu.moments(z)
    assert mean.tolist() == pytest.approx(z.double().mean(dim=0).tolist(), rel=1e-6)
    assert variance.tolist() == pytest.approx(z.double().var(dim=0, unbiased=False).tolist(), rel=1e-3, abs=1e-6)


def test_moments_do_not_depend_on_the_number_of_programs(monkeypatch):
    z = normal(900, 70) + 5
    one = norm_gpu.moments(z)
    monkeypatch.setattr(norm_gpu, "PROGRAMS", 3)
    monkeypatch.setattr(norm_gpu, "TILE", 512)
    for found, expected in zip(norm_gpu.moments(z), one, strict=True):
        assert distance(found, expected) < 1e-6


def test_the_mean_of_integers_is_exact(monkeypatch):
    monkeypatch.setattr(norm_gpu, "PROGRAMS", 3)
    monkeypatch.setattr(norm_gpu, "TILE", 512)
    z = 2 * (50 * normal(900, 70)).round()
    z[-1] -= z.sum(dim=0) % 900  # the mean is an integer
    assert torch.equal(norm_gpu.moments(z)[0], z.double().mean(dim=0))


@pytest.mark.parametrize("shape", SHAPES)
def test_signs_are_those_of_hard_sign(shape):
    x = normal(*shape)
    x[0, 0] = -0.0
    assert torch.equal(norm_gpu.signs(x).float(), hard_sign(x))
    assert torch.equal(norm_gpu.signs(x).view(torch.bfloat16).float() * 128, hard_sign(x))


@pytest.mark.parametrize("slope", [clipped, polynomial, straight])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_of_signs_is_the_slope(shape, slope):
    x, g, row = normal(*shape), normal(*shape, seed=1), normal(shape[1], seed=2)
    torch.testing.assert_close(norm_gpu.sign_gradient(g, x, slope), g * slope(x))
    torch.testing.assert_close(norm_gpu.sign_gradient(g, x, slope, row), (g + row) * slope(x))


def layers() -> dict[str, NormalizedLayer]:
    def layer(linear: nn.Module, outputs: int, *activation: nn.Module) -> NormalizedLayer:
        return NormalizedLayer(linear, PointNorm(outputs), *activation)

    smooth = replace(as_method("lsr", ""), slope=polynomial)
    return {
        "lsr": layer(BinaryLinear(20, 24, "lsr"), 24, nn.Hardtanh()),
        "lsr, polynomial": layer(BinaryLinear(20, 24, smooth), 24, nn.Hardtanh()),
        "lsr without activation": layer(BinaryLinear(20, 24, "lsr"), 24),
        "bnn, a bias, and wide": layer(BinaryLinear(20, 150, "bnn"), 150, nn.Hardtanh()),
        "bi-real, a scale per output": layer(BinaryLinear(20, 24, "bi-real"), 24, nn.Hardtanh()),
        "float": layer(nn.Linear(20, 24), 24, nn.ReLU()),
        "float, points": layer(nn.Linear(3, 24), 24, nn.Hardtanh()),
        "xnor, a scale per point": layer(BinaryLinear(20, 24, "xnor"), 24, nn.Hardtanh()),
    }


def prepared(layer: Any, norm: Any, x: torch.Tensor) -> tuple[Any, Any]:
    """Two equal layers with slopes of both signs and biases."""
    with torch.no_grad():
        norm.weight.copy_(normal(*norm.weight.shape, seed=3))
        norm.bias.copy_(normal(*norm.bias.shape, seed=4))
    layer.to(DEVICE).train()
    calibrate(layer, (x,))
    return layer, copy.deepcopy(layer)


def compare(plain: nn.Module, fused: nn.Module, tolerance: float) -> None:
    """Equal gradients and running statistics. A scale or bias in front of a BatchNorm has no gradient but rounding."""
    others = dict(fused.named_parameters())
    for name, parameter in plain.named_parameters():
        assert others[name].grad is not None
        if name.endswith(("alpha", "0.bias", "linear.bias")):
            continue
        assert distance(others[name].grad, parameter.grad) < tolerance, name
    for found, expected in zip(fused.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", layers())
def test_a_fused_layer_computes_what_its_parts_compute(name):
    torch.manual_seed(0)
    layer = layers()[name]
    points = name == "float, points"
    x = 0.7 * normal(5, 30, 3 if points else 20)
    plain, fused = prepared(layer, layer[1], x)
    one, other = (x.clone().requires_grad_(not points) for _ in range(2))
    expected, found = nn.Sequential.forward(plain, one), fused._fused(other)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    g = normal(*expected.shape, seed=5)
    expected.backward(g)
    found.backward(g)
    tolerance = ROUNDED if plain_signs(layer[0]) else 1e-4
    compare(plain, fused, tolerance)
    if not points:
        assert distance(other.grad, one.grad) < tolerance


@pytest.fixture
def fusing(monkeypatch):
    """Fuse layers on this machine, too."""
    monkeypatch.setattr(fused_layer, "on_gpu", lambda x: True)
    monkeypatch.setattr(fused_pool, "on_gpu", lambda x: True)


UNUSUAL = {
    "other limits": lambda: NormalizedLayer(nn.Linear(4, 6), PointNorm(6), nn.Hardtanh(0, 0.5)),
    "another activation": lambda: NormalizedLayer(nn.Linear(4, 6), PointNorm(6), nn.GELU()),
    "four parts": lambda: NormalizedLayer(nn.Linear(4, 6), PointNorm(6), nn.ReLU(), nn.Linear(6, 2)),
    "no linear layer": lambda: NormalizedLayer(nn.Linear(4, 4), PointNorm(4), nn.ReLU())[1:],
    "no parameters": lambda: NormalizedLayer(nn.Linear(4, 6), nn.BatchNorm1d(6, affine=False), nn.ReLU()),
    "no statistics": lambda: NormalizedLayer(nn.Linear(4, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.ReLU()),
    "eval mode": lambda: NormalizedLayer(nn.Linear(4, 6), PointNorm(6), nn.ReLU()).eval(),
    "float64": lambda: NormalizedLayer(nn.Linear(4, 6), PointNorm(6), nn.ReLU()).double(),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_layers_run_part_by_part(fusing, name):
    layer = UNUSUAL[name]().to(DEVICE)
    x = normal(9, 4).double() if name == "float64" else normal(9, 4)
    expected = nn.Sequential.forward(copy.deepcopy(layer), x)
    assert torch.equal(layer(x), expected)


def test_hooks_on_the_parts_of_a_layer_are_called(fusing):
    layer, called = NormalizedLayer(nn.Linear(4, 6), PointNorm(6), nn.ReLU()).to(DEVICE), []
    layer[1].register_forward_hook(lambda *_: called.append(True))
    layer(normal(9, 4))
    assert called


def test_one_row_has_no_variance(fusing):
    layer = NormalizedLayer(nn.Linear(4, 6), PointNorm(6), nn.ReLU()).to(DEVICE)
    with pytest.raises(ValueError, match="more than 1 value"):
        layer(normal(1, 4))


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Hardtanh()])
def test_nan_is_not_hidden(fusing, activation):
    layer = NormalizedLayer(nn.Linear(4, 6), PointNorm(6), activation).to(DEVICE)
    x = normal(9, 4)
    x[3, 2] = torch.nan
    assert layer(x).isnan().all()


def test_second_gradients_are_refused(fusing):
    layer = NormalizedLayer(nn.Linear(4, 6), PointNorm(6), nn.ReLU()).to(DEVICE)
    x = normal(9, 4).requires_grad_()
    (g,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.square().sum().backward()


def test_a_network_of_fused_layers_computes_what_its_parts_compute(fusing):
    torch.manual_seed(0)
    network = vanilla_pointnet(num_classes=5).to(DEVICE)
    network.dropout = nn.Identity()
    parts = copy.deepcopy(network)
    for layer in fused_layers(parts):
        layer.fused = False
    x, g = normal(16, 24, 3), normal(16, 5, seed=1)
    logits = [each(x).logits for each in (network, parts)]
    torch.testing.assert_close(*logits, rtol=1e-3, atol=1e-4)
    for each in logits:
        each.backward(g)
    found = dict(network.named_parameters())
    for name, parameter in parts.named_parameters():
        if parameter.dim() > 1:  # BatchNorms cancel most biases
            assert distance(found[name].grad, parameter.grad) < 1e-2, name


def test_where_a_product_equals_its_mean_the_sign_is_that_of_the_bias():
    """In a batch of few rows that is common, and a rounding error must not decide."""
    z = torch.tensor([[-2.0, 6.0], [2.0, 6.0], [0.0, 6.0]], device=DEVICE, dtype=torch.float16)
    mean, variance = norm_gpu.moments(z)
    slope = 0.37 * torch.rsqrt(variance + 1e-5).float()
    y = norm_gpu.apply(z, slope, torch.zeros(2, device=DEVICE), mean.float(), "clip")
    assert y[2, 0] == 0
    assert (y[:, 1] == 0).all()


@pytest.mark.parametrize("method", ["lsr", "bnn"])
@pytest.mark.parametrize("points", [1, 16, 200])  # 200: another way to the gradients
def test_a_fused_pool_computes_what_its_parts_compute(method, points):
    torch.manual_seed(0)
    layer = PooledLayer(BinaryLinear(20, 24, method), PointNorm(24), None, EntropyMax())
    x = 0.7 * normal(6, points, 20)
    plain, fused = prepared(layer, layer.norm, x)
    plain.fused = False
    one, other = (x.clone().requires_grad_() for _ in range(2))
    expected = plain(one) + plain.pool.shift(x, pool_counts(plain.pool, plain.linear, x))
    found = fused._on_gpu(other, fused.norm)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    g = normal(*expected.shape, seed=5)
    expected.backward(g)
    found.backward(g)
    compare(plain, fused, ROUNDED)
    assert distance(other.grad, one.grad) < ROUNDED


@pytest.mark.parametrize(("sets", "points", "inputs", "channels"), [(3, 1, 5, 2), (2, 70, 20, 130), (2, 130, 131, 24)])
def test_the_peak_is_the_first_maximum_of_the_products(sets, points, inputs, channels):
    a, w = hard_sign(normal(sets, points, inputs)).half(), hard_sign(normal(channels, inputs, seed=1)).half()
    values, winners = peak_gpu.peak(a, w)
    products = a.float() @ w.float().T
    assert torch.equal(values, products.amax(dim=1))
    first = (products == values.unsqueeze(1)).to(torch.uint8).argmax(dim=1)  # of equal values the first
    assert torch.equal(winners, first)


@pytest.mark.parametrize("slope", [clipped, polynomial, straight])
@pytest.mark.parametrize(("sets", "points", "inputs", "channels"), [(3, 1, 5, 2), (5, 70, 20, 130), (2, 100, 131, 24)])
def test_gradients_of_peaks_are_those_of_dense_products(sets, points, inputs, channels, slope):
    x, w = normal(sets, points, inputs), hard_sign(normal(channels, inputs, seed=1))
    a, g = hard_sign(x).half(), normal(sets, channels, seed=2)
    winners = peak_gpu.peak(a, w.half())[1]
    mixed, row = normal(inputs, inputs, seed=3), normal(inputs, seed=4)
    dense = torch.zeros(sets, points, channels, device=DEVICE).scatter_(1, winners.unsqueeze(1), g.unsqueeze(1))
    grad_x, grad_w = peak_gpu.gradients(x, a, w, winners, g, mixed, row, slope)
    assert distance(grad_x, (dense @ w + a.float() @ mixed + row) * slope(x)) < ROUNDED
    assert distance(grad_w, torch.einsum("bnm,bnk->mk", dense, a.float())) < ROUNDED


@pytest.mark.parametrize(("points", "centers", "k"), [(1, 2, 1), (33, 7, 33), (100, 40, 16), (300, 9, 20)])
@pytest.mark.parametrize("step", [0, 0.25, 8])  # on a grid many distances are equal; on a coarse one all points
def test_the_nearest_points_are_those_of_the_separate_operations(points, centers, k, step):
    x, around = normal(2, points, 3), normal(2, centers, 3, seed=1)
    if step:
        x, around = (x / step).round() * step, (around / step).round() * step
    (around, cloud), _ = geometry._grid(around, x)
    room = (1 << (points - 1).bit_length()) - 1
    place = torch.arange(points, device=DEVICE)
    squares = (around.unsqueeze(2) - cloud.unsqueeze(1)).square().sum(dim=-1)  # exact on the grid
    keys = (squares.view(torch.int64) & ~room) | place
    assert torch.equal(nearest_gpu.smallest_keys(around, cloud, k, room), keys.sort().values[..., :k])


@pytest.mark.parametrize("sign", [1, -1])
def test_a_search_ends_for_nan(sign):
    """Captured steps do not check coordinates."""
    centers = torch.full((1, 2, 3), torch.nan, dtype=torch.float64, device=DEVICE).copysign(torch.tensor(sign))
    found = nearest_gpu.smallest_keys(centers, normal(1, 64, 3).double(), 4, 63)
    assert found.shape == (1, 2, 4)


@pytest.mark.parametrize("step", [0, 0.5])
def test_the_farthest_points_are_those_of_the_separate_operations(step):
    x = normal(2, 50, 3)
    if step:
        x = (x / step).round() * step
    (cloud,), _ = geometry._grid(x)
    start = torch.tensor([3, 7], device=DEVICE)
    picks, gaps = farthest_gpu.sample(cloud, start, 12)
    expected = geometry._steps(cloud.cpu(), start.cpu()[:, None, None], 12)
    assert torch.equal(picks.cpu(), expected[0])
    assert torch.equal(gaps.cpu(), expected[1])


@pytest.mark.parametrize("capability", ["80", "90"])
def test_every_kernel_compiles_for_a_gpu_that_is_not_there(capability):
    """The interpreter accepts more than the compiler does."""
    script = Path(__file__).parent / "compile_kernels.py"
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    done = subprocess.run(
        [sys.executable, str(script), capability], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    modules = (farthest_gpu, nearest_gpu, norm_gpu, peak_gpu)
    names = {
        name for module in modules for name in re.findall(r"^def (_\w+)\(", inspect.getsource(module), re.MULTILINE)
    }
    helpers = {"_tile", "_is_inside", "_activate"}
    assert set(done.stdout.split()) == names - helpers

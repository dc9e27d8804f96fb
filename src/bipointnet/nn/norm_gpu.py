"""Kernels for linear -> BatchNorm -> activation and for signs on a GPU, each one pass over its tensors.

As separate operations of PyTorch, the layers of a network over neighborhoods pass about thirty times over tensors of
several gigabytes. These kernels compute in float32 and take z, the outputs of a linear layer, in any type: integers up
to 2048 are exact in float16, which halves the traffic.

    moments          mean and variance of each channel
    apply            y = f(slope (z - mean) + offset), f the activation
    gradient_sums    sum of g' and of g' (z - mean) in each channel, g' = g f'(slope (z - mean) + offset)
    apply_gradient   factor (g' - c0 - c1 (z - mean))
    first_layer      y = f(weight . p + offset) of points p in space, without storing the product
    first_sums       sum of g' and of g' p in each channel, for the same layer
    signs            x -> +-1 in float16
    sign_gradient    (g + row) s(x), s the slope that replaces the derivative of sign

The mean is subtracted first: where z is an integer and equals the mean, as happens in small batches, the sign of y must
be that of the offset, and not of a rounding error.

Sums over rows are partial sums of blocks of rows in float32, then sums of these in float64: their order is fixed, so a
repeated step has the same result.
"""
# pyright: reportOperatorIssue=false
# In a kernel, functions of Triton return tensors; their annotations allow for more.

import torch
import triton  # pyright: ignore[reportMissingImports]  it comes with PyTorch for GPUs
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from bipointnet.nn.gpu import launch
from bipointnet.nn.sign import Slope, clipped, polynomial, straight

ACTIVATIONS = {None: 0, "clip": 1, "relu": 2}
SLOPES: dict[Slope, int] = {clipped: 0, polynomial: 1, straight: 2}
TILE = 4096  # values that a program holds at once
PROGRAMS = 2048  # that share the rows of a sum: several for each multiprocessor
FLAT = 4096  # values per program where channels do not matter


@triton.jit
def _tile(row, column, rows, columns):
    """Where rows and columns of a matrix (rows, columns) lie in memory, and which of them are in the matrix."""
    place = row.to(tl.int64)[:, None] * columns + column[None, :]
    return place, (row < rows)[:, None] & (column < columns)[None, :]


@triton.jit
def _is_inside(y, ACTIVATION: tl.constexpr):
    """Where the derivative of the activation is 1."""
    if ACTIVATION == 1:
        return (y > -1.0) & (y < 1.0)
    return y > 0.0


@triton.jit
def _activate(y, ACTIVATION: tl.constexpr):
    """NaN stays NaN, so that a diverging training is noticed."""
    if ACTIVATION == 1:
        raised = tl.maximum(y, -1.0, propagate_nan=tl.PropagateNan.ALL)
        return tl.minimum(raised, 1.0, propagate_nan=tl.PropagateNan.ALL)
    if ACTIVATION == 2:
        return tl.maximum(y, 0.0, propagate_nan=tl.PropagateNan.ALL)
    return y


@triton.jit
def slope_of(x, SLOPE: tl.constexpr):
    """The slope that replaces the derivative of sign, one of SLOPES."""
    if SLOPE == 0:
        return tl.where(tl.abs(x) <= 1.0, 1.0, 0.0)
    if SLOPE == 1:
        return tl.maximum(2.0 - 2.0 * tl.abs(x), 0.0)
    return x * 0.0 + 1.0


@triton.jit
def _moments(z, starts, sums, squares, rows, columns, steps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The first row of a program, the sum of deviations from it, and the sum of squared deviations from the mean.

    Sums of integers below 2^24 are exact, so that a mean is exact where it is an integer.
    """
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    first = tl.program_id(0) * steps * ROWS
    start = tl.load(z + tl.program_id(0).to(tl.int64) * steps * ROWS * columns + column, mask=inside, other=0.0)
    near = start.to(tl.float32)[None, :]
    total, square = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    for step in range(steps):
        row = first + step * ROWS + tl.arange(0, ROWS)
        place, here = _tile(row, column, rows, columns)
        off = tl.where(here, tl.load(z + place, mask=here, other=0.0).to(tl.float32) - near, 0.0)
        total += off
        square += off * off
    count = tl.minimum(rows - first, steps * ROWS).to(tl.float32)
    deviation = tl.sum(total, 0)
    place = tl.program_id(0) * columns + column
    tl.store(starts + place, start.to(tl.float32), mask=inside)
    tl.store(sums + place, deviation, mask=inside)
    tl.store(squares + place, tl.maximum(tl.sum(square, 0) - deviation * deviation / count, 0.0), mask=inside)


@triton.jit
def _apply(
    z, y, slope, offset, mean, rows, columns, ACTIVATION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    place, here = _tile(row, column, rows, columns)
    value = tl.load(z + place, mask=here, other=0.0).to(tl.float32)
    factor = tl.load(slope + column, mask=inside, other=0.0)
    shift = tl.load(offset + column, mask=inside, other=0.0)
    off = value - tl.load(mean + column, mask=inside, other=0.0)[None, :]
    tl.store(y + place, _activate(off * factor[None, :] + shift[None, :], ACTIVATION), mask=here)


@triton.jit
def _gradient_sums(
    g,
    z,
    slope,
    offset,
    mean,
    sums,
    products,
    rows,
    columns,
    steps,
    ACTIVATION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    factor = tl.load(slope + column, mask=inside, other=0.0)
    shift = tl.load(offset + column, mask=inside, other=0.0)
    middle = tl.load(mean + column, mask=inside, other=0.0)
    first = tl.program_id(0) * steps * ROWS
    total, product = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    for step in range(steps):
        row = first + step * ROWS + tl.arange(0, ROWS)
        place, here = _tile(row, column, rows, columns)
        off = tl.load(z + place, mask=here, other=0.0).to(tl.float32) - middle[None, :]
        grad = tl.load(g + place, mask=here, other=0.0).to(tl.float32)
        if ACTIVATION != 0:
            grad = tl.where(_is_inside(off * factor[None, :] + shift[None, :], ACTIVATION), grad, 0.0)
        total += grad
        product += grad * off
    place = tl.program_id(0) * columns + column
    tl.store(sums + place, tl.sum(total, 0), mask=inside)
    tl.store(products + place, tl.sum(product, 0), mask=inside)


@triton.jit
def _apply_gradient(
    g,
    z,
    out,
    slope,
    offset,
    mean,
    factors,
    c0,
    c1,
    rows,
    columns,
    ACTIVATION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    place, here = _tile(row, column, rows, columns)
    middle = tl.load(mean + column, mask=inside, other=0.0)
    off = tl.load(z + place, mask=here, other=0.0).to(tl.float32) - middle[None, :]
    grad = tl.load(g + place, mask=here, other=0.0).to(tl.float32)
    if ACTIVATION != 0:
        slopes = tl.load(slope + column, mask=inside, other=0.0)
        shifts = tl.load(offset + column, mask=inside, other=0.0)
        grad = tl.where(_is_inside(off * slopes[None, :] + shifts[None, :], ACTIVATION), grad, 0.0)
    constant = tl.load(c0 + column, mask=inside, other=0.0)[None, :]
    linear = tl.load(c1 + column, mask=inside, other=0.0)[None, :]
    factor = tl.load(factors + column, mask=inside, other=0.0)[None, :]
    tl.store(out + place, (factor * (grad - constant - linear * off)).to(out.dtype.element_ty), mask=here)


@triton.jit
def _first_layer(
    xyz, y, weight, offset, rows, columns, ACTIVATION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    value = tl.zeros([ROWS, COLUMNS], tl.float32) + tl.load(offset + column, mask=inside, other=0.0)[None, :]
    point, factor = xyz + row.to(tl.int64) * 3, weight + column * 3
    value += tl.load(point, mask=row < rows)[:, None] * tl.load(factor, mask=inside)[None, :]
    value += tl.load(point + 1, mask=row < rows)[:, None] * tl.load(factor + 1, mask=inside)[None, :]
    value += tl.load(point + 2, mask=row < rows)[:, None] * tl.load(factor + 2, mask=inside)[None, :]
    place, here = _tile(row, column, rows, columns)
    tl.store(y + place, _activate(value, ACTIVATION), mask=here)


@triton.jit
def _first_sums(
    g,
    y,
    xyz,
    sums,
    rows,
    columns,
    steps,
    ACTIVATION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    total, in_x = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    in_y, in_z = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    for step in range(steps):
        row = (tl.program_id(0) * steps + step) * ROWS + tl.arange(0, ROWS)
        place, here = _tile(row, column, rows, columns)
        grad = tl.load(g + place, mask=here, other=0.0).to(tl.float32)
        if ACTIVATION != 0:
            grad = tl.where(_is_inside(tl.load(y + place, mask=here, other=0.0), ACTIVATION), grad, 0.0)
        point = xyz + row.to(tl.int64) * 3
        total += grad
        in_x += grad * tl.load(point, mask=row < rows, other=0.0)[:, None]
        in_y += grad * tl.load(point + 1, mask=row < rows, other=0.0)[:, None]
        in_z += grad * tl.load(point + 2, mask=row < rows, other=0.0)[:, None]
    out = sums + tl.program_id(0) * 4 * columns + column
    tl.store(out, tl.sum(total, 0), mask=inside)
    tl.store(out + columns, tl.sum(in_x, 0), mask=inside)
    tl.store(out + 2 * columns, tl.sum(in_y, 0), mask=inside)
    tl.store(out + 3 * columns, tl.sum(in_z, 0), mask=inside)


@triton.jit
def _signs(x, out, count, FLAT: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * FLAT + tl.arange(0, FLAT)
    here = place < count
    value = tl.load(x + place, mask=here, other=0.0)
    tl.store(out + place, tl.where(value >= 0.0, 1.0, -1.0).to(tl.float16), mask=here)


@triton.jit
def _sign_gradient(g, x, row, out, count, columns, SLOPE: tl.constexpr, HAS_ROW: tl.constexpr, FLAT: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * FLAT + tl.arange(0, FLAT)
    here = place < count
    grad = tl.load(g + place, mask=here, other=0.0).to(tl.float32)
    if HAS_ROW:
        grad += tl.load(row + place % columns, mask=here, other=0.0)
    value = tl.load(x + place, mask=here, other=0.0)
    tl.store(out + place, grad * slope_of(value, SLOPE), mask=here)


class _Tiles:
    """How programs share the values of z (R, C): tiles of rows and columns."""

    def __init__(self, z: Tensor) -> None:
        self.rows, self.columns = z.shape
        self.width = min(triton.next_power_of_2(self.columns), 128)
        self.height = TILE // self.width
        self.across = triton.cdiv(self.columns, self.width)
        self.down = triton.cdiv(self.rows, self.height)

    @property
    def sizes(self) -> dict[str, int]:
        return {"ROWS": self.height, "COLUMNS": self.width, "num_warps": 8}

    @property
    def steps(self) -> int:
        """Tiles, one below the other, of a program that sums over rows."""
        return triton.cdiv(self.down, max(1, PROGRAMS // self.across))

    @property
    def sums(self) -> tuple[int, int]:
        """The grid of programs that sum over rows."""
        return triton.cdiv(self.down, self.steps), self.across


def moments(z: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (divided by R) of each column: (R, C) -> two (C,) in float64."""
    tiles = _Tiles(z)
    parts = tiles.sums[0]
    starts, sums, squares = (z.new_empty(parts, tiles.columns, dtype=torch.float32) for _ in range(3))
    launch(_moments, tiles.sums, z, starts, sums, squares, *z.shape, tiles.steps, **tiles.sizes)
    each = tiles.steps * tiles.height
    counts = (tiles.rows - each * torch.arange(parts, device=z.device)).clamp(max=each).double().unsqueeze(1)
    totals = starts * counts + sums
    mean = totals.sum(dim=0) / tiles.rows
    between = counts * (totals / counts - mean).square()
    return mean, (squares.double() + between).sum(dim=0) / tiles.rows


def apply(z: Tensor, slope: Tensor, offset: Tensor, mean: Tensor, activation: str | None) -> Tensor:
    """f(slope (z - mean) + offset): (R, C), three (C,) float32 -> (R, C) float32."""
    tiles, y = _Tiles(z), z.new_empty(z.shape, dtype=torch.float32)
    grid = tiles.down, tiles.across
    launch(_apply, grid, z, y, slope, offset, mean, *z.shape, ACTIVATION=ACTIVATIONS[activation], **tiles.sizes)
    return y


def gradient_sums(
    g: Tensor, z: Tensor, slope: Tensor, offset: Tensor, mean: Tensor, activation: str | None
) -> tuple[Tensor, Tensor]:
    """Sums of g' and g' (z - mean) over rows: two (R, C), three (C,) float32 -> two (C,) float64."""
    tiles = _Tiles(z)
    sums, products = (z.new_empty(tiles.sums[0], tiles.columns, dtype=torch.float32) for _ in range(2))
    vectors = slope, offset, mean
    constants = {"ACTIVATION": ACTIVATIONS[activation], **tiles.sizes}
    launch(_gradient_sums, tiles.sums, g, z, *vectors, sums, products, *z.shape, tiles.steps, **constants)
    return sums.sum(dim=0, dtype=torch.float64), products.sum(dim=0, dtype=torch.float64)


def apply_gradient(
    g: Tensor,
    z: Tensor,
    slope: Tensor,
    offset: Tensor,
    mean: Tensor,
    factors: tuple[Tensor, Tensor, Tensor],
    activation: str | None,
    dtype: torch.dtype,
) -> Tensor:
    """factor (g' - c0 - c1 (z - mean)) with factors = (factor, c0, c1): two (R, C), (C,) -> (R, C)."""
    tiles, out = _Tiles(z), z.new_empty(z.shape, dtype=dtype)
    vectors = slope, offset, mean, *(each.float() for each in factors)
    constants = {"ACTIVATION": ACTIVATIONS[activation], **tiles.sizes}
    launch(_apply_gradient, (tiles.down, tiles.across), g, z, out, *vectors, *z.shape, **constants)
    return out


def first_layer(xyz: Tensor, weight: Tensor, offset: Tensor, activation: str | None) -> Tensor:
    """f(xyz . weight^T + offset): (R, 3), (C, 3), (C,), all float32 -> (R, C)."""
    y = xyz.new_empty(len(xyz), len(weight))
    tiles = _Tiles(y)
    constants = {"ACTIVATION": ACTIVATIONS[activation], **tiles.sizes}
    launch(_first_layer, (tiles.down, tiles.across), xyz, y, weight, offset, *y.shape, **constants)
    return y


def first_sums(g: Tensor, y: Tensor, xyz: Tensor, activation: str | None) -> Tensor:
    """Sums of g' and of g' x, g' y, g' z over rows: two (R, C), (R, 3) -> (4, C) float64."""
    tiles = _Tiles(y)
    sums = y.new_empty(tiles.sums[0], 4, tiles.columns)
    constants = {"ACTIVATION": ACTIVATIONS[activation], **tiles.sizes}
    launch(_first_sums, tiles.sums, g, y, xyz, sums, *y.shape, tiles.steps, **constants)
    return sums.sum(dim=0, dtype=torch.float64)


def signs(x: Tensor) -> Tensor:
    """+1 where x >= 0, else -1, in float16."""
    out = torch.empty_like(x, dtype=torch.float16)
    launch(_signs, (triton.cdiv(x.numel(), FLAT),), x, out, x.numel(), FLAT=FLAT, num_warps=8)
    return out


def sign_gradient(g: Tensor, x: Tensor, slope: Slope, row: Tensor | None = None) -> Tensor:
    """(g + row) slope(x), row (C,) added to every row of g: two (R, C) -> (R, C) float32."""
    out = torch.empty_like(x)
    constants = {"SLOPE": SLOPES[slope], "HAS_ROW": row is not None, "FLAT": FLAT, "num_warps": 8}
    added = x if row is None else row
    launch(_sign_gradient, (triton.cdiv(x.numel(), FLAT),), g, x, added, out, x.numel(), x.shape[1], **constants)
    return out

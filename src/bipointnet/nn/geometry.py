"""Point operations: farthest points, nearest neighbors, balls, interpolation, density.

All take clouds (B, N, C). The result depends neither on the order of the points nor on the device. Floating-point sums
depend on both: on the order of their terms, on fused multiply-adds, on the blocks of a matrix product. So distances are
measured on a grid, where every sum is exact:

    x -> round((x - low) * 2^q / size)    low: the minimum of each channel; size: the next power of two above the
                                          cloud's largest extent

is an integer in 0..2^q, and each partial sum of |a|^2 + |b|^2 - 2 <a, b> is an integer of at most 2 C 2^(2q). With
2q + 1 + log2 C <= 53 all of them are exact in float64, and a matrix product in float64 gives exact distances between
grid points: 0 for identical points, the same for equal lengths. The grid is as fine as float32 is at the edge of the
cloud: q = 25 for 3 channels, 23 for 64. Points closer than one step count as coincident. Coordinates on a coarser grid
of powers of two (voxels, counts of bits) do not move at all.

Among equal distances the point with the lexicographically smaller coordinates comes first (x, then y, then z; in a
feature space, channel by channel). Points with equal coordinates are ordered by index, so a permuted cloud gives the
same coordinates. The search runs on the cloud sorted in this order, where ties go to the first.

The operations that choose points are opaque to torch.compile, which would unroll their loops of 512 steps. They give no
gradients to coordinates; gathered and interpolated features have gradients.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.library import custom_op

from bipointnet.nn.gpu import runs_kernels
from bipointnet.nn.observe import observed

# Distances in memory at once, 8 bytes each: 8 MiB, and on a GPU 2 GiB, where every block waits for kernel launches.
# Choosing the k nearest of N adds 2 k / N times that. All other memory is linear in inputs and outputs. A row of
# distances is never split: with B * N above this number, there is one row per cloud at once.
PAIRS = {"cpu": 2**20, "cuda": 2**28}

# Squares of the distances must not overflow float32.
LARGEST = 1e15


class Neighbors(NamedTuple):
    """Neighbors of M centers, the nearest first; after the true neighbors the nearest is repeated.

    Shapes: indices (B, M, k) int64, into the points; squares (B, M, k) float32, squared distances; counts (B, M) int64,
    the number of true neighbors, which is the n of delta(n) for a pool over them.
    """

    indices: Tensor
    squares: Tensor
    counts: Tensor


def gather(x: Tensor, index: Tensor) -> Tensor:
    """Rows of each cloud: y[b, ...] = x[b, index[b, ...]], with gradients for x.

    Shapes: x (B, N, C), index (B, ...) int64 -> (B, ..., C)
    """
    clouds, points, channels = x.shape
    start = torch.arange(clouds, device=x.device).mul(points).view(-1, *[1] * (index.dim() - 1))
    rows = x.reshape(clouds * points, channels).index_select(0, (index + start).flatten())
    return rows.view(*index.shape, channels)


@observed
def farthest_points(points: Tensor, count: int) -> Tensor:
    """Farthest point sampling: p_1 is farthest from the centroid, p_i is farthest from all before it.

        p_i = argmax over p of min over j < i of |p - p_j|^2

    No point is chosen twice: when only copies of chosen points remain, they follow in lexicographic order. The centroid
    is rounded to the grid.

    Args:
        points: the clouds, finite.
        count: number of points to choose, at most N.

    Shapes: points (B, N, C) -> index (B, count) int64, in the order of the sampling
    """
    _check_shapes("farthest_points", points, points)
    if not 1 <= count <= points.shape[1]:
        raise ValueError(
            f"farthest_points: count = {count} of {points.shape[1]} points, expected 1 to {points.shape[1]}; ask for "
            f"min(count, {points.shape[1]})"
        )
    return FARTHEST_POINTS(points.detach(), count)


@observed
def nearest(centers: Tensor, points: Tensor, k: int, dilation: int = 1, ties: Tensor | None = None) -> Neighbors:
    """The k nearest points of each center, or every d-th of the k d nearest, in space or in a feature space.

    A center that is a point of the cloud is its own first neighbor, or a copy of it is. With fewer than k d points the
    nearest is repeated and counts are min(k, ceil(N / d)).

    Args:
        centers: positions whose neighbors are searched; may be the points themselves.
        points: the clouds in which neighbors are searched.
        k: number of neighbors.
        dilation: d; 1 takes the k nearest, 2 the 1st, 3rd, 5th, ...
        ties: coordinates that decide between equal distances; the points themselves by default. In a feature space,
            sorting by the coordinates of the points is faster.

    Shapes: centers (B, M, C), points (B, N, C), ties (B, N, D) -> Neighbors of (B, M, k)
    """
    _check_shapes("nearest", centers, points)
    if k < 1 or dilation < 1:
        raise ValueError(f"nearest: k = {k}, dilation = {dilation}, expected both to be at least 1")
    ties = points if ties is None else ties
    if ties.dim() != 3 or ties.shape[:2] != points.shape[:2]:
        raise ValueError(
            f"nearest: ties are {tuple(ties.shape)}, expected one row for each of {tuple(points.shape[:2])}"
        )
    index, square = NEAREST(centers.detach(), points.detach(), ties.detach(), min(k * dilation, points.shape[1]))
    index, square = index[..., ::dilation], square[..., ::dilation]
    found = index.shape[2]
    if found < k:
        index = torch.cat([index, index[..., :1].expand(-1, -1, k - found)], dim=-1)
        square = torch.cat([square, square[..., :1].expand(-1, -1, k - found)], dim=-1)
    return Neighbors(index, square, torch.full_like(index[..., 0], found))


@observed
def ball(centers: Tensor, points: Tensor, radius: float, limit: int) -> Neighbors:
    """The points with |p - center| <= radius, at most the `limit` nearest.

    An empty ball is filled with the nearest point outside and its count is 0; the ball around a point of the cloud is
    never empty. Squares are compared in float32.

    Args:
        centers: centers of the balls.
        points: the clouds in which neighbors are searched.
        radius: of all balls.
        limit: maximum number of neighbors, the k of the shapes.

    Shapes: centers (B, M, C), points (B, N, C) -> Neighbors of (B, M, limit)
    """
    if not 0 < radius < math.inf:
        raise ValueError(f"ball: radius = {radius}, expected a positive number")
    index, square, found = nearest(centers, points, limit)
    # (B, M, k); sorted by distance, so points within the radius come first
    place = torch.arange(limit, device=index.device)
    inside = (square <= square.new_full((), radius * radius)) & (place < found[..., None])
    index = torch.where(inside, index, index[..., :1])
    square = torch.where(inside, square, square[..., :1])
    return Neighbors(index, square, inside.sum(dim=-1))


@observed
def three_nearest(centers: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """The three nearest points of each center and their weights, inverse to the squared distance.

        w_i = (1 / d_i) / (1 / d_1 + 1 / d_2 + 1 / d_3)    d: squared distances

    If a center coincides with points, they share the weight and the others have none, which is the limit of the
    formula. No constant guards against division by zero, so the weights do not depend on the unit of length. In clouds
    of one or two points, repeated points have weight 0.

    Args:
        centers: positions without values.
        points: positions with values.

    Shapes: centers (B, M, C), points (B, N, C) -> index (B, M, 3) int64, weight (B, M, 3) float32, constants
    """
    index, square, count = nearest(centers, points, 3)
    # Multiplied by d_1, the smallest, all terms are within 0..1.
    weight = torch.where(square > 0, square[..., :1] / square, 1.0)
    weight = torch.where(torch.arange(3, device=index.device) < count[..., None], weight, 0.0)
    return index, weight / (weight[..., :1] + weight[..., 1:2] + weight[..., 2:])


@observed
def interpolate(features: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """y = sum over i of w_i * features[index_i], with gradients for features; index and weight by `three_nearest`.

    Shapes: features (B, N, F), index (B, M, 3), weight (B, M, 3) -> (B, M, F)
    """
    return (gather(features, index) * weight[..., None].to(features.dtype)).sum(dim=-2)


@observed
def density(points: Tensor, bandwidth: float) -> Tensor:
    """Gaussian kernel density at each point, including the point itself.

        rho_i = 1 / (N h sqrt(2 pi)) * sum over j of exp(-|p_i - p_j|^2 / (2 h^2))

    A normal density of the distance, as in PointConv (which has 2.5 for sqrt(2 pi)). It is positive, and its constant
    cancels when densities are compared. Each term is rounded to a multiple of 2^-30, so the sum is exact and the order
    of the points does not matter. Devices differ in their exp, which rarely changes the last digit of float32.

    Args:
        points: the clouds.
        bandwidth: h, in the unit of the points.

    Shapes: points (B, N, C) -> (B, N) float32
    """
    _check_shapes("density", points, points)
    if not 0 < bandwidth < math.inf:
        raise ValueError(f"density: bandwidth = {bandwidth}, expected a positive number")
    return DENSITY(points.detach(), float(bandwidth))


def _check_shapes(operation: str, centers: Tensor, points: Tensor) -> None:
    for name, x in (("points", points), ("centers", centers)):
        if x.dim() != 3 or 0 in x.shape:
            raise ValueError(f"{operation}: {name} are {tuple(x.shape)}, expected (clouds, points, channels), none 0")
    if centers.shape[0] != points.shape[0] or centers.shape[2] != points.shape[2]:
        raise ValueError(
            f"{operation}: centers are {tuple(centers.shape)} and points {tuple(points.shape)}, expected the same "
            "number of clouds and of channels"
        )


def _check_values(operation: str, **clouds: Tensor) -> None:
    """ValueError with the index of the first NaN, infinity or number whose square would overflow.

    One pass over the coordinates and, on a GPU, one synchronization. While a CUDA graph is recorded there is no check;
    the warm-up run before it has checked.
    """
    for name, x in clouds.items():
        if x.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        good = x.abs() <= LARGEST
        if not good.all():
            place = (~good).nonzero()[0].tolist()
            raise ValueError(
                f"{operation}: {name}{place} is {x[tuple(place)].item()}, expected a number within ±{LARGEST:g}; "
                "drop such points first"
            )


def _lexicographic(x: Tensor) -> Tensor:
    """Indices that sort each cloud by its first channel, then the second, ...: (B, N, C) -> (B, N)."""
    x = x + 0.0  # -0.0 becomes 0.0: equal numbers, but not equal bits for a radix sort
    order = x[..., -1].argsort(dim=1, stable=True)
    for channel in reversed(range(x.shape[2] - 1)):
        order = order.gather(1, x[..., channel].gather(1, order).argsort(dim=1, stable=True))
    return order


def _grid(*clouds: Tensor) -> tuple[list[Tensor], Tensor]:
    """Clouds (B, ., C) on one grid of integers in float64, and its step (B, 1, 1), a power of two."""
    bits = (52 - math.ceil(math.log2(clouds[0].shape[2]))) // 2
    low = torch.stack([x.amin(dim=1) for x in clouds]).amin(dim=0)[:, None].double()
    raised = [x.double() - low for x in clouds]
    extent = torch.stack([x.amax(dim=(1, 2)) for x in raised]).amax(dim=0)[:, None, None]
    extent = extent.clamp_min(torch.finfo(torch.float32).tiny)  # one point, or all identical
    size = extent / torch.frexp(extent).mantissa  # exact: the power of two above the extent
    return [(x * (2.0**bits / size)).round_() for x in raised], size / 2.0**bits


# |a - b|^2 = <(-2 a, 1, |a|^2), (b, |b|^2, 1)>: one matrix product, exact on the grid.
def _left(a: Tensor) -> Tensor:
    """(B, M, C) -> (B, M, C + 2)"""
    square = (a * a).sum(dim=-1, keepdim=True)
    return torch.cat([-2 * a, torch.ones_like(square), square], dim=-1)


def _right(b: Tensor) -> Tensor:
    """(B, N, C) -> (B, C + 2, N)"""
    square = (b * b).sum(dim=-1, keepdim=True)
    return torch.cat([b, square, torch.ones_like(square)], dim=-1).transpose(1, 2).contiguous()


def _blocks(left: Tensor, right: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Squared distances in steps of the grid, one block (B, rows, N) at a time, all in the same memory.

    (Freeing and allocating a block does not always reuse memory: for 50,000 points the heap grew to all distances.)
    """
    clouds, centers, _ = left.shape
    total = right.shape[2]
    at_once = min(centers, max(1, PAIRS[left.device.type] // (clouds * total)))
    memory = left.new_empty(clouds * at_once * total)
    for start in range(0, centers, at_once):
        rows = slice(start, min(start + at_once, centers))
        block = memory[: clouds * (rows.stop - start) * total].view(clouds, -1, total)
        yield rows, torch.bmm(left[:, rows], right, out=block)


def _steps(cloud: Tensor, start: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Indices of the chosen points of a sorted cloud, and their squared distances from the points chosen before.

    Shapes: cloud (B, N, C), start (B, 1, 1) -> picks (B, count), gaps (B, count), the first of them infinite
    """
    if runs_kernels(cloud):
        from bipointnet.nn import farthest_gpu

        if farthest_gpu.supports(cloud):
            return farthest_gpu.sample(cloud, start.flatten(), count)
    left, right = _left(cloud), _right(cloud)  # (B, N, C + 2), (B, C + 2, N)
    gaps = cloud.new_full((count, *start.shape), math.inf)
    picks = start.repeat(count, 1, 1, 1)
    square = cloud.new_empty(len(cloud), 1, cloud.shape[1])
    gap = torch.full_like(square, math.inf)
    for last, nxt, far in zip(picks[:-1], picks[1:], gaps[1:], strict=True):
        torch.bmm(left.gather(1, last.expand(-1, -1, left.shape[2])), right, out=square)
        torch.minimum(gap, square, out=gap)
        torch.max(gap, dim=2, keepdim=True, out=(far, nxt))  # the first of equal values
    return picks[:, :, 0, 0].T, gaps[:, :, 0, 0].T


def _farthest_points(points: Tensor, count: int) -> Tensor:
    _check_values("farthest_points", points=points)
    clouds, total, _ = points.shape
    order = _lexicographic(points)
    (cloud,), _ = _grid(gather(points, order))
    centroid = (cloud.sum(dim=1, keepdim=True) / total).round()
    start = torch.bmm(_left(centroid), _right(cloud)).argmax(dim=2, keepdim=True)  # (B, 1, 1)
    chosen, gaps = _steps(cloud, start, count)
    distinct = gaps > 0  # (B, count)
    # Where the gap is 0, all remaining points coincide with chosen ones: choose the remaining points in order.
    taken = torch.zeros(clouds, total + 1, dtype=torch.bool, device=points.device)
    taken.scatter_(1, torch.where(distinct, chosen, total), True)
    copies = taken[:, :total].to(torch.uint8).argsort(dim=1, stable=True)
    turn = torch.arange(count, device=points.device) - distinct.sum(dim=1, keepdim=True)
    return order.gather(1, torch.where(distinct, chosen, copies.gather(1, turn.clamp_min(0))))


def _farthest_points_shape(points: Tensor, count: int) -> Tensor:
    return points.new_empty(points.shape[0], count, dtype=torch.int64)


def _smallest_keys(around: Tensor, cloud: Tensor, k: int, room: int) -> Tensor:
    """The k smallest keys of each center, sorted: the bits of its squared distances, with positions in `room`.

    Shapes: around (B, M, C), cloud (B, N, C), both on the grid -> (B, M, k) int64
    """
    if runs_kernels(cloud):
        from bipointnet.nn import nearest_gpu

        if nearest_gpu.supports(cloud):
            return nearest_gpu.smallest_keys(around, cloud, k, room)
    place = torch.arange(cloud.shape[1], device=cloud.device)
    keys = place.new_empty(*around.shape[:2], k)
    for rows, square in _blocks(_left(around), _right(cloud)):
        block = square.view(torch.int64).bitwise_and_(~room).bitwise_or_(place)
        keys[:, rows] = block.topk(k, largest=False).values
    return keys


def _nearest(centers: Tensor, points: Tensor, ties: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k <= N nearest, nearest first: index (B, M, k), square (B, M, k)."""
    _check_values("nearest", centers=centers, points=points, ties=ties)
    total = points.shape[1]
    order = _lexicographic(ties)
    (around, cloud), step = _grid(centers, gather(points, order))
    # Floats >= 0 compare like their bits. The last bits of a distance are replaced by the position of the point in the
    # sorted cloud: keys are distinct, so the k smallest are well defined. 1024 points leave 42 bits after the leading
    # one.
    room = (1 << (total - 1).bit_length()) - 1
    key = _smallest_keys(around, cloud, k, room)
    square = (key & ~room).view(torch.float64) * step.square()
    return order.gather(1, (key & room).flatten(1)).view(key.shape), square.float()


def _nearest_shape(centers: Tensor, points: Tensor, ties: Tensor, k: int) -> tuple[Tensor, Tensor]:
    shape = (*centers.shape[:2], k)
    return centers.new_empty(shape, dtype=torch.int64), centers.new_empty(shape, dtype=torch.float32)


def _density(points: Tensor, bandwidth: float) -> Tensor:
    _check_values("density", points=points)
    clouds, total, _ = points.shape
    (cloud,), step = _grid(points)
    left, right = _left(cloud), _right(cloud)
    factor = -0.5 * (step / bandwidth).square()
    sums = cloud.new_empty(clouds, total)
    for rows, square in _blocks(left, right):
        sums[:, rows] = square.mul_(factor).exp_().mul_(2.0**30).round_().sum(dim=2)
    return (sums / (2.0**30 * total * bandwidth * math.sqrt(2 * math.pi))).float()


def _density_shape(points: Tensor, bandwidth: float) -> Tensor:
    return points.new_empty(points.shape[:2], dtype=torch.float32)


class _Operation:
    """A function that torch.compile and dispatch modes see as one operation `bipointnet::name`.

    Otherwise the function is called directly, because calling a custom operation imports torch._dynamo (2 to 4 s).
    """

    def __init__(self, name: str, function: Callable[..., Any], shape: Callable[..., Any]) -> None:
        self.function, self.operation = function, custom_op(f"bipointnet::{name}", function, mutates_args=())
        self.operation.register_fake(shape)

    def __call__(self, *args: Any) -> Any:
        observed = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
        return (self.operation if observed else self.function)(*args)


FARTHEST_POINTS = _Operation("farthest_points", _farthest_points, _farthest_points_shape)
NEAREST = _Operation("nearest", _nearest, _nearest_shape)
DENSITY = _Operation("density", _density, _density_shape)

"""Neighbor searches are recognized by their values, however they were computed."""

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from bipointnet.nn import geometry
from bipointnet.packing.group_search import shortest_decimal
from bipointnet.packing.neighbors import Candidate, Search, Unknown, recognize, recognize_edges
from bipointnet.runtime import reference_search
from bipointnet.runtime.reference_ops import Domain, Value

SIZES = (60, 60, 83)


def clouds(channels: int = 3, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(n, channels, generator=generator) * 2 - 1 for n in sizes]


def candidate(name: str, values: list[Tensor]) -> Candidate:
    return Candidate(name, tuple(x.double().numpy() for x in values))


def found(indices: list[Tensor], *candidates: tuple[str, list[Tensor]], constants=(), only=None) -> Search:
    """The search of the indices into the first candidate; the reference confirms it."""
    result = unknown(indices, *candidates, constants=constants, only=only, expected=Search)
    assert isinstance(result, Search)
    if result.op in reference_search.OPERATIONS:
        arrays = dict(candidates)
        for i, index in enumerate(indices):
            check_with_reference(result, i, index.numpy(), {name: x[i].numpy() for name, x in arrays.items()})
    return result


def check_with_reference(search: Search, number: int, recorded: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
    """The operation gives the recorded indices, up to points at the same distance within rounding."""
    size = search.sizes[number][1]
    count = {"factor": 0.0, "round": "floor", "least": size, "most": size}
    domain = Domain()
    names = [name for name in (search.centers, search.points, search.ties) if name is not None]
    operands = [Value(arrays[n].astype(np.float32), Domain(domain, len(arrays[n]))) for n in names]
    (result,) = reference_search.OPERATIONS[search.op]({"count": count, **search.fields}, {}, *operands)
    expected, indices = result.array, recorded.reshape(result.array.shape)
    if search.slots is not None:
        indices = np.take_along_axis(indices, np.argsort(search.slots[number], axis=1), axis=1)
    if search.op == "farthest":
        np.testing.assert_array_equal(indices, expected)
        return
    centers, points = (x.array.astype(np.float64) for x in operands[:2])
    square = ((centers[:, None] - points) ** 2).sum(axis=2)
    a, b = (np.take_along_axis(square, x, axis=1) for x in (indices, expected))
    np.testing.assert_allclose(a, b, atol=1e-5 * square.max())


def unknown(indices, *candidates, constants=(), only=None, expected: type = Unknown) -> Search | Unknown:
    sources = [len(x) for x in candidates[0][1]]
    arrays = [candidate(name, values) for name, values in candidates]
    result = recognize([i.numpy() for i in indices], sources, arrays, constants, only)
    assert isinstance(result, expected), result
    return result


def squares(a: Tensor, b: Tensor) -> Tensor:
    """The expanded formula, which is the least accurate one."""
    return a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T


def farthest_loop(x: Tensor, count: int, start: int = 0) -> Tensor:
    gap, chosen = torch.full((len(x),), 1e10, dtype=x.dtype), [start]
    for _ in range(count - 1):
        gap = torch.minimum(gap, (x - x[chosen[-1]]).square().sum(1))
        chosen.append(int(gap.argmax()))
    return torch.tensor(chosen)


def ball_by_index(radius: float, k: int, centers: Tensor, x: Tensor) -> Tensor:
    """The widely copied query: indices outside become N, are sorted to the end and replaced by the first one."""
    index = torch.arange(len(x)).expand(len(centers), -1).clone()
    index[squares(centers, x) > radius**2] = len(x)
    index = index.sort(dim=1)[0][:, :k]
    return torch.where(index == len(x), index[:, :1], index)


def ball_by_distance(radius: float, k: int, centers: Tensor, x: Tensor) -> Tensor:
    square, index = squares(centers, x).topk(k, largest=False)
    return torch.where(square > radius**2, index[:, :1], index)


NEAREST: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "topk": lambda a, b, k: (-squares(a, b)).topk(k)[1],
    "cdist": lambda a, b, k: torch.cdist(a, b).topk(k, largest=False)[1],
    "argsort": lambda a, b, k: (a[:, None] - b).norm(dim=2).argsort()[:, :k],
    "loop": lambda a, b, k: torch.stack([(b - p).square().sum(1).sort()[1][:k] for p in a]),
    "geometry": lambda a, b, k: geometry.nearest(a[None], b[None], k).indices[0],
}


@pytest.mark.parametrize("name", NEAREST)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [3, 32])
def test_nearest_points_of_the_points_themselves(name, dtype, channels):
    x = [c.to(dtype) for c in clouds(channels)]
    other = clouds(channels, seed=1)
    search = found([NEAREST[name](c, c, 7) for c in x], ("other", other), ("features", x))
    assert (search.op, search.centers, search.points) == ("nearest", "features", "features")
    assert (search.fields, search.slots) == ({"dilation": 1}, None)
    assert search.sizes == tuple((n, 7) for n in SIZES)


@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_nearest_points_of_other_centers_with_dilation(dilation):
    x, centers = clouds(), clouds(sizes=(9, 20, 13), seed=3)
    indices = [NEAREST["topk"](c, p, 8 * dilation)[:, ::dilation] for c, p in zip(centers, x, strict=True)]
    search = found(indices, ("xyz", x), ("wrong", clouds(sizes=(9, 20, 13), seed=4)), ("centers", centers))
    assert (search.op, search.centers, search.points) == ("nearest", "centers", "xyz")
    assert search.fields == {"dilation": dilation}


def test_indices_in_one_row_are_cut_into_groups():
    x = clouds()
    search = found([NEAREST["topk"](c, c, 5).flatten() for c in x], ("xyz", x))
    assert (search.op, search.sizes) == ("nearest", tuple((n, 5) for n in SIZES))
    one = found(
        [NEAREST["topk"](c, c[:20] * 0.9, 1).flatten() for c in x], ("20", [c[:20] * 0.9 for c in x]), ("xyz", x)
    )
    assert (one.op, one.centers, one.points, one.sizes[0]) == ("nearest", "xyz", "20", (20, 1))


def test_unsorted_and_descending_neighbors_have_slots():
    x = clouds()
    for order in (torch.tensor([3, 0, 2, 4, 1]), torch.arange(4, -1, -1)):
        indices = [NEAREST["topk"](c, c, 5) for c in x]
        search = found([i[:, order] for i in indices], ("xyz", x))
        assert search.op == "nearest"
        assert search.slots is not None
        for slots in search.slots:
            np.testing.assert_array_equal(slots, np.broadcast_to(order.numpy(), slots.shape))


@pytest.mark.parametrize(("query", "order"), [(ball_by_index, "index"), (ball_by_distance, "nearest")])
@pytest.mark.parametrize("constants", [[16.0, 0.55], [0.55**2, 16.0], []])
@pytest.mark.parametrize("k", [4, 16])
def test_balls_with_any_hint_of_their_radius(query, order, constants, k):
    x = clouds(sizes=(300, 200, 301))
    centers = [c[:40] for c in x]
    search = found(
        [query(0.55, k, c, p) for c, p in zip(centers, x, strict=True)],
        ("xyz", x),
        ("centers", centers),
        constants=constants,
        only="ball",
    )
    assert (search.op, search.centers, search.points) == ("ball", "centers", "xyz")
    assert search.fields["order"] == order
    if constants or k == 16:  # otherwise most balls are full and the radius is not determined
        assert search.fields["radius"] == pytest.approx(0.55, rel=1e-12 if constants else 0.02)
    assert search.sizes == ((300, k), (200, k), (301, k))


def test_the_shortest_radius_that_fits_is_chosen():
    assert shortest_decimal(0.19871, 0.20013) == 0.2
    assert shortest_decimal(0.1999, 0.19994) == 0.1999
    assert shortest_decimal(11.3, 13.0) == 12.0
    assert shortest_decimal(0.5, 0.5) is None
    assert shortest_decimal(3.0, np.inf) == 1e15


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_farthest_points_from_point_0(dtype):
    x = [c.to(dtype) for c in clouds()]
    search = found([farthest_loop(c, 20) for c in x], ("xyz", x))
    assert (search.op, search.points, search.centers) == ("farthest", "xyz", None)
    assert (search.fields, search.sizes) == ({"order": "index"}, tuple((n, 20) for n in SIZES))


def test_farthest_points_from_the_point_farthest_from_the_centroid():
    x = clouds()
    search = found([geometry.farthest_points(c[None], 20)[0] for c in x], ("other", clouds(seed=1)), ("xyz", x))
    assert (search.points, search.fields) == ("xyz", {"order": "coordinates"})


def test_a_random_start_is_named():
    x = clouds()
    result = unknown([farthest_loop(c, 20, start=7 + i) for i, c in enumerate(x)], ("xyz", x))
    assert isinstance(result, Unknown)
    assert result.reason == "farthest points of xyz from a random start (points 7, 8, 9, ...); start at point 0"
    twice = [x[0], x[0]]
    assert "random start (points 3, 4" in reason([farthest_loop(x[0], 9, s) for s in (3, 4)], ("xyz", twice))
    shuffled = [torch.randperm(60)[:9], torch.randperm(60)[:9]]
    assert "differ between two runs on the same cloud" in reason(shuffled, ("xyz", twice))


def reason(indices, *candidates, **options) -> str:
    result = unknown(indices, *candidates, **options)
    assert isinstance(result, Unknown)
    return result.reason


def test_what_does_not_fit_is_explained():
    x = clouds()
    assert "left out of its neighbors" in reason([NEAREST["topk"](c, c, 6)[:, 1:] for c in x], ("xyz", x))
    assert "(index + b * 60)" in reason([NEAREST["topk"](c, c, 6) + len(c) for c in x], ("xyz", x))
    assert "index -1 stands for a missing neighbor" in reason([NEAREST["topk"](c, c, 6) - 1 for c in x], ("xyz", x))
    noise = [torch.rand(len(c), len(c)).argsort(dim=1)[:, :6] for c in x]
    assert "fit no nearest or ball in any of 1 pairs of arrays" in reason(noise, ("xyz", x))
    assert "appears twice" in reason([torch.tensor([[0, 1, 2, 1]] * len(c)) for c in x], ("xyz", x))
    constant = [torch.full_like(c, i) for i, c in enumerate(x)]
    assert "fit no nearest" in reason(noise, ("constant", constant))
    assert "farthest" in reason([torch.randperm(len(c))[:9] for c in x], ("constant", constant))
    assert "fit no ball" in reason([NEAREST["topk"](c, c, 6)[:, ::2] for c in x], ("xyz", x), only="ball")


def test_every_point():
    x = clouds()
    assert found([torch.arange(len(c)) for c in x], ("xyz", x)).op == "identity"
    assert found([torch.arange(len(c))[None] for c in x], ("xyz", x)).op == "all"
    everywhere = found([torch.arange(len(c)).expand(4, -1) for c in x], ("xyz", x), ("four", [c[:4] for c in x]))
    assert (everywhere.op, everywhere.fields) == ("ball", {"radius": 1e15, "order": "index"})


def test_equal_distances_say_by_what_they_are_ordered():
    """Points on a coarse lattice, where most distances are equal."""
    x = [(c * 3).round() + 0.0 for c in clouds(sizes=(70, 80))]
    x = [torch.unique(c, dim=0)[torch.randperm(len(torch.unique(c, dim=0)))] for c in x]
    by_rank = found([NEAREST["geometry"](c, c, 6) for c in x], ("xyz", x))
    assert (by_rank.op, by_rank.ties) == ("nearest", "xyz")
    by_index = found([squares(c, c).argsort(dim=1, stable=True)[:, :6] for c in x], ("xyz", x))
    assert (by_index.op, by_index.ties) == ("nearest", None)


def test_features_that_many_points_share_are_recognized():
    """1-bit features have few values: most neighbors of a point are at distance 0, and any of them may be recorded."""
    centers = torch.randn(6, 16)
    x = [centers[torch.randint(0, 6, (n,))] for n in SIZES]
    search = found([NEAREST["topk"](c, c, 5) for c in x], ("xyz", clouds()), ("features", x))
    assert (search.op, search.points) == ("nearest", "features")


def knn_edges(x: Tensor, k: int, loop: bool) -> Tensor:
    index = NEAREST["topk"](x, x, k + 1)[:, 0 if loop else 1 :][:, :k]
    return torch.stack([index.flatten(), torch.arange(len(x)).repeat_interleave(k)])


def radius_edges(centers: Tensor, x: Tensor, radius: float, k: int, loop: bool = True) -> Tensor:
    near = squares(centers, x) <= radius**2
    if not loop:
        near.fill_diagonal_(False)
    target, source = (near & (near.cumsum(1) <= k)).nonzero().T
    return torch.stack([source, target])


def check_edges(edges: list[Tensor], targets: list[Tensor], x: list[Tensor], constants=()) -> Search:
    """The number of each edge names its source, once the search is run on the recorded groups."""
    arrays = [candidate("xyz", x), candidate("centers", targets)]
    result = recognize_edges(
        [e.numpy() for e in edges], [len(t) for t in targets], [len(c) for c in x], arrays, constants
    )
    assert not isinstance(result, Unknown), result
    search, numbers = result
    for edge, number, (_, k), c, t in zip(edges, numbers, search.sizes, x, targets, strict=True):
        target, slot = np.divmod(number, k)
        square = squares(t.double(), c.double()).numpy()
        if search.op == "ball":
            square[square > float(search.fields["radius"]) ** 2] = np.inf
        order = np.argsort(square, axis=1, kind="stable")
        if search.fields.get("order") == "index":
            order = np.argsort(np.isinf(square), axis=1, kind="stable")
        rows = {(int(a), int(b)) for a, b in edge.T.tolist()}
        assert {(int(order[i, s]), int(i)) for i, s in zip(target, slot, strict=True)} in (
            rows,
            {(b, a) for a, b in rows},
        )
        assert len(np.unique(number)) == len(number)
    return search


@pytest.mark.parametrize("loop", [True, False])
@pytest.mark.parametrize("flipped", [True, False])
def test_edges_of_nearest_points_in_any_order(loop, flipped):
    x = clouds()
    edges = [knn_edges(c, 6, loop)[:, torch.randperm(6 * len(c))] for c in x]
    search = check_edges([e.flip(0) for e in edges] if flipped else edges, x, x)
    assert (search.op, search.centers, search.points) == ("nearest", "xyz", "xyz")
    assert search.sizes == tuple((n, 6 if loop else 7) for n in SIZES)


@pytest.mark.parametrize("loop", [True, False])
def test_edges_of_a_radius_graph(loop):
    x = clouds(sizes=(200, 150))
    full = check_edges([radius_edges(c, c, 0.9, 500, loop) for c in x], x, x, constants=[0.9, 500.0])
    assert (full.op, full.fields["radius"]) == ("ball", 0.9)
    assert full.sizes == ((200, 501 - loop), (150, 501 - loop))
    assert check_edges([radius_edges(c, c, 0.9, 500, loop) for c in x], x, x).sizes == ((200, 200), (150, 150))
    sparse = [torch.cat([c, c[:1] + 5]) for c in x]  # the last point has no neighbor but itself
    assert check_edges([radius_edges(c, c, 0.3, 9, loop) for c in sparse], sparse, sparse, [0.3]).op == "ball"


def test_edges_from_a_set_to_sampled_centers():
    x = clouds(sizes=(200, 150))
    centers = [c[farthest_loop(c, 25)] for c in x]
    search = check_edges(
        [radius_edges(c, p, 0.7, 6) for c, p in zip(centers, x, strict=True)], centers, x, constants=[0.7]
    )
    assert (search.op, search.centers, search.points) == ("ball", "centers", "xyz")
    assert (search.fields, search.sizes) == ({"radius": 0.7, "order": "index"}, ((200, 6), (150, 6)))


def test_clouds_of_1000_points_take_less_than_a_second_each():
    x = clouds(sizes=(1000, 1000))
    noise = [(f"x{i}", clouds(16, (1000, 1000), seed=i)) for i in range(10)]
    indices = [NEAREST["topk"](c, c, 20) for c in x]
    start = time.process_time()
    assert found(indices, *noise, ("xyz", x)).points == "xyz"
    assert found([farthest_loop(c, 512) for c in x], *noise, ("xyz", x)).op == "farthest"
    assert time.process_time() - start < 4

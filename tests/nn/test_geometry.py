"""Point operations against SciPy, naive NumPy and exact integers; order of the points; unusual clouds.

Over 400 lines: all operations are compared with the same naive implementations, on the same clouds.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial import KDTree

from bipointnet.nn import geometry
from bipointnet.nn.geometry import ball, density, farthest_points, gather, interpolate, nearest, three_nearest

# Few values: many equal distances and coinciding points, all exact in float32.
coarse = st.integers(1, 24).flatmap(lambda n: arrays(np.float32, (n, 3), elements=st.integers(-3, 3).map(float)))
scales = st.sampled_from([2.0**-20, 0.25, 1.0, 1024.0])


def cloud(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def batch(points: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(points, np.float32))[None]


def shuffled(points: torch.Tensor, seed: int = 0) -> torch.Tensor:
    return points[:, torch.randperm(points.shape[1], generator=torch.Generator().manual_seed(seed))]


def squares(centers: np.ndarray, points: np.ndarray) -> np.ndarray:
    return ((centers[:, None].astype(np.float64) - points[None].astype(np.float64)) ** 2).sum(axis=2)  # (M, N)


def ranked(center: np.ndarray, points: np.ndarray) -> np.ndarray:
    """All points by distance from one center, then by their first coordinate, the second, ..."""
    keys = [*points.T[::-1], squares(center[None], points)[0]]
    return np.lexsort(keys)


def naive_farthest(points: np.ndarray, first: int, count: int) -> list[int]:
    """From a given first point: the largest distance, then the smallest coordinates, then the smallest free index."""
    chosen = [first]
    while len(chosen) < count:
        gap = squares(points, points[chosen]).min(axis=1)
        left = [i for i in range(len(points)) if i not in chosen]
        chosen.append(min(left, key=lambda i: (-gap[i], *points[i], i)))
    return chosen


# Nearest neighbors


@pytest.mark.parametrize("channels", [1, 2, 3, 64])
def test_neighbors_equal_a_kd_tree(channels):
    centers, points = cloud(2, 60, channels), cloud(2, 200, channels, seed=1)
    near = nearest(centers, points, 20)
    for b in range(2):
        distance, index = KDTree(points[b]).query(centers[b], k=20)
        np.testing.assert_array_equal(near.indices[b], index)
        np.testing.assert_allclose(near.squares[b].sqrt(), distance, rtol=1e-5, atol=1e-6)
    assert (near.counts == 20).all()


@settings(max_examples=60)
@given(coarse, st.integers(1, 30), scales)
def test_equal_distances_are_ordered_by_coordinates(points, k, scale):
    points = points * scale
    near = nearest(batch(points), batch(points), k)
    found = min(k, len(points))
    for i, center in enumerate(points):
        expected = points[ranked(center, points)[:found]]
        np.testing.assert_array_equal(points[near.indices[0, i, :found].numpy()], expected)
        np.testing.assert_array_equal(near.squares[0, i, :found], squares(center[None], expected)[0])
        assert (near.indices[0, i, found:] == near.indices[0, i, 0]).all()
        assert (near.squares[0, i, found:] == 0).all()
    assert (near.counts == found).all()


@given(arrays(np.float32, (9, 5), elements=st.sampled_from([-1.0, 1.0])))
def test_equal_distances_in_feature_space_are_ordered_by_features(features):
    near = nearest(batch(features), batch(features), 4)
    for i, center in enumerate(features):
        np.testing.assert_array_equal(features[near.indices[0, i].numpy()], features[ranked(center, features)[:4]])


def test_negative_zero_is_zero():
    points = torch.tensor([[[0.0, 1.0], [-0.0, -1.0], [0.0, -1.0]]])
    near = nearest(torch.zeros(1, 1, 2), points, 3)
    assert near.indices.tolist() == [[[1, 2, 0]]]


def test_dilation_takes_every_dth_neighbor():
    x = cloud(2, 50, 3)
    dilated, dense = nearest(x, x, 5, dilation=3), nearest(x, x, 15)
    torch.testing.assert_close(dilated.indices, dense.indices[..., ::3], rtol=0, atol=0)
    torch.testing.assert_close(dilated.squares, dense.squares[..., ::3], rtol=0, atol=0)


@pytest.mark.parametrize(("n", "k", "dilation", "found"), [(50, 5, 3, 5), (7, 5, 3, 3), (6, 5, 3, 2), (3, 8, 1, 3)])
def test_counts_are_the_true_neighbors(n, k, dilation, found):
    x = cloud(2, n, 3)
    near = nearest(x, x, k, dilation)
    assert (near.counts == found).all()
    assert near.indices.shape == (2, n, k)
    distinct = torch.tensor([[len(set(row)) for row in one] for one in near.indices.tolist()])
    assert (distinct == found).all()


def test_a_far_origin_costs_no_precision():
    """|a|^2 + |b|^2 - 2ab in float32 would lose these distances entirely."""
    x = (cloud(1, 100, 3) * 256).round() / 256
    torch.testing.assert_close(nearest(x + 4096, x + 4096, 10).indices, nearest(x, x, 10).indices, rtol=0, atol=0)
    torch.testing.assert_close(nearest(x + 4096, x + 4096, 10).squares, nearest(x, x, 10).squares, rtol=0, atol=0)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 64, 1024])
def test_distances_on_the_grid_are_exact(channels):
    """The largest sums of a cloud, against Python's integers."""
    x = cloud(1, 6, channels)
    x[0, 0], x[0, 1] = x.min() * 1.9, x.max() * 1.9
    (grid,), _ = geometry._grid(x)
    found = torch.bmm(geometry._left(grid), geometry._right(grid))[0].tolist()
    whole = [[int(v) for v in row] for row in grid[0].tolist()]
    for i, a in enumerate(whole):
        for j, b in enumerate(whole):
            assert found[i][j] == sum((p - q) ** 2 for p, q in zip(a, b, strict=True))


# Balls


@pytest.mark.parametrize("limit", [8, 64, 300])
def test_balls_equal_a_kd_tree(limit):
    points = cloud(2, 250, 3)
    centers = points[:, :40]
    near = ball(centers, points, 0.7, limit)
    for b in range(2):
        within = KDTree(points[b]).query_ball_point(centers[b], 0.7)
        for i, expected in enumerate(within):
            nearest_first = [j for j in ranked(centers[b, i].numpy(), points[b].numpy()) if j in set(expected)][:limit]
            count = int(near.counts[b, i])
            assert near.indices[b, i, :count].tolist() == nearest_first
            assert (near.indices[b, i, count:] == near.indices[b, i, 0]).all()
            assert (near.squares[b, i] <= 0.49).all()


@settings(max_examples=60)
@given(coarse, st.integers(1, 30), st.sampled_from([1.0, 2.0, 3.0, 5.0]))
def test_the_boundary_belongs_to_the_ball_and_copies_do_not_count(points, limit, radius):
    near = ball(batch(points), batch(points), radius, limit)
    inside = (squares(points, points) <= radius**2).sum(axis=1)
    np.testing.assert_array_equal(near.counts[0], np.minimum(inside, limit))
    assert near.indices.shape == (1, len(points), limit)


def test_an_empty_ball_has_the_nearest_point_and_count_0():
    near = ball(torch.full((1, 1, 3), 9.0), torch.tensor([[[0.0, 0, 0], [1, 1, 1]]]), 0.5, 4)
    assert near.indices.tolist() == [[[1, 1, 1, 1]]]
    assert near.counts.tolist() == [[0]]
    assert near.squares.tolist() == [[[192.0] * 4]]


# Farthest points


@settings(max_examples=60)
@given(coarse, st.floats(0, 1), scales)
def test_farthest_points_equal_the_naive_sampling(points, part, scale):
    points = points * scale
    count = max(1, round(part * len(points)))
    index = farthest_points(batch(points), count)[0].tolist()
    from_centroid = squares(points.mean(axis=0, dtype=np.float64)[None], points)[0]
    assert from_centroid[index[0]] == pytest.approx(from_centroid.max(), rel=1e-5, abs=1e-12 * scale**2)
    assert index == naive_farthest(points, index[0], count)


def test_farthest_points_of_random_clouds_equal_the_naive_sampling():
    points = cloud(3, 120, 3)
    index = farthest_points(points, 60)
    for b, one in enumerate(points.numpy()):
        first = int(squares(one.mean(axis=0)[None], one).argmax())
        assert index[b].tolist() == naive_farthest(one, first, 60)


def test_farthest_points_of_a_cube_start_at_its_least_corner():
    corners = torch.tensor([[[x, y, z] for x in (1.0, 0) for y in (0.0, 1) for z in (1.0, 0)]])
    picked = gather(corners, farthest_points(corners, 8))
    assert picked[0, :2].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert sorted(picked[0].tolist()) == sorted(corners[0].tolist())


def test_more_farthest_points_than_points_are_rejected():
    with pytest.raises(ValueError, match="count = 5 of 4 points, expected 1 to 4"):
        farthest_points(cloud(2, 4, 3), 5)
    with pytest.raises(ValueError, match="count = 0"):
        farthest_points(cloud(2, 4, 3), 0)


# The order of the points


@settings(max_examples=40)
@given(coarse, st.integers(0, 1000), st.booleans())
def test_the_order_of_the_points_does_not_matter(points, seed, fine):
    x = batch(points)
    if fine:
        x = x + 0.01 * cloud(*x.shape, seed=seed)
    y = shuffled(x, seed)
    n = x.shape[1]
    picked = gather(x, farthest_points(x, (n + 1) // 2))
    torch.testing.assert_close(gather(y, farthest_points(y, (n + 1) // 2)), picked, rtol=0, atol=0)
    for find in (lambda p: nearest(picked, p, 5), lambda p: ball(picked, p, 2.0, 4)):
        for_x, for_y = find(x), find(y)
        torch.testing.assert_close(gather(y, for_y.indices), gather(x, for_x.indices), rtol=0, atol=0)
        torch.testing.assert_close(for_y.squares, for_x.squares, rtol=0, atol=0)
        torch.testing.assert_close(for_y.counts, for_x.counts, rtol=0, atol=0)
    (to_x, weight_x), (to_y, weight_y) = three_nearest(picked, x), three_nearest(picked, y)
    torch.testing.assert_close(gather(y, to_y), gather(x, to_x), rtol=0, atol=0)
    torch.testing.assert_close(weight_y, weight_x, rtol=0, atol=0)
    torch.testing.assert_close(density(y, 0.5), shuffled(density(x, 0.5), seed), rtol=0, atol=0)


def test_the_order_of_features_does_not_matter():
    x = cloud(2, 80, 16).sign()
    y = shuffled(x)
    centers = x[:, :7]
    torch.testing.assert_close(
        gather(y, nearest(centers, y, 9).indices), gather(x, nearest(centers, x, 9).indices), rtol=0, atol=0
    )


def test_clouds_of_a_batch_are_independent():
    x = torch.cat([cloud(1, 60, 3), 1e6 * cloud(1, 60, 3, seed=1)])
    for b in range(2):
        one = x[b : b + 1]
        assert farthest_points(one, 30)[0].equal(farthest_points(x, 30)[b])
        assert nearest(one, one, 5).squares[0].equal(nearest(x, x, 5).squares[b])
        assert density(one, 0.3)[0].equal(density(x, 0.3)[b])


# Interpolation


@given(coarse, coarse, st.floats(-100, 100, width=32))
def test_interpolation_reproduces_constants(centers, points, value):
    index, weight = three_nearest(batch(centers), batch(points))
    made = interpolate(torch.full((1, len(points), 2), value), index, weight)
    torch.testing.assert_close(made, torch.full((1, len(centers), 2), value), rtol=1e-6, atol=1e-30)


def test_interpolation_equals_its_formula():
    centers, points, features = cloud(2, 30, 3), cloud(2, 40, 3, seed=1), cloud(2, 40, 5, seed=2)
    made = interpolate(features, *three_nearest(centers, points))
    for b in range(2):
        distance, index = KDTree(points[b]).query(centers[b], k=3)
        weight = distance**-2 / (distance**-2).sum(axis=1, keepdims=True)
        expected = (features[b].numpy()[index] * weight[..., None]).sum(axis=1)
        np.testing.assert_allclose(made[b], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_interpolation_at_a_point_gives_its_value(unit):
    points, features = cloud(2, 40, 3) * unit, cloud(2, 40, 5, seed=2)
    assert interpolate(features, *three_nearest(points, points)).equal(features)


def test_coinciding_points_share_the_weight():
    points = torch.tensor([[[1.0, 0, 0], [0, 0, 0], [0, 0, 0], [2, 0, 0]]])
    index, weight = three_nearest(torch.zeros(1, 1, 3), points)
    assert index.tolist() == [[[1, 2, 0]]]
    assert weight.tolist() == [[[0.5, 0.5, 0]]]


def test_interpolation_from_one_or_two_points_counts_each_once():
    center = torch.tensor([[[0.25, 0.0, 0.0]]])
    two = torch.tensor([[[0.0, 0, 0], [1, 0, 0]]])
    torch.testing.assert_close(three_nearest(center, two)[1], torch.tensor([[[0.9, 0.1, 0.0]]]))
    assert three_nearest(center, two[:, :1])[1].tolist() == [[[1, 0, 0]]]


def test_features_have_gradients_and_coordinates_have_none():
    points, features = cloud(1, 9, 3).requires_grad_(), cloud(1, 9, 2).double().requires_grad_()
    index, weight = three_nearest(cloud(1, 5, 3, seed=1), points)
    assert not weight.requires_grad
    assert not density(points, 0.1).requires_grad
    assert torch.autograd.gradcheck(lambda f: interpolate(f, index, weight), features)
    assert torch.autograd.gradcheck(lambda f: gather(f, index), features)


def test_gather_equals_numpy():
    x, index = cloud(3, 7, 4), torch.randint(0, 7, (3, 5, 2), generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(gather(x, index), np.stack([x[b].numpy()[index[b].numpy()] for b in range(3)]))


# Density


@pytest.mark.parametrize("bandwidth", [0.05, 0.4, 10.0])
def test_density_equals_the_direct_sum(bandwidth):
    x = cloud(2, 150, 3)
    for b, one in enumerate(x.numpy()):
        kernel = np.exp(-squares(one, one) / (2 * bandwidth**2)) / (math.sqrt(2 * math.pi) * bandwidth)
        np.testing.assert_allclose(density(x, bandwidth)[b], kernel.mean(axis=1), rtol=1e-6)


def test_density_of_coinciding_points_is_the_maximum_of_the_kernel():
    top = 1 / (math.sqrt(2 * math.pi) * 0.2)
    torch.testing.assert_close(density(torch.ones(2, 9, 3), 0.2), torch.full((2, 9), top))
    torch.testing.assert_close(density(torch.ones(2, 1, 3), 0.2), torch.full((2, 1), top))


# Unusual clouds


@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("value", [0.0, 1.0, -3e14, 1e-44])
def test_identical_points_are_all_nearest_and_each_is_chosen_once(n, value):
    x = torch.full((2, n, 3), value)
    assert farthest_points(x, n).sort(dim=1).values.tolist() == [list(range(n))] * 2
    for near in (nearest(x, x, 4), ball(x, x, 0.1, 4)):
        assert (near.counts == min(n, 4)).all()
        assert (near.squares == 0).all()
    assert interpolate(x, *three_nearest(x, x)).allclose(x)


def test_copies_of_a_point_follow_all_distinct_points():
    x = torch.tensor([[[0.0, 0, 0]] * 4 + [[1, 0, 0]] * 3 + [[0, 2, 0]]])
    picked = gather(x, farthest_points(x, 8))[0]
    assert len({tuple(p) for p in picked[:3].tolist()}) == 3
    assert farthest_points(x, 8)[0, 3:].tolist() == sorted(farthest_points(x, 8)[0, 3:].tolist())
    assert sorted(farthest_points(x, 8)[0].tolist()) == list(range(8))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e30])
def test_invalid_numbers_are_rejected_with_their_index(bad):
    x = cloud(2, 6, 3)
    y = x.clone()
    y[1, 4, 2] = bad
    place = r"points\[1, 4, 2\] is .*, expected a number within"
    with pytest.raises(ValueError, match=f"farthest_points: {place}"):
        farthest_points(y, 2)
    with pytest.raises(ValueError, match=f"nearest: {place}"):
        nearest(x, y, 2)
    with pytest.raises(ValueError, match=r"nearest: centers\[1, 4, 2\]"):
        ball(y, x, 0.1, 2)
    with pytest.raises(ValueError, match=f"density: {place}"):
        density(y, 0.1)


def test_wrong_shapes_and_arguments_are_rejected():
    x = cloud(2, 6, 3)
    for call, words in (
        (lambda: farthest_points(x[0], 2), r"points are \(6, 3\)"),
        (lambda: nearest(x, x[:, :0], 2), r"points are \(2, 0, 3\)"),
        (lambda: nearest(x, x[..., :2], 2), "same number of clouds and of channels"),
        (lambda: nearest(x[:1], x, 2), "same number of clouds and of channels"),
        (lambda: nearest(x, x, 0), "k = 0"),
        (lambda: nearest(x, x, 2, dilation=0), "dilation = 0"),
        (lambda: ball(x, x, math.nan, 2), "radius = nan"),
        (lambda: ball(x, x, 0.0, 2), r"radius = 0\.0"),
        (lambda: density(x, -1.0), r"bandwidth = -1\.0"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_the_largest_allowed_numbers_do_not_overflow():
    x = torch.tensor([[[-1e15, -1e15, -1e15], [1e15, 1e15, 1e15], [0, 0, 0]]])
    assert nearest(x, x, 3).squares.isfinite().all()
    torch.testing.assert_close(nearest(x, x, 3).squares[0, 0, 2], torch.tensor(1.2e31))


def test_half_precision_gives_the_result_of_its_float32_values():
    x = cloud(1, 64, 3).bfloat16()
    assert nearest(x, x, 8).indices.equal(nearest(x.float(), x.float(), 8).indices)
    assert farthest_points(x, 32).equal(farthest_points(x.float(), 32))


# Chunks, compilation, devices


def everything(x: torch.Tensor, features: torch.Tensor) -> list[torch.Tensor]:
    picked = gather(x, farthest_points(x, x.shape[1] // 2))
    made = interpolate(features[:, : picked.shape[1]], *three_nearest(x, picked))
    return [picked, *nearest(features, features, 5, dilation=2), *ball(picked, x, 0.8, 16), made, density(x, 0.2)]


@pytest.mark.parametrize("pairs", [1, 1000])
def test_chunks_change_nothing(monkeypatch, pairs):
    x, features = cloud(2, 90, 3), cloud(2, 90, 8, seed=1)
    whole = everything(x, features)
    monkeypatch.setitem(geometry.PAIRS, "cpu", pairs)
    for one, other in zip(everything(x, features), whole, strict=True):
        assert one.equal(other)


def test_memory_is_bounded_by_the_constant(monkeypatch):
    monkeypatch.setitem(geometry.PAIRS, "cpu", 1000)
    (grid,), _ = geometry._grid(cloud(2, 90, 3))
    blocks = list(geometry._blocks(geometry._left(grid), geometry._right(grid)))
    assert max(block.numel() for _, block in blocks) <= 1000
    assert len({block.data_ptr() for _, block in blocks}) == 1
    assert [i for rows, _ in blocks for i in range(rows.start, rows.stop)] == list(range(90))


def test_compiled_equals_eager_in_one_graph():
    compiled = torch.compile(everything, fullgraph=True, backend="aot_eager")
    for n in (64, 90):
        x, features = cloud(2, n, 3), cloud(2, n, 8, seed=1)
        for one, other in zip(compiled(x, features), everything(x, features), strict=True):
            torch.testing.assert_close(one, other)


def test_ties_decide_between_equal_distances():
    """All distances in the feature space are equal: neighbors are in the order of their coordinates."""
    x, features = cloud(2, 30, 3), torch.ones(2, 30, 8)
    found = nearest(features, features, 30, ties=x).indices
    ordered = gather(x, found[:, 0])
    assert (ordered[:, 1:, 0] >= ordered[:, :-1, 0]).all()
    assert found.equal(found[:, :1].expand_as(found))
    with pytest.raises(ValueError, match="one row for each of"):
        nearest(features, features, 3, ties=x[:, :20])
    x[1, 7, 2] = torch.nan
    with pytest.raises(ValueError, match=r"ties\[1, 7, 2\] is nan"):
        nearest(features, features, 3, ties=x)


def test_operations_pass_the_checks_of_torch_and_equal_their_functions():
    x = cloud(2, 12, 3)
    for op, args in (
        (geometry.FARTHEST_POINTS, (x, 5)),
        (geometry.NEAREST, (x[:, :4], x, x[..., :2], 5)),
        (geometry.DENSITY, (x, 0.5)),
    ):
        torch.library.opcheck(op.operation, args)
        for one, other in zip(*(call(*args) for call in (op.operation, op.function)), strict=True):
            assert one.equal(other)

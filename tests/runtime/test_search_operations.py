"""farthest, nearest, ball, interpolate, density: answers that can be worked out by hand, in reference and core."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from handmade_programs import Program, always, at_most, content, same_values, share

from bipointnet import _core
from bipointnet.runtime import reference


def line(*x: float) -> np.ndarray:
    """Points on the first axis."""
    cloud = np.zeros((len(x), 3), np.float32)
    cloud[:, 0] = x
    return cloud


def found(program: Program, name: str, cloud: np.ndarray) -> np.ndarray:
    """A value of the program, finished with logits."""
    return same_values(program.finish(), cloud)[name]


def farthest(cloud: np.ndarray, count: dict, order: str = "coordinates") -> list[int]:
    program = Program()
    return found(program, program.farthest(program.points, count, order), cloud).tolist()


def test_farthest_points_start_at_the_point_farthest_from_the_centroid():
    assert farthest(line(0, 1, 2, 10), always(4)) == [3, 0, 2, 1]
    assert farthest(line(0, 1, 2, 10), always(2)) == [3, 0]
    assert farthest(line(10, 2, 0, 1), always(3)) == [0, 2, 1], "the same points in another order"


def test_farthest_points_are_chosen_once_and_copies_follow_in_order():
    assert farthest(line(0, 0, 5, 5), always(4)) == [0, 2, 1, 3]
    assert farthest(line(5, 0, 5, 0), always(4)) == [1, 0, 3, 2]
    assert farthest(line(7, 7, 7), always(2)) == [0, 1]
    assert farthest(line(0, 1, 2, 10), always(9)) == [3, 0, 2, 1], "not more than there are"


def test_equal_gaps_go_to_the_smaller_coordinates_or_to_the_smaller_index():
    square = np.array([[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]], np.float32)
    assert farthest(square, always(3)) == [3, 0, 2]
    assert farthest(square, always(3), "index") == [0, 3, 1]
    assert farthest(line(-0.0, 3, 0.0), always(3)) == [1, 0, 2], "-0 equals +0"


def test_farthest_points_by_index_start_at_point_0_and_repeat_it():
    assert farthest(line(0, 1, 2, 10), always(6), "index") == [0, 3, 2, 1, 0, 0]
    assert farthest(line(4), always(3), "index") == [0, 0, 0]


@pytest.mark.parametrize(
    ("rule", "sizes"),
    [
        (share(0.5, "floor"), {1: 1, 2: 1, 3: 1, 5: 2, 9: 4}),
        (share(0.5, "ceil"), {1: 1, 2: 1, 3: 2, 5: 3, 9: 5}),
        (share(0.5, "even"), {1: 1, 2: 1, 3: 2, 5: 2, 7: 4, 9: 4}),
        (share(0.25, "ceil", 2, 4), {1: 1, 2: 2, 5: 2, 9: 3, 40: 4}),
        (at_most(4), {1: 1, 3: 3, 4: 4, 5: 4}),
    ],
)
def test_a_size_rule_gives_the_number_of_elements(rule, sizes):
    assert {n: len(farthest(line(*range(n)), rule)) for n in sizes} == sizes


def nearest(cloud: np.ndarray, k: int, dilation: int = 1, ties: bool = False) -> list[list[int]]:
    program = Program()
    x = program.points
    name = program.nearest(x, x, *[x] * ties, count=always(k), dilation=dilation)
    return found(program, name, cloud).tolist()


def test_the_nearest_points_come_in_order_of_their_distance():
    assert nearest(line(0, 1, 3, 7), 3) == [[0, 1, 2], [1, 0, 2], [2, 1, 0], [3, 2, 1]]


def test_equal_distances_go_to_the_smaller_index_or_to_the_smaller_ties():
    cloud = line(0, 1, -1)
    assert nearest(cloud, 3)[0] == [0, 1, 2]
    assert nearest(cloud, 3, ties=True)[0] == [0, 2, 1]
    program = Program()
    heights = program.slice(program.points, 2, 3)
    places = program.slice(program.points, 0, 2)
    name = program.nearest(places, places, heights, count=always(3))
    cloud = np.array([[0, 0, 5], [1, 0, 2], [0, 1, 1], [-1, 0, -0.0], [0, -1, 0.0]], np.float32)
    assert found(program, name, cloud)[0].tolist() == [0, 3, 4], "-0 equals +0"


def test_dilation_takes_every_other_neighbor_and_repeats_the_first():
    cloud = line(0, 1, 2, 3, 4)
    assert nearest(cloud, 2, dilation=2)[0] == [0, 2]
    assert nearest(cloud, 4, dilation=2)[0] == [0, 2, 4, 0]
    assert nearest(cloud, 3, dilation=9)[1] == [1, 1, 1]


def test_the_count_is_the_number_of_true_neighbors():
    for k, dilation, expected in ((2, 2, 2), (4, 2, 3), (3, 9, 1), (9, 1, 5)):
        program = Program()
        name = program.nearest(program.points, program.points, count=always(k), dilation=dilation)
        counts = program.add("size", name, width=1, over="neighbors")
        slots = program.add("size", name, width=1, over="points")
        values = same_values(program.finish(), line(0, 1, 2, 3, 4))
        assert values[counts].tolist() == [[expected]] * 5
        assert values[slots].tolist() == [[k]] * 5


def test_the_cloud_can_be_a_center():
    program = Program()
    center = program.pool(program.points, "mean")
    name = program.nearest(center, program.points, count=at_most(3))
    pooled = program.pool(program.gather(program.points, name), "mean", "neighbors")
    values = same_values(program.finish(), line(0, 1, 2, 9))
    assert values[name].tolist() == [2, 1, 0]  # the mean is 3
    assert values[pooled].tolist() == [1, 0, 0]
    assert same_values(program.packed(), line(4))[name].tolist() == [0]


def test_a_key_keeps_the_rank_in_the_lowest_bits_of_the_distance():
    """Point 1 is farther than point 2 by one part in 2^48; from 17 points on, the rank covers this bit."""
    cloud = line(0, 1, 1, *[1.5] * 14)
    cloud[1, 1] = 2.0**-24
    assert nearest(cloud[:16], 3)[0] == [0, 2, 1]
    assert nearest(cloud, 3)[0] == [0, 1, 2]


@pytest.mark.parametrize("bad", [2e15, -2e15, 3e38])
def test_numbers_without_a_place_on_the_grid_are_an_error_of_the_input(bad):
    program = Program()
    program.nearest(program.points, program.points, count=at_most(2))
    packed = program.finish()
    cloud = line(0, 1e15, bad)
    with pytest.raises(ValueError, match="expected a number within"):
        reference.run_program(packed, cloud, raw=True)
    with pytest.raises(_core.InputError):
        _core.Model(content(packed)).predict(cloud[None], True, 1)
    assert same_values(packed, cloud[:2])


def ball(cloud: np.ndarray, k: int, radius: float, order: str = "nearest", shift: float = 0.0):
    """Indices and counts; shift: moves the centers along the first axis."""
    program = Program()
    x = program.points
    centers = program.affine(x, np.array([[1, shift], [1, 0], [1, 0]]))
    name = program.ball(centers, x, count=always(k), radius=radius, order=order)
    counts = program.add("size", name, width=1, over="neighbors")
    values = same_values(program.finish(), cloud)
    return values[name].tolist(), values[counts][:, 0].tolist()


def test_a_ball_has_the_nearest_points_inside():
    indices, counts = ball(line(0, 1, 2, 10), 3, 1.5)
    assert indices == [[0, 1, 0], [1, 0, 2], [2, 1, 2], [3, 3, 3]]
    assert counts == [2, 3, 2, 1]
    assert ball(line(0, 1, 2, 10), 2, 1.5)[0] == [[0, 1], [1, 0], [2, 1], [3, 3]]


def test_a_ball_has_the_first_points_inside_by_index():
    indices, counts = ball(line(0, 1, 2, 10), 3, 1.5, "index")
    assert indices == [[0, 1, 0], [0, 1, 2], [1, 2, 1], [3, 3, 3]]
    assert counts == [2, 3, 2, 1]
    assert ball(line(0, 1, 2, 10), 2, 1.5, "index") == ([[0, 1], [0, 1], [1, 2], [3, 3]], [2, 2, 2, 1])


def test_a_point_on_the_sphere_is_inside():
    assert ball(line(0, 1, 3), 2, 1.0) == ([[0, 1], [1, 0], [2, 2]], [2, 2, 1])
    assert ball(line(0, 1, 3), 2, 1 - 2.0**-23)[1] == [1, 1, 1]


@pytest.mark.parametrize("order", ["nearest", "index"])
def test_an_empty_ball_has_the_nearest_point(order):
    assert ball(line(0, 1, 2, 10), 3, 1.5, order, shift=100.0) == ([[3, 3, 3]] * 4, [1] * 4)
    assert ball(line(0, 1, 2, 10), 3, 1.5, order, shift=-100.0) == ([[0, 0, 0]] * 4, [1] * 4)


def interpolated(
    cloud: Sequence[Sequence[float]], guard: str, epsilon: float = 0.0, centers: float = 0.0
) -> np.ndarray:
    """Point i of the plane has the value 2^i; the centers are the points times `centers`."""
    program = Program()
    places, values = program.slice(program.points, 0, 2), program.slice(program.points, 2, 3)
    around = program.affine(places, np.array([[centers, 0]] * 2))
    name = program.interpolate(around, places, values, guard, epsilon)
    numbers = np.array([[*place, 2**i] for i, place in enumerate(cloud)], np.float32)
    return found(program, name, numbers)[:, 0]


def test_interpolation_weighs_three_points_by_their_inverse_squared_distance():
    """Squared distances 1, 2, 2 from the origin give weights 1/2, 1/4, 1/4; the fourth point has none."""
    cloud = [[1, 0], [1, 1], [1, -1], [5, 0]]
    assert interpolated(cloud, "limit").tolist() == [1 / 2 + 2 / 4 + 4 / 4] * 4


def test_interpolation_at_a_point_gives_its_value():
    cloud = [[1, 0], [1, 1], [3, -1], [5, 0], [5, 0]]
    assert interpolated(cloud, "limit", centers=1.0).tolist() == [1, 2, 4, 12, 12]  # points 3 and 4 share the weight


def test_a_guard_adds_to_the_squared_distance():
    """1 / (1 + 1), 1 / (3 + 1) and 1 / (3 + 1) are weights 1/2, 1/4, 1/4."""
    root = math.sqrt(3.0)
    exact = interpolated([[0, 1], [0, root], [0, -root]], "add", 1.0)
    assert exact == pytest.approx([1 / 2 + 2 / 4 + 4 / 4] * 3, rel=1e-6)
    assert interpolated([[0, 0], [1, 0], [0, 1]], "add", 1.0).tolist() == [1 / 2 + 2 / 4 + 4 / 4] * 3


def test_a_guard_replaces_smaller_squared_distances():
    """1 / 0.5, 1 / 1 and 1 / 1 are weights 1/2, 1/4, 1/4."""
    assert interpolated([[0, 0], [1, 0], [0, 1]], "clamp", 0.5).tolist() == [1 / 2 + 2 / 4 + 4 / 4] * 3


@pytest.mark.parametrize("guard", ["limit", "add", "clamp"])
def test_fewer_than_three_points_are_interpolated_without_copies(guard):
    assert interpolated([[1, 0]], guard, 0.0 if guard == "limit" else 0.25).tolist() == [1]
    cloud = [[1, 0], [0, 1]]
    assert interpolated(cloud, guard, 0.0 if guard == "limit" else 0.25).tolist() == [1 / 2 + 2 / 2] * 2


def density(cloud: np.ndarray, bandwidth: float) -> np.ndarray:
    program = Program()
    return found(program, program.add("density", program.points, width=1, bandwidth=bandwidth), cloud)


def test_density_is_the_mean_of_gaussians():
    top = 1 / (0.25 * math.sqrt(2 * math.pi))
    assert density(line(3), 0.25).tolist() == [[pytest.approx(top, rel=1e-7)]]
    assert density(line(3, 3, 3), 0.25).tolist() == [[pytest.approx(top, rel=1e-7)]] * 3
    pair = density(line(3, 3.25), 0.25)
    assert pair.tolist() == [[pytest.approx(top * (1 + math.exp(-0.5)) / 2, rel=1e-7)]] * 2
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    square = ((x[:, None].astype(np.float64) - x) ** 2).sum(axis=2)
    np.testing.assert_allclose(density(x, 0.25)[:, 0], top * np.exp(-8 * square).mean(axis=1), rtol=1e-6)

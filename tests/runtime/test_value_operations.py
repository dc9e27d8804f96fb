"""Operations that move, combine and pool values: answers that can be worked out by hand, in reference and core."""

import numpy as np
import pytest
from handmade_programs import Program, always, at_most, same_values

from bipointnet.delta import delta
from bipointnet.packing.bits import pack_bits
from bipointnet.runtime.reference_ops import unpack_bits

LINE = np.array([[0, 1, 5], [1, 2, 5], [3, 4, 5], [7, 8, 5]], np.float32)  # neighbors along the first channel


def grouped(k: int = 3, radius: float = 2.5) -> tuple[Program, str, str]:
    """Balls of LINE: counts 2, 3, 2, 1 of k = 3. The program, its indices, and the points of the groups (4, k, 3)."""
    program = Program()
    place = program.slice(program.points, 0, 1)
    indices = program.ball(place, place, count=always(k), radius=radius)
    return program, indices, program.gather(program.points, indices)


BALLS = [[0, 1, 0], [1, 0, 2], [2, 1, 2], [3, 3, 3]]


def test_gather_takes_the_element_that_an_index_names():
    program, indices, floats = grouped()
    bits = program.gather(program.sign(program.points, at=4.0), indices)
    values = same_values(program.finish(), LINE)
    assert values[indices].tolist() == BALLS
    assert np.array_equal(values[floats], LINE[BALLS])
    assert np.array_equal(values[bits], LINE[BALLS] >= 4)


def test_broadcast_copies_a_value_to_all_elements_below_it():
    program, indices, floats = grouped()
    whole = program.pool(program.points, "max")
    names = {
        program.broadcast(whole, program.points): [[7, 8, 5]] * 4,
        program.broadcast(whole, indices): [[[7, 8, 5]] * 3] * 4,
        program.broadcast(program.points, floats): [[row] * 3 for row in LINE.tolist()],
        program.broadcast(program.sign(whole, at=7.5), indices): [[[False, True, False]] * 3] * 4,
    }
    values = same_values(program.finish(), LINE)
    for name, expected in names.items():
        assert values[name].tolist() == expected, name


def test_flatten_puts_slots_or_channels_first():
    program, _, floats = grouped()
    slots = program.add("flatten", floats, width=9, order="slots")
    channels = program.add("flatten", floats, width=9, order="channels")
    bits = program.add("flatten", program.sign(floats, at=4.0), width=9, order="channels")
    values = same_values(program.finish(), LINE)
    assert values[slots][0].tolist() == [0, 1, 5, 1, 2, 5, 0, 1, 5]
    assert values[channels][0].tolist() == [0, 1, 0, 1, 2, 1, 5, 5, 5]
    assert np.array_equal(values[bits], values[channels] >= 4)


def test_size_counts_points_slots_and_neighbors():
    program, indices, floats = grouped()
    sizes = {
        over: [program.add("size", name, width=1, over=over) for name in (program.points, indices, floats)]
        for over in ("points", "neighbors")
    }
    values = same_values(program.finish(), LINE)
    assert [values[name].tolist() for name in sizes["points"]] == [[4], [[3]] * 4, [[3]] * 4]
    assert [values[name].tolist() for name in sizes["neighbors"]] == [[4], [[2], [3], [2], [1]], [[2], [3], [2], [1]]]


def test_slice_and_concat_are_inverse():
    program = Program()
    parts = [program.slice(program.points, 0, 1), program.slice(program.points, 1, 3)]
    joined, swapped = program.concat(*parts), program.concat(*reversed(parts))
    bits = program.concat(*(program.sign(part) for part in parts))
    cloud = np.random.default_rng(0).normal(size=(70, 3)).astype(np.float32)
    values = same_values(program.finish(), cloud)
    assert np.array_equal(values[joined], cloud)
    assert np.array_equal(values[swapped], cloud[:, [1, 2, 0]])
    assert np.array_equal(values[bits], cloud >= 0)


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide"])
def test_arithmetic_per_channel_uses_a_single_channel_for_all(op):
    numpy = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}[op]
    program, indices, floats = grouped()
    one = program.slice(floats, 1, 2)
    centers = program.broadcast(program.points, indices)
    names = [program.add(op, a, b, width=3) for a, b in ((centers, floats), (one, floats), (floats, one))]
    values = same_values(program.finish(), LINE)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = [numpy(values[centers], values[floats]), numpy(values[one], values[floats])]
        expected += [numpy(values[floats], values[one])]
    for name, numbers in zip(names, expected, strict=True):
        assert np.array_equal(values[name], numbers, equal_nan=True)


def test_transform_multiplies_a_row_vector_by_a_matrix_of_any_domain_above():
    """The matrix has its own number in every domain: n of the cloud, the first channel of a point or of a neighbor."""
    program, _, floats = grouped()
    pattern = np.array([1, 2, 0, 0, 1, 0], np.float32)  # [[1, 2], [0, 0], [1, 0]]
    of_cloud = program.add("size", program.points, width=1, over="points")
    scales = {of_cloud: 4, program.slice(program.points, 0, 1): LINE[:, None, :1], program.slice(floats, 0, 1): 0}
    names = {}
    for scale, factor in scales.items():
        matrix = program.dense(scale, 6, weight=pattern[:, None], bias=np.zeros(6))
        names[program.add("transform", floats, matrix, outputs=2)] = factor
    values = same_values(program.finish(), LINE)
    neighbors = LINE[BALLS]
    plain = np.stack([neighbors[..., 0] + neighbors[..., 2], 2 * neighbors[..., 0]], axis=-1)
    for i, (name, factor) in enumerate(names.items()):
        assert np.array_equal(values[name], plain * (neighbors[..., :1] if i == 2 else factor))


def test_mix_multiplies_the_slots_of_a_group_by_its_matrix():
    program, _, floats = grouped()
    shift = np.array([0, 1, 0, 0, 0, 1, 1, 1, 0], np.float32)  # slots: 1, 2, 0 + 1
    matrix = program.dense(program.slice(program.points, 1, 2), 9, weight=shift[:, None], bias=np.zeros(9))
    name = program.add("mix", matrix, floats, width=3)
    values = same_values(program.finish(), LINE)
    first, second, third = LINE[BALLS].transpose(1, 0, 2)
    expected = np.stack([second, third, first + second], axis=1) * LINE[:, None, 1:2]
    assert np.array_equal(values[name], expected)


def test_outer_sums_products_over_all_elements_and_all_slots():
    program, _, floats = grouped()
    pair = program.slice(floats, 0, 2)
    of_groups = program.add("outer", pair, floats, width=6)
    of_points = program.add("outer", program.slice(program.points, 0, 2), program.points, width=6)
    values = same_values(program.finish(), LINE)
    neighbors = LINE[BALLS]
    assert np.array_equal(values[of_groups], np.einsum("mka,mkc->mac", neighbors[..., :2], neighbors).reshape(4, 6))
    assert np.array_equal(values[of_points], np.einsum("na,nc->ac", LINE[:, :2], LINE).reshape(6))


def test_a_mean_or_a_sum_runs_over_slots_or_over_neighbors():
    program, _, floats = grouped()
    names = {(p, o): program.pool(floats, p, o) for p in ("mean", "sum", "max") for o in ("points", "neighbors")}
    found = same_values(program.finish(), LINE)
    values = {key: found[name][:, 0].tolist() for key, name in names.items()}
    assert values["sum", "points"] == [1, 4, 7, 21]
    assert values["sum", "neighbors"] == [1, 4, 4, 7]
    assert values["mean", "points"] == [float(np.float32(x / 3)) for x in (1, 4, 7, 21)]
    assert values["mean", "neighbors"] == [0.5, float(np.float32(4 / 3)), 2, 7]
    assert values["max", "points"] == values["max", "neighbors"] == [1, 3, 3, 7]


def test_a_maximum_is_shifted_by_delta_of_what_it_counts():
    program, _, floats = grouped()
    names = {over: program.pool(floats, "max", over, "delta") for over in ("points", "neighbors")}
    whole = program.pool(program.points, "max", "neighbors", "delta")
    values = same_values(program.finish(), LINE)
    maximum = LINE[BALLS].max(axis=1)
    assert np.array_equal(values[names["points"]], maximum - np.float32(delta(3)))
    shifts = np.array([delta(2), delta(3), delta(2), 0], np.float32)
    assert np.array_equal(values[names["neighbors"]], maximum - shifts[:, None])
    assert np.array_equal(values[whole], LINE.max(axis=0) - np.float32(delta(4)))


def pooled_bits(values: dict[str, np.ndarray], program: Program, name: str, number: np.ndarray) -> np.ndarray:
    """What `bilinear_pool` must give for `number` elements per group, from the definition."""
    op = next(op for op in program.ops if op["out"][0] == name)
    bits = values[op["in"][0]]
    weight = unpack_bits(program.tensors[f"{name}.weight"], bits.shape[-1])
    counts = (bits[..., None, :] == weight).sum(axis=-1)  # (m, k, M)
    a, b = program.tensors[f"{name}.line"].T
    if op["pool"] == "mean":
        total = np.stack([c[:n].sum(axis=0) for c, n in zip(counts, number, strict=True)])
        return total >= np.ceil(number[:, None] * a)
    d = np.array([delta(int(n)) for n in number])[:, None] if op["shift"] == "delta" else 0.0
    return counts.max(axis=1) >= np.ceil(a + b * d)


COUNTED = [("max", s, o) for s in ("delta", "none") for o in ("points", "neighbors", "distinct")]
COUNTED += [("mean", "none", "points"), ("mean", "none", "neighbors")]


@pytest.mark.parametrize(("pool", "shift", "over"), COUNTED)
def test_a_pool_of_bits_counts_what_over_says(pool, shift, over):
    rng = np.random.default_rng(7)
    cloud = np.round(rng.normal(size=(40, 3)) * 2).astype(np.float32) / 2  # many equal points
    program = Program(1)
    indices = program.ball(program.points, program.points, count=always(12), radius=1.1)
    counts = program.add("size", indices, width=1, over="neighbors")
    bits = program.gather(program.sign(program.dense(program.points, 70)), indices)
    name = program.bilinear_pool(bits, 90, pool, over, shift, each="each")
    values = same_values(program.finish(points=9), cloud)
    neighbors = values[counts][:, 0].astype(int)
    distinct = np.array([len(np.unique(group, axis=0)) for group in values[bits]])
    assert len({*neighbors}) > 3
    assert (distinct < neighbors).any()
    number = {"points": np.full(40, 12), "neighbors": neighbors, "distinct": distinct}[over]
    expected = pooled_bits(values, program, name, number)
    assert np.array_equal(values[name], expected)
    assert 0.05 < expected.mean() < 0.95
    weight = unpack_bits(program.tensors[f"{name}.weight"], 70)
    agree = (values[bits][..., None, :] == weight).sum(axis=-1)
    assert np.array_equal(values["each"], agree >= program.tensors[f"{name}.threshold"])


def test_a_pool_over_distinct_points_of_a_cloud_ignores_copies():
    program = Program(2)
    name = program.bilinear_pool(program.sign(program.dense(program.points, 40)), 200, "max", "distinct")
    packed = program.finish()
    cloud = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    once = same_values(packed, cloud)[name]
    assert np.array_equal(same_values(packed, np.concatenate([cloud, cloud[:7], cloud]))[name], once)
    assert 0 < once.sum() < 200


@pytest.mark.parametrize("op", ["dense", "bilinear", "bilinear_float", "scaled", "mean_abs"])
def test_an_operation_with_groups_is_block_diagonal(op):
    """It equals the same operation on each block of channels, concatenated."""
    program, groups, inputs, outputs = Program(3), 3, 66, 21
    x = program.dense(program.points, groups * inputs)
    bits, scale = program.sign(x), program.add("mean_abs", x, width=groups, groups=groups)
    apply = {
        "dense": lambda x, g, s: program.dense(x, g * outputs, "hardtanh", g),
        "bilinear": lambda x, g, s: program.bilinear(x, g * outputs, g),
        "bilinear_float": lambda x, g, s: program.bilinear_float(x, g * outputs, "relu", g),
        "scaled": lambda x, g, s: program.bilinear_float(x, g * outputs, "none", g, scale=s),
        "mean_abs": lambda x, g, s: program.add("mean_abs", x, width=g, groups=g),
    }[op]
    source = bits if op in ("bilinear", "bilinear_float", "scaled") else x
    whole = apply(source, groups, scale)
    parts = []
    for g in range(groups):
        block = program.slice(source, g * inputs, (g + 1) * inputs)
        part = apply(block, 1, program.slice(scale, g, g + 1))
        rows = slice(g * outputs, (g + 1) * outputs)
        program.tensors |= {
            f"{part}.{name}": program.tensors[f"{whole}.{name}"][rows].copy()
            for name in ("weight", "bias", "threshold", "line")
            if f"{whole}.{name}" in program.tensors
        }
        parts.append(part)
    joined = program.concat(*parts)
    cloud = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    values = same_values(program.finish(), cloud)
    assert np.array_equal(values[whole], values[joined])
    assert len(np.unique(values[whole])) > 1


def test_a_bilinear_layer_counts_equal_columns():
    program = Program()
    bits = program.sign(program.points)
    weight = pack_bits(np.array([[1, 1, 1], [0, 0, 0], [1, 0, 1]], bool))
    tensors = {"weight": weight, "line": np.array([[1, 0], [1, 0.5], [-2, 0]], np.float32)}
    name = program.add("bilinear_float", bits, tensors=tensors, outputs=3, activation="none", groups=1)
    cloud = np.array([[1, 1, 1], [-1, -1, -1], [1, -1, 0]], np.float32)
    values = same_values(program.finish(), cloud)
    assert values[name].tolist() == [[3, -2.5, -2], [-3, 3.5, 2], [1, -0.5, -6]]


def test_groups_of_all_points_pool_like_the_points():
    """k nearest neighbors of the cloud's center, for k >= n, are all points: the same maximum and the same bits."""
    program = Program(4)
    bits = program.sign(program.dense(program.points, 30))
    everyone = program.nearest(program.pool(program.points, "mean"), program.points, count=at_most(4096))
    a = program.bilinear_pool(bits, 50)
    b = program.bilinear_pool(program.gather(bits, everyone), 50)
    program.tensors |= {f"{b}.{name}": program.tensors[f"{a}.{name}"] for name in ("weight", "line")}
    packed = program.finish()
    for n in (1, 2, 65, 700):
        values = same_values(packed, np.random.default_rng(n).normal(size=(n, 3)))
        assert np.array_equal(values[a], values[b])

"""Programs with the structure of whole networks: the core equals the reference, bit by bit, for clouds of any size."""

import numpy as np
import pytest
from handmade_programs import CATEGORIES, Program, always, at_most, content, same_values, share

from bipointnet import _core
from bipointnet.runtime.reference import Packed, run_program


def learned_matrix(program: Program, bits: str, size: int) -> str:
    """A T-Net's last layer: a matrix of the cloud, plus the identity."""
    x = program.bilinear_float(bits, size * size)
    return program.affine(x, np.stack([np.ones(size * size), np.eye(size).ravel()], axis=1))


def part_segmentation() -> Packed:
    """PointNet for parts: T-Nets, five layers that are read again, the global feature, the category."""
    program = Program(0)
    x = program.bilinear_pool(program.sign(program.dense(program.points, 20)), 40)
    moved = program.add("transform", program.points, learned_matrix(program, x, 3), outputs=3)
    first = program.sign(program.dense(moved, 20))
    second = program.bilinear(first, 31)
    matrix = learned_matrix(program, program.bilinear_pool(second, 50), 24)
    third = program.bilinear_float(second, 24, "hardtanh")
    x = program.sign(program.add("transform", third, matrix, outputs=24))
    fourth = program.bilinear(x, 70)
    pooled = program.bilinear_pool(fourth, 150, each="fifth")
    layers = [first, second, program.sign(third), fourth, "fifth"]
    whole = [program.broadcast(x, program.points) for x in (pooled, program.category())]
    x = program.bilinear(program.bilinear(program.concat(*layers, *whole), 90), 64)
    program.dense(program.bilinear_float(x, 33, "hardtanh"), 6)
    return program.packed()


def semantic_segmentation() -> Packed:
    """Nine channels, of which a T-Net moves three; the global feature comes first."""
    program = Program(1, channels=9)
    x = program.bilinear_pool(program.sign(program.dense(program.points, 64)), 70)
    xyz = program.slice(program.points, 0, 3)
    moved = program.add("transform", xyz, learned_matrix(program, x, 3), outputs=3)
    bits = program.sign(program.dense(program.concat(moved, program.slice(program.points, 3, 9)), 64))
    pooled = program.bilinear_pool(program.bilinear(bits, 130), 200)
    x = program.bilinear(program.concat(program.broadcast(pooled, bits), bits), 100)
    program.dense(program.bilinear_float(x, 40), 13)
    return program.packed()


def mixed_bits() -> Packed:
    """Bits of two branches, of means and of floats; scaled bits; concatenated bits that are concatenated again."""
    program = Program(2)
    category = program.broadcast(program.category(), program.points)
    floats = program.dense(program.points, 9)
    mean = program.bilinear_pool(program.sign(floats), 30, "mean", each="each")
    other = program.dense(program.points, 12)
    scale = program.add("mean_abs", other, width=1, groups=1)
    other = program.bilinear_float(program.sign(other), 11, "hardtanh", scale=scale)
    pooled = program.bilinear_pool(program.sign(other, at=0.25), 30)
    joined = program.concat(program.sign(floats, at=0.5), category, program.broadcast(mean, floats), "each")
    whole = program.bilinear_pool(program.bilinear(joined, 20), 25)
    x = program.concat(program.broadcast(whole, joined), program.broadcast(pooled, joined), joined)
    program.bilinear_float(x, 4)
    return program.packed()


def classes_of_concatenated_bits() -> Packed:
    """A pool of floats over points that read a pool: logits of the cloud."""
    program = Program(3)
    pooled = program.bilinear_pool(program.sign(program.dense(program.points, 40)), 300, each="each")
    x = program.concat(program.broadcast(pooled, "each"), "each")
    program.dense(program.pool(program.bilinear_float(x, 50, "hardtanh")), 5)
    return program.packed()


def no_pool() -> Packed:
    """Each point by itself."""
    program = Program(4)
    x = program.bilinear(program.sign(program.dense(program.points, 60)), 300)
    program.bilinear_float(program.bilinear(x, 70), 3)
    return program.packed()


def abstraction(program: Program, places: str, features: str | None, count: dict, radius: float, outputs: int):
    """A set abstraction of PointNet++: places and features of the chosen points."""
    centers = program.gather(places, program.farthest(places, count))
    indices = program.ball(centers, places, places, count=always(16), radius=radius)
    offsets = program.add("subtract", program.gather(places, indices), program.broadcast(centers, indices))
    bits = program.sign(program.dense(offsets, 24))
    if features is not None:
        bits = program.concat(bits, program.gather(features, indices))
    return centers, program.bilinear_pool(program.bilinear(bits, 40), outputs, "max", "neighbors")


def set_abstraction() -> Packed:
    """PointNet++: two set abstractions, then a pool of all points that are left."""
    program = Program(5)
    centers, features = abstraction(program, program.points, None, share(0.5), 0.8, 64)
    centers, features = abstraction(program, centers, features, share(0.25, "even"), 1.6, 90)
    x = program.concat(program.sign(program.dense(centers, 20)), features)
    program.bilinear_float(program.bilinear(program.bilinear_pool(x, 128), 50), 7)
    return program.packed()


def feature_propagation() -> Packed:
    """PointNet++ for segmentation: features of few points are interpolated at all points."""
    program = Program(6, channels=6)
    xyz = program.slice(program.points, 0, 3)
    at_points = program.sign(program.dense(program.points, 32))
    centers, features = abstraction(program, xyz, at_points, at_most(20), 0.9, 48)
    floats = program.bilinear_float(features, 30, "hardtanh")
    for guard, epsilon in (("limit", 0.0), ("add", 2.0**-27), ("clamp", 2.0**-33)):
        floats_at_points = program.interpolate(xyz, centers, floats, guard, epsilon)
        at_points = program.concat(at_points, program.sign(floats_at_points, at=0.125))
    program.bilinear_float(program.bilinear(at_points, 64), 5)
    return program.packed()


def edge_convolutions() -> Packed:
    """DGCNN: neighbors in the space of features, with the coordinates as ties; a mean and a maximum at the end."""
    program = Program(7)
    x, layers = program.points, []
    for outputs, dilation in ((24, 1), (40, 2)):
        indices = program.nearest(x, x, program.points, count=at_most(9), dilation=dilation)
        centers = program.broadcast(x, indices)
        offsets = program.add("subtract", program.gather(x, indices), centers)
        bits = program.sign(program.dense(program.concat(centers, offsets), 32))
        x = program.pool(program.bilinear_float(bits, outputs, "relu"), "max", "neighbors", "delta")
        layers.append(x)
    x = program.concat(*layers)
    whole = program.concat(program.pool(x, "max"), program.pool(x, "mean"))
    program.dense(program.function(whole, "leaky_relu", 0.2), 6)
    return program.packed()


def density_weights() -> Packed:
    """PointConv: inverse densities, weights of neighbors, and the sum of outer products."""
    program = Program(8)
    xyz = program.points
    density = program.function(program.add("density", xyz, width=1, bandwidth=0.3), "reciprocal")
    indices = program.nearest(xyz, xyz, xyz, count=always(8))
    offsets = program.add("subtract", program.gather(xyz, indices), program.broadcast(xyz, indices))
    neighbors = program.gather(density, indices)
    largest = program.broadcast(program.pool(neighbors, "max", "neighbors"), indices)
    scale = program.function(program.add("divide", neighbors, largest), "sigmoid")
    weights = program.add("multiply", program.dense(offsets, 4, "relu"), scale)
    features = program.dense(offsets, 10)
    x = program.add("outer", weights, features, width=40)
    x = program.bilinear(program.sign(x), 60, groups=4)
    program.bilinear_float(program.bilinear_pool(x, 70, "mean", "neighbors"), 6)
    return program.packed()


def x_convolution() -> Packed:
    """PointCNN: a matrix per group mixes its slots; groups are flattened into channels."""
    program = Program(9)
    centers = program.gather(program.points, program.farthest(program.points, always(12), "index"))
    indices = program.ball(centers, program.points, count=always(5), radius=1.2, order="index")
    offsets = program.add("subtract", program.gather(program.points, indices), program.broadcast(centers, indices))
    matrix = program.dense(program.add("flatten", offsets, width=15, order="channels"), 25)
    mixed = program.add("mix", matrix, program.dense(offsets, 7, "hardtanh"), width=7)
    flat = program.add("flatten", program.sign(mixed), width=35, order="slots")
    x = program.bilinear_float(program.bilinear(flat, 40), 6)
    program.pool(program.function(x, "tanh"), "mean")
    return program.packed()


MODELS = {
    f.__name__: f
    for f in (
        *(part_segmentation, semantic_segmentation, mixed_bits, classes_of_concatenated_bits, no_pool),
        *(set_abstraction, feature_propagation, edge_convolutions, density_weights, x_convolution),
    )
}
SIZES = (1, 2, 3, 17, 65, 513, 1030)


def cloud(points: int, channels: int, coarse: bool) -> np.ndarray:
    numbers = np.random.default_rng(points).normal(size=(points, channels)).astype(np.float32)
    return np.round(numbers) / 2 if coarse else numbers  # coarse clouds have equal points, distances and bits


@pytest.mark.parametrize("name", MODELS)
def test_the_core_equals_the_reference_bit_by_bit(name):
    packed = MODELS[name]()
    category = 1 if "categories" in packed.manifest else None
    for points in SIZES:
        same_values(packed, cloud(points, packed.manifest["channels"], coarse=points % 2 == 0), category=category)


@pytest.mark.parametrize("name", ["set_abstraction", "edge_convolutions", "density_weights"])
def test_logits_do_not_depend_on_the_order_of_the_points(name):
    """Sums of floats over points are rounded in their order; bits and maxima are not."""
    packed = MODELS[name]()
    numbers = cloud(200, packed.manifest["channels"], coarse=False)
    first, _ = run_program(packed, numbers)
    other, _ = run_program(packed, np.random.default_rng(0).permutation(numbers))
    np.testing.assert_allclose(other, first, rtol=1e-5, atol=1e-5)


def test_a_batch_gives_the_logits_of_its_clouds():
    packed = part_segmentation()
    model = _core.Model(content(packed))
    clouds = np.random.default_rng(5).normal(size=(5, 77, 3)).astype(np.float32)
    found = model.predict(clouds, False, 2, 2)
    assert found.shape == (5, 77, 6)
    for logits, numbers in zip(found, clouds, strict=True):
        assert np.array_equal(logits, run_program(packed, numbers, category=2)[0])
    assert not np.array_equal(found, model.predict(clouds, False, 2, 0))


def test_categories_and_segments():
    parts, blocks = (_core.Model(content(make())) for make in (part_segmentation, semantic_segmentation))
    assert parts.segments
    assert blocks.segments
    assert parts.categories == CATEGORIES
    assert blocks.categories == []
    assert not _core.Model(content(classes_of_concatenated_bits())).segments


def test_the_category_is_required_exactly_where_it_is_used():
    parts, blocks = (_core.Model(content(make())) for make in (part_segmentation, semantic_segmentation))
    cloud_of_3, cloud_of_9 = np.zeros((1, 4, 3), np.float32), np.zeros((1, 4, 9), np.float32)
    for category, words in {-1: "no category", 3: "category 3, expected one from 0 to 2", -2: "category -2"}.items():
        with pytest.raises(_core.InputError, match=words):
            parts.predict(cloud_of_3, False, 1, category)
        with pytest.raises(_core.InputError, match=words):
            parts.trace(cloud_of_3[0], False, category)
    with pytest.raises(_core.InputError, match="category 0, expected none"):
        blocks.predict(cloud_of_9, False, 1, 0)
    for packed, category in ((part_segmentation(), None), (part_segmentation(), 3), (semantic_segmentation(), 0)):
        with pytest.raises(ValueError, match="category"):
            run_program(packed, np.zeros((4, packed.manifest["channels"])), category=category)


def test_a_golden_vector_per_point_is_checked():
    packed = semantic_segmentation()
    wrong = packed.tensors["golden"].copy()
    wrong[-1, -1] += 0.5
    with pytest.raises(_core.FormatError, match="golden: logit 90 is"):
        _core.Model(content(Packed(packed.manifest, packed.tensors | {"golden": wrong})))
    with pytest.raises(_core.FormatError, match=r"golden: shape \[13\], expected \[7, 13\]"):
        _core.Model(content(Packed(packed.manifest, packed.tensors | {"golden": wrong[0].copy()})))

"""Laws of blocks: they contain every point of the scan, with its coordinates and colors."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bipointnet.data.blocks import ROOM, BlockLayout, Blocks, Columns, add_votes, cover, cover_size, grid_blocks
from bipointnet.data.clouds import Cloud
from bipointnet.errors import UserError


@st.composite
def scans(draw: st.DrawFn) -> np.ndarray:  # (N, 3 or 6) float32
    """Scans of any extent, dense or sparse, some with points on the edges of cells or on each other."""
    count = draw(st.integers(1, 200))
    extent = np.array([draw(st.sampled_from([0.0, 0.3, 0.5, 1.0, 1.7, 2.5, 4.0])) for _ in range(3)])
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    xyz = rng.uniform(0, 1, (count, 3)) * extent
    on_edges = rng.random((count, 3)) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    xyz = np.where(on_edges, np.round(2 * xyz) / 2, xyz) + draw(st.sampled_from([0.0, -3.0, 128.0]))
    colors = rng.uniform(0, 1, (count, 3 if draw(st.booleans()) else 0))
    return np.hstack([xyz, colors]).astype(np.float32)


COLORLESS = BlockLayout(1.0, ("x", "y", "z", "x/size", "y/size", "z/size"), {})


def columns_of(scan: np.ndarray, source: str = "scan") -> Columns:
    return Columns.of(ROOM if scan.shape[-1] == 6 else COLORLESS, scan[..., :3], scan[..., 3:], source)


def all_of(columns: Columns, points: int, batch: int = 7) -> Blocks:
    parts = list(cover(columns, points, batch))
    names = ("points", "index", "votes", "corners")
    return Blocks(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def relative_to_corner(scan: np.ndarray) -> np.ndarray:  # (N, 3)
    return (scan[:, :3] - scan[:, :3].min(axis=0).astype(np.float64)).astype(np.float32)


def windows_by_brute_force(scan: np.ndarray, stride: float) -> list[frozenset[int]]:
    """The points of each block, found by brute force: every point against every position of a block."""
    xy = relative_to_corner(scan)[:, :2]
    size = xy.max(axis=0)
    ends = np.maximum(np.ceil(2 * size) / 2, 0.5)  # the edge of the last cell, which includes points on it
    # Overlapping blocks end at the edge; adjacent blocks may extend beyond it.
    lasts = np.maximum(ends - 1, 0) if stride == 0.5 else np.maximum(ends - 0.5, 0)
    found = []
    for x in np.arange(0, lasts[0] + 1e-6, stride):
        for y in np.arange(0, lasts[1] + 1e-6, stride):
            corner = np.array([x, y])
            inside = (xy >= corner) & ((xy < corner + 1) | ((corner + 1 >= ends) & (xy <= ends)))
            found.append(frozenset(np.flatnonzero(inside.all(axis=1)).tolist()))
    return [points for points in found if points]


def require_points_of_the_scan(scan: np.ndarray, blocks: Blocks) -> None:
    """The channels of a block are those of the points in its index."""
    xyz = relative_to_corner(scan)
    size = np.where(xyz.max(axis=0) > 0, xyz.max(axis=0), 1)
    named = scan[blocks.index]
    np.testing.assert_array_equal(blocks.points[..., -3:], xyz[blocks.index] / size)
    np.testing.assert_array_equal(blocks.points[..., 2], xyz[blocks.index][..., 2])
    np.testing.assert_array_equal(blocks.points[..., 3:-3], named[..., 3:])
    assert blocks.points.dtype == np.float32
    offsets = blocks.points[..., :2] - xyz[blocks.index][..., :2]  # one for all points of a block
    np.testing.assert_allclose(offsets, np.broadcast_to(offsets[:, :1], offsets.shape), atol=1e-5)
    assert (np.abs(blocks.points[..., :2]) <= 0.5 + 1e-5).all()


@given(scans(), st.integers(1, 60))
def test_every_point_votes_once_in_every_block_that_contains_it(scan: np.ndarray, points: int):
    blocks = all_of(columns_of(scan), points)
    expected = np.zeros(len(scan), int)
    for window in windows_by_brute_force(scan, stride=0.5):
        expected[list(window)] += 1
    votes = np.bincount(blocks.index[blocks.votes], minlength=len(scan))
    assert (votes >= 1).all()
    np.testing.assert_array_equal(votes, expected)


@given(scans())
def test_overlapping_blocks_equal_those_found_by_brute_force(scan: np.ndarray):
    blocks = all_of(columns_of(scan), len(scan))  # large enough for any column: one block per column
    found = [frozenset(index[votes].tolist()) for index, votes in zip(blocks.index, blocks.votes, strict=True)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, windows_by_brute_force(scan, stride=0.5)))
    for index, votes in zip(blocks.index, blocks.votes, strict=True):
        assert set(index.tolist()) == set(index[votes].tolist()), "a block is filled with its own points"


@given(scans(), st.integers(1, 60))
def test_blocks_hold_the_points_of_their_index(scan: np.ndarray, points: int):
    columns = columns_of(scan)
    rng = np.random.default_rng(0)
    for blocks in (all_of(columns, points), grid_blocks(columns, points, rng)):
        assert blocks.points.shape == (len(blocks), points, 3 + scan.shape[1])
        require_points_of_the_scan(scan, blocks)


@given(scans())
def test_a_whole_column_begins_at_minus_a_half(scan: np.ndarray):
    columns = columns_of(scan)
    rng = np.random.default_rng(0)
    for blocks in (all_of(columns, 200), grid_blocks(columns, 200, rng)):
        np.testing.assert_array_equal(blocks.points[..., :2].min(axis=1), -0.5)


@given(scans(), st.integers(1, 60), st.integers(1, 9))
def test_batches_are_bounded_and_counted_in_advance_and_their_size_changes_no_block(
    scan: np.ndarray, points: int, batch: int
):
    columns = columns_of(scan)
    sizes = [len(blocks) for blocks in cover(columns, points, batch)]
    assert max(sizes) <= batch
    assert sum(sizes) == cover_size(columns, points)
    one, other = all_of(columns, points, batch), all_of(columns, points, 1000)
    for name in ("points", "index", "votes"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@given(scans(), st.integers(0, 2**32))
def test_the_order_of_the_points_does_not_move_the_blocks(scan: np.ndarray, seed: int):
    order = np.random.default_rng(seed).permutation(len(scan))
    one, other = all_of(columns_of(scan), len(scan)), all_of(columns_of(scan[order]), len(scan))
    assert [set(index.tolist()) for index in one.index] == [set(order[index].tolist()) for index in other.index]


@given(scans(), st.integers(1, 60))
def test_votes_are_added_point_by_point(scan: np.ndarray, points: int):
    totals, slowly = np.zeros((2, len(scan), 4))
    rng = np.random.default_rng(0)
    for blocks in cover(columns_of(scan), points, 3):
        scores = rng.integers(-8, 8, (len(blocks), points, 4)).astype(float)
        add_votes(totals, blocks, scores)
        for block in range(len(blocks)):
            for place in range(points):
                if blocks.votes[block, place]:
                    slowly[blocks.index[block, place]] += scores[block, place]
    np.testing.assert_array_equal(totals, slowly)


def test_points_of_a_crowded_column_are_distributed_over_its_blocks():
    rng = np.random.default_rng(0)
    scan = rng.uniform(0, 1, (10_000, 3))
    blocks = all_of(columns_of(scan), 1024)
    assert len(blocks) == 10
    assert blocks.votes.sum(axis=1).tolist() == [1024] * 9 + [10_000 - 9 * 1024]
    for index in blocks.index:  # the last one too, which is filled with points of the others
        assert len(set(index.tolist())) == 1024
        # The mean of 1024 uniform numbers has a standard deviation of 0.009.
        np.testing.assert_allclose(scan[index].mean(axis=0), 0.5, atol=5.5 * 0.009)


# Blocks to learn from


def dense(extent: float, count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.hstack([rng.uniform(0, extent, (count, 3)), rng.uniform(0, 1, (count, 3))]).astype(np.float32)


def test_adjacent_blocks_share_no_point_and_sparse_ones_are_left_out():
    scan = np.vstack([dense(3.0, 9000), [[3.4, 0.1, 0, 0, 0, 0]] * 99, [[3.4, 3.3, 0, 0, 0, 0]] * 100])
    blocks = grid_blocks(columns_of(scan), 2000, np.random.default_rng(0))
    whole = [window for window in windows_by_brute_force(scan, stride=1.0) if len(window) >= 100]
    assert len(whole) == 10
    found = [frozenset(index.tolist()) for index in blocks.index]
    assert sorted(map(sorted, found)) == sorted(map(sorted, whole))
    assert sum(map(len, found)) == len(frozenset().union(*found)) == 9100


@given(scans())
def test_the_fullest_block_is_kept_if_all_are_sparse(scan: np.ndarray):
    blocks = grid_blocks(columns_of(scan), 300, np.random.default_rng(0))
    windows = windows_by_brute_force(scan, stride=1.0)
    expected = [window for window in windows if len(window) >= min(100, max(map(len, windows)))]
    assert sorted(sorted(set(index.tolist())) for index in blocks.index) == sorted(map(sorted, expected))


@given(scans(), st.integers(1, 300))
def test_no_point_is_repeated_before_all_are_drawn(scan: np.ndarray, points: int):
    columns = columns_of(scan)
    rng = np.random.default_rng(0)
    blocks = grid_blocks(columns, points, rng)
    for index, votes in zip(blocks.index, blocks.votes, strict=True):
        times = np.unique(index, return_counts=True)[1]
        assert times.max() - times.min() <= 1
        assert votes.sum() == len(times)


# Edges


@pytest.mark.parametrize("count", [1, 50])
def test_identical_points(count: int):
    scan = np.tile(np.array([[3.0, -2.0, 7.0, 0.1, 0.5, 1.0]], np.float32), (count, 1))
    columns = columns_of(scan)
    rng = np.random.default_rng(0)
    for blocks in (all_of(columns, 64), grid_blocks(columns, 64, rng)):
        assert blocks.points.shape == (1, 64, 9)
        assert (blocks.points == np.array([-0.5, -0.5, 0, 0.1, 0.5, 1, 0, 0, 0], np.float32)).all()
        assert sorted(blocks.index[blocks.votes].tolist()) == list(range(count))


def test_a_distant_point_adds_one_block_and_no_empty_ones():
    scan = np.vstack([dense(1.0, 500), [[900, 900, 0, 0, 0, 0]]])
    columns = columns_of(scan)
    assert cover_size(columns, 512) < 20
    assert np.unique(all_of(columns, 512).index).tolist() == list(range(501))


def test_a_large_scan_needs_little_memory():
    scan = dense(8.0, 300_000)
    columns = columns_of(scan)
    votes = np.zeros(len(scan), np.int64)
    tracemalloc.start()
    for blocks in cover(columns, 4096, 8):
        assert blocks.points.nbytes == len(blocks) * 4096 * 9 * 4
        votes[blocks.index[blocks.votes]] += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert votes.min() >= 1
    assert peak < 20e6


@pytest.mark.parametrize(
    ("scan", "sentence"),
    [
        (np.zeros((0, 6)), "holds no points, expected at least one; leave it out"),
        (np.zeros((5, 2)), "is an array of shape (5, 2), expected (points, 3); leave out other columns"),
        (np.zeros(6), "is an array of shape (3,), expected"),
        (np.full((5, 3), np.nan), "5 of 5 points have a NaN or infinite coordinate"),
        (np.full((5, 6), 255.0), "has red from 255 to 255, expected 0 to 1; divide it by 255"),
        (np.array([[0.0, 0, 0], [5000, 1, 1]]), "is 5000 m wide, expected at most 1000 m; scale it to meters"),
    ],
)
def test_invalid_scans_are_refused(scan: np.ndarray, sentence: str):
    with pytest.raises(UserError) as caught:
        columns_of(scan, "hall.ply")
    assert str(caught.value).startswith("hall.ply: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


# Blocks of any size


@given(scans(), st.sampled_from([0.3, 1.0, 2.5, 20.0]))
def test_a_scaled_scan_has_the_same_blocks_with_a_scaled_side(scan: np.ndarray, side: float):
    """Lengths are divided by the side, so that a network sees a scan and its enlarged copy alike."""
    one = columns_of(scan)
    larger = Columns.of(BlockLayout(4.0, one.layout.channels, {}), 4 * scan[:, :3], scan[:, 3:], "scan")
    for name in ("points", "index", "votes"):
        np.testing.assert_array_equal(getattr(all_of(one, 40), name), getattr(all_of(larger, 40), name))
    blocks = all_of(Columns.of(BlockLayout(side, one.layout.channels, {}), scan[:, :3], scan[:, 3:], "scan"), 40)
    assert (np.bincount(blocks.index[blocks.votes], minlength=len(scan)) >= 1).all()
    assert (np.abs(blocks.points[..., :2]) <= 0.5 + 1e-5).all()


HEIGHT = BlockLayout(1.0, ("x", "y", "height"), {})


@given(scans())
def test_heights_start_at_the_lowest_cell_around_a_block(scan: np.ndarray):
    columns = Columns.of(HEIGHT, scan[:, :3], scan[:, :0], "scan")
    blocks = all_of(columns, len(scan))
    xyz = relative_to_corner(scan)
    cells = np.minimum(np.floor(xyz[:, :2] / 0.5).astype(int), np.array(columns.shape) - 1)
    for block, corner, index in zip(blocks.points, blocks.corners, blocks.index, strict=True):
        around = ((cells >= corner - 2) & (cells <= corner + 3)).all(axis=1)
        grounds = []
        for cell in {tuple(cell) for cell in cells[around].tolist()}:
            heights = np.sort(xyz[(cells == cell).all(axis=1), 2])
            grounds.append(heights[len(heights) // 20])
        np.testing.assert_array_equal(block[:, 2], xyz[index, 2] - min(grounds))


def test_few_points_below_the_ground_do_not_move_it():
    rng = np.random.default_rng(0)
    scan = np.c_[rng.uniform(0, 4, (8000, 2)), rng.uniform(0, 0.1, 8000)].astype(np.float32)
    scan[:30, 2] = -50
    columns = Columns.of(HEIGHT, scan, scan[:, :0], "scan")
    assert (np.abs(columns.ground - 50) < 0.1).all()  # heights count from the lowest point


def test_features_are_scaled_and_clamped():
    layout = BlockLayout(1.0, ("x", "y", "height", "intensity"), {"intensity": 200.0})
    cloud = Cloud(np.zeros((4, 3), np.float32), fields={"intensity": np.array([0.0, 100, 200, 65535])})
    blocks = all_of(Columns.of(layout, cloud.points, layout.read(cloud, "tile.las"), "tile.las"), 4)
    found = dict(zip(blocks.index[0].tolist(), blocks.points[0, :, 3].tolist(), strict=True))
    assert found == {0: 0.0, 1: 0.5, 2: 1.0, 3: 1.0}


def test_a_file_without_the_features_is_refused():
    layout = BlockLayout(1.0, ("x", "y", "height", "red", "green", "blue", "intensity"), {"intensity": 1.0})
    bare = Cloud(np.zeros((1, 3), np.float32), fields={"gps_time": np.zeros(1)})
    with pytest.raises(UserError, match=r"tile.las: holds no colors, which the network reads; expected red"):
        layout.read(bare, "tile.las")
    colored = Cloud(bare.points, np.zeros((1, 3), np.float32), fields=bare.fields)
    with pytest.raises(UserError, match=r"tile.las: holds no column intensity, .*; found gps_time; use a network"):
        layout.read(colored, "tile.las")


@given(scans())
def test_overlapping_blocks_to_learn_from_are_those_that_cover_a_scan(scan: np.ndarray):
    columns = columns_of(scan)
    learned = grid_blocks(columns, 200, np.random.default_rng(0), step=1)
    covering = all_of(columns, 200)
    sizes = covering.votes.sum(axis=1)
    expected = covering.corners[sizes >= min(100, sizes.max())]
    np.testing.assert_array_equal(learned.corners, expected)


def test_only_chosen_blocks_are_cut():
    columns = columns_of(dense(6.0, 20_000))
    blocks = grid_blocks(columns, 64, np.random.default_rng(0), chosen=lambda corners: corners[:, 0] >= 6)
    assert blocks.corners[:, 0].tolist() == [6, 6, 6, 6, 6, 6, 8, 8, 8, 8, 8, 8, 10, 10, 10, 10, 10, 10]
    assert (columns.xyz[blocks.index][..., 0] >= 3).all()
    none = grid_blocks(columns, 64, np.random.default_rng(0), chosen=lambda corners: corners[:, 0] > 99)
    assert none.points.shape == (0, 64, 9)

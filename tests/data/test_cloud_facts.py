"""What inspect says of a cloud: measured exactly, and guessed only where a rule is sound."""

from pathlib import Path

import numpy as np
import pytest
from awkward_files import BYTES, P, gltf, las, ply, rows
from scipy.spatial import KDTree

from bipointnet.data.cloud_facts import facts_of, guess_unit, guess_up, inspect_cloud, median_spacing
from bipointnet.data.clouds import Cloud


def cloud_of(points: np.ndarray, **more: object) -> Cloud:
    return Cloud(points.astype(np.float32), **more)  # pyright: ignore[reportArgumentType]


def test_facts_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "scan.csv"
    path.write_text(
        "x,y,z,red,green,blue,intensity\n" + rows(P, BYTES, [3, 9, 5, 4], separator=",") + "nan,0,0,0,0,0,99\n"
    )
    facts = inspect_cloud(path)
    assert (facts["points"], facts["dropped"], facts["faces"]) == (4, 1, 0)
    assert facts["columns"] == ["x", "y", "z", "red", "green", "blue", "intensity"]
    assert facts["ranges"] == {"x": [-3, 0.25], "y": [-7, 8], "z": [-2, 16], "intensity": [3, 9]}
    assert (facts["colors"], facts["color_scale"]) == (True, 255)
    assert facts["extent"] == [3.25, 15, 18]
    assert "reads its colors" in facts["use"]


def test_ranges_are_those_of_the_file_also_far_from_the_origin() -> None:
    facts = facts_of(cloud_of(np.array(P), origin=(512_345.0, 5_412_345.0, 80.0)))
    assert facts["ranges"]["y"] == [5_412_338, 5_412_353]
    assert facts["unit"]["value"] == "meters"


@pytest.mark.parametrize("count", [2, 50, 499])
def test_spacing_is_the_median_distance_to_the_nearest_neighbor(count: int) -> None:
    points = np.random.default_rng(count).normal(size=(count, 3)).astype(np.float32)
    exact = KDTree(points).query(points, k=2)[0][:, 1]
    assert median_spacing(points) == pytest.approx(np.median(exact), rel=1e-5)


def test_spacing_of_large_clouds_and_of_copies() -> None:
    points = np.random.default_rng(0).random((30_000, 3)).astype(np.float32)
    exact = np.median(KDTree(points).query(points[::30], k=2)[0][:, 1])
    assert median_spacing(points) == pytest.approx(exact, rel=0.1)
    assert median_spacing(np.repeat(points, 3, axis=0)) == pytest.approx(exact, rel=0.1)
    assert median_spacing(np.zeros((100, 3), np.float32)) is None
    assert median_spacing(np.zeros((1, 3), np.float32)) is None


@pytest.mark.parametrize(
    ("size", "unit"),
    [(0.0, None), (0.4, None), (2.0, None), (6.0, "meters"), (350.0, "meters"), (6000.0, "millimeters")],
)
def test_the_unit_follows_from_the_extent(size: float, unit: str | None) -> None:
    assert guess_unit(cloud_of(np.zeros((1, 3))), np.array([size, size / 2, 0])).value == unit


def test_up_is_defined_by_the_format_or_shown_by_a_floor(tmp_path: Path) -> None:
    mesh = [{"attributes": {"POSITION": 0}, "mode": 0}]
    (tmp_path / "a.glb").write_bytes(gltf(mesh, [(np.array(P, "<f4"), {})]))
    (tmp_path / "a.laz").write_bytes(las("1.2", 0, ".laz"))
    (tmp_path / "a.ply").write_bytes(ply(rows(P), "float x, float y, float z"))
    found = {name: inspect_cloud(tmp_path / name)["up"]["value"] for name in ("a.glb", "a.laz", "a.ply")}
    assert found == {"a.glb": "y", "a.laz": "z", "a.ply": None}
    rng = np.random.default_rng(0)
    for axis in range(3):
        floor, things = rng.random((300, 3)), rng.normal(0.5, 0.1, size=(700, 3)).clip(0, 1)
        floor[:, axis] = 0
        assert guess_up(cloud_of(np.concatenate([floor, things]))).value == "xyz"[axis]
    assert guess_up(cloud_of(rng.normal(size=(1000, 3)))).value is None

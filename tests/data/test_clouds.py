"""clouds.py: reads every format, and has one sentence for every bad file.

Over 400 lines: all formats are written by the same helpers and compared with the same cloud.
"""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from awkward_files import PACKED, compressed, f4, npy, pcd, rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bipointnet.data import clouds, library_files
from bipointnet.data.clouds import read
from bipointnet.data.solids import Surface
from bipointnet.errors import UserError

laspy: Any = importlib.import_module("laspy")  # its types differ from its documentation

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PLY = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
PLY_FACE = "element face 1\nproperty list uchar int vertex_indices\n"
TRIANGLE = "0 0 0\n1 0 0\n0 1 0\n"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def some_points(count: int = 50) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(count, 3)).astype(np.float32)


def test_import_is_cheap() -> None:
    heavy = {"h5py", "lazrs", "pye57", "torch", "rich", "bipointnet._core"}
    code = f"import sys, bipointnet.data.clouds; print({heavy} & {{*sys.modules}})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


# Text


@QUICK
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 20), st.just(3)),
        elements=st.floats(-1e6, 1e6, allow_subnormal=False),
    ),
    st.sampled_from([" ", "  ", "\t", ",", ", ", ";", " ; "]),
    st.sampled_from(["", "# made by hand\n", "// X Y Z\n", "\n\n", "x y z\n", "x,y,z\n", "COUNT\n", "COUNT\nx;y;z\n"]),
    st.integers(0, 4),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([".xyz", ".txt", ".csv", ".pts"]),
)
def test_text_round_trip(
    tmp_path: Path, xyz: np.ndarray, separator: str, lead: str, extra: int, newline: str, suffix: str
) -> None:
    table = np.concatenate([xyz, np.full((len(xyz), extra), 7.5)], axis=1)
    lines = [separator.join(repr(float(value)) for value in row) for row in table]
    text = lead.replace("COUNT", str(len(xyz))) + "\n".join(lines) + "\n"
    for mark in " ,;":  # a header names all columns
        names = mark.join(f"value{i}" for i in range(extra))
        text = text.replace(f"x{mark}y{mark}z\n", f"x{mark}y{mark}z{mark}{names}\n" if extra else f"x{mark}y{mark}z\n")
    cloud = read(write(tmp_path / f"cloud{suffix}", text.replace("\n", newline)))
    assert cloud.points.dtype == np.float32
    assert cloud.colors is None
    assert cloud.faces is None
    extent = np.ptp(xyz, axis=0).max()
    found = cloud.points + np.array(cloud.origin)
    np.testing.assert_allclose(found, xyz, rtol=1e-6, atol=1e-5 * extent + 1e-30)


def test_a_header_names_the_columns_of_xyz(tmp_path: Path) -> None:
    cloud = read(write(tmp_path / "a.csv", '"id";"Z";"Y";"X"\n7;3;2;1\n8;6;5;4\n'))
    assert cloud.points.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_text_of_six_columns_keeps_xyz(tmp_path: Path) -> None:
    cloud = read(write(tmp_path / "airplane_0001.txt", "1,2,3,0,0,1\n4,5,6,0,1,0\n"))
    assert cloud.points.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("name", "text", "colors"),
    [
        ("a.txt", "0 0 0 255 0 51\n1 1 1 0 0 0\n", [[1, 0, 0.2], [0, 0, 0]]),
        ("a.txt", "0 0 0 0.5 0 1\n1 1 1 0 0 0\n", [[0.5, 0, 1], [0, 0, 0]]),
        ("a.txt", "0 0 0 0 0 1\n1 1 1 0 1 0\n", None),  # normals, or nearly black
        ("a.txt", "0 0 0 0 0 -1\n1 1 1 0 1 0\n", None),
        ("a.txt", "0 0 0 300 0 1\n1 1 1 0 1 0\n", None),
        ("a.pts", "2\n0 0 0 77 255 0 51\n1 1 1 5 0 0 0\n", [[1, 0, 0.2], [0, 0, 0]]),
        ("a.pts", "x y z red green blue i\n0 0 0 255 0 51 9\n1 1 1 0 0 0 7\n", [[1, 0, 0.2], [0, 0, 0]]),
        ("a.pts", "x y z i nx ny nz\n0 0 0 5 0.2 0.3 0.4\n", None),
        ("a.csv", "x,y,z,intensity,red,green,blue\n0,0,0,7,255,0,51\n1,1,1,7,0,0,0\n", [[1, 0, 0.2], [0, 0, 0]]),
        ("a.csv", "x,y,z,a,b,c\n0,0,0,7,255,0\n1,1,1,7,0,0\n", None),
    ],
)
def test_colors_of_text(tmp_path: Path, name: str, text: str, colors: list | None) -> None:
    found = read(write(tmp_path / name, text)).colors
    if colors is None or found is None:
        assert found is colors
    else:
        np.testing.assert_allclose(found, colors, atol=1e-6)


def test_colors_of_arrays(tmp_path: Path) -> None:
    table = np.array([[0, 0, 0, 255, 0, 51, 3], [1, 1, 1, 0, 0, 0, 4]])
    np.save(tmp_path / "a.npy", table)
    found = read(tmp_path / "a.npy").colors
    assert found is not None
    np.testing.assert_allclose(found, [[1, 0, 0.2], [0, 0, 0]], atol=1e-6)


def test_far_clouds_keep_their_shape(tmp_path: Path) -> None:
    xyz = some_points() + np.array([512_345.0, 5_412_345.0, 80.0])
    cloud = read(write(tmp_path / "scan.xyz", "\n".join(" ".join(map(repr, row)) for row in xyz.tolist())))
    np.testing.assert_allclose(cloud.points + np.array(cloud.origin), xyz, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1 2 3\n4 5 oops\n", "line 2, column 3: 'oops', expected a number"),
        ("# a\n\n1 2 3\n4 5\n", "line 4: 2 columns in '4 5', expected 3 as in line 3"),
        ("1 2\n3 4\n", "line 1: 2 columns in '1 2', expected at least 3: x, y and z"),
        ("1,5, 2,5, 3,5\n", "line 1: '1,5, 2,5, 3,5' with commas as separators and as decimal marks, expected "),
        ("1 2 3 4\n5 6 7\n", "line 2: 3 columns in '5 6 7', expected 4 as in line 1; the file is cut short"),
        ("3\n1 2 3\n4 5 6\n", "2 points, expected 3 as the file declares; it is cut short"),
        ("x y z\n", "0 points, expected at least 1"),
        ("# nothing\n", "0 points, expected at least 1"),
        ("1 nan 3\n1 2 inf\n", "no point with finite coordinates among 2"),
        ("1 2 1e300\n", "coordinates too large for float32"),
        ("hello\nworld\n", "line 1: the columns 'hello', expected x, y and z, or numbers; name them with --columns"),
    ],
)
def test_bad_text(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in error_of(write(tmp_path / "bad.xyz", text))


def test_points_without_a_return_are_left_out_or_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "scan.xyz", "1 2 3 7\n1 nan 3 8\n1 2 inf 9\n4 5 6 10\n")
    cloud = read(path, columns=("x", "y", "z", "intensity"))
    assert cloud.points.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert cloud.fields["intensity"].tolist() == [7, 10]
    assert cloud.kept is not None
    assert cloud.kept.tolist() == [0, 3]
    notes = clouds.dropped_notes(cloud.dropped, len(cloud.points))
    assert notes == ["2 of 4 points have no finite coordinates and were left out"]
    sentence = (
        "2 of 4 points with a NaN or infinite coordinate, the first is point 1 (counted from 0), expected none because"
    )
    assert sentence in error_of(path, strict=True)


def test_two_columns_of_one_name_are_both_kept(tmp_path: Path) -> None:
    cloud = read(write(tmp_path / "a.csv", "x,y,z,id,id\n1,2,3,4,5\n"))
    assert {name: values.tolist() for name, values in cloud.fields.items()} == {"id": [4], "id'": [5]}


def test_columns_are_not_for_files_that_name_theirs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.glb", "x")
    assert "--columns is for formats that do not name their columns" in error_of(path, columns=("x", "y", "z"))


def test_the_suffixes_are_those_of_the_core() -> None:
    from bipointnet import _core

    assert (*_core.cloud_suffixes().split(), *library_files.SUFFIXES) == clouds.SUFFIXES


def error_of(path: Path, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


# Meshes and other formats


@pytest.mark.parametrize("suffix", ["ply", "off", "obj", "stl", "glb", "gltf"])
def test_meshes(tmp_path: Path, suffix: str) -> None:
    import trimesh

    box = trimesh.creation.box(extents=(1, 2, 3))
    box.apply_translation((5, 0, 0))
    box.export(tmp_path / f"box.{suffix}")
    cloud = read(tmp_path / f"box.{suffix}")
    assert cloud.points.dtype == np.float32
    assert cloud.faces is not None
    assert cloud.faces.dtype == np.int64
    assert cloud.faces.shape == (12, 3)
    np.testing.assert_allclose(cloud.points.min(axis=0), (4.5, -1, -1.5))
    assert np.isclose(Surface(cloud.points[cloud.faces]).areas().sum(), 22)


@pytest.mark.parametrize("encoding", ["ascii", "binary"])
@pytest.mark.parametrize("colored", [True, False])
def test_ply_of_points(tmp_path: Path, encoding: str, colored: bool) -> None:
    import trimesh

    colors = np.array([[255, 0, 51, 255]] * 50, np.uint8) if colored else None
    data = trimesh.PointCloud(some_points(), colors=colors).export(file_type="ply", encoding=encoding)
    assert isinstance(data, bytes)
    cloud = read(write(tmp_path / "a.ply", data))
    np.testing.assert_allclose(cloud.points, some_points(), atol=1e-6)
    assert cloud.faces is None
    assert (cloud.colors is not None) == colored
    if cloud.colors is not None:
        np.testing.assert_allclose(cloud.colors, [[1, 0, 0.2]] * 50)


def test_glb_places_its_parts(tmp_path: Path) -> None:
    import trimesh

    scene = trimesh.Scene()
    for x in (0, 10):
        scene.add_geometry(trimesh.creation.box(), transform=trimesh.transformations.translation_matrix((x, 0, 0)))
    scene.export(tmp_path / "two.glb")
    cloud = read(tmp_path / "two.glb")
    assert cloud.faces is not None
    assert len(cloud.faces) == 24
    assert np.ptp(cloud.points[:, 0]) == 11


def test_obj_of_points(tmp_path: Path) -> None:
    cloud = read(write(tmp_path / "a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\n"))
    assert cloud.points.shape == (3, 3)
    assert cloud.faces is None


@pytest.mark.parametrize("header", ["OFF\n4 2 0\n", "OFF4 2 0\n", "OFF 4 2 0\n", "# made\nOFF\n# counts\n4 2 0\n\n"])
def test_off_headers(tmp_path: Path, header: str) -> None:
    cloud = read(write(tmp_path / "a.off", header + "0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n"))
    assert cloud.points.shape == (4, 3)
    assert cloud.faces is not None
    assert cloud.faces.tolist() == [[0, 1, 2], [0, 2, 3]]


def test_off_polygons_become_fans(tmp_path: Path) -> None:
    text = "OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3 255 0 0\n3 0 1 2\n"
    cloud = read(write(tmp_path / "a.off", text))
    assert cloud.faces is not None
    assert cloud.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 2]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.uint8])
def test_numpy(tmp_path: Path, dtype: type) -> None:
    xyz = (np.arange(15).reshape(5, 3)).astype(dtype)
    np.save(tmp_path / "a.npy", np.concatenate([xyz, xyz], axis=1))
    np.savez(tmp_path / "one.npz", anything=xyz)
    np.savez(tmp_path / "two.npz", points=xyz, normals=xyz * 2)
    for name in ("a.npy", "one.npz", "two.npz"):
        assert np.array_equal(read(tmp_path / name).points, xyz)


def test_pcd(tmp_path: Path) -> None:
    rgb = np.full(50, PACKED[0], "<u4").view("<f4")
    table = np.column_stack([some_points(), rgb]).astype("<f4")
    forms = {"ascii": rows(table, form="%.9g"), "binary": f4(table), "binary_compressed": compressed(table.T.tobytes())}
    for form, data in forms.items():
        content = pcd(data, "x y z rgb", "4 4 4 4", "F F F F", "1 1 1 1", width=50, form=form)
        found = read(write(tmp_path / "a.pcd", content))
        np.testing.assert_allclose(found.points, some_points(), atol=1e-6)
        assert found.colors is not None
        np.testing.assert_allclose(found.colors, [[1, 0, 0.2]] * 50)


@pytest.mark.parametrize("suffix", ["las", "laz"])
@pytest.mark.parametrize("full", [255, 65535])
def test_las(tmp_path: Path, suffix: str, full: int) -> None:
    xyz = some_points() + np.array([512_345.0, 5_412_345.0, 80.0])
    las = laspy.create(point_format=3, file_version="1.4")
    las.header.scales, las.header.offsets = [0.001] * 3, xyz.min(axis=0)
    las.x, las.y, las.z = xyz.T
    las.red = np.full(len(xyz), full)
    las.write(tmp_path / f"a.{suffix}")
    cloud = read(tmp_path / f"a.{suffix}")
    np.testing.assert_allclose(cloud.points + np.array(cloud.origin), xyz, atol=1e-3)
    assert cloud.colors is not None
    assert cloud.colors.tolist() == [[1, 0, 0]] * 50


def test_cut_scans(tmp_path: Path) -> None:
    las = laspy.create(point_format=0, file_version="1.2")
    las.x, las.y, las.z = some_points().T
    las.write(tmp_path / "a.las")
    las.write(tmp_path / "a.laz")
    write(tmp_path / "a.pcd", pcd(rows(some_points()), width=50))
    write(tmp_path / "a.npy", npy(some_points()))
    for name in ("a.las", "a.laz", "a.pcd", "a.npy"):
        whole = (tmp_path / name).read_bytes()
        for length in (5, 100, len(whole) // 2, len(whole) - 20 * 3, len(whole) - 20):
            sentence = error_of(write(tmp_path / f"cut{Path(name).suffix}", whole[:length]))
            assert "again" in sentence or "expected" in sentence


@pytest.mark.parametrize("offset", [103, 246, 254])  # counts of records, of extended records, of points
@pytest.mark.parametrize("suffix", ["las", "laz"])
def test_las_header_with_absurd_counts(tmp_path: Path, suffix: str, offset: int) -> None:
    las = laspy.create(point_format=6, file_version="1.4")
    las.x, las.y, las.z = some_points().T
    las.write(tmp_path / f"a.{suffix}")
    damaged = bytearray((tmp_path / f"a.{suffix}").read_bytes())
    damaged[offset] = 0x55
    sentence = error_of(write(tmp_path / f"a.{suffix}", bytes(damaged)))
    assert "its header" in sentence
    assert "copy" in sentence


@pytest.mark.parametrize(("suffix", "package", "extra"), [("laz", "lazrs", "laz"), ("e57", "pye57", "e57")])
def test_missing_package_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    sentence = error_of(write(tmp_path / f"a.{suffix}", "x"))
    assert "pip install " in sentence
    assert package in sentence
    assert f"(extra '{extra}')" in sentence


# Bad files


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.docx", "x", f"unknown suffix '.docx'; expected one of {' '.join(clouds.SUFFIXES)}"),
        ("a.ply", "", "the file is empty"),
        ("short.ply", PLY + "end_header\n0 0 0\n", "cut short after 1 item of element 'vertex', expected 3"),
        (
            "faces.ply",
            PLY + PLY_FACE.replace("1", "2") + "end_header\n" + TRIANGLE + "3 0 1 2\n",
            "cut short after 1 item of element 'face', expected 2",
        ),
        ("none.ply", PLY.replace("x 3", "x 0") + "end_header\n", "0 points"),
        (
            "nan.ply",
            PLY + PLY_FACE + "end_header\n0 0 0\n0 0 0\n0 nan 0\n3 0 1 2\n",
            "1 of 3 points with a NaN or infinite coordinate, the first is point 2",
        ),
        (
            "range.ply",
            PLY + PLY_FACE + "end_header\n" + TRIANGLE + "3 0 1 9\n",
            "triangle 0: the vertex 9, expected 0 to 2",
        ),
        ("flat.ply", PLY + PLY_FACE + "end_header\n" + TRIANGLE + "3 0 1 1\n", "1 triangles without an area"),
        ("a.off", "OFX\n3 1 0\n" + TRIANGLE + "3 0 1 2\n", "begins with 'OFX', expected OFF"),
        ("cut.off", "OFF\n3 1 0\n0 0 0\n", "cut short after 1 vertices, expected 3"),
        ("range.off", "OFF\n3 1 0\n" + TRIANGLE + "3 0 1 -1\n", "line 6: '-1', expected the index of a vertex"),
        ("words.off", "OFF\n3 1 0\n0 0 zero\n1 0 0\n0 1 0\n3 0 1 2\n", "line 3, column 3: 'zero', expected a number"),
        ("face.off", "OFF\n3 1 0\n" + TRIANGLE + "4 0 1 2\n", "line 6: 3 corners in '4 0 1 2', expected 4 as declared"),
        ("counts.off", "OFF", "expected the numbers of vertices, faces and edges"),
        ("none.off", "OFF\n0 0 0\n", "0 points"),
        ("range.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n", "line 4: the vertex 9, expected 1 to 3"),
        (
            "a.gltf",
            '{"asset":{"version":"2.0"},"buffers":[{"uri":"x.bin","byteLength":12}]}',
            "a.gltf: its buffer is the file 'x.bin', which is not in the same folder; copy it there",
        ),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    assert sentence in error_of(write(tmp_path / name, content))


# Any bytes are numbers in a file of raw float32.
@pytest.mark.parametrize("suffix", [suffix for suffix in clouds.SUFFIXES if suffix not in (".f32", ".raw")])
@pytest.mark.parametrize("content", [bytes(range(256)) * 4, b"hello world\n" * 20, b"\x00"])
def test_garbage_of_every_suffix(tmp_path: Path, suffix: str, content: bytes) -> None:
    error_of(write(tmp_path / f"garbage{suffix}", content))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert "there is no such file" in error_of(tmp_path / "none.ply")
    (tmp_path / "a.ply").mkdir()
    assert "is a folder, expected a file" in error_of(tmp_path / "a.ply")


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(3), "an array of shape (3,), expected (points, 3 or more)"),
        (np.zeros((4, 2)), "an array of shape (4, 2), expected (points, 3 or more)"),
        (np.zeros((2, 4, 3)), "an array of shape (2, 4, 3), expected"),
        (np.zeros((0, 3)), "0 points"),
        (np.zeros((4, 3), complex), "the type '<c16', expected real numbers"),
        (np.zeros((4, 3), "U1"), "the type '<U1', expected real numbers"),
        (np.full((4, 3), np.nan), "no point with finite coordinates among 4"),
        (np.array([[object()] * 3]), "Python objects (dtype object), expected numbers"),
    ],
)
def test_bad_arrays(tmp_path: Path, array: np.ndarray, sentence: str) -> None:
    np.save(tmp_path / "bad.npy", array, allow_pickle=True)
    assert sentence in error_of(tmp_path / "bad.npy")


def test_npz_without_points(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", xyz=some_points(), normals=some_points())
    assert "holds the arrays xyz, normals, expected one named 'points'" in error_of(tmp_path / "a.npz")

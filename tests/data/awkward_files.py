"""Awkward but valid cloud files, written in the manner of the programs that people use, with the points they hold.

`valid()` must be read, `refused()` must be refused, by Python and, if the core parses the format, by bipointnet-run.
Longer than 400 lines: it is a table.
"""

import io
import json
import struct
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Valid(NamedTuple):
    """A file, and what reading it gives.

    points: (N, 3) in the order of the file. colors: (N, 3) in [0, 1]. faces: the number of triangles. columns: for
    --columns. dropped: points without finite coordinates.
    """

    name: str
    data: bytes
    points: Any
    colors: Any = None
    faces: int = 0
    columns: tuple[str, ...] = ()
    dropped: int = 0


class Refused(NamedTuple):
    """A file, and a word of the sentence that refuses it."""

    name: str
    data: bytes
    word: str
    columns: tuple[str, ...] = ()


# Four corners that no reordering, swap of axes or merge leaves unchanged.
P = [[0.0, 1.5, -2.0], [0.25, 0.5, 4.0], [-3.0, 8.0, 16.0], [0.125, -7.0, 1.0]]
BYTES = [[255, 0, 51], [0, 102, 204], [255, 255, 255], [0, 0, 0]]
RGB = [[1, 0, 0.2], [0, 0.4, 0.8], [1, 1, 1], [0, 0, 0]]
XYZ = np.array(P)


def rows(*columns: Any, separator: str = " ", end: str = "\n", form: str = "%g") -> str:
    """One line per point."""
    table = np.column_stack(columns)
    return "".join(separator.join(form % value for value in row) + end for row in table)


def f4(*columns: Any) -> bytes:
    return np.column_stack(columns).astype("<f4").tobytes()


def text(name: str, content: str, points: Any = P, colors: Any = None, **more: Any) -> Valid:
    return Valid(name, content.encode(), points, colors, **more)


I4 = [7, 9, 0, 255]
PLAIN = rows(P)
TEXTS = [
    text("plain.xyz", PLAIN),
    text("windows-line-ends.xyz", rows(P, end="\r\n")),
    text("mac-line-ends.xyz", rows(P, end="\r")),
    text("no-newline-at-the-end.xyz", PLAIN.rstrip()),
    text("byte-order-mark.csv", "\ufeffx,y,z\n" + rows(P, separator=",")),
    text("tabs-and-blanks.txt", rows(P, separator=" \t  ", end=" \n")),
    text("excel-semicolons.csv", "X;Y;Z\n" + rows(P, separator=";")),
    text("german-decimal-commas.csv", "X;Y;Z\n" + rows(P, separator=";").replace(".", ",")),
    text("quoted-names.csv", '"id";"Z";"Y";"X"\n' + rows(I4, XYZ[:, ::-1], separator=";")),
    text("cloudcompare.asc", "//X Y Z R G B Scalar_field\n" + rows(P, BYTES, I4), P, RGB),
    text("cloudcompare-count.txt", "//X Y Z Rf Gf Bf\n4\n" + rows(P, np.array(BYTES) / 255, form="%.8f"), P, RGB),
    text("percent-header.txt", "% x y z intensity\n" + rows(P, I4)),
    text("units-in-header.txt", "X [m] Y [m] Z [m] R G B\n" + rows(P, BYTES), P, RGB),
    text("units-in-parentheses.csv", "x(m),y(m),z(m)\n" + rows(P, separator=",")),
    text("id-px-py-pz.csv", "id,px,py,pz\n" + rows(I4, P, separator=",")),
    text("paraview.csv", '"Intensity","Points:0","Points:1","Points:2"\n' + rows(I4, P, separator=",")),
    text(
        "paraview-5.csv", '"RGB:0","RGB:1","RGB:2","Points_0","Points_1","Points_2"\n' + rows(BYTES, P, separator=",")
    ),
    text("pdal-comment-header.txt", "# id id2 time x y z\n" + rows(I4, I4, I4, P)),
    text(
        "pdal-text-writer.csv",
        '"X","Y","Z","Intensity","Red","Green","Blue"\n' + rows(P, I4, BYTES, separator=","),
        P,
        RGB,
    ),
    text("numpy-savetxt.txt", "# x y z\n" + rows(P, form="%.18e")),
    text("pandas-index.csv", ",x,y,z\n" + rows(range(4), P, separator=",")),
    text("text-column.csv", "x,y,z,label\n" + "".join(f"{x},{y},{z},chair\n" for x, y, z in P)),
    text("modelnet40-normals.txt", rows(P, [[0, 0, 1], [0, -1, 0], [1, 0, 0], [0.6, 0.8, 0]], separator=",")),
    text("s3dis-room.txt", rows(P, BYTES), P, RGB),
    text("leica.pts", "4\n" + rows(P, [-1200, 3, 5, 90], BYTES), P, RGB),
    text("leica-two-scans.pts", "2\n" + rows(P[:2]) + "2\n" + rows(P[2:])),
    text("shapenet-part-v0.pts", rows(P, form="%.5f")),
    text("open3d.xyzn", rows(P, [[0, 0, 1]] * 4)),
    text("open3d.xyzrgb", rows(P, np.array(BYTES) / 255, form="%.10f"), P, RGB),
    text("comments-and-empty-lines.xyz", "# made\n\n" + PLAIN.replace("\n", "\n\n# more\n")),
    text("exponents.xyz", "0 15e-1 -2.0E+00\n.25 +0.5 4.\n-3 8 1.6e1\n1.25e-1 -7 1\n"),
    text("matlab-nan.txt", "NaN NaN NaN\n" + PLAIN + "nan 1 2\n", dropped=2),
    text("visual-studio-nan.xyz", "1.#QNAN -1.#IND 0\n" + PLAIN, dropped=1),
    text("infinite.xyz", PLAIN + "inf 0 0\n0 -inf 0\n", dropped=2),
    text("given-columns.txt", rows(I4, XYZ[:, ::-1]), columns=("-", "z", "y", "x")),
    text("given-columns-over-header.csv", "a,b,c\n" + rows(P, separator=","), columns=("x", "y", "z")),
    text("UPPER.XYZ", PLAIN),
    text("two.dots.in.name.xyz", PLAIN),
    Valid("latin-1-comment.xyz", b"# B\xe4ume\n" + PLAIN.encode(), P),
]

# Leica's PTX: columns, rows, the scanner's place and axes, and the matrix that places the points.
PTX_MATRIX = "0 1 0 0\n-1 0 0 0\n0 0 1 0\n10 20 30 1\n"  # a row vector times this: turns x to y, moves by (10, 20, 30)


def ptx(points: Any, *more: Any, shape: str = "4\n1\n") -> str:
    place = "10 20 30\n0 1 0\n-1 0 0\n0 0 1\n"
    return shape + place + PTX_MATRIX + rows(points, *more)


def placed(points: Any) -> np.ndarray:
    x, y, z = np.array(points, float).T
    return np.stack([10 - y, 20 + x, 30 + z], axis=1)


PTX = [
    text("leica.ptx", ptx(P, [0.1, 0.2, 0.3, 0.4]), placed(P)),
    text("leica-colors.ptx", ptx(P, [0.1, 0.2, 0.3, 0.4], BYTES, shape="2\n2\n"), placed(P), RGB),
    text("leica-two-scans.ptx", ptx(P, [0.5] * 4) + ptx(P[:2], [0.5] * 2, shape="1\n2\n"), placed([*P, *P[:2]])),
]


def ply(body: bytes | str, properties: str, more: str = "", form: str = "ascii", vertices: int = 4) -> bytes:
    names = "".join(f"property {line}\n" for line in properties.split(", "))
    header = f"ply\nformat {form} 1.0\n{{comment}}element vertex {vertices}\n{names}{more}end_header\n"
    return header.format(comment="comment made by a test\n").encode() + (
        body.encode() if isinstance(body, str) else body
    )


FXYZ = "float x, float y, float z"
FACE = "element face 2\nproperty list uchar int vertex_indices\n"
LITTLE, BIG = "binary_little_endian", "binary_big_endian"
TRIANGLES = "3 0 1 2\n3 0 2 3\n"


def records(dtype: str, *columns: Any) -> bytes:
    """Packed records; dtype: such as '<f4 <f4 <f4 u1'."""
    types = np.dtype([(f"f{i}", kind) for i, kind in enumerate(dtype.split())])
    table = np.column_stack(columns)
    array = np.empty(len(table), types)
    for i in range(table.shape[1]):
        array[f"f{i}"] = table[:, i]
    return array.tobytes()


def list_of(*indices: int, kind: str = "<i4", count: str = "u1") -> bytes:
    return np.array(len(indices), count).tobytes() + np.array(indices, kind).tobytes()


PLYS = [
    Valid("ascii.ply", ply(PLAIN + TRIANGLES, FXYZ, FACE), P, None, 2),
    Valid(
        "cloudcompare-binary.ply",
        ply(
            records("<f4 <f4 <f4 u1 u1 u1 <f4", P, BYTES, I4),
            FXYZ + ", uchar red, uchar green, uchar blue, float scalar_Intensity",
            form=LITTLE,
        ),
        P,
        RGB,
    ),
    Valid(
        "big-endian.ply",
        ply(
            records(">f8 >f8 >f8", P) + list_of(0, 1, 2, kind=">i4") + list_of(0, 2, 3, kind=">i4"),
            FXYZ.replace("float", "double"),
            FACE,
            BIG,
        ),
        P,
        None,
        2,
    ),
    Valid(
        "blender-mixed-polygons.ply",
        ply(
            records("<f4 " * 3, P) + list_of(0, 1, 2, 3, kind="<u4") + list_of(0, 1, 3, kind="<u4"),
            FXYZ,
            FACE.replace("uchar int", "uchar uint"),
            LITTLE,
        ),
        P,
        None,
        3,
    ),
    Valid(
        "blender-ascii-quads.ply",
        ply(
            rows(P, [[0, 0, 1]] * 4, [[0.5, 0.5]] * 4) + "4 0 1 2 3\n3 0 1 3\n",
            FXYZ + ", float nx, float ny, float nz, float s, float t",
            FACE,
        ),
        P,
        None,
        3,
    ),
    Valid(
        "element-edge.ply",
        ply(
            PLAIN + TRIANGLES + "0 1\n1 2\n",
            FXYZ,
            FACE + "element edge 2\nproperty int vertex1\nproperty int vertex2\n",
        ),
        P,
        None,
        2,
    ),
    Valid(
        "texture-per-face.ply",
        ply(
            PLAIN + "3 0 1 2 6 0 0 1 0 0 1\n3 0 2 3 6 0 0 1 0 0 1\n",
            FXYZ,
            FACE + "property list uchar float texcoord\n",
        ),
        P,
        None,
        2,
    ),
    Valid(
        "meshlab-texture-number.ply",
        ply(
            records("<f4 " * 3 + "u1 " * 4, P, BYTES, [255] * 4)
            + (list_of(0, 1, 2) + list_of(*[0] * 6, kind="<f4") + struct.pack("<i", 0)) * 2,
            FXYZ + ", uchar red, uchar green, uchar blue, uchar alpha",
            FACE + "property list uchar float texcoord\nproperty int texnumber\n",
            LITTLE,
        ),
        P,
        RGB,
        2,
    ),
    Valid(
        "faces-before-vertices.ply",
        b"ply\nformat ascii 1.0\nelement face 1\nproperty list uchar int vertex_index\n"
        b"element vertex 4\nproperty float x\nproperty float y\nproperty float z\nend_header\n3 0 1 2\n"
        + PLAIN.encode(),
        P,
        None,
        1,
    ),
    Valid("windows-header.ply", ply(rows(P, end="\r\n"), FXYZ).replace(b"\n", b"\r\n").replace(b"\r\r", b"\r"), P),
    Valid(
        "open3d-double-colors.ply",
        ply(
            records("<f8 <f8 <f8 u1 u1 u1", P, BYTES),
            "double x, double y, double z, uchar red, uchar green, uchar blue",
            form=LITTLE,
        ),
        P,
        RGB,
    ),
    Valid(
        "float-colors.ply",
        ply(rows(P, np.array(BYTES) / 255, form="%.9g"), FXYZ + ", float red, float green, float blue"),
        P,
        RGB,
    ),
    Valid(
        "sixteen-bit-colors.ply",
        ply(rows(P, np.array(BYTES) * 257, form="%.9g"), FXYZ + ", ushort red, ushort green, ushort blue"),
        P,
        RGB,
    ),
    Valid(
        "diffuse-colors.ply",
        ply(rows(P, BYTES), FXYZ + ", uchar diffuse_red, uchar diffuse_green, uchar diffuse_blue"),
        P,
        RGB,
    ),
    Valid(
        "pcl-camera-element.ply",
        ply(
            PLAIN + "1 0 0 0 1 0 0 0 1 0\n",
            FXYZ,
            "element camera 1\n" + "".join(f"property float a{i}\n" for i in range(10)),
        ),
        P,
    ),
    Valid(
        "pcl-range-grid.ply",
        ply(PLAIN + "1 0\n0\n", FXYZ, "element range_grid 2\nproperty list uchar int vertex_indices\n"),
        P,
    ),
    Valid("types-of-1994.ply", ply(PLAIN, "float32 x, float64 y, float32 z"), P),
    Valid("colors-first.ply", ply(rows(BYTES, P), "uchar red, uchar green, uchar blue, " + FXYZ), P, RGB),
    Valid(
        "two-equal-vertices.ply", ply(PLAIN + PLAIN + "3 0 1 2\n3 4 6 7\n", FXYZ, FACE, vertices=8), [*P, *P], None, 2
    ),
    Valid("unused-vertices.ply", ply(PLAIN + "3 1 2 3\n3 1 2 3\n", FXYZ, FACE), P, None, 2),
    Valid("no-return.ply", ply(records("<f4 " * 3, [*P, [np.nan] * 3]), FXYZ, form=LITTLE, vertices=5), P, dropped=1),
    Valid(
        "strange-property.ply",
        ply("".join(f"{x} {y} {z} 3 7 8 9\n" for x, y, z in P), FXYZ + ", list uchar int views"),
        P,
    ),
    Valid("bytes-after-the-end.ply", ply(records("<f4 " * 3, P), FXYZ, form=LITTLE) + b"\0\0\n", P),
]


def pcd(
    data: bytes | str,
    fields: str = "x y z",
    size: str = "4 4 4",
    kind: str = "F F F",
    count: str | None = "1 1 1",
    width: int = 4,
    height: int = 1,
    form: str = "ascii",
    version: str = "0.7",
    view: bool = True,
) -> bytes:
    lines = [
        "# .PCD v.7 - Point Cloud Data file format",
        f"VERSION {version}",
        f"FIELDS {fields}",
        f"SIZE {size}",
        f"TYPE {kind}",
    ]
    lines += [f"COUNT {count}"] if count is not None else []
    lines += [f"WIDTH {width}", f"HEIGHT {height}"] + (["VIEWPOINT 0 0 0 1 0 0 0"] if view else [])
    header = "\n".join([*lines, f"POINTS {width * height}", f"DATA {form}", ""])
    return header.encode() + (data.encode() if isinstance(data, str) else data)


def lzf(plain: bytes) -> bytes:
    """LZF of literal runs only: valid, and needs no compressor."""
    return b"".join(bytes([len(plain[i : i + 32]) - 1]) + plain[i : i + 32] for i in range(0, len(plain), 32))


def compressed(plain: bytes) -> bytes:
    packed = lzf(plain)
    return struct.pack("<II", len(packed), len(plain)) + packed


PACKED = [r << 16 | g << 8 | b for r, g, b in BYTES]
PACKED_FLOATS = np.array(PACKED, "<u4").view("<f4")
# A reference to earlier bytes: "aaaa..." as LZF stores it. 48 bytes of zeros: four points at the origin, all the same.
ZEROS = struct.pack("<II", 5, 48) + bytes([0, 0, 0xE0, 47 - 9, 0])
NAN = float("nan")
PCDS = [
    Valid("pcl-ascii.pcd", pcd(PLAIN), P),
    Valid("pcl-binary.pcd", pcd(f4(P), form="binary"), P),
    Valid("pcl-compressed.pcd", pcd(compressed(np.array(P, "<f4").T.tobytes()), form="binary_compressed"), P),
    Valid(
        "pcl-bunny-version-5.pcd",
        (
            "# .PCD v.5 - Point Cloud Data file format\nVERSION .5\nFIELDS x y z\nSIZE 4 4 4\n"
            "TYPE F F F\nCOUNT 1 1 1\nWIDTH 4\nHEIGHT 1\nPOINTS 4\nDATA ascii\n" + PLAIN
        ).encode(),
        P,
    ),
    Valid(
        "version-6-columns.pcd",
        ("VERSION .6\nCOLUMNS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 4\nHEIGHT 1\nDATA ascii\n" + PLAIN).encode(),
        P,
    ),
    Valid("organized-with-nan.pcd", pcd(PLAIN + "nan nan nan\nnan nan nan\n", width=3, height=2), P, dropped=2),
    Valid("kinect-binary-nan.pcd", pcd(f4([[NAN] * 3, *P, [NAN] * 3]), width=3, height=2, form="binary"), P, dropped=2),
    Valid("several-blanks.pcd", pcd(rows(P, separator="   ", end=" \n")), P),
    Valid("tabs.pcd", pcd(rows(P, separator="\t")), P),
    Valid("capital-fields.pcd", pcd(PLAIN, fields="X Y Z"), P),
    Valid("no-count.pcd", pcd(PLAIN, count=None), P),
    Valid("no-viewpoint.pcd", pcd(PLAIN, view=False), P),
    Valid(
        "rgb-as-float.pcd",
        pcd(f4(P, PACKED_FLOATS), "x y z rgb", "4 4 4 4", "F F F F", "1 1 1 1", form="binary"),
        P,
        RGB,
    ),
    Valid(
        "rgb-as-text.pcd",
        pcd(
            "".join(f"{x} {y} {z} {c!r}\n" for (x, y, z), c in zip(P, map(float, PACKED_FLOATS), strict=True)),
            "x y z rgb",
            "4 4 4 4",
            "F F F F",
            "1 1 1 1",
        ),
        P,
        RGB,
    ),
    Valid(
        "rgb-as-unsigned.pcd", pcd(rows(P, PACKED, form="%.10g"), "x y z rgb", "4 4 4 4", "F F F U", "1 1 1 1"), P, RGB
    ),
    Valid(
        "rgba.pcd",
        pcd(
            b"".join(struct.pack("<fffI", *xyz, 0xFF000000 | c) for xyz, c in zip(P, PACKED, strict=True)),
            "x y z rgba",
            "4 4 4 4",
            "F F F U",
            "1 1 1 1",
            form="binary",
        ),
        P,
        RGB,
    ),
    Valid(
        "ros-padding.pcd",
        pcd(
            b"".join(struct.pack("<fff4sf12s", *xyz, b"", 7, b"") for xyz in P),
            "x y z _ intensity _",
            "4 4 4 1 4 1",
            "F F F U F U",
            "1 1 1 4 1 12",
            form="binary",
        ),
        P,
    ),
    Valid("descriptor-count.pcd", pcd(rows(P, [[1, 2, 3]] * 4), "x y z fpfh", "4 4 4 4", "F F F F", "1 1 1 3"), P),
    Valid("doubles.pcd", pcd(np.array(P, "<f8").tobytes(), size="8 8 8", form="binary"), P),
    Valid(
        "compressed-intensity.pcd",
        pcd(
            compressed(np.array(P, "<f4").T.tobytes() + bytes(I4)),
            "x y z intensity",
            "4 4 4 1",
            "F F F U",
            "1 1 1 1",
            form="binary_compressed",
        ),
        P,
    ),
    Valid("compressed-references.pcd", pcd(ZEROS, form="binary_compressed"), [[0, 0, 0]] * 4),
    Valid("windows-line-ends.pcd", pcd(PLAIN).replace(b"\n", b"\r\n"), P),
]

OFF_BODY = PLAIN + "3 0 1 2\n3 0 2 3\n"
OFFS = [
    text("plain.off", "OFF\n4 2 0\n" + OFF_BODY, faces=2),
    text("modelnet-joined-header.off", "OFF4 2 0\n" + OFF_BODY, faces=2),
    text("counts-in-the-first-line.off", "OFF 4 2 0\n" + OFF_BODY, faces=2),
    text("comments.off", "# made\nOFF\n# counts\n4 2 0\n\n" + OFF_BODY.replace("\n", "\n# \n"), faces=2),
    text("colors-per-vertex.off", "COFF\n4 2 0\n" + rows(P, BYTES, [255] * 4) + TRIANGLES, P, RGB, faces=2),
    text("colors-per-face.off", "OFF\n4 2 0\n" + PLAIN + "3 0 1 2 255 0 0\n4 0 1 2 3 0.5 0.5 0.5\n", faces=3),
    text("points-only.off", "OFF\n4 0 0\n" + PLAIN),
    text("normals.off", "NOFF\n4 2 0\n" + rows(P, [[0, 0, 1]] * 4) + TRIANGLES, faces=2),
    text("no-edge-count.off", "OFF\n4 2\n" + OFF_BODY, faces=2),
]

V = "".join(f"v {x} {y} {z}\n" for x, y, z in P)
OBJS = [
    text("points.obj", V),
    text(
        "blender.obj",
        "# Blender 4.1\nmtllib missing.mtl\no Cube\n"
        + V
        + "vn 0 0 1\nvt 0 0\ns 0\nusemtl Mat\nf 1/1/1 2/1/1 3/1/1 4/1/1\n",
        faces=2,
    ),
    text("negative-indices.obj", V + "f -4 -3 -2\nf -4//-1 -2//-1 -1//-1\nvn 0 0 1\n", faces=2),
    text(
        "meshlab-vertex-colors.obj",
        "".join(
            f"v {x} {y} {z} {r / 255:.6f} {g / 255:.6f} {b / 255:.6f}\n"
            for (x, y, z), (r, g, b) in zip(P, BYTES, strict=True)
        )
        + "f 1 2 3\n",
        P,
        RGB,
        faces=1,
    ),
    text("vertices-after-faces.obj", "f 1 2 3\n" + V, faces=1),
    text("equal-vertices-stay.obj", V + V + "f 1 2 7\n", [*P, *P], faces=1),
    text("unused-vertices-stay.obj", V + "f 2 3 4\n", faces=1),
    text("groups-and-lines.obj", "g a b\n" + V + "l 1 2\np 1\nf 1 2 3\ng c\nf 1 3 4\n", faces=2),
    text("continued-lines.obj", V + "f 1 2 \\\n3\n", faces=1),
    text("homogeneous.obj", V.replace("\n", " 1.0\n") + "f 1 2 3\n", faces=1),
    text(
        "windows-and-blanks.obj", "\r\n" + V.replace("\n", "  \r\n").replace("v ", "v   ") + "f  1  2  3 \r\n", faces=1
    ),
]

CORNERS = [P[0], P[1], P[2], P[0], P[2], P[3]]


def stl_text(triangles: Any) -> str:
    facets = ""
    for a, b, c in triangles:
        corners = "".join(f"      vertex {x:e} {y:e} {z:e}\n" for x, y, z in (a, b, c))
        facets += f"  facet normal 0 0 1\n    outer loop\n{corners}    endloop\n  endfacet\n"
    return f"solid made by a test\n{facets}endsolid\n"


def stl_binary(triangles: Any, header: bytes = b"", extra: int = 0) -> bytes:
    body = b"".join(struct.pack("<12fH", 0, 0, 1, *np.ravel(t), extra) for t in triangles)
    return header.ljust(80, b"\0") + struct.pack("<I", len(triangles)) + body


PAIRS = [CORNERS[:3], CORNERS[3:]]
STLS = [
    text("ascii.stl", stl_text(PAIRS), CORNERS, faces=2),
    Valid("binary.stl", stl_binary(PAIRS), CORNERS, None, 2),
    Valid("binary-that-begins-with-solid.stl", stl_binary(PAIRS, b"solid exported by a program"), CORNERS, None, 2),
    Valid("attribute-bytes.stl", stl_binary(PAIRS, extra=0x8421), CORNERS, None, 2),
    text("capitals.stl", stl_text(PAIRS).upper(), CORNERS, faces=2),
    text("two-solids.stl", stl_text(PAIRS[:1]) + stl_text(PAIRS[1:]), CORNERS, faces=2),
]


def npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def structured(names: str, kinds: str, *columns: Any) -> np.ndarray:
    array = np.empty(4, [(name, kind) for name, kind in zip(names.split(), kinds.split(), strict=True)])
    for name, column in zip(names.split(), np.column_stack(columns).T, strict=True):
        array[name] = column
    return array


NPYS = [
    Valid("float32.npy", npy(XYZ.astype("<f4")), P),
    Valid("float64.npy", npy(XYZ), P),
    Valid("float16.npy", npy(XYZ.astype("<f2")), P),
    Valid("big-endian.npy", npy(XYZ.astype(">f4")), P),
    Valid("fortran-order.npy", npy(np.asfortranarray(XYZ)), P),
    Valid("version-2.npy", npy(XYZ, (2, 0)), P),
    Valid("int16.npy", npy(np.array([[1, -2, 3], [4, 5, -600]], "<i2")), [[1, -2, 3], [4, 5, -600]]),
    Valid("colors-of-255.npy", npy(np.column_stack([P, BYTES])), P, RGB),
    Valid("structured.npy", npy(structured("intensity x y z", "<f4 <f4 <f8 <f4", I4, P)), P),
    Valid("ros-numpy-structured.npy", npy(structured("x y z r g b", "<f4 <f4 <f4 u1 u1 u1", P, BYTES)), P, RGB),
    Valid("no-return.npy", npy(np.array([*P, [np.nan, 0, 0]])), P, dropped=1),
]

SEVEN = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15], [16, 17, 18], [19, 20, 21]]
BINS = [
    Valid("000123.bin", f4(P, np.array(I4) / 255), P),  # KITTI
    Valid("0000000007.bin", f4(P, np.array(I4) / 255), P),  # KITTI raw
    Valid("n015-lidar.pcd.bin", f4(P, I4, I4), P),  # nuScenes
    Valid("given-columns.bin", f4(I4, XYZ[:, ::-1]), P, columns=("-", "z", "y", "x")),
    Valid("seven-triples.bin", f4(SEVEN), SEVEN, columns=("x", "y", "z")),
    Valid("triples.f32", f4(P), P),
    Valid("triples.raw", f4(P), P),
]


def las(version: str, point_format: int, suffix: str = ".las", **columns: Any) -> bytes:
    import laspy

    cloud: Any = laspy.create(point_format=point_format, file_version=version)
    cloud.header.scales, cloud.header.offsets = [0.001] * 3, [0, 0, 0]
    cloud.x, cloud.y, cloud.z = XYZ.T
    for name, values in columns.items():
        setattr(cloud, name, np.array(values))
    file = io.BytesIO()
    cloud.write(file, do_compress=suffix == ".laz")
    return file.getvalue()


def las_10() -> bytes:
    """LAS 1.0 as old programs wrote it: two bytes of signature before the points."""
    data = bytearray(las("1.2", 0))
    data[24:26] = b"\x01\x00"
    start = struct.unpack_from("<I", data, 96)[0]
    struct.pack_into("<I", data, 96, start + 2)
    return bytes(data[:start] + b"\xdd\xcc" + data[start:])


def lasers() -> list[Valid]:
    wide = dict(zip(("red", "green", "blue"), (np.array(BYTES) * 257).T, strict=True))
    narrow = dict(zip(("red", "green", "blue"), np.array(BYTES).T, strict=True))
    found = []
    for suffix in (".las", ".laz"):
        found += [
            Valid(f"pdal-1.2-format-0{suffix}", las("1.2", 0, suffix), P),
            Valid(f"pdal-1.4-format-6{suffix}", las("1.4", 6, suffix, classification=[2, 2, 6, 9]), P),
            Valid(f"pdal-1.4-format-7{suffix}", las("1.4", 7, suffix, **wide), P, RGB),
            Valid(f"lastools-8-bit-colors{suffix}", las("1.2", 3, suffix, **narrow), P, RGB),
        ]
    return [*found, Valid("version-1.0.las", las_10(), P)]


def e57(scans: list[dict[str, Any]], poses: list[Any]) -> bytes:
    import importlib

    pye57: Any = importlib.import_module("pye57")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.e57"
        file = pye57.E57(str(path), mode="w")
        for scan, (rotation, translation) in zip(scans, poses, strict=True):
            file.write_scan_raw(scan, rotation=np.array(rotation, float), translation=np.array(translation, float))
        file.close()
        return path.read_bytes()


def e57_scan(points: Any, colors: Any = None, **more: Any) -> dict[str, np.ndarray]:
    x, y, z = np.array(points, np.float64).T
    scan = {"cartesianX": x.copy(), "cartesianY": y.copy(), "cartesianZ": z.copy(), **more}
    if colors is not None:
        red, green, blue = np.array(colors, np.uint8).T
        scan |= {"colorRed": red.copy(), "colorGreen": green.copy(), "colorBlue": blue.copy()}
    return scan


STRAIGHT = ([1, 0, 0, 0], [0, 0, 0])
TURNED = ([np.sqrt(0.5), 0, 0, np.sqrt(0.5)], [10, 20, 30])  # x to y, then moved, as in PTX_MATRIX


def surveys() -> list[Valid]:
    invalid = np.array([0, 0, 0, 0, 2], np.int8)
    return [
        Valid("one-scan.e57", e57([e57_scan(P, BYTES, intensity=np.array(I4, np.float32))], [STRAIGHT]), P, RGB),
        Valid("two-scans.e57", e57([e57_scan(P), e57_scan(P)], [STRAIGHT, TURNED]), [*P, *placed(P)]),
        Valid(
            "no-return.e57", e57([e57_scan([*P, [0, 0, 0]], cartesianInvalidState=invalid)], [STRAIGHT]), P, dropped=1
        ),
    ]


def gltf(
    primitives: list[dict[str, Any]],
    arrays: list[tuple[np.ndarray, dict[str, Any]]],
    nodes: list[dict[str, Any]] | None = None,
    binary: bool = True,
    **more: Any,
) -> bytes:
    """A document with one mesh; each array becomes a buffer view and an accessor."""
    kinds = {"|i1": 5120, "|u1": 5121, "<i2": 5122, "<u2": 5123, "<u4": 5125, "<f4": 5126}
    data, views, accessors = b"", [], []
    for array, fields in arrays:
        views.append({"buffer": 0, "byteOffset": len(data), "byteLength": array.nbytes})
        width = 1 if array.ndim == 1 else array.shape[1]
        kind = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}[width]
        accessors.append(
            {"bufferView": len(views) - 1, "componentType": kinds[array.dtype.str], "count": len(array), "type": kind}
            | fields
        )
        data += array.tobytes() + b"\0" * (-array.nbytes % 4)
    nodes = [{"mesh": 0}] if nodes is None else nodes
    children = {child for node in nodes for child in node.get("children", [])}
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [i for i in range(len(nodes)) if i not in children]}],
        "nodes": nodes,
        "meshes": [{"primitives": primitives}],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"byteLength": len(data)}],
    } | more
    if not binary:
        import base64

        document["buffers"][0]["uri"] = "data:application/octet-stream;base64," + base64.b64encode(data).decode()
        return json.dumps(document).encode()
    return glb(document, data)


def glb(document: dict[str, Any], data: bytes) -> bytes:
    text_part = json.dumps(document).encode()
    text_part += b" " * (-len(text_part) % 4)
    body = struct.pack("<I4s", len(text_part), b"JSON") + text_part + struct.pack("<I4s", len(data), b"BIN\0") + data
    return struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body


F = XYZ.astype("<f4")
INDICES = np.array([0, 1, 2, 0, 2, 3], "<u2")
MESH = [{"attributes": {"POSITION": 0}, "indices": 1}]
CLOUD = [{"attributes": {"POSITION": 0, "COLOR_0": 1}, "mode": 0}]
GLTFS = [
    Valid("triangles.glb", gltf(MESH, [(F, {}), (INDICES, {})]), P, None, 2),
    Valid("triangles.gltf", gltf(MESH, [(F, {}), (INDICES, {})], binary=False), P, None, 2),
    Valid("no-indices.glb", gltf([{"attributes": {"POSITION": 0}}], [(F[:3], {})]), P[:3], None, 1),
    Valid("strip.glb", gltf([{**MESH[0], "mode": 5}], [(F, {}), (np.arange(4, dtype="u1"), {})]), P, None, 2),
    Valid("fan.glb", gltf([{**MESH[0], "mode": 6}], [(F, {}), (np.arange(4, dtype="u1"), {})]), P, None, 2),
    Valid("points-with-colors.glb", gltf(CLOUD, [(F, {}), (np.array(BYTES, "u1"), {"normalized": True})]), P, RGB),
    Valid("colors-with-alpha.glb", gltf(CLOUD, [(F, {}), (np.column_stack([RGB, [1] * 4]).astype("<f4"), {})]), P, RGB),
    Valid(
        "dark-sixteen-bit-colors.glb",
        gltf(CLOUD, [(F, {}), (np.array([[200, 0, 0]] * 4, "<u2"), {"normalized": True})]),
        P,
        [[200 / 65535, 0, 0]] * 4,
    ),
    Valid(
        "moved-parts.glb",
        gltf(
            MESH,
            [(F, {}), (INDICES, {})],
            [
                {"children": [1, 2], "translation": [10, 20, 30]},
                {"mesh": 0, "rotation": [0, 0, np.sqrt(0.5), np.sqrt(0.5)]},
                {"mesh": 0, "scale": [2, 2, 2], "translation": [-10, -20, -30]},
            ],
        ),
        [*placed(P), *(XYZ * 2)],
        None,
        4,
    ),
    Valid(
        "matrix.glb",
        gltf(
            MESH,
            [(F, {}), (INDICES, {})],
            [{"mesh": 0, "matrix": [0, 1, 0, 0, -1, 0, 0, 0, 0, 0, 1, 0, 10, 20, 30, 1]}],
        ),
        placed(P),
        None,
        2,
    ),
    Valid(
        "sparse.glb",
        gltf(
            [{"attributes": {"POSITION": 0}, "mode": 0}],
            [
                (
                    np.zeros((4, 3), "<f4"),
                    {
                        "sparse": {
                            "count": 4,
                            "indices": {"bufferView": 1, "componentType": 5121},
                            "values": {"bufferView": 2},
                        }
                    },
                ),
                (np.arange(4, dtype="u1"), {}),
                (F, {}),
            ],
        ),
        P,
    ),
    Valid(
        "quantized.glb",
        gltf([{"attributes": {"POSITION": 0}, "mode": 0}], [(np.array([[127, -127, 0]], "i1"), {"normalized": True})]),
        [[1, -1, 0]],
    ),
    Valid("missing-texture.glb", gltf(MESH, [(F, {}), (INDICES, {})], images=[{"uri": "../wood.png"}]), P, None, 2),
]


def npz(compress: bool = False, **arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(file, **arrays)  # pyright: ignore[reportArgumentType]
    return file.getvalue()


NPZS = [
    Valid("one-array.npz", npz(anything=XYZ), P),
    Valid("points-and-normals.npz", npz(normals=XYZ * 2, points=XYZ), P),
    Valid("compressed.npz", npz(True, points=XYZ.astype("<f4")), P),
    Valid("structured.npz", npz(points=structured("intensity x y z", "<f4 <f4 <f8 <f4", I4, P)), P),
]


@cache
def valid() -> tuple[Valid, ...]:
    """All files that must be read."""
    tables = [TEXTS, PTX, PLYS, PCDS, OFFS, OBJS, STLS, NPYS, BINS, lasers(), surveys(), GLTFS, NPZS]
    return tuple(file for table in tables for file in table)


def bomb(declared: int) -> bytes:
    """An archive whose array is all zeros."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        header = npy(np.zeros((1, 3))).split(b"\n")[0].replace(b"(1, 3)", f"({declared // 24}, 3)".encode()[:6])
        archive.writestr("points.npy", header + bytes(declared))
    return file.getvalue()


def changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def refused_lasers() -> list[Refused]:
    laz = las("1.2", 0, ".laz")
    points_at = struct.unpack_from("<I", laz, 96)[0]
    table_at = struct.unpack_from("<q", laz, points_at)[0]
    return [
        Refused("cut.las", las("1.2", 0)[:-10], "again"),
        Refused("cut.laz", laz[:-20], "again"),
        Refused("not-compressed.laz", las("1.2", 0), "rename it to .las"),
        Refused("chunk-table-outside.laz", changed(laz, points_at, struct.pack("<q", 2**40)), "table of chunks"),
        Refused("chunks-without-end.laz", changed(laz, table_at + 4, struct.pack("<I", 2**31)), "chunks"),
        Refused("points-without-end.laz", changed(laz, 107, struct.pack("<I", 2**32 - 1)), "declares more than"),
        Refused("records-without-end.las", changed(las("1.2", 0), 100, struct.pack("<I", 2**31)), "again"),
    ]


@cache
def refused() -> tuple[Refused, ...]:
    """All files that must be refused."""
    e = e57([e57_scan(P)], [STRAIGHT])
    count_bomb = pcd(b"", "x y z f", "4 4 4 4", "F F F F", "1 1 1 2147483648", form="binary")
    header = PLAIN.encode()
    return (
        Refused("id-x-y.csv", b"id,x,y\n1,2,3\n", "--columns"),
        Refused("latitude.csv", b"lat,lon,height\n1,2,3\n", "--columns"),
        Refused("two-numbers.xyz", b"1 2\n3 4\n", "3"),
        Refused("word-for-number.xyz", b"1 2 3\n4 5 oops\n", "oops"),
        Refused("short-row.xyz", b"1 2 3 4\n5 6 7\n8 9 10 11\n", "line 2"),
        Refused("cut.xyz", b"1 2 3 4\n5 6 7\n", "cut short"),
        Refused("fewer-than-declared.pts", b"5\n" + header, "5"),
        Refused("only-a-header.xyz", b"x y z\n", "points"),
        Refused("utf-16.txt", PLAIN.encode("utf-16"), "UTF"),
        Refused("only-nan.xyz", b"nan nan nan\n", "finite"),
        Refused("too-large.xyz", b"1 2 1e300\n0 0 0\n", "too large"),
        Refused("word-document.xyz", b"PK\x03\x04\x14\x00\x06\x00" + bytes(100), "suffix"),
        Refused("wrong-number-of-columns.txt", header, "--columns", ("x", "y", "z", "intensity")),
        Refused("cut.ptx", ptx(P, [0.5] * 4).encode()[:-20], "again"),
        Refused("cut-ascii.ply", ply(PLAIN, FXYZ, vertices=9), "9"),
        Refused("cut-binary.ply", ply(f4(P)[:-3], FXYZ, form=LITTLE), "again"),
        Refused("vertices-without-end.ply", ply(f4(P), FXYZ, form=LITTLE, vertices=2**62), "again"),
        Refused("no-z.ply", ply("1 2\n", "float x, float y", vertices=1), "x, y and z"),
        Refused("face-outside.ply", ply(PLAIN + "3 0 1 9\n3 0 1 2\n", FXYZ, FACE), "9"),
        Refused("face-without-area.ply", ply(PLAIN + "3 0 1 1\n3 2 2 2\n", FXYZ, FACE), "area"),
        Refused("nan-in-mesh.ply", ply("nan 0 0\n" + rows(P[1:]) + TRIANGLES, FXYZ, FACE), "NaN"),
        Refused("count-without-end.pcd", count_bomb, "2147483648"),
        Refused("points-without-end.pcd", pcd(f4(P), width=2**31, height=2**31, form="binary"), "again"),
        Refused("cut.pcd", pcd(PLAIN[:-12]), "4"),
        Refused("width-is-not-points.pcd", pcd(PLAIN).replace(b"POINTS 4", b"POINTS 5"), "POINTS"),
        Refused("no-xyz.pcd", pcd(PLAIN, fields="a b c"), "x, y and z"),
        Refused(
            "broken-lzf.pcd", pcd(struct.pack("<II", 4, 48) + b"\xff\xff\xff\xff", form="binary_compressed"), "LZF"
        ),
        Refused("no-magic.off", b"OFX\n1 0 0\n0 0 0\n", "OFF"),
        Refused("cut.off", b"OFF\n4 2 0\n" + header, "again"),
        Refused("vertices-without-end.off", b"OFF\n999999999999 0 0\n" + header, "again"),
        Refused("face-outside.off", ("OFF\n4 1 0\n" + PLAIN + "3 0 1 4\n").encode(), "4"),
        Refused("face-outside.obj", (V + "f 1 2 9\n").encode(), "9"),
        Refused("no-vertices.obj", b"# nothing\nf 1 2 3\n", "vert"),
        Refused("cut.stl", stl_binary(PAIRS)[:-9], "again"),
        Refused("triangles-without-end.stl", changed(stl_binary(PAIRS), 80, struct.pack("<I", 2**32 - 1)), "again"),
        Refused("cut-text.stl", stl_text(PAIRS)[:-60].encode(), "number"),
        Refused("transposed.npy", npy(np.arange(300.0).reshape(3, 100)), "transpose"),
        Refused("flat.npy", npy(np.arange(9.0)), "(9,)"),
        Refused("complex.npy", npy(XYZ + 1j), "complex"),
        Refused("cut.npy", npy(XYZ)[:-5], "again"),
        Refused("rows-without-end.npy", npy(XYZ).replace(b"(4, 3), }        ", b"(9999999999, 3)}"), "again"),
        Refused("ambiguous.bin", f4(np.ones((20, 3))), "--columns"),
        Refused("odd-size.bin", bytes(17), "--columns"),
        Refused("cut.e57", e[:-100], "again"),
        Refused("flipped.e57", changed(e, 60, b"\xff"), "again"),
        Refused("entities.e57", e.replace(b"<?xml", b"<!ENT"), "entities"),
        Refused("cut.glb", gltf(MESH, [(F, {}), (INDICES, {})])[:-9], "again"),
        Refused("count-without-end.glb", gltf(MESH, [(F, {"count": 2**40}), (INDICES, {})]), "again"),
        Refused(
            "zeros-without-end.gltf",
            json.dumps(
                {
                    "asset": {"version": "2.0"},
                    "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
                    "accessors": [{"componentType": 5126, "type": "VEC3", "count": 2**40}],
                }
            ).encode(),
            "more than",
        ),
        Refused(
            "buffer-elsewhere.glb",
            gltf(MESH, [(F, {}), (INDICES, {})], buffers=[{"uri": "../a.bin", "byteLength": 60}]),
            "same folder",
        ),
        Refused(
            "buffer-on-the-web.glb",
            gltf(MESH, [(F, {}), (INDICES, {})], buffers=[{"uri": "https://a.b/c", "byteLength": 60}]),
            "same folder",
        ),
        Refused(
            "loop-of-nodes.glb",
            gltf(
                MESH,
                [(F, {}), (INDICES, {})],
                [{"mesh": 0, "children": [1]}, {"children": [0]}],
                scenes=[{"nodes": [0]}],
            ),
            "twice",
        ),
        Refused(
            "draco.glb",
            gltf(MESH, [(F, {}), (INDICES, {})], extensionsRequired=["KHR_draco_mesh_compression"]),
            "draco",
        ),
        Refused("version-1.gltf", b'{"asset": {"version": "1.0"}}', "version 1"),
        Refused("no-points.npz", npz(xyz=XYZ, normals=XYZ), "'points'"),
        Refused("bomb.npz", bomb(24_000_000), "times"),
        Refused("cut.npz", npz(points=XYZ)[:-30], "whole"),
        *refused_lasers(),
    )

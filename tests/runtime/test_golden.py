"""Golden files: packed models of every kind load in every version and answer as they did, bit for bit."""

from pathlib import Path

import numpy as np
import pytest

import bipointnet
from bipointnet import _core
from bipointnet.runtime import reference

FOLDER = Path(__file__).parents[1] / "golden"
ANSWERS = dict(np.load(FOLDER / "answers.npz"))
# The task, and the operations that each file is there for.
FILES = {
    "shapes-v1": ("classify", {"dense", "sign", "bilinear", "bilinear_pool"}),
    "shapes-xnor-v1": ("classify", {"sign_scaled", "bilinear_scaled", "pool", "shift"}),
    "shapes-abc-net-v1": ("classify", {"compare", "bilinear_float"}),
    "shapes-tnets-v1": ("classify", {"matrix", "transform"}),
    "shapes-parts-v1": ("part", {"keep", "category", "join"}),
    "rooms-semantic-v1": ("semantic", {"keep", "join", "matrix", "transform"}),
}


def test_every_golden_file_is_known():
    assert {path.stem for path in FOLDER.glob("*.bpn")} == set(FILES)
    assert set(ANSWERS) == {f"{name}.{what}" for name in FILES for what in ("clouds", "logits")}


@pytest.mark.parametrize("isa", _core.isas())
@pytest.mark.parametrize("name", FILES)
def test_a_golden_file_answers_as_before(name, isa):
    clouds, expected = ANSWERS[f"{name}.clouds"], ANSWERS[f"{name}.logits"]
    model = bipointnet.load(FOLDER / f"{name}.bpn", isa)
    assert model.task == FILES[name][0]
    for i, (cloud, logits) in enumerate(zip(clouds, expected, strict=True)):
        category = i if model.categories else None
        found = model.logits(cloud, category=category)
        assert np.array_equal(found.view(np.uint32), logits.view(np.uint32))
        if model.segments:
            parts = model.parts(category)
            labels = parts[logits[:, parts].argmax(axis=1)]
            assert np.array_equal(model.segment(cloud, category=category), labels)
        else:
            assert model.predict(cloud).labels == logits.argmax()


@pytest.mark.parametrize("name", FILES)
def test_the_reference_reads_a_golden_file_in_the_same_way(name):
    packed = reference.read(FOLDER / f"{name}.bpn")
    assert FILES[name][1] <= {op["op"] for op in packed.manifest["program"]}
    category = 0 if packed.manifest.get("categories") else None
    logits, _ = reference.run_program(packed, ANSWERS[f"{name}.clouds"][0], category=category)
    np.testing.assert_allclose(logits, ANSWERS[f"{name}.logits"][0], rtol=1e-5, atol=1e-5 * np.abs(logits).max())


def test_golden_files_have_all_operations_between_them():
    operations = set().union(*(needed for _, needed in FILES.values()))
    assert operations | {"points"} == {
        *("points", "transform", "dense", "sign", "compare", "sign_scaled", "bilinear", "bilinear_pool"),
        *("bilinear_float", "bilinear_scaled", "pool", "shift", "matrix", "keep", "category", "join"),
    }

"""Golden files: packed models of every kind load in every version and answer as they did, bit for bit."""

from pathlib import Path

import numpy as np
import pytest

import bipointnet
from bipointnet import _core
from bipointnet.errors import UserError
from bipointnet.runtime import reference

FOLDER = Path(__file__).parents[1] / "golden"
ANSWERS = dict(np.load(FOLDER / "answers.npz"))
# The task, and the operations that each file is there for.
FILES = {
    "shapes": ("classify", {"points", "dense", "sign", "bilinear", "bilinear_pool"}),
    "shapes-xnor": ("classify", {"mean_abs", "bilinear_float", "pool"}),
    "shapes-abc-net": ("classify", {"sign", "bilinear_float"}),
    "shapes-tnets": ("classify", {"affine", "transform"}),
    "shapes-parts": ("part", {"category", "broadcast", "concat"}),
    "rooms-semantic": ("semantic", {"slice", "concat", "affine", "transform"}),
    "neighbors": (
        "classify",
        {
            *("farthest", "nearest", "ball", "interpolate", "density", "gather", "flatten", "size", "mix", "outer"),
            *("add", "subtract", "multiply", "divide", "function"),
        },
    ),
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
            parts = model.accepted_classes(category)
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
    assert np.array_equal(logits.view(np.uint32), ANSWERS[f"{name}.logits"][0].view(np.uint32))


def test_golden_files_have_all_operations_between_them():
    assert set().union(*(needed for _, needed in FILES.values())) == {rule["op"] for rule in _core.operations()}


def test_upper_and_lower_case_of_a_category_do_not_matter():
    model = bipointnet.load(FOLDER / "shapes-parts.bpn")
    for name in model.categories:
        assert np.array_equal(model.accepted_classes(name.swapcase()), model.accepted_classes(name))
    with pytest.raises(UserError, match="category is 'nothing'; expected one of"):
        model.accepted_classes("nothing")

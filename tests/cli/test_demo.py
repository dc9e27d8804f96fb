"""The first part of the demo: a shipped model and built-in objects, before PyTorch is imported."""

import json
import resource
import subprocess
import sys
from types import SimpleNamespace

import numpy as np

import bipointnet
from bipointnet import demo, shipped
from bipointnet.cli.demo import demo as command
from bipointnet.data.shapes import CLASSES, shapes
from bipointnet.data.up_axis import rotate_up
from bipointnet.runtime.samples import MODEL, predict_samples

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from bipointnet.cli import main; main()"


def right_answers(name: str) -> int:
    """How many of the first test objects of the classes that it knows a shipped model classifies correctly."""
    model = bipointnet.load(name)
    test = shapes(train=1, test=20, points=model.points).test
    known = [i for i, label in enumerate(test.labels) if CLASSES[label] in model.classes]
    found = model.predict(rotate_up(test.points[known], "z", shipped.card(name)["up"])).names
    return int(np.sum([CLASSES[test.labels[i]] == each for i, each in zip(known, found, strict=True)]))


def test_the_samples_are_the_first_test_objects_that_the_model_knows():
    samples = predict_samples()
    assert [sample.object for sample in samples] == [name for name in CLASSES if name in bipointnet.load(MODEL).classes]
    assert sum(sample.prediction == sample.object for sample in samples) == right_answers(MODEL)
    assert all(0 < sample.probability <= 1 and 0 < sample.microseconds < 1e6 for sample in samples)


def test_no_other_shipped_model_for_the_same_data_does_better():
    others = [name for name in shipped.names() if shipped.card(name)["trained_on"] == shipped.card(MODEL)["trained_on"]]
    others = [name for name in others if shipped.card(name)["task"] == "classify"]
    assert len(others) > 1
    assert right_answers(MODEL) == max(map(right_answers, others))


def test_without_pytorch_the_samples_come_first_and_then_one_sentence(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [sys.executable, "-c", WITHOUT_TORCH, "demo", "-o", str(tmp_path / "out")]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "the demo needs PyTorch" in done.stderr
    for sample in predict_samples():
        row = next(line for line in done.stdout.splitlines() if f" {sample.object} " in line)
        assert sample.prediction in row
        assert ("wrong" in row) == (sample.prediction != sample.object)
        assert f"{100 * sample.probability:.0f} %" in row
    assert not (tmp_path / "out").exists()
    # CPU time, which the work of others does not lengthen: 2 s.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 12


def test_json_stays_one_document_and_has_the_samples(tmp_path, monkeypatch, capsys):
    network = SimpleNamespace(name="a network", bytes=5, figures={"last_oa": 90.0})
    monkeypatch.setattr(demo, "demo", lambda folder, on_progress: (None, [network]))
    monkeypatch.setattr(demo, "deploy", lambda *rest: {})
    command(tmp_path, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["samples"]["model"] == MODEL
    untimed = [{k: v for k, v in row.items() if k != "microseconds"} for row in found["samples"]["predictions"]]
    assert untimed == [
        {"object": s.object, "prediction": s.prediction, "probability": s.probability} for s in predict_samples()
    ]
    assert found["networks"] == [{"name": "a network", "bytes": 5, "last_oa": 90.0}]

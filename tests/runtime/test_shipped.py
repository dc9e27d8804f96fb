"""The shipped models: each has a true card, loads, verifies and predicts; names lead to them, files win over names."""

import doctest
import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

import bipointnet
from bipointnet import shipped
from bipointnet.data.shapes import held_out
from bipointnet.errors import UserError
from bipointnet.runtime.header import peek
from bipointnet.runtime.verify import verify

ROOT = Path(__file__).parents[2]
FIELDS = {
    "name": str,
    "title": str,
    "task": str,
    "classes": int,
    "bytes": int,
    "trained_on": str,
    "data": str,
    "license": str,
    "points": int,
    "up": str,
    "recipe": str,
    "accuracy": dict,
    "latency": dict,
    "limits": list,
    "notes": list,
}
MOST_BYTES = 3_000_000


def test_every_file_is_a_model_with_a_card_and_all_are_small():
    files = [file for file in shipped.FOLDER.iterdir() if file.suffix != ".py" and file.name != "__pycache__"]
    assert {file.name for file in files} == {f"{name}.{kind}" for name in shipped.names() for kind in ("bpn", "json")}
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    assert len(shipped.names()) >= 2


@pytest.mark.parametrize("name", shipped.names())
def test_a_card_agrees_with_its_file(name):
    card, model = shipped.card(name), bipointnet.load(name)
    assert {key: type(value) for key, value in card.items()} == FIELDS
    training = model.manifest["training"]
    assert card["name"] == name
    assert card["bytes"] == (shipped.FOLDER / f"{name}.bpn").stat().st_size == model.bytes
    assert (card["task"], card["classes"], card["points"]) == (model.task, len(model.classes), model.points)
    assert card["up"] == training["up"]
    assert f"--seed {training['seed']}" in card["recipe"]
    accuracy = card["accuracy"]
    assert accuracy["test_clouds"] == training["test_clouds"]
    assert accuracy["trainings"][0]["seed"] == training["seed"], "the first training is that of the file"
    # Packing rounds the last layer, which may change some answers of a test split, but not many.
    assert accuracy["file"] == pytest.approx(accuracy["trainings"][0]["last_epoch"], abs=0.5)
    assert all(0 <= limit["accuracy"] <= 100 for limit in card["limits"])
    assert len(card["limits"]) >= 3


@pytest.mark.parametrize("name", shipped.names())
def test_a_shipped_model_verifies_and_predicts(name):
    report = verify(shipped.locate(Path(name)))
    assert report["ok"], report
    model = bipointnet.load(name)
    clouds = np.random.default_rng(0).normal(size=(3, model.points, model.channels))
    if not model.segments:
        prediction = model.predict(clouds)
        assert prediction.probabilities.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-5)
        assert set(prediction.names) <= set(model.classes)


@pytest.mark.parametrize("name", shipped.names())
def test_no_file_names_a_path_of_a_machine(name):
    facts = peek(shipped.FOLDER / f"{name}.bpn")
    assert facts is not None
    assert not Path(facts["training"]["data"]).is_absolute()
    assert all(root not in json.dumps(shipped.card(name)) for root in ("/tmp", "/home", "/work", "/data"))


def test_the_model_of_the_shapes_has_the_accuracy_of_its_card():
    card, model = shipped.card("pointnet-vanilla-shapes"), bipointnet.load("pointnet-vanilla-shapes")
    clouds, labels = zip(
        *(held_out(number, model.points) for number in range(card["accuracy"]["test_clouds"])), strict=True
    )
    found = 100 * (model.predict(np.stack(clouds)).labels == np.array(labels)).mean()
    assert found == pytest.approx(card["accuracy"]["file"], abs=0.5), "coordinates may round differently on other CPUs"


def test_the_page_is_that_of_the_cards():
    script = runpy.run_path(str(ROOT / "benchmarks" / "model_cards.py"))
    assert script["PAGE"].read_text() == script["page"](), "run: python benchmarks/model_cards.py"


def test_readme_has_the_limits_of_the_default_model():
    card = shipped.card(shipped.DEFAULT_CLASSIFIER)
    limits = {limit["clouds"]: limit["accuracy"] for limit in card["limits"]}
    text = " ".join((ROOT / "README.md").read_text().split())
    rotated = limits["rotated about the up axis by a random angle"]
    cut = limits["only one side: half of the points removed"]
    whole = card["accuracy"]["file"]
    assert f"is {whole:.1f} % accurate on its test clouds, {rotated:.1f} % if these are rotated" in text
    assert f"and {cut:.1f} % if only one side" in text


def test_the_examples_are_true():
    assert doctest.testmod(shipped).failed == 0


def test_the_defaults_have_the_tasks_of_their_commands():
    assert shipped.card(shipped.DEFAULT_CLASSIFIER)["task"] == "classify"
    assert shipped.card(shipped.DEFAULT_SEGMENTER)["task"] == "semantic"


def test_an_existing_file_wins_over_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, other = "pointnet-vanilla-modelnet40", "pointnet-vanilla-shapes"
    classes = bipointnet.load(name).classes
    assert classes == bipointnet.load(shipped.FOLDER / f"{name}.bpn").classes
    shutil.copy(shipped.FOLDER / f"{other}.bpn", tmp_path / name)
    assert bipointnet.load(name).classes == bipointnet.load(other).classes != classes
    (tmp_path / name).unlink()
    assert bipointnet.load(name).bytes == shipped.card(name)["bytes"]


@pytest.mark.parametrize(
    "missing", ["pointnet-vanila-shapes", "pointnet-vanilla-shapes.bpn", "Pointnet-Vanilla-Shapes"]
)
def test_an_unknown_name_gets_the_close_ones(missing):
    for ask in (bipointnet.load, shipped.card):
        with pytest.raises(UserError) as error:
            ask(missing)
        assert str(error.value).startswith(f"{missing}: no")
        assert "`bipointnet models` lists the shipped models; did you mean 'pointnet-vanilla-shapes'" in str(
            error.value
        )


def test_a_name_unlike_all_others_gets_no_suggestion_and_a_path_no_hint():
    with pytest.raises(
        UserError, match=r"^zzz: no such file; check the path; `bipointnet models` lists the shipped models$"
    ):
        bipointnet.load("zzz")
    with pytest.raises(UserError, match=r"^a/pointnet-vanilla-shapes: no such file; check the path$"):
        bipointnet.load("a/pointnet-vanilla-shapes")


@pytest.mark.parametrize("name", ["../shipped/pointnet-vanilla-shapes", "x" * 5000, "a\0b", ""])
def test_an_odd_name_is_no_shipped_model(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shipped.locate(Path(name)) == Path(name)
    with pytest.raises(UserError):
        shipped.card(name)

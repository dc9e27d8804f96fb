"""Shipped models on the command line: they are listed, found by name, and used by default; --up rotates clouds."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import run, succeed

from bipointnet import shipped
from bipointnet.data.rooms import make_room
from bipointnet.data.shapes import CLASSES, held_out
from bipointnet.data.up_axis import AXES, rotate_up

SHAPES = "pointnet-vanilla-shapes"
DEFAULT = shipped.DEFAULT_CLASSIFIER


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one built-in object, z up, and the same with other axes up."""
    root = tmp_path_factory.mktemp("place")
    cloud, label = held_out(7, 512)
    assert CLASSES[label] == "chair"
    for axis in AXES:
        np.save(root / f"{axis}.npy", rotate_up(cloud, "z", axis))
    return root


def test_models_lists_what_the_cards_say():
    shown = succeed("models")
    cards = json.loads(succeed("models", "--json"))
    assert [card["name"] for card in cards] == shipped.names()
    for card in cards:
        (line,) = [line for line in shown.splitlines() if card["name"] in line]
        figures = (card["task"], str(card["classes"]), f"{card['bytes']:,}", f"{card['accuracy']['file']:.2f} %")
        assert all(text in line for text in (*figures, card["trained_on"]))


@pytest.mark.parametrize("name", shipped.names())
def test_a_card_is_printed_as_a_whole(name):
    card = shipped.card(name)
    assert json.loads(succeed("models", name, "--json")) == card
    shown = succeed("models", name)
    texts = [card[key] for key in ("name", "title", "data", "license", "recipe", "up")]
    figures = [f"{limit['accuracy']:.2f} %" for limit in card["limits"]]
    figures += [f"{each['last_epoch']:.2f} %" for each in card["accuracy"]["trainings"]]
    for text in [*texts, *figures, *card["notes"], *(limit["clouds"] for limit in card["limits"])]:
        assert text in shown, text


def test_predict_without_a_model_uses_the_default_and_says_so_once(place):
    done = run("predict", "x.npy", "y.npy", cwd=place)
    assert done.returncode == 0
    card = shipped.card(DEFAULT)
    first, *warnings = done.stderr.splitlines()
    trained = f"Model: {DEFAULT}, {card['classes']} classes, trained on {card['trained_on']} with {card['up']} up"
    on_axis = "(if another axis points up in your files, name it with --up)"
    assert first == f"{trained} {on_axis}; choose another with --model"
    assert all(line.startswith("warning: ") for line in warnings)
    assert run("predict", "y.npy", "--up", "z", cwd=place).stderr.splitlines()[0] == (
        f"{trained}; choose another with --model"
    )
    named = run("predict", "x.npy", "y.npy", "--model", DEFAULT, cwd=place)
    assert named.stdout == done.stdout
    assert "Model:" not in named.stderr
    rows = json.loads(succeed("predict", "y.npy", "--json", cwd=place))
    assert rows == json.loads(succeed("predict", "y.npy", "--json", "--model", DEFAULT, cwd=place))


def test_segment_without_a_model_uses_the_default_and_says_so(tmp_path):
    room, _ = make_room(np.random.default_rng(0), 2000)
    np.savetxt(tmp_path / "room.xyz", room, fmt="%.4f", header="x y z red green blue")
    done = run("segment", "room.xyz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Model: {shipped.DEFAULT_SEGMENTER}, 13 classes" in done.stderr
    labels = np.load(tmp_path / "room-labels.npy")
    named = run("segment", "room.xyz", "--model", shipped.DEFAULT_SEGMENTER, cwd=tmp_path)
    assert named.stdout == done.stdout
    assert "Model:" not in named.stderr
    assert np.array_equal(np.load(tmp_path / "room-labels.npy"), labels)


def test_every_command_for_packed_models_takes_a_name(place):
    file = shipped.FOLDER / f"{SHAPES}.bpn"
    for command in (["inspect", None], ["verify", None], ["predict", "z.npy", "--model", None]):
        by_name, by_path = (
            json.loads(succeed(*[each if word is None else word for word in command], "--json", cwd=place))
            for each in (SHAPES, file)
        )
        assert by_name == by_path
    report = json.loads(succeed("bench", SHAPES, "--points", "16", "--rounds", "1", "--json", cwd=place))
    assert report["bytes"]["packed"] == shipped.card(SHAPES)["bytes"]
    evaluated = json.loads(succeed("eval", SHAPES, "shapes", "--json", cwd=place))
    assert evaluated["oa"] == pytest.approx(shipped.card(SHAPES)["accuracy"]["file"], abs=0.5)
    done = run("segment", "z.npy", "--model", SHAPES, cwd=place)
    assert "classifies whole clouds" in done.stderr


def test_up_rotates_every_cloud_to_the_axis_of_the_training_data(place):
    expected = json.loads(succeed("predict", "z.npy", "--model", SHAPES, "--json", cwd=place))[0]
    assert expected["label"] == "chair"
    for axis in AXES:
        (row,) = json.loads(succeed("predict", f"{axis}.npy", "--model", SHAPES, "--up", axis, "--json", cwd=place))
        assert row == {**expected, "file": f"{axis}.npy"}
    (unturned,) = json.loads(succeed("predict", "y.npy", "--model", SHAPES, "--json", cwd=place))
    assert unturned["top"] != expected["top"]


def test_up_rotates_a_mesh_before_points_are_drawn_on_it(tmp_path):
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]], np.float32)
    for axis in AXES:
        rows = [f"{x} {y} {z}" for x, y, z in rotate_up(vertices, "z", axis)]
        faces = ["3 0 2 1", "3 0 1 3", "3 1 2 3", "3 0 3 2"]
        (tmp_path / f"{axis}.off").write_text("\n".join(["OFF", "4 4 0", *rows, *faces, ""]))
    first, *others = (
        json.loads(succeed("predict", f"{axis}.off", "--model", SHAPES, "--up", axis, "--json", cwd=tmp_path))[0]
        for axis in AXES
    )
    assert all(row == {**first, "file": row["file"]} for row in others)


def test_up_rotates_objects_whose_parts_are_labeled(place, tmp_path):
    """Whatever axis points up in the file, labels are those of the object with y up, as in training."""
    upright = np.load(place / "y.npy")
    labels = {}
    for axis in AXES:
        np.save(tmp_path / f"{axis}.npy", rotate_up(upright, "y", axis))
        options = ["--model", "pointnet2-shapenet-part", "--category", "chair", "--up", axis, "-o", f"up-{axis}"]
        succeed("segment", f"{axis}.npy", *options, cwd=tmp_path)
        labels[axis] = np.load(tmp_path / f"up-{axis}.npy")
    assert len(set(labels["y"])) > 1
    for axis in AXES:
        assert np.array_equal(labels[axis], labels["y"])


def test_eval_rotates_the_files_to_the_axis_of_the_training_data(place, tmp_path):
    """The same objects have the same accuracy, whatever axis points up, and another one without --up."""
    for axis in AXES:
        for number in range(60):
            cloud, label = held_out(number, 1024)
            file = tmp_path / axis / CLASSES[label] / f"{number}.npy"
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, rotate_up(cloud, "z", axis))
    options = ("--all", "--json", "--skip-bad")
    found = [json.loads(succeed("eval", SHAPES, tmp_path / axis, *options, "--up", axis))["oa"] for axis in AXES]
    assert found[0] == found[1] == found[2] > 90
    done = run("eval", DEFAULT, tmp_path / "z", *options)
    assert "was trained with y up; if another axis points up in these files, name it with --up" in done.stderr
    assert "--up is for objects" in run("eval", shipped.DEFAULT_SEGMENTER, tmp_path / "z", "--up", "y").stderr

"""The recipe `auto` follows the size of the data, and options that are given win."""

import json

import pytest
from commands import run

from bipointnet.config import Config
from bipointnet.training.loop import train
from bipointnet.training.recipes import auto, sentence, summary

SIZES = (2, 10, 48, 150, 200, 480, 4800, 9843, 10**6)


def test_more_clouds_mean_fewer_epochs_but_a_longer_training():
    picked = [auto(clouds) for clouds in SIZES]
    epochs = [values["epochs"] for values in picked]
    seen = [clouds * number for clouds, number in zip(SIZES, epochs, strict=True)]
    assert epochs == sorted(epochs, reverse=True)
    assert seen == sorted(seen)
    assert epochs[0] >= 500, "the smallest folder has one step per epoch"
    assert {name for values in picked for name in values} <= set(Config.__annotations__)


@pytest.mark.parametrize("task", ["classify", "part", "semantic"])
@pytest.mark.parametrize("clouds", SIZES)
def test_every_pick_is_a_valid_configuration(task, clouds):
    config = Config(**{"task": task, **auto(clouds, task)})
    assert config.recipe == "auto"
    assert config.warmup < config.epochs
    if task != "classify":
        assert config.epochs == Config(task=task).epochs, "segmentation is trained as in the paper"
        assert config.batch == 2 or clouds >= 8 * config.batch


def test_the_sentence_names_what_was_picked_and_not_what_was_given():
    text = sentence(auto(48), {"lr": 0.003, "label_smoothing": 0.0}, 48, 5)
    assert text.startswith("Recipe auto for 48 training clouds of 5 classes: --batch 16 --epochs 303 --warmup 15.2 ")
    assert "--lr" not in text
    assert "--label-smoothing" not in text
    assert "few clouds: small batches, many epochs" in text
    assert "--recipe paper" in sentence(auto(5000), {}, 5000, 20)


def test_result_json_separates_picks_from_options_that_were_given(tiny, tmp_path):
    config = Config(**auto(len(tiny.train), epochs=1) | {"points": 16, "device": "cpu"})
    figures = train(config, tiny, tmp_path / "run", data_path="data/mine")
    assert figures["recipe"] == "auto"
    assert figures["instead"] == {"epochs": 1}
    assert figures["picks"]["batch"] == 16
    assert (figures["data"], figures["layout"], figures["num_classes"]) == ("data/mine", "tiny", 3)
    assert (figures["train_clouds"], figures["test_clouds"]) == (96, 48)
    assert summary(Config(lr=0.1), tiny)["instead"] == {"lr": 0.1}
    assert summary(Config(), tiny)["picks"]["batch"] == 256


def test_train_says_what_it_picked_and_takes_every_option_that_is_given(folder_of_clouds, tmp_path):
    quick = ["--epochs", "1", "--points", "8", "--device", "cpu", "--json"]
    picked = run("train", folder_of_clouds, *quick, "-o", tmp_path / "auto")
    assert "\nRecipe auto for 96 training clouds of 3 classes: --batch 16 --lr 0.01 " in picked.stderr
    config = json.loads(picked.stdout)["config"]
    assert {name: config[name] for name in ("recipe", "epochs", "warmup", "batch", "shift")} == {
        "recipe": "auto",
        "epochs": 1,
        "warmup": 0.1,  # a twentieth of the epochs that are given
        "batch": 16,
        "shift": 0.2,
    }
    given = ["--batch", "24", "--shift", "0"]
    config = json.loads(run("train", folder_of_clouds, *quick, *given, "-o", tmp_path / "given").stdout)["config"]
    assert (config["batch"], config["shift"], config["scale"]) == (24, 0, 1.25)
    paper = run("train", folder_of_clouds, *quick, "--recipe", "paper", "-o", tmp_path / "paper")
    assert "Recipe auto" not in paper.stderr
    figures = json.loads(paper.stdout)
    assert (figures["recipe"], figures["config"]["batch"], figures["config"]["clip"]) == ("paper", 256, 0)

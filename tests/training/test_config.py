"""The configuration: TOML, help texts and mistakes; it costs nothing to import."""

import dataclasses
import subprocess
import sys

import pytest

from bipointnet.config import CHOICES, Config, from_mapping, read_toml
from bipointnet.errors import UserError
from bipointnet.models import MODELS
from bipointnet.nn import METHODS, POOLS


@pytest.mark.parametrize("name", ["label-smoothing", "label_smoothing"])
def test_toml_accepts_the_spelling_of_the_option_and_of_the_field(tmp_path, name):
    (tmp_path / "recipe.toml").write_text(f"{name} = 0.1\nepochs = 20\n")
    assert read_toml(tmp_path / "recipe.toml") == {"label_smoothing": 0.1, "epochs": 20}
    assert from_mapping("recipe", {name: 0.1}).label_smoothing == 0.1


MISTAKES = {
    "both spellings": ("label-smoothing = 0.1\nlabel_smoothing = 0.2", "label_smoothing is given twice"),
    "unknown": ("epoch = 3", "unknown option 'epoch'; did you mean 'epochs'?; expected one of batch, "),
    "unknown, with a dash": ("label-smooth = 3", "unknown option 'label-smooth'; did you mean 'label_smoothing'"),
    "wrong type": ("epochs = 'ten'", "epochs = 'ten' is of type str; expected int"),
    "a truth value": ("lr = true", "lr = True is of type bool; expected float"),
    "not TOML": ("epochs", "not valid TOML"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_toml_names_the_file_and_the_option(tmp_path, mistake):
    text, sentence = MISTAKES[mistake]
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        read_toml(path)
    assert str(error.value).startswith(f"{path}: ")
    assert sentence in str(error.value)


def test_a_user_error_is_a_value_error():
    with pytest.raises(ValueError, match="lr is 0; expected more than 0"):
        Config(lr=0)


def test_every_option_has_a_short_help_text():
    for field in dataclasses.fields(Config):
        assert 5 < len(field.metadata["help"]) <= 110, field.name


def test_importing_the_configuration_loads_nothing_heavy():
    """So that a wrong option is answered at once."""
    code = "import sys, bipointnet.config, bipointnet.errors, bipointnet.files; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in shown.stdout.split()}
    assert not loaded & {"torch", "numpy", "scipy", "matplotlib", "trimesh", "safetensors", "rich", "typer"}


def test_names_on_the_command_line_are_the_tables():
    assert CHOICES["model"] == tuple(MODELS)
    assert set(CHOICES["method"]) == {"fp", *METHODS}
    assert CHOICES["pool"] == tuple(POOLS)


def test_each_backbone_has_its_own_default_pool():
    assert {name: Config(model=name).pool for name in MODELS} == {
        **dict.fromkeys(MODELS, "ema-max"),
        "pointcnn": "ema-avg",
        "pointconv": None,
    }
    assert Config(model="pointcnn", method="fp").pool == "avg"
    assert Config(model="dgcnn", method="fp").pool == "max"
    assert Config(model="pointcnn", pool="ema-max").pool == "ema-max"
    with pytest.raises(UserError, match="pointconv has no pool; found pool 'ema-max'; leave --pool out"):
        Config(model="pointconv", pool="ema-max")


def test_the_defaults_are_the_paper_s_recipe():
    assert Config().recipe == "paper"
    assert (Config().batch, Config().lr, Config().epochs, Config().clip) == (256, 1e-3, 200, 0)
    assert Config().pool == "ema-max"
    assert Config(method="fp").pool == "max"

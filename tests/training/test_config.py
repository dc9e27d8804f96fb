"""The configuration: TOML, help texts and mistakes; it costs nothing to import."""

import dataclasses
import subprocess
import sys

import pytest

from bipointnet.config import CHOICES, MOST_POINTS, OWN_GRADIENTS, Config, from_mapping, read_toml
from bipointnet.errors import UserError
from bipointnet.models import MODELS, SLOPES, build, method_of
from bipointnet.nn import LSR, METHODS, POOLS, BinaryLinear, BiReal, clipped, polynomial
from bipointnet.runtime import model


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
    "nested too deeply": ("a = " + "[" * 100_000, "not valid TOML"),
    "a number of 5000 digits": ("epochs = " + "9" * 5000, "not valid TOML"),
}


def test_toml_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "recipe.toml").write_text("epochs = 20\n", encoding="utf-8-sig")
    assert read_toml(tmp_path / "recipe.toml") == {"epochs": 20}


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


FLOATS = [field.name for field in dataclasses.fields(Config) if "float" in str(field.type)]


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_numbers_are_finite(name, value):
    options = {"task": "semantic"} if name == "block" else {}
    with pytest.raises(UserError, match=f"{name} is {value}; expected a finite number"):
        Config(**options, **{name: value})


def test_an_integer_beyond_all_floats_is_not_finite():
    with pytest.raises(UserError, match="lr is inf; expected a finite number"):
        from_mapping("recipe.toml", {"lr": 10**400})


def test_points_have_the_bound_of_packed_models():
    assert MOST_POINTS == model.MOST_POINTS
    assert Config(points=MOST_POINTS).points == MOST_POINTS
    with pytest.raises(UserError, match=f"points is {10**18}; expected at most {MOST_POINTS}"):
        Config(points=10**18)


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
    assert CHOICES["gradient"] == tuple(SLOPES)


def test_the_gradient_of_a_method_can_be_chosen():
    assert method_of(Config(gradient="polynomial")) == LSR(slope=polynomial)
    assert method_of(Config(gradient="clip", method="bi-real")) == BiReal(slope=clipped)
    assert method_of(Config()) == LSR()
    for method in ("fp", "abc-net", "ir-net"):
        with pytest.raises(UserError, match=f"gradient is 'clip' with method '{method}', .*; leave --gradient out"):
            Config(method=method, gradient="clip")


def test_methods_with_a_gradient_of_their_own_are_those_whose_slope_is_special():
    own = {name for name, method in METHODS.items() if method.slope not in (clipped, polynomial)}
    assert set(OWN_GRADIENTS) == {"fp", *own}


MY_METHODS = """
from dataclasses import dataclass
from bipointnet import LSR, Method
@dataclass(frozen=True, repr=False)
class Mine(LSR):
    pass
@dataclass(frozen=True, repr=False)
class Needs(Method):
    size: int = None
    def __post_init__(self): raise TypeError("size is missing")
made = Mine()
other = 3
"""


def test_a_method_can_be_a_class_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "my_own_methods.py").write_text(MY_METHODS)
    monkeypatch.syspath_prepend(tmp_path)
    method = method_of(Config(method="my_own_methods:Mine", gradient="polynomial"))
    assert type(method).__name__ == "Mine"
    assert method.slope is polynomial
    network = build(Config(method="my_own_methods:Mine"), num_classes=3, in_channels=3)
    assert {repr(m.method) for m in network.modules() if isinstance(m, BinaryLinear)} == {"Mine()"}
    assert from_mapping("config.json", dataclasses.asdict(Config(method="my_own_methods:made"))).pool == "ema-max"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("my_own_methods:Nothing", "the module 'my_own_methods' has no 'Nothing'; expected a class"),
        ("nowhere.at.all:Mine", "there is no module 'nowhere'; expected package.module:Class; add the folder"),
        ("my_own_methods:other", "found int; expected a subclass of bipointnet.Method"),
        ("my_own_methods:Needs", "cannot be created without arguments (size is missing)"),
        (":Mine", "cannot be imported"),
    ],
)
def test_a_mistake_in_the_name_of_a_class_is_one_sentence(tmp_path, monkeypatch, name, sentence):
    (tmp_path / "my_own_methods.py").write_text(MY_METHODS)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError) as error:
        method_of(Config(method=name))
    assert str(error.value).startswith(f"method: method is {name!r}")
    assert sentence in str(error.value)


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


@pytest.mark.parametrize("recipe", CHOICES["recipe"])
def test_only_clouds_have_a_center_by_default(recipe):
    """Blocks of scans are not moved; a recipe that picked a center for them would be refused."""
    centers = {task: Config(task=task, recipe=recipe).center for task in CHOICES["task"]}
    assert centers == {"classify": "box" if recipe == "auto" else "mean", "part": "mean", "semantic": "mean"}


def test_the_defaults_are_the_paper_s_recipe_but_for_the_codes_that_ema_max_counts():
    assert Config().recipe == "tuned"
    assert Config(recipe="paper").pool == "ema-max-points"
    assert Config(recipe="paper", method="fp").pool == "max"
    assert Config(recipe="paper", pool="ema-max").pool == "ema-max"
    assert (Config().batch, Config().lr, Config().epochs, Config().clip) == (256, 1e-3, 200, 0)
    assert Config().pool == "ema-max"
    assert Config(method="fp").pool == "max"

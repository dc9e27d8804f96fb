"""The command that repeats a run. Imports no PyTorch."""

import dataclasses
import shlex
from typing import TYPE_CHECKING, Any

from bipointnet.config import Config, from_mapping
from bipointnet.training.recipes import default, picks

if TYPE_CHECKING:  # NumPy is not needed to write options
    from bipointnet.data.dataset import PointClouds


def as_words(options: dict[str, Any]) -> list[str]:
    """Options as they are typed.

    >>> as_words({"epochs": 20, "norm": False})
    ['--epochs', '20', '--no-norm']
    """
    words: list[str] = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        words += [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    return words


def given_options(config: Config, data: "PointClouds") -> dict[str, Any]:
    """The fewest options with which `bipointnet train` has this configuration on these data.

    Examples:
        >>> from bipointnet.data.shapes import shapes
        >>> given_options(Config(epochs=20, recipe="paper"), shapes(train=40, test=20, points=8))
        {'recipe': 'paper', 'epochs': 20}
    """
    chosen = dataclasses.asdict(config)
    given = {name: chosen[name] for name in ("task", "model") if chosen[name] != getattr(Config(), name)}
    if data.scans is not None:  # which follow the files if they are not given
        given |= {"model": config.model, "points": config.points}
    if config.recipe != default(data.name):
        given["recipe"] = config.recipe
    picked: dict[str, Any] = {"recipe": config.recipe}
    if config.recipe == "auto":
        picked = picks(data, config, model=config.model)
        if picked.get("epochs", config.epochs) != config.epochs:
            given["epochs"] = config.epochs
            picked = picks(data, config, config.epochs, config.model)
    method = {"method": config.method}  # the default of the pool follows it
    started = dataclasses.asdict(from_mapping("options", picked | given | method))
    started["method"] = Config.method
    return given | {name: value for name, value in chosen.items() if value != started[name]}


def command(config: Config, data: "PointClouds", data_path: str, init: str | None = None) -> str:
    """The command line that repeats a run.

    data_path: the data as the user named them. init: the run whose weights it started from.
    """
    started = [] if init is None else ["--init", init]
    return shlex.join(["bipointnet", "train", data_path, *as_words(given_options(config, data)), *started])

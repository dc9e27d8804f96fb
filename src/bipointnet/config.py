"""What a training run is: one frozen dataclass with the paper's values, read from TOML and from the command line."""

import dataclasses
import difflib
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bipointnet.errors import UserError

CHOICES = {
    "task": ("classify", "part", "semantic"),
    "model": ("pointnet-vanilla", "pointnet", "pointnet2", "dgcnn", "pointcnn", "pointconv"),
    "method": ("fp", "bnn", "xnor", "xnor++", "bi-real", "abc-net", "ir-net", "lsr"),
    "pool": ("max", "avg", "ema-max", "ema-avg"),
    "optimizer": ("adam", "adamw"),
    "up": ("x", "y", "z"),
    "device": ("auto", "cpu", "cuda"),
}

# What the paper takes for a task, where nothing else is asked for.
PAPER: dict[str, dict[str, Any]] = {
    "classify": {"model": "pointnet-vanilla", "points": 1024, "epochs": 200, "batch": 256},
    "part": {"model": "pointnet", "points": 2048, "epochs": 250, "batch": 96},
    "semantic": {"model": "pointnet", "points": 4096, "epochs": 128, "batch": 128},
}
LABELLING = ("pointnet", "pointnet-vanilla")  # backbones that label points

# Pool of a full-precision network and of a 1-bit one, where it is not the maximum; PointConv has none.
OWN_POOLS: dict[str, tuple[str | None, str | None]] = {"pointcnn": ("avg", "ema-avg"), "pointconv": (None, None)}


def _option(default: Any, help: str, **limits: float) -> Any:
    """A field with its help text; limits are `least` and `above`."""
    return field(default=default, metadata={"help": help, **limits})


@dataclass(frozen=True)
class Config:
    """A training run. The defaults are the paper's recipe; those of a task stand in PAPER."""

    task: str = _option("classify", "classify clouds, or label every point: part (of an object), semantic (in a room).")
    model: str = _option(
        None,
        "Backbone: pointnet-vanilla, pointnet (with T-Nets), pointnet2, dgcnn, pointcnn, pointconv"
        " (default: pointnet-vanilla; to label points pointnet).",
    )
    method: str = _option("lsr", "Binarization: lsr, bnn, xnor, xnor++, bi-real, abc-net, ir-net; fp: full precision.")
    pool: str | None = _option(
        None,
        "Pool over points: max, avg, ema-max, ema-avg (default: ema-max, or max for fp; with pointcnn avg).",
    )
    binary_first: bool = _option(False, "Binarize the first layer too.")
    binary_last: bool = _option(False, "Binarize the last layer too.")
    norm: bool = _option(True, "Use BatchNorm.")
    init_bias_std: float = _option(
        0.0,
        "Start the planes at which bits of a 1-bit network split their inputs this far apart, and across all inputs"
        " alike: 1 helps short trainings of PointNets.",
        least=0,
    )
    category: str | None = _option(None, "Part: train on one category (default: on all, each cloud with its category).")
    fold: str | None = _option(
        None, "Semantic: the area, or the rooms of one area, to test on (S3DIS; default: Area_5)."
    )
    points: int = _option(
        None, "Points of a cloud the network sees, drawn anew each epoch (default by task: 1024, 2048, 4096).", least=1
    )
    epochs: int = _option(None, "Passes over the training set (default by task: 200, 250, 128).", least=1)
    batch: int = _option(None, "Clouds a step, over all processes (default by task: 256, 96, 128).", least=2)
    optimizer: str = _option("adam", "adam or adamw.")
    lr: float = _option(1e-3, "Learning rate at its highest; it falls to 0 along a cosine.", above=0)
    warmup: float = _option(0.0, "Epochs over which the learning rate rises from 0.", least=0)
    weight_decay: float = _option(0.0, "Weight decay.", least=0)
    clip: float = _option(0.0, "Scale a step's gradient down to this norm where it is longer; 0 leaves it.", least=0)
    label_smoothing: float = _option(0.0, "Label smoothing, below 1.", least=0)
    transform_penalty: float = _option(1e-3, "Weight of the feature transform's distance from orthogonality.", least=0)
    rotate: float = _option(0.0, "Augment: rotation about up, by at most this many degrees.", least=0)
    scale: float = _option(1.0, "Augment: stretch each axis by a factor between 1/scale and scale.", least=1)
    shift: float = _option(0.0, "Augment: move by at most this much along each axis.", least=0)
    jitter: float = _option(0.0, "Augment: standard deviation of noise on each coordinate.", least=0)
    drop: float = _option(0.0, "Augment: share of points dropped, at most; below 1.", least=0)
    up: str | None = _option(None, "The axis that points up: x, y or z (default: what the data set says).")
    seed: int = _option(0, "Seed of everything random.", least=0)
    device: str = _option("auto", "auto, cpu or cuda.")
    compile: bool = _option(False, "Compile the network with torch.compile: minutes to start, then faster on a GPU.")

    def __post_init__(self) -> None:
        for name, value in PAPER.get(self.task, {}).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        own = OWN_POOLS.get(self.model, ("max", "ema-max"))[self.method != "fp"]
        if own is None and self.pool is not None:
            raise UserError(f"{self.model} has no pool; found pool {self.pool!r}; leave --pool out")
        if self.pool is None:
            object.__setattr__(self, "pool", own)
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices and not (name in ("up", "pool") and value is None):
                raise UserError(
                    f"{name} is {value!r}; expected one of {', '.join(choices)}{_near(str(value), choices)}"
                )
        if self.task != "classify" and self.model not in LABELLING:
            raise UserError(
                f"task {self.task!r} has no {self.model}; expected one of {', '.join(LABELLING)} as --model"
            )
        for name, task in (("category", "part"), ("fold", "semantic")):
            if getattr(self, name) is not None and self.task != task:
                raise UserError(
                    f"{name} is {getattr(self, name)!r} with task {self.task!r}; expected it with --task {task}"
                )
        if self.drop and self.task != "classify":
            raise UserError(f"drop is {self.drop} with task {self.task!r}; expected 0, as each point keeps its label")
        for f in dataclasses.fields(self):
            value, least, above = getattr(self, f.name), f.metadata.get("least"), f.metadata.get("above")
            if least is not None and not value >= least:
                raise UserError(f"{f.name} is {value}; expected at least {least}")
            if above is not None and not value > above:
                raise UserError(f"{f.name} is {value}; expected more than {above}")
        for name in ("drop", "label_smoothing"):
            if not getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; expected less than 1")
        if self.method == "fp" and (self.binary_first or self.binary_last or self.init_bias_std):
            raise UserError(
                "binary_first, binary_last and init_bias_std need a 1-bit method; found method 'fp'; try --method lsr"
            )
        if not self.init_bias_std <= 10:
            raise UserError(f"init_bias_std is {self.init_bias_std}; expected at most 10 standard deviations")
        if self.init_bias_std and not self.norm:
            raise UserError(
                f"init_bias_std is {self.init_bias_std} without BatchNorm; expected 0, or leave --no-norm out"
            )

    @property
    def recipe(self) -> str:
        """'paper' while everything that shapes the training has the paper's value, else 'custom'."""
        free = {"task", "model", "method", "pool", "binary_first", "binary_last", "norm", "category", "fold"}
        free |= {"up", "seed", "device", "compile"}
        usual = {f.name: f.default for f in dataclasses.fields(self) if f.name not in free} | PAPER[self.task]
        same = all(getattr(self, name) == value for name, value in usual.items() if name not in free)
        return "paper" if same else "custom"


def _near(name: str, names: Any) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _typed(source: str, name: str, value: Any) -> Any:
    """`value` as the field's type, where nothing is lost by it."""
    wanted = Config.__annotations__[name]
    if wanted is float and type(value) is int:
        value = float(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        kind = str(getattr(wanted, "__name__", wanted)).removesuffix(" | None")
        raise UserError(f"{source}: {name} = {value!r} is a {type(value).__name__}; expected {kind}")
    return value


def _all_typed(source: str, values: dict[str, Any]) -> dict[str, Any]:
    names = Config.__annotations__
    for name in values:
        if name not in names:
            raise UserError(f"{source}: unknown option {name!r}{_near(name, names)}; known: {', '.join(sorted(names))}")
    return {name: _typed(source, name, value) for name, value in values.items()}


def from_mapping(source: str, values: dict[str, Any]) -> Config:
    """A Config from names and values; `source` is what an error message names."""
    typed = _all_typed(source, values)
    try:
        return Config(**typed)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """The options of a TOML file, each known and of its type; whether they fit shows with those they are joined by."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give --config an existing TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML ({error})") from error
    return _all_typed(str(path), values)

"""The configuration of a training run: one frozen dataclass with the paper's values as defaults.

A TOML file overrides the defaults; command-line options override both. This module imports nothing heavy.
"""

import dataclasses
import difflib
import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bipointnet.errors import UserError

# The accepted values of every option that has a fixed set of them: on the command line, in TOML and in result files.
# Tests compare them with the tables of networks, methods and pools, which this module cannot import without PyTorch.
CHOICES = {
    "task": ("classify", "part", "semantic"),
    "model": (
        *("pointnet-vanilla", "pointnet", "pointnet2", "dgcnn", "pointcnn", "pointconv"),
        *("local-tiny", "local-small", "local-base"),
    ),
    "method": ("fp", "bnn", "xnor", "xnor++", "bi-real", "abc-net", "ir-net", "lsr"),
    "gradient": ("clip", "polynomial"),
    "pool": ("max", "avg", "ema-max", "ema-max-points", "ema-avg"),
    "recipe": ("auto", "tuned", "paper"),
    "center": ("mean", "box"),
    "optimizer": ("adam", "adamw"),
    "up": ("x", "y", "z"),
    "split": ("files", "place"),
    "unit": ("m", "ft", "us-ft"),
    "device": ("auto", "cpu", "cuda"),
}

# The paper's values of the options whose default depends on the task (BiPointNet, ICLR 2021, arXiv:2010.05501).
PAPER: dict[str, dict[str, Any]] = {
    "classify": {"model": "pointnet-vanilla", "points": 1024, "epochs": 200, "batch": 256},
    "part": {"model": "pointnet", "points": 2048, "epochs": 250, "batch": 96},
    "semantic": {"model": "pointnet", "points": 4096, "epochs": 128, "batch": 128},
}

# What papers call a backbone -> its name here, where the nearest spelling would be another backbone.
COMMON_NAMES = {"pointnet++": "pointnet2"}

# Points beyond which a prediction does not become better, unless there were more in training.
ENOUGH_POINTS = 1024

# The most points per cloud in training: what `runtime.model` accepts in a file. A larger number is a mistake.
MOST_POINTS = 2**20

# The backbones that treat every point alike but for their T-Nets.
POINTNETS = ("pointnet", "pointnet-vanilla")
# The backbones that can label points.
LABELING = (*POINTNETS, "pointnet2", "dgcnn")

# The methods that --gradient cannot change, and why.
OWN_GRADIENTS = {
    "fp": "which binarizes nothing",
    "abc-net": "whose gradient is a part of its formula",
    "ir-net": "whose gradient has a schedule",
}

# The default pools (full precision, 1-bit) of backbones whose pool is not ("max", "ema-max"). PointConv has no pool.
OWN_POOLS: dict[str, tuple[str | None, str | None]] = {"pointcnn": ("avg", "ema-avg"), "pointconv": (None, None)}


def _option(default: Any, help: str, **limits: float) -> Any:
    """A field with its help text. Limits: `least` and `most`; `above`, a bound that is itself excluded."""
    return field(default=default, metadata={"help": help, **limits})


@dataclass(frozen=True)
class Config:
    """A training run: the network and the recipe. Invalid or contradicting values raise UserError.

    Defaults are the paper's recipe, but for EMA-max, which counts distinct codes. Those that depend on the task are
    filled in from PAPER, and the pool from the backbone, the method and the recipe. Otherwise `recipe` only records
    where the options come from: `training.recipes` computes them.

    Examples:
        >>> config = Config(method="lsr", epochs=20)
        >>> config.model, config.pool, config.points, config.recipe
        ('pointnet-vanilla', 'ema-max', 1024, 'tuned')
        >>> Config(task="part").epochs
        250
    """

    task: str = _option(
        "classify", "Task: classify clouds, or label points: part (of objects), semantic (of rooms and scans)."
    )
    model: str = _option(
        None,
        "Model: pointnet, pointnet-vanilla, pointnet2, dgcnn, pointcnn, pointconv, local-tiny, local-small, "
        "local-base.",
    )
    method: str = _option(
        "lsr", "Binarization: lsr, bnn, xnor, xnor++, bi-real, abc-net, ir-net, or package.module:Class; fp: float32."
    )
    gradient: str | None = _option(
        None, "Gradient of sign for the inputs: clip, polynomial (as in Bi-Real Net); default: that of the method."
    )
    pool: str | None = _option(
        None,
        "Pool over points: max, avg, ema-max, ema-max-points, ema-avg (default: ema-max; fp: max; pointcnn: a mean).",
    )
    first_width: int | None = _option(
        None, "Task semantic, pointnet-vanilla: outputs of the first layer (default: 64 as in the paper).", least=1
    )
    binary_first: bool = _option(False, "Binarize the first layer too.")
    binary_last: bool = _option(False, "Binarize the last layer too.")
    norm: bool = _option(True, "Use BatchNorm.")
    precise_norm: bool = _option(False, "Measure the statistics of BatchNorm over all training clouds at the end.")
    init_bias_std: float = _option(
        0.0, "Standard deviation of the initial BatchNorm biases; 1 helps short trainings of PointNets.", least=0
    )
    category: str | None = _option(
        None, "Task part: one category to train on, or `each`: one network per category (default: one network for all)."
    )
    fold: str | None = _option(None, "Task semantic, S3DIS: the area to test on (default: Area_5), or `each`.")
    block: float | None = _option(
        None,
        "Labeled scans: side of a block in meters (default: 1; sparse or wider than 40 m: 20, PointNets 10).",
        above=0,
    )
    channels: str | None = _option(
        None,
        "Labeled scans: what to read beside x, y and height: rgb, intensity, ... (default: rgb if all have it).",
    )
    columns: str | None = _option(None, "Labeled scans: names of the columns of text and npy files, like x,y,z,label.")
    labels: str | None = _option(
        None, "Labeled scans: the column that holds the labels (default: classification, ...)."
    )
    classes: str | None = _option(None, 'Labeled scans: a TOML file with the names of the labels, like 2 = "ground".')
    split: str | None = _option(
        None, "Labeled scans: hold out `files`, or a `place` in each (default: files, if there are five or more)."
    )
    unit: str | None = _option(None, "Labeled scans: unit of the coordinates: m, ft or us-ft (default: m).")
    recipe: str = _option(
        "tuned",
        "Source of options not given: auto (by number of clouds), tuned, paper (default: tuned if data is published).",
    )
    center: str = _option(
        None,
        "Origin of a cloud: mean (its mean point), box (center of the bounding box; default of recipe auto).",
    )
    points: int = _option(
        None,
        "Points per cloud, drawn anew in every epoch (default: 1024; part: 2048; semantic: 4096).",
        least=1,
        most=MOST_POINTS,
    )
    epochs: int = _option(None, "Passes over the training set (default: 200; part: 250; semantic: 128).", least=1)
    batch: int = _option(None, "Clouds per step over all processes (default: 256; part: 96; semantic: 128).", least=2)
    optimizer: str = _option("adam", "adam or adamw.")
    lr: float = _option(1e-3, "Highest learning rate; it falls to 0 along a cosine.", above=0)
    warmup: float = _option(0.0, "Epochs of linear warm-up of the learning rate.", least=0)
    weight_decay: float = _option(0.0, "Weight decay of matrices.", least=0)
    clip: float = _option(0.0, "Largest gradient norm; 0: no clipping.", least=0)
    label_smoothing: float = _option(0.0, "Label smoothing, at least 0 and below 1.", least=0)
    transform_penalty: float = _option(1e-3, "Weight of the T-Net regularizer in the loss.", least=0)
    teacher: str | None = _option(None, "Run folder or checkpoint of a trained network to learn from (distillation).")
    teacher_weight: float = _option(0.5, "Weight of the teacher's outputs in the loss, from 0 to 1.", least=0)
    feature_weight: float = _option(0.0, "Weight of the distance from the teacher's global features.", least=0)
    temperature: float = _option(
        2.0, "Distillation: divides the logits of network and teacher before they are compared.", above=0
    )
    rotate: float = _option(0.0, "Largest rotation about the up axis, in degrees.", least=0)
    scale: float = _option(1.0, "Scale each axis by a factor between 1/scale and scale.", least=1)
    shift: float = _option(0.0, "Largest shift along each axis.", least=0)
    jitter: float = _option(0.0, "Standard deviation of the noise on each coordinate.", least=0)
    drop: float = _option(0.0, "Largest fraction of points to drop, below 1.", least=0)
    up: str | None = _option(None, "The axis that points up: x, y or z (default: that of the data; folders: z).")
    seed: int = _option(0, "Seed of all random numbers.", least=0)
    device: str = _option("auto", "auto, cpu or cuda.")
    compile: bool = _option(False, "Use torch.compile: minutes to start, then faster on a GPU.")
    capture: bool = _option(True, "On one GPU, record a step once as a CUDA graph and replay it.")

    def __post_init__(self) -> None:
        for name, value in PAPER.get(self.task, {}).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        own = OWN_POOLS.get(self.model, ("max", "ema-max"))[self.method != "fp"]
        if own is None and self.pool is not None:
            raise UserError(f"{self.model} has no pool; found pool {self.pool!r}; leave --pool out")
        if self.pool is None:
            own = "ema-max-points" if own == "ema-max" and self.recipe == "paper" else own
            object.__setattr__(self, "pool", own)
        if self.center is None:
            object.__setattr__(self, "center", "box" if self.recipe == "auto" and self.task == "classify" else "mean")
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices and not self._is_free(name, value):
                raise UserError(
                    f"{name} is {value!r}; expected one of {', '.join(choices)}{_suggestion(str(value), choices)}"
                )
        if self.gradient is not None and self.method in OWN_GRADIENTS:
            raise UserError(
                f"gradient is {self.gradient!r} with method {self.method!r}, {OWN_GRADIENTS[self.method]}; leave "
                "--gradient out"
            )
        if self.task != "classify" and self.model not in LABELING:
            raise UserError(f"model is {self.model!r} with task {self.task!r}; expected one of {', '.join(LABELING)}")
        of_scans = ("fold", "block", "channels", "columns", "labels", "classes", "split", "unit")
        for name, task in (("category", "part"), *((name, "semantic") for name in of_scans)):
            if getattr(self, name) is not None and self.task != task:
                raise UserError(
                    f"{name} is {getattr(self, name)!r} with task {self.task!r}; expected it with --task {task}"
                )
        if self.first_width is not None and (self.task, self.model) != ("semantic", "pointnet-vanilla"):
            raise UserError(
                f"first_width is {self.first_width} with task {self.task!r} and model {self.model!r}; expected it with "
                "--task semantic --model pointnet-vanilla"
            )
        if self.center == "box" and self.task == "semantic":
            raise UserError("center is 'box' with task 'semantic', whose blocks are not centered; leave --center out")
        if self.drop and self.task != "classify":
            raise UserError(f"drop is {self.drop} with task {self.task!r}; expected 0, as each point keeps its label")
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            least, most, above = (f.metadata.get(limit) for limit in ("least", "most", "above"))
            if value is None:
                continue
            if isinstance(value, float) and not math.isfinite(value):
                raise UserError(f"{f.name} is {value}; expected a finite number")
            if least is not None and not value >= least:
                raise UserError(f"{f.name} is {value}; expected at least {least}")
            if most is not None and not value <= most:
                raise UserError(f"{f.name} is {value}; expected at most {most}")
            if above is not None and not value > above:
                raise UserError(f"{f.name} is {value}; expected more than {above}")
        for name in ("teacher_weight", "feature_weight", "temperature"):
            if self.teacher is None and getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise UserError(f"{name} is {getattr(self, name)} without a teacher; expected one with --teacher")
        if not self.teacher_weight <= 1:
            raise UserError(f"teacher_weight is {self.teacher_weight}; expected at most 1")
        if self.teacher is not None and "each" in (self.category, self.fold):
            raise UserError("teacher is for one network; found it with `each`; leave one of the two out")
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
    def max_points(self) -> int | None:
        """The most points of a cloud that a prediction of the trained network uses; None: all, as each has a label.

        PointNets whose pool counts distinct codes gain from up to four times as many points as in training, but not
        from more than about a thousand (docs/theory.md). Neighborhoods, and a shift by the number of points, depend on
        the density of the training.
        """
        if self.task != "classify":
            return None
        if self.model in POINTNETS and self.pool == "ema-max":
            return max(self.points, min(4 * self.points, ENOUGH_POINTS))
        return self.points

    @staticmethod
    def _is_free(name: str, value: Any) -> bool:
        """Whether an option may have a value that is not in CHOICES."""
        if name == "method" and isinstance(value, str) and ":" in value:
            return True  # a class, which nn imports
        return name in ("up", "pool", "gradient", "split", "unit") and value is None


def _suggestion(name: str, names: Any) -> str:
    meant = COMMON_NAMES.get(name.lower())
    close = [meant] if meant in names else difflib.get_close_matches(name.lower(), list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _typed(source: str, name: str, value: Any) -> Any:
    """`value` as the type of its field, if the conversion loses nothing."""
    wanted = Config.__annotations__[name]
    if wanted in (float, float | None) and type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            value = math.inf  # which Config refuses
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        kind = str(getattr(wanted, "__name__", wanted)).removesuffix(" | None")
        raise UserError(f"{source}: {name} = {value!r} is of type {type(value).__name__}; expected {kind}")
    return value


def _checked(source: str, values: dict[str, Any]) -> dict[str, Any]:
    """Options by the names of their fields, each known and of its type; `label-smoothing` is `label_smoothing` too."""
    known, checked = Config.__annotations__, {}
    for given, value in values.items():
        name = given.replace("-", "_")
        if name not in known:
            raise UserError(
                f"{source}: unknown option {given!r}{_suggestion(name, known)}; expected one of "
                f"{', '.join(sorted(known))}"
            )
        if name in checked:
            raise UserError(f"{source}: {name} is given twice, with a dash and with an underscore; remove one of them")
        checked[name] = _typed(source, name, value)
    return checked


def from_mapping(source: str, values: dict[str, Any]) -> Config:
    """A Config from option names and values; error messages start with `source`.

    Examples:
        >>> from_mapping("recipe.toml", {"label-smoothing": 0.1, "epochs": 20}).label_smoothing
        0.1
    """
    checked = _checked(source, values)
    try:
        return Config(**checked)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """The options of a TOML file, each known and of its type.

    Limits and combinations are checked by Config, after command-line options have been merged in.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give --config an existing TOML file") from error
    except (ValueError, RecursionError) as error:  # also bytes that are no text, and numbers of 5000 digits
        raise UserError(f"{path}: not valid TOML ({error}); fix the file") from error
    return _checked(str(path), values)

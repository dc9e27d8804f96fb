"""The recipes of `bipointnet train`: where the options that are not given come from. Imports no PyTorch.

paper: the values of Config, as in BiPointNet (ICLR 2021, arXiv:2010.05501), with the shift delta(n) for n points.
tuned: the same with what measured better, a shift by the number of distinct codes; the default for published data sets.
auto: the default for your own files and built-in data; values that follow the number n of training clouds:

    epochs = 2100 / sqrt(n), from 20 to 600: 900 steps for 48 clouds, 1,400 for 480, 6,400 for 9,843
    batch = 16, shift = 0.2 below 200 clouds; batch = 32, shift = 0.1 otherwise

Measured on built-in shapes, 512 points, 1-bit PointNet (vanilla): accuracy on 40 new objects per class, mean over
random draws. Means of six draws differ by about 1 % by chance. All rows: benchmarks/results/recipe-sweep.json.
(Clouds were centered at their mean points. auto now centers their bounding boxes, which is better by about 3 %
 on shapes: benchmarks/results/normalization.json.)

| 50 clouds, 5 classes, 10 draws: batch 16, lr 0.01, 200 epochs, clip 1, smoothing 0.1, scale 1.25, shift 0.1 | 93.9 |
| 100 epochs; 400 epochs                                           | 91.8; 95.2 |
| batch 8, 25, 50 with as many steps                               | 91.9; 94.2; 94.7 |
| lr 0.003, 0.005, 0.02                                            | 91.8; 93.3; 95.0 |
| no clipping                                                      | 93.9 |
| the same on draws 0 to 5                                         | 93.4 |
| no scale, no shift; scale 1.5; scale 2                           | 90.7; 93.6; 93.0 |
| shift 0, 0.2, 0.4                                                | 91.5; 94.7; 92.5 |
| jitter 0.02; rotate 10, 20, 180; drop 0.5                        | 94.4; 94.2, 93.8, 94.8; 94.3 |
| label smoothing 0, 0.2; polynomial gradient                      | 94.0, 94.1; 94.0 |
| 300 epochs, shift 0.2 (auto); 200 epochs, lr 0.02, shift 0.2     | 95.9; 95.8 |
| 500 clouds, 20 classes, 4 draws: batch 32, 100 epochs (auto has 94), the rest as above | 95.2 |
| 50 epochs, 200 epochs; batch 16, 64; lr 0.005, 0.02              | 92.8, 96.2; 95.2, 94.6; 94.9, 94.9 |
| 8,000 clouds, 20 classes, 2 draws: batch 32, 12 epochs, no scale, no shift (the recipe of the demo) | 97.8 |
| 24 epochs (auto has 23); batch 64; scale 1.25 and shift 0.1      | 98.5; 97.9; 97.7 |

So more steps help most, then shifts and stretches. For a folder of 60 files, auto takes about a minute on two cores.
The data have a fixed up axis and front; that rotations hardly matter need not hold for other data, so there are none.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bipointnet.config import OWN_GRADIENTS, PAPER, POINTNETS, Config

if TYPE_CHECKING:  # NumPy is not needed to pick options
    from bipointnet.data.dataset import PointClouds


def default(data: str) -> str:
    """The recipe for the data set of this name, if none is given.

    Examples:
        >>> default("folder"), default("shapes"), default("modelnet40")
        ('auto', 'auto', 'tuned')
    """
    return "auto" if data in ("folder", "scans", "shapes", "rooms", "outdoors") else "tuned"


def auto(
    clouds: int, task: str = "classify", model: str = "pointnet-vanilla", epochs: int | None = None
) -> dict[str, Any]:
    """The options of the recipe `auto` for a number of training clouds. Warm-up follows `epochs`, if they are given.

    Networks that label points are trained as in the paper, but with at least eight steps per epoch. Other backbones
    than vanilla PointNet have the learning rate of benchmarks/backbones.py; the rest was not measured for them.

    Examples:
        >>> auto(48)["epochs"], auto(480)["epochs"], auto(9843)["epochs"]
        (303, 96, 21)
        >>> auto(9843, model="pointnet2")["lr"]
        0.003
        >>> auto(40, task="part")
        {'recipe': 'auto', 'batch': 5}
    """
    if task != "classify":
        return {"recipe": "auto", "batch": max(2, min(PAPER[task]["batch"], clouds // 8))}
    few = clouds < 200
    epochs = epochs or min(600, max(20, round(2100 / clouds**0.5)))
    return {
        "recipe": "auto",
        "batch": 16 if few else 32,
        "epochs": epochs,
        "lr": 0.01 if model == "pointnet-vanilla" else 0.003,
        "warmup": round(epochs / 20, 1),
        "clip": 1.0,
        "label_smoothing": 0.1,
        "scale": 1.25,
        "shift": 0.2 if few else 0.1,
    }


def auto_scans(blocks: int, method: str = "lsr", model: str | None = None, epochs: int | None = None) -> dict[str, Any]:
    """The options of the recipe `auto` for a number of training blocks of labeled scans.

    PointNet++ unless another backbone is given. Scans have no front, so blocks are rotated. In 1 bit, a PointNet places
    a point by the planes of its first layer: more planes, with different thresholds from the start, help it most.
    PointNet++ in 1 bit is sensitive to the statistics of BatchNorm, which are those of a few small batches unless they
    are measured at the end. docs/your-scans.md has the measured steps.

    Examples:
        >>> auto_scans(3600)["epochs"], auto_scans(3600, model="pointnet-vanilla")["first_width"]
        (10, 256)
        >>> "gradient" in auto_scans(3600, method="fp")
        False
    """
    model = model or "pointnet2"
    epochs = epochs or min(100, max(5, round(36_000 / blocks)))
    values = {
        "recipe": "auto",
        "model": model,
        "batch": max(2, min(16, blocks // 8)),
        "epochs": epochs,
        "lr": 0.003,
        "warmup": round(epochs / 20, 1),
        "clip": 1.0,
        "label_smoothing": 0.1,
        "rotate": 180.0,
    }
    if method not in OWN_GRADIENTS:
        values["gradient"] = "polynomial"
    if method != "fp" and model in POINTNETS:
        values["init_bias_std"] = 1.0
    if method != "fp" and model == "pointnet-vanilla":
        values["first_width"] = 256
    if method != "fp" and model == "pointnet2":
        values["precise_norm"] = True
    return values


def picks(data: "PointClouds", config: Config, epochs: int | None = None, model: str | None = None) -> dict[str, Any]:
    """The options of the recipe `auto` for a data set. epochs, model: as given; None if they are not."""
    if data.scans is not None:
        points = data.train.points.shape[1]
        return {**auto_scans(len(data.train), config.method, model, epochs), "points": points}
    return auto(len(data.train), config.task, config.model, epochs)


def sentence(values: dict[str, Any], given: dict[str, Any], clouds: int, classes: int) -> str:
    """What the recipe `auto` picked, and why. Options that are given are left out.

    Examples:
        >>> sentence(auto(48), {"epochs": 20}, 48, 5).partition(":")[0]
        'Recipe auto for 48 training clouds of 5 classes'
    """
    picked = {name: value for name, value in values.items() if name not in given and name != "recipe"}
    options = " ".join(_option(name, value) for name, value in picked.items()) or "nothing to pick"
    if "points" in values:
        why = "labeled scans: the more blocks, the fewer epochs"
    elif "epochs" not in values:
        why = "at least eight steps per epoch, the rest as in the paper"
    elif clouds < 200:
        why = "few clouds: small batches, many epochs unless given, clouds shifted and stretched"
    else:
        why = "the more clouds, the fewer epochs; --recipe paper has the values of the paper"
    what = "blocks" if "points" in values else "clouds"
    return f"Recipe auto for {clouds} training {what} of {classes} classes: {options} ({why})"


def _option(name: str, value: Any) -> str:
    """An option as it is typed.

    Examples:
        >>> _option("label_smoothing", 0.1), _option("precise_norm", True)
        ('--label-smoothing 0.1', '--precise-norm')
    """
    option = f"--{name.replace('_', '-')}"
    if value is True:
        return option
    return f"{option} {value}" if isinstance(value, str) else f"{option} {value:g}"


def summary(config: Config, data: "PointClouds") -> dict[str, Any]:
    """The entries of result.json: the recipe, the options it picked, and those that were given instead."""
    names = set(auto(len(data.train)))
    values = asdict(Config(task=config.task))
    if config.recipe == "auto":
        picked = picks(data, config, model=config.model)
        values |= picks(data, config, config.epochs, config.model)  # the warm-up that was picked
        values |= {"epochs": picked.get("epochs", values["epochs"])}
        names |= set(picked)
    listed = [name for name in values if name in names and name != "recipe"]
    followed = {name: values[name] for name in listed if getattr(config, name) == values[name]}
    instead = {name: getattr(config, name) for name in listed if name not in followed}
    return {"recipe": config.recipe, "picks": followed, "instead": instead}

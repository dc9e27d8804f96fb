"""The files of a run.

config.json           the configuration
data.json             what was read: layout, classes, files held out for the test, files left out
last.safetensors      weights of the last epoch that was saved
best.safetensors      weights of the epoch with the best test accuracy, or mIoU for networks that label points
resume.safetensors    weights, optimizer state and history: what --resume reads
metrics.csv           one row per epoch. Evaluated epochs also have the confidence (the probability of the predicted
                      class that 95 % of the test clouds exceed), the entropy of the pooled bits, the T-Net
                      regularizer and the percentage of activations that pass no gradient
tensorboard/          the same for TensorBoard
result.json           the figures of the finished run
report.html           a page about the finished run: curves, mistakes, confusion, entropy of bits, configuration
"""

import csv
import io
import json
import reprlib
import sys
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from bipointnet.config import from_mapping
from bipointnet.errors import UserError
from bipointnet.extras import install_hint, installed
from bipointnet.files import write_beside
from bipointnet.models import checkpoint
from bipointnet.training.partial import Partial
from bipointnet.training.resume_options import require_same_options

EVALUATED = ("test_oa", "test_macc", "test_miou", "confidence", "entropy", "regularizer", "zero_gradient")
COLUMNS: tuple[str, ...] = ("epoch", "lr", "loss", "train_oa", *EVALUATED, "seconds")
REPORT = "report.html"
Row = dict[str, Any]  # of metrics.csv: one value per column, None if the epoch was not evaluated


def write_json(path: Path, value: dict[str, Any]) -> None:
    write_beside(path, json.dumps(value, indent=2).encode())


def write_csv(path: Path, history: list[Row]) -> None:
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS)
    table.writeheader()
    table.writerows(history)
    write_beside(path, text.getvalue().encode())


def open_tensorboard(folder: Path, epochs_done: int) -> Any:
    """TensorBoard's writer; None, after a line on stderr, if TensorBoard is not installed.

    Entries that an interrupted run wrote after `epochs_done` are hidden.
    """
    if not installed("tensorboard"):
        hint = f"TensorBoard is not installed; to have it, {install_hint('tensorboard')}"
        print(f"No TensorBoard log, metrics.csv has the same figures: {hint}", file=sys.stderr)
        return None
    from torch.utils.tensorboard.writer import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"), purge_step=epochs_done + 1)


def save_state(
    path: Path, model: nn.Module, optimizer: Optimizer, facts: dict[str, Any], partial: Partial | None
) -> None:
    """Write weights, optimizer state, facts and the interrupted epoch, if there is one, to one file."""
    tensors = {f"weights.{name}": value for name, value in model.state_dict().items()}
    for index, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
    tensors |= {f"partial.{name}": value for name, value in partial.tensors().items()} if partial else {}
    checkpoint.save(path, tensors, facts)


def load_state(
    path: Path, model: nn.Module, optimizer: Optimizer, now: dict[str, Any]
) -> tuple[dict[str, Any], Partial | None]:
    """Restore what `save_state` wrote; returns the facts and the interrupted epoch.

    UserError if `now`, the facts of the run that continues, are of another configuration or of other data.
    """
    tensors, facts = checkpoint.load(path)
    require_same_options(path.parent, from_mapping(str(path.parent), facts["config"]), now["config"])
    require_same_data(path.parent, facts, now)
    groups: dict[str, dict[str, Tensor]] = {"weights": {}, "optimizer": {}, "partial": {}}
    for name, value in tensors.items():
        group, _, rest = name.partition(".")
        groups[group][rest] = value
    model.load_state_dict(groups["weights"])
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in groups["optimizer"].items():
        index, _, entry = name.partition(".")
        state.setdefault(int(index), {})[entry] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return facts, Partial.from_tensors(groups["partial"]) if groups["partial"] else None


SAME_DATA = ("dataset", "classes", "categories", "channels", "train_clouds", "test_clouds")


def require_same_data(folder: Path, started: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise UserError if the facts of a run say that it was started on other data."""
    before, files = ({tuple(file) for file in facts["trained_on"]} for facts in (started, now))
    if before != files:  # the run may have seen test files
        raise UserError(
            f"{folder}: the training files changed since the run was started ({len(files - before)} are new or edited, "
            f"{len(before - files)} are gone, the first is {min(before ^ files)[0]}); resume with the same files, or "
            "choose another folder with -o"
        )
    for name in ("blocks", "scans"):
        if started.get(name) != now[name]:
            raise UserError(
                f"{folder}: its scans are read or cut in another way than when the run was started ({name}: "
                f"{started.get(name)}, now {now[name]}); expected the same files, classes and options; choose another "
                "folder with -o"
            )
    for name in SAME_DATA:
        if started[name] != now[name]:
            values = reprlib.repr(started[name]), reprlib.repr(now[name])
            raise UserError(
                f"{folder}: the run was started on other data ({name}: {values[0]}, now {values[1]}); resume with the "
                "same data, or choose another folder with -o"
            )


def copy_weights(model: nn.Module, source: Path) -> set[str]:
    """Copy every tensor of a run into `model` whose name and shape fit; returns the names copied."""
    path = checkpoint.checkpoint_path(source)
    tensors, _ = checkpoint.load(path)
    own = model.state_dict()
    fitting = {name: value for name, value in tensors.items() if name in own and own[name].shape == value.shape}
    if not fitting:
        raise UserError(
            f"{path}: none of its {len(tensors)} tensors fits this network; expected a run of the same backbone"
        )
    model.load_state_dict(fitting, strict=False)
    return set(fitting)

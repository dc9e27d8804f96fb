"""Export: a trained network becomes a packed file (docs/format.md) that the core runs without PyTorch.

networks.py lists the stages of a network, program.py writes them as operations, fold.py computes the thresholds. This
module adds the manifest and the golden vector, and checks the whole file.
"""

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bipointnet import _core
from bipointnet.errors import UserError
from bipointnet.files import write_beside
from bipointnet.models import checkpoint
from bipointnet.packing.container import file_bytes
from bipointnet.packing.networks import find_writer, task_of
from bipointnet.packing.program import Program
from bipointnet.runtime.reference import Packed, golden_logits

FORMAT = 1
# Facts of a checkpoint that a packed file keeps, besides those of its configuration.
EXPORTED_FACTS = ("data", "dataset", "layout", "num_classes", "train_clouds", "test_clouds")
EXPORTED_FACTS += ("extent", "cloud_points", "confidence", "epoch", "test_oa", "version")
LAST = {"f16": np.float16, "f32": np.float32}


def export(
    model: nn.Module,
    path: str | Path,
    *,
    classes: Sequence[str],
    task: str | None = None,
    categories: Sequence[str] = (),
    parts: Sequence[Sequence[int]] = (),
    training: dict[str, Any] | None = None,
    normalize: str = "sphere",
    last: str = "f16",
    golden_points: int = 64,
) -> int:
    """Write `model` as a packed file, and return its size in bytes.

    Args:
        model: a PointNet, PartPointNet or ScenePointNet; it is not changed.
        path: the file. It is replaced atomically; if the model cannot be packed, the old file stays.
        classes: names of the classes, in the order of the logits.
        task: "classify", "part" or "semantic"; None takes the task of the network's class.
        categories: names of the categories, in the order of the network's category input.
        parts: for each category, the indices of the classes that its points can have, ascending. Default: all classes.
        training: facts about the training, any JSON value; for information only.
        normalize: "sphere" if the core shall center and scale each cloud, or "none".
        last: the type of the weights of a float last layer, "f16" or "f32".
        golden_points: number of points of the random cloud that is checked when the file is loaded.

    Raises:
        UserError: the network cannot be packed, or an argument is wrong.

    Example:
        >>> import bipointnet
        >>> names = ["chair", "table"]
        >>> linear = bipointnet.BinaryLinear.of(bipointnet.LSR())
        >>> network = bipointnet.PointNet(len(names), linear=linear, pool=bipointnet.EntropyMax())
        >>> size = bipointnet.export(network, "model.bpn", classes=names)  # doctest: +SKIP
        >>> bipointnet.load("model.bpn").classes  # doctest: +SKIP
        ['chair', 'table']
    """
    if task not in (None, "classify", "part", "semantic"):
        raise UserError(f"task is {task!r}; expected classify, part or semantic")
    names: dict[str, Any] = {"task": task or task_of(model), "classes": list(classes)}
    names |= {"categories": list(categories)} if categories else {}
    names |= {"parts": [[int(number) for number in numbers] for numbers in parts]} if len(parts) else {}
    content = _packed_bytes(model, names, training or {}, normalize, last, golden_points)
    try:
        _core.Model(content, "portable")
    except _core.FormatError as error:
        raise UserError(f"the network cannot be packed: {error} (docs/format.md lists the limits)") from error
    write_beside(Path(path), content)
    return len(content)


def export_run(run: str | Path, path: str | Path, last: str = "f16") -> int:
    """Write the network of a run folder or a checkpoint file as a packed file, and return its size in bytes."""
    model, facts = checkpoint.load_run(Path(run))
    config = facts["config"]
    training = {
        **{name: config.get(name) for name in ("method", "gradient", "pool", "model", "points", "epochs", "seed")},
        **{name: facts[name] for name in EXPORTED_FACTS if name in facts},
    }
    categories = facts.get("categories", ())
    if config.get("task", "classify") != "classify":
        training |= {"test_miou": facts.get("test_miou"), "up": facts.get("up", "z")}
    normalize = "none" if config.get("task") == "semantic" else "sphere"
    return export(
        model,
        path,
        classes=facts["classes"],
        task=config.get("task", "classify"),
        categories=categories,
        parts=facts["parts"] if categories else (),
        training=training,
        normalize=normalize,
        last=last,
    )


def _packed_bytes(
    model: nn.Module, names: dict[str, Any], training: dict, normalize: str, last: str, golden_points: int
) -> bytes:
    """The content of a packed file; `names` are task, classes, categories and parts, as in the manifest."""
    classes, categories = names["classes"], names.get("categories", [])
    if last not in LAST:
        raise UserError(f"last is {last!r}; expected one of {', '.join(LAST)}")
    if normalize not in ("sphere", "none"):
        raise UserError(f"normalize is {normalize!r}; expected sphere or none")
    if not 1 <= golden_points <= 4096:
        raise UserError(f"golden_points is {golden_points}; expected 1 to 4096")
    if not all(isinstance(name, str) for name in classes):
        raise UserError(f"classes is {classes!r}; expected strings, the names of the classes")
    name, write_program = find_writer(model)
    expected = getattr(model, "categories", 0)
    if len(categories) != expected:
        raise UserError(
            f"categories has {len(categories)} names; expected {expected}, one per category input of the network"
        )
    _require_finite(model)
    program = Program(LAST[last])
    with torch.no_grad():
        channels = write_program(program, copy.deepcopy(model).cpu().double().eval())
    if program.width != len(classes):
        raise UserError(f"classes has {len(classes)} names; expected {program.width}, one per logit")
    manifest = {
        "format": FORMAT,
        "model": name,
        **names,
        "channels": channels,
        "normalize": normalize,
        "program": program.ops,
        "golden": {"seed": 0, "points": golden_points, "tolerance": 0.0},
        "training": training,
    }
    packed = _with_golden(Packed(manifest, program.tensors))
    try:
        text = json.dumps(packed.manifest, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise UserError(
            f"classes and training cannot be written as JSON ({error}); expected strings, numbers, lists and objects"
        ) from error
    return file_bytes(text, packed.tensors)


def _require_finite(model: nn.Module) -> None:
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise UserError(f"{name}: holds NaN or infinite values; expected finite weights; train the network again")


def _with_golden(packed: Packed) -> Packed:
    """The model with its golden vector. The reference computes the bits of the core; other readers have a tolerance."""
    golden, logits = packed.manifest["golden"], golden_logits(packed)
    if not np.isfinite(logits).all():
        raise UserError("the logits of a random cloud are not finite in float32; expected weights of ordinary size")
    golden["tolerance"] = float(f"{max(1e-3, 1e-4 * float(np.abs(logits).max())):.1e}")
    return Packed(packed.manifest, packed.tensors | {"golden": logits})

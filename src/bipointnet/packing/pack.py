"""Export: a trained network becomes a packed file (docs/format.md) that the core runs without PyTorch.

walk.py takes a network apart, program.py writes what it finds, and the whole is checked here.
"""

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from torch import nn

from bipointnet import _core
from bipointnet.errors import UserError
from bipointnet.files import write_beside
from bipointnet.models import checkpoint
from bipointnet.packing.networks import task_of, walker
from bipointnet.packing.program import Program
from bipointnet.runtime import reference
from bipointnet.runtime.reference import Packed, golden_cloud, golden_logits, run_program

FORMAT = 1
GOLDEN_SEEDS = 32
CLEAR = 1e-5  # of a golden cloud: how far from 0, relative to the largest, floats should be whose signs are taken
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
        model: a PointNet, PartPointNet or ScenePointNet; it is left as it is.
        path: the file, replaced in one step; a model that is refused leaves it untouched.
        classes: their names, in the order of the logits.
        task: "classify", "part" or "semantic"; None takes that of the network's class.
        categories: names of the categories a network for parts is told, in their order.
        parts: of each category the numbers of the classes its points can have, ascending; none: they can have any.
        training: facts for people, anything JSON can say.
        normalize: what the core does to a cloud first, "sphere" or "none".
        last: how a float last layer's weights are stored, "f16" or "f32".
        golden_points: points of the made-up cloud that is checked at load.
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
    model, facts = checkpoint.load_model(Path(run))
    config = facts["config"]
    training = {
        "data": facts.get("data"),
        **{name: config.get(name) for name in ("method", "pool", "model", "points")},
        "epochs": facts.get("epoch", config.get("epochs")),
        "seed": config.get("seed"),
        "test_oa": facts.get("test_oa"),
        "version": facts.get("version"),
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
        raise UserError(f"classes are {classes!r}; expected strings, the names of the classes")
    name, walk = walker(model)
    expected = getattr(model, "categories", 0)
    if len(categories) != expected:
        raise UserError(
            f"categories has {len(categories)} names; expected {expected}, one for each the network is told"
        )
    _require_finite(model)
    program = Program(LAST[last])
    with torch.no_grad():
        channels = walk(program, copy.deepcopy(model).cpu().double().eval())
    if program.width != len(classes):
        raise UserError(f"classes has {len(classes)} names; expected {program.width}, one for each of the logits")
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
    return safetensors.numpy.save(packed.tensors, metadata={"bipointnet": text})


def _require_finite(model: nn.Module) -> None:
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise UserError(f"{name}: holds numbers that are not finite; expected a network that was trained to an end")


def _with_golden(packed: Packed) -> Packed:
    """The model with its golden vector.

    The core may round a cloud's normalisation otherwise than numpy, so a cloud is sought where no float lies so near 0
    that its sign could differ: of the first GOLDEN_SEEDS the first that is CLEAR, else the clearest.
    """
    golden, channels = packed.manifest["golden"], packed.manifest["channels"]
    clearances: list[float] = []
    while len(clearances) < GOLDEN_SEEDS and max(clearances, default=0.0) < CLEAR:
        clearances.append(_program_clearance(packed, golden_cloud(len(clearances), golden["points"], channels)))
    golden["seed"] = int(np.argmax(clearances))
    logits = golden_logits(packed)
    if not np.isfinite(logits).all():
        raise UserError("the logits of a made-up cloud are not finite in float32; expected weights of ordinary size")
    golden["tolerance"] = float(f"{max(1e-3, 1e-4 * float(np.abs(logits).max())):.1e}")
    return Packed(packed.manifest, packed.tensors | {"golden": logits})


def _program_clearance(packed: Packed, cloud: np.ndarray) -> float:
    """How near 0 the numbers come whose signs the program takes."""
    _, values = run_program(packed, cloud, category=0 if "categories" in packed.manifest else None)
    program = packed.manifest["program"]
    taken = [(v, op) for v, op in zip(values, program[1:], strict=False) if op["op"] in reference.SIGNS]
    read = [v - np.float32(op.get("at", 0)) for v, op in taken]
    return min((_clearance(v) for v in read), default=math.inf)


def _clearance(x: np.ndarray) -> float:
    """How near 0 the numbers come, relative to the largest. Exact zeros are constant channels, and safe."""
    sizes = np.abs(x[x != 0])
    return float(sizes.min() / sizes.max()) if sizes.size else math.inf

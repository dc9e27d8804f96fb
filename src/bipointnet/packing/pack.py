"""Export: a trained network becomes a packed file (docs/format.md) that the core runs without PyTorch.

record.py and runs.py run the network and record what it does, the modules read_*.py and searches.py understand it as a
graph, lower.py writes the graph as a program, fold.py computes the thresholds. This module adds the manifest and the
golden vector, and checks the whole file.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bipointnet import _core
from bipointnet.config import from_mapping
from bipointnet.data.blocks import BlockLayout
from bipointnet.errors import UserError
from bipointnet.files import write_beside
from bipointnet.models import LocalNet, checkpoint
from bipointnet.packing.analysis import Analysis, analyze
from bipointnet.packing.container import file_bytes
from bipointnet.packing.cost import Exported, measured
from bipointnet.packing.lower import LAST, lower
from bipointnet.runtime.reference import Packed, golden_logits

FORMAT = 2
# Facts of a checkpoint that a packed file keeps, besides those of its configuration.
EXPORTED_FACTS = ("data", "dataset", "layout", "num_classes", "train_clouds", "test_clouds")
EXPORTED_FACTS += ("scans", "up", "extent", "cloud_points", "confidence", "epoch", "test_oa", "version")


def export(
    network: nn.Module,
    path: str | Path,
    *,
    classes: Sequence[str],
    example: Any = None,
    task: str | None = None,
    categories: Sequence[str] = (),
    parts: Sequence[Sequence[int]] = (),
    training: dict[str, Any] | None = None,
    normalize: str = "sphere",
    max_points: int | None = None,
    blocks: BlockLayout | None = None,
    last: str = "f16",
    replace: Mapping[Callable[..., Any], str] | None = None,
    golden_points: int = 64,
) -> Exported:
    """Write what a network computes as a packed file.

    The network runs on the example and on clouds of other sizes, and every call is recorded. The file computes the same
    for any number of points. (If clouds with fewer points than the example make the network fail or take another
    branch, the file does with them what it does with larger ones; groups of neighbors repeat their first neighbor.)

    Args:
        network: any network of linear layers and 1x1 convolutions, in float or in 1 bit; it is not changed.
        path: the file. It is replaced atomically; if the network cannot be packed, the old file stays.
        classes: names of the classes, in the order of the logits.
        example: the inputs of the network for one cloud or a batch, a tensor or a tuple. It is not needed for networks
            on clouds (B, N, C).
        task: "classify", "part" or "semantic"; None is "classify" for logits of clouds; for logits of points it is
            "part" with categories, else "semantic" for normalize="none" and "part" otherwise.
        categories: names of the categories, in the order of the network's category input.
        parts: for each category, the indices of the classes that its points can have, ascending. Default: all classes.
        training: facts about the training, a dictionary of JSON values. Logits do not depend on them; docs/format.md,
            "Training facts", says what does.
        normalize: what the core does with each cloud: "sphere" moves its mean point, "box" the center of its bounding
            box to the origin, and both scale its farthest point to distance 1; or "none".
        max_points: the most points of a cloud that a prediction shall use, for task "classify"; of a larger cloud it
            takes a fixed sample. Default: all points.
        blocks: how scans are cut into blocks, for task "semantic"; without it, `bipointnet.label` refuses the model.
        last: the type of the weights of a float last layer, "f16" or "f32".
        replace: what functions of your own do that compute indices of points: {function: "farthest", "nearest" or
            "ball"}, if they are not recognized.
        golden_points: number of points of the random cloud that is checked when the file is loaded.

    Returns:
        What was written: bytes, operations, multiply-adds and an estimate of the time. Print it.

    Raises:
        UserError: the network cannot be packed, or an argument is wrong.

    Examples:
        >>> import bipointnet
        >>> names = ["chair", "table"]
        >>> linear = bipointnet.BinaryLinear.of(bipointnet.LSR())
        >>> network = bipointnet.PointNet(len(names), linear=linear, pool=bipointnet.EntropyMax())
        >>> print(bipointnet.export(network, "model.bpn", classes=names))  # doctest: +SKIP
        >>> bipointnet.load("model.bpn").classes  # doctest: +SKIP
        ['chair', 'table']
    """
    _check_options(task, last, normalize, golden_points, classes, replace or {})
    _require_finite(network)
    analysis = analyze(network, example, len(classes), len(categories), replace or {})
    names: dict[str, Any] = {"task": _task(task, analysis, categories, normalize), "classes": list(classes)}
    names |= {"categories": list(categories)} if categories else {}
    names |= {"parts": [[int(number) for number in numbers] for numbers in parts]} if len(parts) else {}
    program = lower(analysis.graph, analysis.output, LAST[last])
    analysis.recording.release()
    if categories and not any(op["op"] == "category" for op in program.ops):
        raise UserError(f"categories has {len(categories)} names; expected 0, as the network reads no category")
    if max_points is not None:
        if names["task"] != "classify" or not 1 <= max_points < 2**32:
            expected = "1 to 2^32 - 1" if names["task"] == "classify" else "None, as every point has a label"
            raise UserError(f"max_points is {max_points}; expected {expected}")
        names["max_points"] = max_points
    if blocks is not None:
        names["blocks"] = blocks.as_json()
    manifest = {
        "format": FORMAT,
        "model": _model_name(network),
        **names,
        "channels": analysis.recording.inputs.channels,
        "normalize": normalize,
        "program": program.ops,
        "golden": {"seed": 0, "points": golden_points, "tolerance": 0.0},
        "training": training or {},
    }
    content = _packed_bytes(Packed(manifest, program.tensors))
    try:
        _core.Model(content, "portable")
    except _core.FormatError as error:
        raise UserError(f"the network cannot be packed: {error} (docs/format.md lists the limits)") from error
    write_beside(Path(path), content)
    return measured(Path(path), len(content), program, analysis.chosen)


def export_run(run: str | Path, path: str | Path, last: str = "f16", max_points: int | None = None) -> Exported:
    """Write the network of a run folder or a checkpoint file as a packed file.

    max_points: the most points that a prediction shall use; None: `Config.max_points`, 0: all.
    """
    network, facts = checkpoint.load_run(Path(run))
    config = from_mapping(str(run), facts["config"])
    training = {
        **{name: getattr(config, name) for name in ("method", "gradient", "pool", "model", "points", "epochs", "seed")},
        **{name: facts[name] for name in EXPORTED_FACTS if name in facts},
        "data": Path(facts["data"]).name,  # a packed file is for other machines, where the path says nothing
    }
    categories = facts.get("categories", ())
    if config.task != "classify":
        training |= {"test_miou": facts.get("test_miou")}
    normalize = "none" if config.task == "semantic" else {"mean": "sphere", "box": "box"}[config.center]
    return export(
        network,
        path,
        classes=facts["classes"],
        task=config.task,
        categories=categories,
        parts=facts["parts"] if categories else (),
        training=training,
        normalize=normalize,
        max_points=config.max_points if max_points is None else max_points or None,
        blocks=None if facts.get("blocks") is None else BlockLayout.from_json(facts["blocks"]),
        last=last,
    )


def _check_options(task: Any, last: str, normalize: str, golden_points: int, classes: Any, replace: Any) -> None:
    if task not in (None, "classify", "part", "semantic"):
        raise UserError(f"task is {task!r}; expected classify, part or semantic")
    if last not in LAST:
        raise UserError(f"last is {last!r}; expected one of {', '.join(LAST)}")
    if normalize not in ("sphere", "box", "none"):
        raise UserError(f"normalize is {normalize!r}; expected sphere, box or none")
    if not 1 <= golden_points <= 4096:
        raise UserError(f"golden_points is {golden_points}; expected 1 to 4096")
    if not all(isinstance(name, str) for name in classes):
        raise UserError(f"classes is {list(classes)!r}; expected strings, the names of the classes")
    for function, operation in replace.items():
        if not callable(function) or operation not in ("farthest", "nearest", "ball"):
            raise UserError(f"replace has {function!r}: {operation!r}; expected a function: farthest, nearest or ball")


def _task(task: str | None, analysis: Analysis, categories: Sequence[str], normalize: str) -> str:
    per_point = analysis.output.domain.kind != "cloud"
    found = "classify" if not per_point else "part" if categories or normalize != "none" else "semantic"
    if task is not None and (task == "classify") == per_point:
        what = "every point" if per_point else "the cloud"
        raise UserError(f"task is {task!r}, but the network has logits of {what}; expected {found}")
    return task or found


def _model_name(network: nn.Module) -> str:
    """A name for people: that of a backbone of this library, or of the class."""
    name = type(network).__name__
    names = {"PointNet2": "pointnet2", "DGCNN": "dgcnn", "PointCNN": "pointcnn", "PointConvNet": "pointconv"}
    names |= {"PointNet": "pointnet", "PartPointNet": "pointnet-part", "ScenePointNet": "pointnet-semantic"}
    names |= {"PointNet2Segmenter": "pointnet2-segmenter", "DGCNNSegmenter": "dgcnn-segmenter"}
    if not type(network).__module__.startswith("bipointnet.models."):
        return name
    if isinstance(network, LocalNet):
        return f"local-{network.size}"
    found = names.get(name, name)
    vanilla = found.startswith("pointnet") and getattr(network, "input_transform", 0) is None
    return found.replace("pointnet", "pointnet-vanilla") if vanilla else found


def _packed_bytes(packed: Packed) -> bytes:
    packed = _with_golden(packed)
    try:
        text = json.dumps(packed.manifest, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise UserError(
            f"classes and training cannot be written as JSON ({error}); expected strings, numbers, lists and objects"
        ) from error
    return file_bytes(text, packed.tensors)


def _require_finite(network: nn.Module) -> None:
    for name, tensor in network.state_dict().items():
        if isinstance(tensor, torch.Tensor) and not tensor.isfinite().all():
            raise UserError(f"{name}: holds NaN or infinite values; expected finite weights; train the network again")


def _with_golden(packed: Packed) -> Packed:
    """The model with its golden vector. The reference computes the bits of the core; other readers have a tolerance."""
    golden, logits = packed.manifest["golden"], golden_logits(packed)
    if not np.isfinite(logits).all():
        raise UserError("the logits of a random cloud are not finite in float32; expected weights of ordinary size")
    golden["tolerance"] = float(f"{max(1e-3, 1e-4 * float(np.abs(logits).max())):.1e}")
    return Packed(packed.manifest, packed.tensors | {"golden": logits})

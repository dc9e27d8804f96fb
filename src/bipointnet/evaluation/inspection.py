"""What a model consists of: its operations or layers, bits, bytes and multiply-adds, and how it was trained."""

import dataclasses
from pathlib import Path
from typing import Any

from bipointnet.evaluation.model_file import identify
from bipointnet.evaluation.predictor import open_run
from bipointnet.runtime import model as runtime
from bipointnet.runtime.operations import Operation, float_bytes


def inspect_model(path: Path) -> dict[str, Any]:
    """The facts of a packed model, a run folder or a checkpoint, as `inspect --json` prints them."""
    return inspect_packed(runtime.load(path)) if identify(path).packed else inspect_run(path)


def inspect_packed(model: runtime.Model) -> dict[str, Any]:
    """The facts of a packed model.

    Of an operation: "weights" is the type of its weights, or None; "share" its part of the estimated cost of a cloud.
    """
    operations = model.operations()
    whole = sum(o.cost for o in operations) or 1.0

    def described(operation: Operation) -> dict[str, Any]:
        facts = operation._asdict()
        return {**facts.pop("fields"), **facts, "share": round(operation.cost / whole, 4)}

    tensors = sum(tensor.bytes for tensor in model.tensors.values())
    return {
        "model": model.manifest["model"],
        "task": model.task,
        "classes": model.classes,
        "categories": model.categories,
        "channels": model.channels,
        "normalize": model.manifest["normalize"],
        "operations": [described(operation) for operation in operations],
        "multiply_adds": {
            "points": model.points,
            "one_bit": sum(o.bit_multiply_adds for o in operations),
            "float": sum(o.float_multiply_adds for o in operations),
            "distances": sum(o.distances for o in operations),
        },
        "bytes": {"file": model.bytes, "tensors": tensors, "header": model.bytes - tensors},
        "training": model.manifest["training"],
    }


def inspect_run(path: Path) -> dict[str, Any]:
    """The facts of the network of a run folder or checkpoint. "scales" of a layer: its scaling factors."""
    run = open_run(path)
    from torch import nn

    from bipointnet.nn import BinaryLinear, deployed_bytes, operations

    counted = operations(run.network, run.points, run.channels)
    layers = []
    for name, module in run.network.named_modules():
        parameters = list(module.parameters(recurse=False))
        if not parameters:
            continue
        kind = "1 bit" if isinstance(module, BinaryLinear) else "float" if isinstance(module, nn.Linear) else "norm"
        layers.append(
            {
                "layer": name,
                "kind": kind,
                "shape": " x ".join(str(size) for size in parameters[0].shape),
                "parameters": sum(parameter.numel() for parameter in parameters),
                "scales": module.method.scale_count(module.out_features) if isinstance(module, BinaryLinear) else 0,
                "multiply_adds": counted.layers.get(name, 0),
            }
        )
    return {
        "model": run.config.model,
        "classes": run.classes,
        "channels": run.channels,
        "layers": layers,
        "parameters": sum(layer["parameters"] for layer in layers),
        "scales": sum(layer["scales"] for layer in layers),
        "multiply_adds": {
            "points": run.points,
            "one_bit": counted.one_bit,
            "float": counted.float,
            "distances": counted.distances,
        },
        "bytes": {"deployed": deployed_bytes(run.network)},
        "training": {"data": run.data, "epoch": run.facts["epoch"], **dataclasses.asdict(run.config), "up": run.up},
    }


def packed_sizes(model: runtime.Model) -> dict[str, Any]:
    """Bytes of a packed model and of the same network in float32, and the ratio of the two."""
    fp32 = float_bytes(model.operations())
    return {"bytes": model.bytes, "fp32": fp32, "ratio": round(fp32 / model.bytes, 2)}

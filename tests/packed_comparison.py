"""Compare the program of a network with PyTorch: every bit, float and logit."""

from typing import Any

import numpy as np
import torch
from packed_networks import cloud
from torch import nn

from bipointnet.evaluation.verify_torch import TorchComparison
from bipointnet.packing.values import TorchValues
from bipointnet.runtime import reference

SIZES = (1, 2, 63, 200)


def packed_program(values: TorchValues, classes: int, categories: int = 0) -> reference.Packed:
    """The program as the reference reads it."""
    names: dict[str, Any] = {"categories": [str(i) for i in range(categories)]} if categories else {}
    channels = values.analysis.recording.inputs.channels
    manifest = {"classes": [str(i) for i in range(classes)], "channels": channels, "normalize": "none", **names}
    return reference.Packed(manifest | {"program": values.program.ops}, values.program.tensors)


def compare(
    network: nn.Module,
    classes: int,
    sizes: tuple[int, ...] = SIZES,
    categories: int = 0,
    category: int | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Every value of every cloud equals PyTorch's in float64, up to the rounding of its operation in float32.

    Bits may differ only where a float32 number is so close to its threshold that rounding decides. Returns the program.
    """
    torch.set_num_threads(1)
    values = TorchValues(network, classes, categories=categories, last="f32", **options)
    packed = packed_program(values, classes, categories)
    comparison = TorchComparison(packed, lambda points, category: values(points, category or 0))
    for points in sizes:
        x = cloud(points, packed.manifest["channels"])
        _, trace = reference.run_program(packed, x, raw=True, category=category)
        comparison.compare(f"cloud of {points}", x, category, trace)
    facts = comparison.facts()
    assert not facts["first_unexplained"], facts
    assert facts["floats_compared"] > 0
    assert facts["bits_different"] <= 2e-3 * facts["bits_compared"], facts
    assert_covered(values, packed.manifest["program"])
    return packed.manifest["program"]


def assert_covered(values: TorchValues, program: list[dict[str, Any]]) -> None:
    """The outputs of all 1-bit layers have a counterpart in PyTorch, so that none is left uncompared.

    Groups whose neighbors PyTorch has in another order are compared after the pool over them.
    """
    layers = {
        name for op in program if op["op"].startswith("bilinear") and op["in"] != ["category"] for name in op["out"]
    }
    meaning = values.program.meaning
    layers -= {name for name in layers if any(d.unordered for d in meaning[name][0].domain.chain)}
    x = cloud(150, values.analysis.recording.inputs.channels)
    assert layers <= set(values(x))


def logits_of(network: nn.Module, inputs: tuple[torch.Tensor, ...]) -> np.ndarray:
    with torch.no_grad():
        output = network.double()(*[x.double() if x.is_floating_point() else x for x in inputs])
    network.float()
    return (output if isinstance(output, torch.Tensor) else output[0])[0].numpy()

"""Values that a network takes from its first real batch: LSR's alpha, the shift of a pool without BatchNorm."""

from typing import Any

import torch
from torch import Tensor, nn


@torch.no_grad()
def calibrate(model: nn.Module, *batch: Tensor) -> None:
    """Run `batch` through `model` once; every module with a `calibrate(input)` sets itself just before it runs.

    So each layer sees its input as the calibrated layers before it make it. Running statistics of BatchNorm are put
    back, and the training mode is kept. Call it before the optimizer and any distributed wrapper exist.
    """

    def before(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        module.calibrate(inputs[0])  # pyright: ignore[reportCallIssue]

    hooks = [m.register_forward_pre_hook(before) for m in model.modules() if hasattr(m, "calibrate")]
    statistics = {
        (module, name): buffer.clone()
        for module in model.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
        for name, buffer in module.named_buffers(recurse=False)
    }
    training = model.training
    try:
        model.train()(*batch)
    finally:
        model.train(training)
        for (module, name), buffer in statistics.items():
            getattr(module, name).copy_(buffer)
        for hook in hooks:
            hook.remove()

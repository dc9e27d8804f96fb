"""Values that a network takes from its first real batch: LSR's alpha, the shift of a max pool without BatchNorm."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bipointnet.nn.hooks import preserved_modes


class Calibrated:
    """Base class of the modules that `calibrate` calls.

    A module of another library may have a method of the same name with another meaning; it is never called.

    calibrate: a method of each subclass that sets the values that depend on the first input x.
    """

    calibrate: Callable[[Any], None]


@torch.no_grad()
def calibrate(model: nn.Module, *batch: Tensor) -> None:
    """Run `batch` through `model` once; every layer with values to set takes them from its own input.

    A layer is calibrated just before it runs, so it reads the output of calibrated layers. Call this before the
    optimizer and before any distributed wrapper.

    The forward pass runs in the modes that training will use: a network in train mode keeps its modes, so frozen
    layers (in eval mode) run frozen; a network in eval mode runs in train mode, because the running statistics of an
    untrained BatchNorm mean nothing. Afterwards every module has its own mode and statistics back.

    Example:
        >>> import torch, bipointnet
        >>> model = bipointnet.PointNet(num_classes=40, linear="lsr", pool="ema-max")
        >>> bipointnet.calibrate(model, torch.rand(8, 256, 3))
    """

    def before(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        assert isinstance(module, Calibrated)
        module.calibrate(inputs[0])

    hooks = [m.register_forward_pre_hook(before) for m in model.modules() if isinstance(m, Calibrated)]
    statistics = {
        (module, name): buffer.clone()
        for module in model.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
        for name, buffer in module.named_buffers(recurse=False)
    }
    try:
        with preserved_modes(model):
            if not model.training:
                model.train()
            model(*batch)
    finally:
        for (module, name), buffer in statistics.items():
            getattr(module, name).copy_(buffer)
        for hook in hooks:
            hook.remove()

"""Values that a network takes from its first real batch: LSR's alpha, the shift of a max pool without BatchNorm."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bipointnet.errors import UserError
from bipointnet.nn.hooks import preserved_modes


class Calibrated:
    """Base class of the modules that `calibrate` calls.

    A module of another library may have a method of the same name with another meaning; it is never called.

    calibrate: a method of each subclass that sets the values that depend on the first input x.
    """

    calibrate: Callable[[Any], None]


@torch.no_grad()
def calibrate(model: nn.Module, batch: Any, **kwargs: Any) -> None:
    """Run a batch through `model` once; every layer with values to set takes them from its own input.

    A layer is calibrated just before it runs, so it reads the output of calibrated layers. Call this before the
    optimizer and before any distributed wrapper.

    The forward pass runs in the modes that training will use: a network in train mode keeps its modes, so frozen
    layers (in eval mode) run frozen; a network in eval mode runs in train mode, because the running statistics of an
    untrained BatchNorm mean nothing. Afterwards every module has its own mode and statistics back.

    Args:
        model: a network with layers of this library.
        batch: one input (a tensor, a dictionary, a graph), a tuple of all inputs, or a DataLoader or another iterable
            of batches, of which the first is used. In a batch of a loader, and in a list of tensors, the last item is
            the labels, and is left out if the forward can do without; so are items that the forward does not take.
        kwargs: keyword arguments of the forward.

    Examples:
        >>> import torch, bipointnet
        >>> model = bipointnet.PointNet(num_classes=40, linear="lsr", pool="ema-max")
        >>> bipointnet.calibrate(model, torch.rand(8, 256, 3))
        >>> labeled = torch.utils.data.TensorDataset(torch.rand(64, 256, 3), torch.zeros(64))
        >>> bipointnet.calibrate(model, torch.utils.data.DataLoader(labeled, batch_size=8))
    """
    inputs = _inputs(model, batch, kwargs)

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
            model(*inputs, **kwargs)
    finally:
        for (module, name), buffer in statistics.items():
            getattr(module, name).copy_(buffer)
        for hook in hooks:
            hook.remove()


def _inputs(model: nn.Module, batch: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The positional arguments of the forward."""
    if isinstance(batch, tuple):
        return batch
    if isinstance(batch, list) and all(isinstance(item, Tensor) for item in batch):
        return _without_labels(model, batch, kwargs)
    if isinstance(batch, (Tensor, Mapping)) or not isinstance(batch, Iterable) or hasattr(batch, "to_dict"):
        return (batch,)
    first = next(iter(batch), None)
    if first is None:
        raise UserError("calibrate: the loader has no batch, expected at least one; give it data")
    return _without_labels(model, first, kwargs) if isinstance(first, (tuple, list)) else (first,)


def _without_labels(model: nn.Module, items: tuple[Any, ...] | list[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    parameters = [p for p in inspect.signature(model.forward).parameters.values() if p.name not in kwargs]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in positional)
    most = len(items) if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional)
    return tuple(items[: min(most, max(needed, len(items) - 1))])

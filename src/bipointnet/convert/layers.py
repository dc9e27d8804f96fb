"""One layer in 1 bit: which layers can be converted, and how."""

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from bipointnet.convert.trace import is_linear
from bipointnet.nn.conv import BinaryConv
from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.methods import Method

SMALL = 0.01  # random weights in place of zeros have this fraction of their usual size


def to_binary(module: nn.Module, method: Method, bias_matters: bool) -> tuple[BinaryLinear, list[str]]:
    """A 1-bit layer with the weights of a float layer, and notes on what else changed.

    A method without bias drops the bias of a layer only if it does not matter, because a BatchNorm follows.

    The signs of a zero matrix are equal, and its scale is 0 in some methods, without a gradient to leave it. So a layer
    that was initialized with zeros starts from small random weights instead; its output is nearly its bias, as before.
    """
    weight: Tensor = module.weight  # pyright: ignore
    bias: Tensor | None = getattr(module, "bias", None)
    outputs, inputs, *places = weight.shape
    with torch.random.fork_rng(devices=[]):  # leave the user's random numbers as they are
        new = BinaryConv(inputs, outputs, method, len(places)) if places else BinaryLinear(inputs, outputs, method)
    new.to(weight).train(module.training)  # device and dtype
    notes = []
    with torch.no_grad():
        if weight.any():
            new.weight.copy_(weight.reshape(outputs, inputs))
        else:
            new.weight.mul_(SMALL)
            notes.append("its weights were 0 and are now small random ones")
        for name, scale in method.learned(new.weight).items():
            getattr(new, name).copy_(scale)
        if bias is None or (new.bias is None and not bias_matters):
            notes += ["its bias is dropped, as BatchNorm follows"] * (bias is not None)
            new.bias = None
        else:
            new.bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
    return new, notes


def why_unsupported(module: nn.Module) -> str | None:
    """Why a layer cannot become 1-bit, or None."""
    if isinstance(module, BinaryLinear):
        return "already 1-bit"
    if is_parametrized(module) or module._forward_pre_hooks or module._forward_hooks:
        return "has a parametrization or a hook"
    if isinstance(module, (nn.Conv1d, nn.Conv2d)):
        plain = {"kernel_size": 1, "stride": 1, "padding": 0, "groups": 1}
        for option, value in plain.items():
            found = getattr(module, option)
            if found != value and found != (value,) * len(module.kernel_size):
                return f"{option} is {found}, expected {value}"
    if not is_linear(module):
        return f"{type(module).__name__} is not a linear layer or 1x1 convolution"
    return None if module.weight.requires_grad else "frozen: requires_grad is False"  # pyright: ignore


def describe(module: nn.Module) -> str:
    """The kind of a layer, and its inputs and outputs."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() < 2:
        return type(module).__name__
    return f"{type(module).__name__} {weight.shape[1] * getattr(module, 'groups', 1)} -> {weight.shape[0]}"

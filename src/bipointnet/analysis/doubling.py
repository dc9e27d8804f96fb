"""Whether the scale of a bi-linear layer matters in training: its output is doubled."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from bipointnet.errors import UserError
from bipointnet.evaluation.probe import bilinear_layers
from bipointnet.nn import fused_layers
from bipointnet.nn.hooks import hooked


def logits_of(output: Any) -> Tensor:
    """The logits in the output of any network: `output.logits`, output["logits"], or the first float tensor."""
    named = output.get("logits") if isinstance(output, dict) else getattr(output, "logits", None)
    if isinstance(named, Tensor):
        return named
    tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    if not tensors:
        raise UserError(
            f"analyze: the output of the network is {type(output).__name__} without a float tensor, expected logits; "
            "return them in a tensor, a tuple or a dictionary"
        )
    return tensors[0]


def double_scales(
    model: nn.Module,
    inputs: tuple[Any, ...],
    labels: Tensor | None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> dict[str, tuple[float, float]]:
    """How much the scale of each bi-linear output matters in training: double the outputs, one layer at a time.

    For each layer: the change of the logits, in percent of their norm, and the angle in degrees by which the gradient
    of the layer's own weights turns (Adam ignores its length). If BatchNorm follows a layer, both are zero: the scale
    has no effect. Measured on one batch, in training mode, on a copy. (In an untrained network, where BatchNorm has no
    bias yet, a value that equals the mean of its channel is on the threshold, and rounding decides its sign.)

    The loss is the cross-entropy with the labels (B,), or without labels with the network's own answers.
    """
    model = copy.deepcopy(model).train()
    for layer in fused_layers(model):
        layer.fused = False
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout1d)):
            module.p = 0.0
    layers = bilinear_layers(model)

    def run(names: list[str]) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.enable_grad():
            logits = logits_of(model(*inputs))
            rows = logits.reshape(len(logits), -1)
            loss = F.cross_entropy(rows, answers if labels is None else labels.to(rows.device))
            weights = [layers[name].weight for name in names]
            gradients = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
        return logits.detach(), dict(zip(names, gradients, strict=True))

    if not layers:
        return {}
    with torch.no_grad():
        logits = logits_of(model(*inputs))
    answers = logits.reshape(len(logits), -1).argmax(dim=1)
    logits, gradients = run(list(layers))
    found = {}
    for i, (name, layer) in enumerate(layers.items()):
        with hooked({name: layer}, lambda name, module, x, output: 2 * output):
            moved, turned = run([name])
        found[name] = (
            100 * ((moved - logits).norm() / logits.norm().clamp(min=1e-30)).item(),
            degrees(gradients[name], turned[name]),
        )
        on_progress(i + 1)
    return found


def degrees(a: Tensor, b: Tensor) -> float:
    """The angle between two gradients; 90 if one of them is zero. By half the angle, exact for small ones."""
    a, b = a.double().flatten(), b.double().flatten()
    if not a.any() or not b.any():
        return 90.0 if a.any() or b.any() else 0.0
    a, b = a / a.norm(), b / b.norm()
    return math.degrees(2 * math.atan2((a - b).norm().item(), (a + b).norm().item()))

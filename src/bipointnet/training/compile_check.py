"""Check that a compiled network has the gradients of the plain one.

torch.compile of PyTorch 2.11 silently drops the gradient of a custom function whose last operation returns its own
input: an in-place operation, or a cast to the same type. The loss still falls, slowly, because the layers after the
last such function keep learning, and nobody notices. So two things are compared on a real batch before training.

One layer of each kind: the compiled gradients of its input and parameters have the direction of the plain ones.

The whole network: every weight matrix has a gradient of about the plain size. Directions cannot be compared here.
Compiled code rounds differently, a rounding flips a bit, and in untrained T-Nets one flipped bit turns the gradient of
every layer (measured: noise of 1e-7 on the weights leaves a cosine near 0). A lost gradient is zero. The effect of
such noise on the sizes is measured too: none in most layers, a factor of ten in PointConv's density networks.
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bipointnet.errors import UserError
from bipointnet.nn import BinaryLinear, PooledLayer

MIN_COSINE = 0.99
MAX_RATIO = 2.0
NOISE = 3e-7  # relative, about the rounding of float32
Loss = Callable[[nn.Module], Tensor]


def gradients(module: nn.Module, backward: Callable[[], Any]) -> dict[str, Tensor]:
    """The gradient of each parameter of `module` after `backward`; the module itself keeps none."""
    module.zero_grad()
    torch.manual_seed(0)
    backward()
    found = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    module.zero_grad()
    return found


def layer_gradients(layer: nn.Module, run: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Gradients of the parameters and the input of `layer`, computed by `run`, for random gradients of its output."""
    x = x.detach().requires_grad_()

    def backward() -> None:
        y = run(x)
        y.backward(torch.randn_like(y))

    found = gradients(layer, backward)
    return found if x.grad is None else {**found, "input": x.grad}


def layer_inputs(model: nn.Module, loss: Loss) -> dict[str, Tensor]:
    """One layer of each kind that has custom gradients: its name, and its input while `loss` is computed."""
    first: dict[Any, str] = {}
    for name, module in model.named_modules():
        if isinstance(module, PooledLayer):
            first.setdefault((PooledLayer, type(module.linear)), name)
        elif isinstance(module, BinaryLinear) and not name.endswith("pooled.linear"):
            first.setdefault(type(module), name)
    seen: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            seen[name] = inputs[0].detach()

        return hook

    hooks = [model.get_submodule(name).register_forward_pre_hook(keep(name)) for name in first.values()]
    with torch.no_grad():
        loss(model)
    for hook in hooks:
        hook.remove()
    return seen


def with_noise(model: nn.Module, seed: int) -> nn.Module:
    """A copy with noise of the size of a rounding error on every parameter."""
    rng = torch.Generator().manual_seed(seed)
    noisy = copy.deepcopy(model)
    with torch.no_grad():
        for p in noisy.parameters():
            p.mul_(1 + NOISE * torch.randn(p.shape, generator=rng).to(p.device))
    return noisy


def compare_gradients(model: nn.Module, compiled: nn.Module, loss: Loss) -> None:
    """Raise UserError if `compiled`, the compiled `model`, has different gradients."""
    for name, x in layer_inputs(model, loss).items():
        layer = model.get_submodule(name)
        plain = layer_gradients(layer, layer, x)
        found = layer_gradients(layer, torch.compile(layer), x)  # pyright: ignore[reportArgumentType]
        for what, gradient in plain.items():
            other = found.get(what, torch.zeros_like(gradient))
            cosine = torch.cosine_similarity(gradient.flatten(), other.flatten(), dim=0).item()
            if not cosine > MIN_COSINE:
                raise UserError(
                    f"torch.compile of PyTorch {torch.__version__} changes the gradient of {name}.{what} "
                    f"(cosine {cosine:.3f} with the plain one, expected 1); train without --compile"
                )

    def network_gradients(network: nn.Module, run: nn.Module) -> dict[str, Tensor]:
        return gradients(network, lambda: loss(run).backward())

    plain = [
        network_gradients(network, network) for network in (model, *(with_noise(model, seed) for seed in range(3)))
    ]
    found = network_gradients(model, compiled)
    for name, gradient in plain[0].items():
        sizes = [each[name].norm().item() for each in plain]
        size = found[name].norm().item() if name in found else 0.0
        if gradient.dim() > 1 and not min(sizes) / MAX_RATIO < size < max(sizes) * MAX_RATIO:
            ratio = size / sizes[0] if sizes[0] else math.inf
            raise UserError(
                f"torch.compile of PyTorch {torch.__version__} changes the gradient of {name} "
                f"({ratio:.2f} times the size of the plain one, expected about 1); train without --compile"
            )

"""A law for gradients of compiled networks."""

import torch
from torch import Tensor, nn


def require_compiled_gradients(model: nn.Module, x: Tensor) -> None:
    """Compiled gradients equal eager ones. (torch.compile once dropped the gradient of sign silently.)"""

    def gradients(network):
        model.zero_grad()
        network(x).logits.square().sum().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    plain, compiled = gradients(model), gradients(torch.compile(model, backend="aot_eager"))
    assert plain.keys() == compiled.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(compiled[name], gradient, msg=lambda m, n=name: f"{n}: {m}")

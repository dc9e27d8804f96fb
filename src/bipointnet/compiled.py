"""Whether a compiled network has the gradients of the plain one.

torch.compile of PyTorch 2.11 silently drops the gradient of a custom function whose last operation returns the tensor
it was given: an in-place one, or a cast to the type it has. The loss still falls, slowly, as the layers behind the last
such function go on learning, and nobody notices. So before a compiled network is trained, its gradients are compared
with the plain ones on a real batch.

They are never equal: compiled code rounds differently, a rounding flips a bit (before training many a normalised value
is exactly 0), and T-Nets amplify it. The yardstick is therefore how well the plain gradient agrees with itself when
noise of the size of a rounding moves the cloud and all parameters.
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bipointnet.errors import UserError

NOISE = 1e-7
Loss = Callable[[nn.Module, Tensor], Tensor]


@torch.no_grad()
def add_noise(module: nn.Module) -> None:
    for parameter in module.parameters(recurse=False):
        parameter.add_(NOISE * torch.randn_like(parameter))


def gradients(model: nn.Module, loss: Loss, clouds: Tensor, network: nn.Module | None = None) -> dict[str, Tensor]:
    """The gradient of each weight matrix of `model`, run as `network` where that wraps it; none is left behind."""
    model.zero_grad()
    torch.manual_seed(0)
    loss(model if network is None else network, clouds).backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.dim() > 1 and p.grad is not None}
    model.zero_grad()
    return found


def compare_gradients(model: nn.Module, compiled: nn.Module, loss: Loss, clouds: Tensor) -> None:
    """UserError where the compiled gradient of a weight matrix is not the plain one, up to what rounding explains."""
    plain = gradients(model, loss, clouds)
    noisy = gradients(copy.deepcopy(model).apply(add_noise), loss, clouds + NOISE * torch.randn_like(clouds))
    found = gradients(model, loss, clouds, compiled)
    for name, gradient in plain.items():
        expected, agreement = (
            torch.cosine_similarity(gradient.flatten(), other[name].flatten(), dim=0).item() if name in other else 0.0
            for other in (noisy, found)
        )
        size = (found[name].norm() / gradient.norm()).item() if name in found else 0.0
        if not (agreement > 0.5 * expected and 0.5 < size < 2):
            raise UserError(
                f"torch.compile of PyTorch {torch.__version__} changes the gradient of {name} (cosine {agreement:.3f} "
                f"with the plain one, expected about {expected:.3f}; {size:.2f} times its size, expected about 1); "
                "train without --compile"
            )

"""Whether a compiled network has the gradients of the plain one.

torch.compile of PyTorch 2.11 silently drops the gradient of a custom function whose last operation returns the tensor
it was given: an in-place one, or a cast to the type it has. The loss still falls, slowly, as the layers behind the last
such function go on learning, and nobody notices. So before a compiled network is trained, its gradients are compared
with the plain ones on a real batch.

They are never equal: compiled code rounds differently, a rounding flips a bit, and T-Nets amplify it. (An untrained
1-bit PointNet whose input moves by 1e-7 has a gradient nearly orthogonal to the one it had.) The yardstick is
therefore how well the plain gradient agrees with itself under noise of that size.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bipointnet.errors import UserError

Loss = Callable[[nn.Module, Tensor], Tensor]


def gradients(model: nn.Module, network: nn.Module, loss: Loss, clouds: Tensor) -> dict[str, Tensor]:
    """The gradient of each weight matrix of `model`, which `network` is or wraps; none is left behind."""
    model.zero_grad()
    torch.manual_seed(0)
    loss(network, clouds).backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.dim() > 1 and p.grad is not None}
    model.zero_grad()
    return found


def compare_gradients(model: nn.Module, compiled: nn.Module, loss: Loss, clouds: Tensor) -> None:
    """UserError where the compiled gradient of a weight matrix is not the plain one, up to what rounding explains."""
    plain = gradients(model, model, loss, clouds)
    noisy = gradients(model, model, loss, clouds + 1e-7 * torch.randn_like(clouds))
    found = gradients(model, compiled, loss, clouds)
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

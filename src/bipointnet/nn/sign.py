"""The sign function, and the gradients that replace its own.

    sign(x) = +1 if x >= 0 else -1

It is never 0: -0.0 gives +1 and NaN gives -1, both here and in the compiled core. Its true derivative is zero almost
everywhere, so training replaces it by a *slope* s(x), and the gradient of the input is

    g_x = g_b * s(x)

A slope is a pure function of x, and of a parameter t if it has one. To add a slope, add a function here.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Slope = Callable[..., Tensor]


def hard_sign(x: Tensor) -> Tensor:
    """+1 where x >= 0, else -1, in the dtype of x; no gradient.

    The last operation makes a new tensor: bipointnet/training/compile_check.py says why torch.compile needs that.

    Examples:
        >>> hard_sign(torch.tensor([-2.0, -0.0, 3.0]))
        tensor([-1.,  1.,  1.])
    """
    return (x >= 0).to(x.dtype) * 2 - 1


def clipped(x: Tensor) -> Tensor:
    """s(x) = 1 where |x| <= 1, else 0: the clipped straight-through estimator.

    (Hubara et al. 2016, arXiv:1602.02830.)
    """
    return (x.abs() <= 1).to(x.dtype)


def polynomial(x: Tensor) -> Tensor:
    """s(x) = 2 - 2|x| inside (-1, 1), else 0: the derivative of a piecewise parabola.

    (Bi-Real Net, Liu et al. 2018, arXiv:1808.00278.)
    """
    return (2 - 2 * x.abs()).clamp(min=0)


def straight(x: Tensor) -> Tensor:
    """s(x) = 1 everywhere: the straight-through estimator without a clip (Bengio et al. 2013, arXiv:1308.3432)."""
    return torch.ones_like(x)


def narrowing(x: Tensor, t: Tensor) -> Tensor:
    """s(x) = k t (1 - tanh(t x)^2), k = max(1 / t, 1): the derivative of k tanh(t x).

    Flat and wide for a small t, high and narrow for a large t. (IR-Net, Qin et al. 2020, arXiv:1909.10788.)
    """
    return t.clamp(min=1) * (1 - torch.tanh(t * x) ** 2)  # k t = max(1, t)


class _Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: Slope, *parameters: Tensor) -> Tensor:
        ctx.save_for_backward(x, *parameters)
        ctx.slope = slope
        return hard_sign(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, *parameters = ctx.saved_tensors
        return grads[0] * ctx.slope(x, *parameters), None, *[None] * len(parameters)


def sign(x: Tensor, slope: Slope = clipped, *parameters: Tensor) -> Tensor:
    """sign(x) with the gradient g_b * slope(x, *parameters).

    Examples:
        >>> x = torch.tensor([-2.0, 0.5], requires_grad=True)
        >>> sign(x, polynomial).sum().backward()
        >>> x.grad
        tensor([0., 1.])
    """
    return _Sign.apply(x, slope, *parameters)  # pyright: ignore[reportReturnType]

"""The scaled product of two matrices of +-1: the one large operation of a bi-linear layer, exact on every device.

    Z = s * (A . W^T),   A (..., K) and W (M, K) of +-1,   s a scalar or one scale per output (M,)

A sum of K terms +-1 is an integer of magnitude at most K, exact in float32 up to 2^24. On a GPU the product runs on
the float16 matrix units, which sum in float32 but round the result to float16, where integers are exact only up to
2048. So the inputs are split into pieces of 2048. (bfloat16 would round 257 already.) The scale is applied in float32.

Gradients, with G = g_Z. All scaling is moved to the small matrices, so that Z is the only tensor of its size:

    g_A = G . (s W)        g_W = s * (G^T . A)        g_s = sum over inputs of (G^T . A) * W

The last one follows from <G, A W^T> = <G^T A, W>. On a GPU, G is rounded to bfloat16. It has the range of float32, so
no loss scaling is needed, and +-1 are exact in it.

Under torch.autocast, inputs may come in bfloat16 or float16 and weights in float32. The product ignores autocast, which
would round it, computes in the wider of the two types, at least in float32, and returns the wider of the two.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import Any

import torch
from torch import Tensor

EXACT_IN_HALF = 2048


def exact_type(*tensors: Tensor) -> torch.dtype:
    """The widest dtype of the tensors, at least float32."""
    return reduce(torch.promote_types, (tensor.dtype for tensor in tensors), torch.float32)


def without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Switches torch.autocast off on the device of x: it would round sums of +-1."""
    device = x.device.type
    on = device != "meta" and torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if on else nullcontext()


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x in another type, or x itself: bipointnet/training/compile_check.py says why torch.compile needs that."""
    return x if x.dtype == dtype else x.to(dtype)


def _integer_product(a: Tensor, w: Tensor) -> Tensor:
    """A . W^T as exact integers: (R, K), (M, K) -> (R, M)."""
    if a.dtype != torch.float16:
        return a @ w.T
    pieces = zip(a.split(EXACT_IN_HALF, dim=1), w.split(EXACT_IN_HALF, dim=1), strict=True)
    return reduce(torch.add, ((p @ q.T).float() for p, q in pieces))


class _BinaryProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, w: Tensor, scale: Tensor) -> Tensor:
        kind, wider, ctx.given = exact_type(a, w), torch.promote_types(a.dtype, w.dtype), a.dtype
        on_gpu = a.is_cuda and kind == torch.float32
        ctx.small = torch.bfloat16 if on_gpu else kind
        with without_autocast(a):
            a, w = (a.half(), w.half()) if on_gpu else (a.to(kind), w.to(kind))
            ctx.save_for_backward(a, w, scale)
            return cast(_integer_product(a, w) * scale.to(kind), wider)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, w, scale = ctx.saved_tensors
        g, kind = grads[0].to(ctx.small), exact_type(grads[0])  # (R, M)
        column = scale.reshape(-1, 1)  # (M, 1) or (1, 1)
        with without_autocast(a):
            grad_a = g @ (w.to(kind) * column).to(ctx.small)
            unscaled = (g.T @ a.to(ctx.small)).to(kind)  # (M, K)
            grad_scale = (unscaled * w).sum(dim=1)  # (M,)
        return cast(grad_a, ctx.given), unscaled * column, grad_scale.sum() if scale.dim() == 0 else grad_scale


def binary_product(a: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    """scale * (a . w^T) for a (..., K) and w (M, K), both of +-1, and a scale of shape () or (M,)."""
    z = _BinaryProduct.apply(a.reshape(-1, a.shape[-1]), w, scale)
    return z.reshape(*a.shape[:-1], len(w))  # pyright: ignore

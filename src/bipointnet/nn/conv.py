"""The bi-linear layer and the pools for networks with channels first: (B, C, N) and (B, C, S, K)."""

import copy
from collections.abc import Sequence

from torch import Tensor, nn

from bipointnet.nn.codes import CodesInFront
from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.methods import Method
from bipointnet.nn.names import as_pool


class BinaryConv(BinaryLinear):
    """A 1x1 convolution in 1 bit: the bi-linear layer on the channels of every position.

    Args:
        in_features: input channels.
        out_features: output channels.
        method: a Method, or its name in METHODS.
        places: number of dimensions after the channels, 1 as in Conv1d or 2 as in Conv2d.

    Shapes: `(..., in_features, *places) -> (..., out_features, *places)`.

    Examples:
        >>> BinaryConv(64, 128, "lsr", places=1)(torch.randn(2, 64, 100)).shape
        torch.Size([2, 128, 100])
    """

    def __init__(self, in_features: int, out_features: int, method: Method | str, places: int) -> None:
        super().__init__(in_features, out_features, method)
        self.places = places

    def forward(self, x: Tensor) -> Tensor:
        z = super().forward(x.movedim(-1 - self.places, -1)).movedim(-1, -1 - self.places)
        self.keep_input(x)
        return z.contiguous()  # as the output of a convolution is: networks call .view() on it

    def codes(self, x: Tensor) -> Tensor:
        return super().codes(x.movedim(-1 - self.places, -1))

    def calibrate(self, x: Tensor) -> None:
        super().calibrate(x.movedim(-1 - self.places, -1))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, places={self.places}"


class PointPool(nn.Module):
    """A pool of `bipointnet.nn` with the interface of PyTorch's: over given dimensions, or over windows.

    Args:
        pool: (..., N, C) -> (..., C), or its name in POOLS. It is copied, because it may hold a shift.
        dims: pool over these dimensions together, as torch.amax does.
        keepdim: keep them, with size 1.
        window: or pool over windows of these sizes, as nn.MaxPool1d and nn.MaxPool2d do.
        stride: the steps between windows.

    Shapes: as for the PyTorch function. n of delta(n) is the number of elements that are pooled or, if the pool counts
    codes and `codes.count` named the layer in front, the number of distinct codes of each cloud.

    Examples:
        >>> PointPool("ema-max", dims=(2,))(torch.randn(2, 64, 100)).shape
        torch.Size([2, 64])
    """

    def __init__(
        self,
        pool: nn.Module | str,
        dims: Sequence[int] = (),
        keepdim: bool = False,
        window: Sequence[int] = (),
        stride: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.pool = copy.deepcopy(as_pool(pool, "PointPool"))
        self.dims, self.keepdim, self.window, self.stride = tuple(dims), keepdim, tuple(window), tuple(stride)
        self.codes = CodesInFront()

    def forward(self, x: Tensor, window: Sequence[int] = ()) -> Tensor:
        """`window` is for sizes that are known only at run time."""
        dims, window = [d % x.dim() for d in self.dims], tuple(window) or self.window
        gathered = x.movedim(dims, list(range(-len(dims), 0))) if dims else x
        for i, (size, step) in enumerate(zip(window, self.stride or window, strict=True)):
            gathered = gathered.unfold(x.dim() - len(window) + i, size, step)  # its elements become the last dimension
        gathered = gathered.flatten(start_dim=-len(dims or window))  # (..., n)
        counts = self.codes.of_sets(gathered.shape[:-1], gathered.shape[-1])
        gathered = gathered.unsqueeze(-1)
        y = (self.pool(gathered) if counts is None else self.pool(gathered, counts)).squeeze(-1)
        for dim in sorted(dims) if self.keepdim else ():
            y = y.unsqueeze(dim)
        return y.contiguous()

    def extra_repr(self) -> str:
        return f"window={self.window}" if self.window else f"dims={self.dims}, keepdim={self.keepdim}"

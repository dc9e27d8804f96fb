"""The pool for maxima over groups of different sizes, as graph libraries compute them with scatter_reduce.

    Y[t] = max over the elements e with index[e] = t of X[e] - delta(n_t),   n_t the number of these elements

If the targets are clouds and the pool counts codes, n_t is the number of distinct codes of the 1-bit layer in front. A
target without elements keeps the value that the function gives it.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from bipointnet.delta import delta
from bipointnet.nn.calibrate import Calibrated
from bipointnet.nn.codes import CodesInFront
from bipointnet.nn.names import as_pool
from bipointnet.nn.pools import EntropyMax, MeanPool, MeasuredMax

# Position and name of the arguments that a pool reads, by function.
_ARGUMENTS = {
    "scatter_reduce": {"dim": 1, "index": 2, "src": 3, "reduce": 4},
    "index_reduce": {"dim": 1, "index": 2, "source": 3, "reduce": 4},
    "segment_reduce": {"data": 0, "reduce": 1},
}


class ScatterPool(nn.Module, Calibrated):
    """A pool of `bipointnet.nn` in place of a function such as torch.scatter_reduce(..., reduce="amax").

    Args:
        pool: a pool of `bipointnet.nn`, or its name in POOLS. It is copied, because it may hold a shift.
    Shapes: `forward` takes the maxima of any shape, and the number of elements of each, which broadcasts to it.

    Examples:
        >>> pool = ScatterPool("ema-max")
        >>> x, index = torch.randn(100, 16), torch.arange(100) % 7
        >>> arguments = (torch.zeros(7, 16), 0, index.unsqueeze(1).expand(100, 16), x)
        >>> pool.reduce(torch.scatter_reduce, arguments, {"reduce": "amax", "include_self": False}).shape
        torch.Size([7, 16])
    """

    def __init__(self, pool: nn.Module | str) -> None:
        super().__init__()
        self.pool = copy.deepcopy(as_pool(pool, "ScatterPool"))
        self.codes = CodesInFront()

    @torch.no_grad()
    def calibrate(self, x: Tensor) -> None:
        """Set the shift of a MeasuredMax from the first maxima. Exact zeros are targets without elements."""
        if isinstance(self.pool, MeasuredMax) and x.any():
            self.pool.shift.copy_(x[x != 0].median())

    def forward(self, maxima: Tensor, counts: Tensor) -> Tensor:
        if isinstance(self.pool, MeasuredMax):
            return torch.where(counts > 0, maxima - self.pool.shift, maxima)
        return maxima - shifts(counts).to(maxima.dtype) if isinstance(self.pool, EntropyMax) else maxima

    def reduce(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """The result of `function`, which was to compute maxima with these arguments, with the shift of the pool."""
        name = function.__name__.strip("_")
        places = _ARGUMENTS[name]
        if isinstance(self.pool, MeanPool):
            args = tuple("mean" if i == places["reduce"] else a for i, a in enumerate(args))
            kwargs = {key: "mean" if key == "reduce" else a for key, a in kwargs.items()}
            # A maximum may start from the values before, such as -inf; a mean has the elements only.
            return function(*args, **kwargs | ({} if name == "segment_reduce" else {"include_self": False}))
        in_place = function.__name__.endswith("_")
        # The gradient needs the maxima, so an in-place function works on a copy, and the copy is shifted.
        maxima = function(*([args[0].clone(), *args[1:]] if in_place else args), **kwargs)
        given = {key: args[i] if i < len(args) else kwargs[key] for key, i in places.items()}
        with torch.no_grad():
            counts = _segment_counts(maxima, kwargs) if name == "segment_reduce" else self._counts(maxima, given)
        pooled = self(maxima, counts)
        return args[0].copy_(pooled) if in_place else pooled

    def _counts(self, maxima: Tensor, given: dict[str, Any]) -> Tensor:
        index = given["index"]
        if maxima.dim() == 2 and given["dim"] in (0, -2):
            distinct = self.codes.of_groups(index[:, 0] if index.dim() == 2 else index, len(maxima))
            if distinct is not None:
                return distinct
        return _index_counts(maxima, given)


def shifts(counts: Tensor) -> Tensor:
    """delta(n) of each of `counts`, which are integers in any dtype, in float64; 0 for no elements."""
    distinct, places = counts.unique(return_inverse=True)
    table = [delta(max(int(n), 1)) for n in distinct.tolist()]
    return torch.tensor(table, dtype=torch.float64, device=counts.device)[places]


def _index_counts(maxima: Tensor, given: dict[str, Any]) -> Tensor:
    dim, index = given["dim"], given["index"]
    if "src" in given:  # one index per element
        return torch.zeros_like(maxima).scatter_add_(dim, index, maxima.new_ones(()).expand(index.shape))
    counts = torch.bincount(index, minlength=maxima.shape[dim])
    return counts.reshape([-1 if i == dim % maxima.dim() else 1 for i in range(maxima.dim())])


def _segment_counts(maxima: Tensor, kwargs: dict[str, Any]) -> Tensor:
    counts = kwargs["offsets"].diff(dim=-1) if kwargs.get("lengths") is None else kwargs["lengths"]
    return counts.reshape(*counts.shape, *[1] * (maxima.dim() - counts.dim()))

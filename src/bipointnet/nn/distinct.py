"""How many different codes a 1-bit layer reads, counted exactly.

The code of a point is the row of bits that a layer reads at it. Points of a surface are not independent draws: many
have the same code, and a maximum over them is a maximum over the distinct codes. So EMA-max counts codes, not points.

Rows are packed into words of 64 bits, the words are sorted, and different neighbors in the sorted order are counted.
Nothing depends on a hash. Sorting one word after another, the last first and each time stably, sorts whole rows.
"""

import torch
from torch import Tensor

from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.observe import observed
from bipointnet.nn.product import without_autocast

_PIECE = 16  # bits that a float32 product packs exactly
_WORD = 64


def packed_rows(signs: Tensor) -> Tensor:
    """Rows of +-1 as words of 64 bits: (..., K) -> (..., ceil(K / 64)) int64."""
    inputs = signs.shape[-1]
    words = -(-inputs // _WORD)
    pieces = words * _WORD // _PIECE
    place = torch.arange(inputs, device=signs.device)
    weights = torch.where(
        place.unsqueeze(1) // _PIECE == torch.arange(pieces, device=signs.device),
        torch.exp2((place % _PIECE).float()).unsqueeze(1),
        0.0,
    )  # (K, pieces)
    with without_autocast(signs):
        packed = ((signs > 0).float() @ weights).long().unflatten(-1, (words, -1))
    shifts = torch.arange(0, _WORD, _PIECE, device=signs.device)
    return (packed << shifts).sum(dim=-1)


def _row_order(words: Tensor) -> Tensor:
    """The order that sorts rows of words: (..., N, W) -> (..., N)."""
    order = words[..., -1].sort(dim=-1, stable=True).indices
    for column in reversed(words.unbind(-1)[:-1]):
        order = order.gather(-1, column.gather(-1, order).sort(dim=-1, stable=True).indices)
    return order


@torch.no_grad()
def distinct_rows(signs: Tensor) -> Tensor:
    """The number of different rows of +-1 in each set of rows: (..., N, K) -> (...) int64.

    Examples:
        >>> from bipointnet.nn.distinct import distinct_rows
        >>> distinct_rows(torch.tensor([[1.0, -1.0], [1.0, 1.0], [1.0, -1.0]]))
        tensor(2)
    """
    words = packed_rows(signs)
    if words.shape[-1] == 1:
        ordered = words.sort(dim=-2).values
    else:
        ordered = words.gather(-2, _row_order(words).unsqueeze(-1).expand(words.shape))
    return min(signs.shape[-2], 1) + (ordered[..., 1:, :] != ordered[..., :-1, :]).any(dim=-1).sum(dim=-1)


@torch.no_grad()
def distinct_rows_of_groups(signs: Tensor, group: Tensor, groups: int) -> Tensor:
    """The same for sets of different sizes: (E, K), the number of the set of each row (E,) -> (groups,) int64."""
    words = torch.cat([group.unsqueeze(1), packed_rows(signs)], dim=1)
    ordered = words[_row_order(words)]
    first = (ordered[1:] != ordered[:-1]).any(dim=1)
    first = torch.cat([first.new_ones(min(len(ordered), 1)), first])
    return torch.bincount(ordered[first, 0], minlength=groups)


@observed
@torch.no_grad()
def distinct_codes(layer: BinaryLinear, x: Tensor, sets: tuple[int, ...]) -> Tensor:
    """The number of different rows of bits that `layer` reads from its input x, in each of `sets` sets of elements.

    Shapes: x as the layer takes it, with all elements of a set next to each other -> sets, int64.
    """
    signs = layer.codes(x)
    return distinct_rows(signs.reshape(*sets, -1, signs.shape[-1]))


@observed
@torch.no_grad()
def distinct_codes_of_groups(layer: BinaryLinear, x: Tensor, group: Tensor, groups: int) -> Tensor:
    """The same where each element has the number of its group: x, group (E,) -> (groups, 1) int64."""
    return distinct_rows_of_groups(layer.codes(x).flatten(0, -2), group, groups).unsqueeze(1)

"""How a pool of a converted network sees the codes that the 1-bit layer in front of it reads.

In a PooledLayer the pool and its layer are in one place. In the network of a user they are called one after another
from its own code, with a BatchNorm and perhaps views between them. So the layer keeps its last input, and the pool
counts the distinct codes in it.
"""

from collections.abc import Sequence

from torch import Tensor

from bipointnet.nn.distinct import distinct_codes, distinct_codes_of_groups
from bipointnet.nn.linear import BinaryLinear, LastInput


class CodesInFront:
    """The codes of the layer in front of a pool, if they are counted."""

    def __init__(self) -> None:
        self.last_input: LastInput | None = None

    def count(self, layer: BinaryLinear) -> None:
        """Count the codes of this layer from now on; several pools may."""
        layer.last_input = self.last_input = layer.last_input or LastInput()

    def _read(self) -> tuple[BinaryLinear | None, Tensor | None]:
        """The layer that ran last in this thread, and what it read."""
        return (None, None) if self.last_input is None else (self.last_input.layer, self.last_input.x)

    def of_sets(self, pooled: Sequence[int], points: int) -> Tensor | None:
        """The number of distinct codes of each cloud (B, 1, ...), for maxima of shape `pooled` over `points` points.

        None if there is no layer, or if the elements that the layer reads are neither those of one set nor of
        pooled[0] sets: a pool over the neighbors in (B, C, N, k) counts the neighbors. In (B * N, C, k) the sets are
        the neighborhoods, and their codes are counted. A network may take one cloud without a batch dimension.
        """
        layer, x = self._read()
        if layer is None or x is None:
            return None
        sets, rest = divmod(x.numel(), points * layer.in_features)
        if rest or sets not in (1, pooled[0]):
            return None
        return distinct_codes(layer, x, (sets, *[1] * (len(pooled) - 1)))

    def of_groups(self, group: Tensor, groups: int) -> Tensor | None:
        """The number of distinct codes in each of `groups` groups (groups, 1); element e is in group[e]."""
        layer, x = self._read()
        if layer is None or x is None or x.numel() != len(group) * layer.in_features:
            return None
        return distinct_codes_of_groups(layer, x, group, groups)

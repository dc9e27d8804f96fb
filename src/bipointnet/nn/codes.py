"""How a pool of a converted network sees the codes that the 1-bit layer in front of it reads.

In a PooledLayer the pool and its layer are in one place. In the network of a user they are called one after another
from its own code, with a BatchNorm and perhaps views between them. So the layer keeps its last input, and the pool
counts the distinct codes in it.
"""

from collections.abc import Sequence

from torch import Tensor

from bipointnet.nn.distinct import distinct_codes, distinct_codes_of_groups
from bipointnet.nn.linear import BinaryLinear


class CodesInFront:
    """The layer in front of a pool, if its distinct codes are counted."""

    def __init__(self) -> None:
        self.layer: BinaryLinear | None = None

    def count(self, layer: BinaryLinear) -> None:
        """Count the codes of this layer from now on."""
        self.layer = layer
        layer.keeps_input = True

    def _input(self) -> Tensor | None:
        """What the layer read in this run; it is released."""
        if self.layer is None:
            return None
        x, self.layer.last_input = self.layer.last_input, None
        return x

    def of_sets(self, pooled: Sequence[int], points: int) -> Tensor | None:
        """The number of distinct codes of each cloud (B, 1, ...), for maxima of shape `pooled` over `points` points.

        None if there is no layer, or if the pool is not over all elements that the layer reads in a cloud: a pool over
        neighbors counts the neighbors. A network may take one cloud without a batch dimension.
        """
        x = self._input()
        if x is None or self.layer is None:
            return None
        sets, rest = divmod(x.numel(), points * self.layer.in_features)
        if rest or sets not in (1, pooled[0]):
            return None
        return distinct_codes(self.layer, x, (sets, *[1] * (len(pooled) - 1)))

    def of_groups(self, group: Tensor, groups: int) -> Tensor | None:
        """The number of distinct codes in each of `groups` groups (groups, 1); element e is in group[e]."""
        x = self._input()
        if x is None or self.layer is None or x.numel() != len(group) * self.layer.in_features:
            return None
        return distinct_codes_of_groups(self.layer, x, group, groups)

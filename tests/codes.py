"""The shift of a pool that counts distinct codes, in the plainest way."""

import torch
from torch import Tensor

from bipointnet.nn import delta


def shift_by_codes(read: Tensor) -> Tensor:
    """delta(d) of each cloud, d the number of different rows of signs that a layer reads: (B, K, ...) -> (B, 1)."""
    rows = (read >= 0).flatten(2).transpose(1, 2).tolist()  # (B, N, K)
    return torch.tensor([[delta(len({*map(tuple, cloud)}))] for cloud in rows], dtype=read.dtype)

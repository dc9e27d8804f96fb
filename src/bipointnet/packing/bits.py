"""Bits as words, in the layout of a packed file. `runtime.reference` unpacks them with code of its own."""

import numpy as np


def pack_bits(bits: np.ndarray) -> np.ndarray:
    """Rows of bits as words, column k in bit k mod 64 of word k div 64: (M, K) of bool -> (M, ceil(K / 64)).

    >>> pack_bits(np.array([[True, False, True]])).tolist()
    [[5]]
    """
    rows, columns = bits.shape
    padded = np.zeros((rows, -(-columns // 64) * 64), bool)
    padded[:, :columns] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8")

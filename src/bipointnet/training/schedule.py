"""What depends on the epoch alone: seeds, the learning rate, and which epochs are evaluated."""

import hashlib
import math

from bipointnet.config import Config

EVALUATE_EVERY, EVALUATE_LAST = 10, 10


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed that depends on all parts, such as the seed of a run, the epoch and the rank.

    Examples:
        >>> derive_seed(0, 1, "order") == derive_seed(0, 1, "order") != derive_seed(0, 2, "order")
        True
    """
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little") >> 1


def learning_rate(config: Config, epochs_done: float) -> float:
    """The learning rate after a number of epochs, which may be a fraction: a linear warm-up times a cosine to 0.

        lr(t) = lr * min(1, t / warmup) * (1 + cos(pi t / epochs)) / 2

    Examples:
        >>> learning_rate(Config(lr=0.1, epochs=10), 5)
        0.05
    """
    warmup = min(1.0, epochs_done / config.warmup) if config.warmup else 1.0
    return config.lr * warmup * 0.5 * (1 + math.cos(math.pi * min(epochs_done / config.epochs, 1.0)))


def is_evaluated(epoch: int, epochs: int) -> bool:
    """Whether the test split is evaluated after this epoch: after every tenth and each of the last ten.

    Examples:
        >>> [epoch for epoch in range(1, 31) if is_evaluated(epoch, 30)] == [10, 20, *range(21, 31)]
        True
    """
    return epoch % EVALUATE_EVERY == 0 or epoch > epochs - EVALUATE_LAST

"""Random numbers of the networks that `binarize` runs; the user's generators stay as they are."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def preserved_generators() -> Iterator[None]:
    """Give the generators of the CPU, and of the GPUs if CUDA is in use, their states back at the end."""
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=gpus):
        yield


def seed_generators() -> None:
    """Let every run draw the same random numbers.

    torch.manual_seed would also seed what `preserved_generators` cannot save: GPUs of which CUDA starts later.
    """
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)

"""The progress callback of long computations."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # called with (done, total)


def no_progress(done: int, total: int) -> None:
    """Ignore progress."""

"""Ctrl-C and SIGTERM during a training: the run finishes its step, saves its state, and says how to continue."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupted(Exception):
    """A training that a signal stopped after it saved its state. `train` raises it; --resume continues the run.

    number: the signal. epoch, epochs: where the run stopped.
    """

    def __init__(self, number: int, epoch: int, epochs: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} in epoch {epoch} of {epochs}")
        self.number, self.epoch, self.epochs = number, epoch, epochs


class Interrupts:
    """Remembers the first SIGINT or SIGTERM while it is entered. A second one acts at once, as without this class.

    If one is entered inside another, both remember the signal. Only the main thread of a process receives signals; in
    another thread this does nothing.

    Examples:
        >>> with Interrupts() as interrupts:
        ...     signal.raise_signal(signal.SIGTERM)
        ...     interrupts.number == signal.SIGTERM
        True
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and `command &` in scripts set it
                    self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._restore()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        outer = getattr(self._before.get(number), "__self__", None)
        self._restore()
        if isinstance(outer, Interrupts):
            outer._remember(number, frame)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

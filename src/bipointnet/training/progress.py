"""What a run reports while it trains."""

from collections.abc import Callable
from typing import NamedTuple

from bipointnet.training.run_folder import Row


class Progress(NamedTuple):
    """The position of a run. `train` passes it to `on_progress` after every step and at the end of every epoch.

    step of steps: within epoch of epochs. row: the figures of the epoch at its end, as in metrics.csv; else None.

    Examples:
        >>> str(Progress(epoch=10, epochs=18, step=5, steps=5, row={"loss": 0.51, "test_oa": 93.24}))
        'epoch 10/18, loss 0.510, test accuracy 93.2 %'
    """

    epoch: int
    epochs: int
    step: int
    steps: int
    row: Row | None

    @property
    def evaluated(self) -> bool:
        """Whether this is the end of an epoch after which the test split was evaluated."""
        return self.row is not None and self.row.get("test_oa") is not None

    def __str__(self) -> str:
        text = f"epoch {self.epoch}/{self.epochs}"
        if self.row is None:
            return text
        text += f", loss {self.row['loss']:.3f}"
        for name, title in (("test_miou", "test mIoU"), ("test_oa", "test accuracy")):
            if self.row.get(name) is not None:
                return f"{text}, {title} {self.row[name]:.1f} %"
        return text


OnProgress = Callable[[Progress], None]


def ignore(progress: Progress) -> None:
    """An `on_progress` that does nothing."""

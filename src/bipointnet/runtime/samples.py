"""What a shipped model predicts for built-in objects: the first part of the demo."""

import time
from pathlib import Path
from typing import NamedTuple

from bipointnet import shipped
from bipointnet.data.shapes import CLASSES, held_out
from bipointnet.data.up_axis import rotate_up
from bipointnet.runtime.model import load

MODEL = "local-tiny-modelnet40"  # right for more of these objects than the other shipped models for ModelNet40
TIMED = 9  # predictions of each cloud; the median time is reported


class Sample(NamedTuple):
    """One object: its class, the predicted class and its probability, and the time of one prediction."""

    object: str
    prediction: str
    probability: float
    microseconds: float


def predict_samples() -> list[Sample]:
    """The predictions of MODEL for one object of every built-in class that it knows, the first of the test split.

    >>> {sample.object for sample in predict_samples()} >= {"chair", "lamp", "table"}
    True
    """
    model = load(shipped.locate(Path(MODEL)))
    samples = []
    for number, name in enumerate(CLASSES):  # the first clouds of the split are one per class
        if name in model.classes:
            cloud = rotate_up(held_out(number, model.points)[0], "z", shipped.card(MODEL)["up"])
            found, times = model.predict(cloud), []
            for _ in range(TIMED):
                started = time.perf_counter()
                model.predict(cloud)
                times.append(time.perf_counter() - started)
            samples.append(Sample(name, found.names, float(found.probabilities.max()), 1e6 * sorted(times)[TIMED // 2]))
    return samples

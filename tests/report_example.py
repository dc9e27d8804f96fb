"""A report of made-up figures."""

import numpy as np

from bipointnet.viz.run_report import ClassScore, Example, Figure, LayerEntropy, Option, RunReport


def report(classes: int, unit: str = "clouds", epochs: int = 12, points: int = 256) -> RunReport:
    """A report of a run with as many classes; examples are balls that become flatter."""
    rng = np.random.default_rng(0)
    names = [f"class {k}" for k in range(classes)]
    confusion = rng.integers(0, 3, (classes, classes)) + np.diag(rng.integers(20, 40, classes))
    of_points = unit == "points"
    history = [
        {
            "epoch": epoch,
            "lr": 0.01 * (1 - epoch / (epochs + 1)),
            "loss": 3 / epoch,
            "train_oa": 90 - 50 / epoch,
            "test_oa": 85 - 40 / epoch if epoch % 2 == 0 else None,
            "test_miou": 60 - 30 / epoch if of_points and epoch % 2 == 0 else None,
            "entropy": 0.9 if epoch % 2 == 0 else None,
        }
        for epoch in range(1, epochs + 1)
    ]
    examples = [
        Example(
            f"folder/{k}.ply",
            ("class 0", "predicted class 1", f"{90 - k}.0 %"),
            rng.normal(size=(points, 3)) * (1, 1, 1 / (1 + k)),
            rng.integers(0, classes, (2, points)) if of_points else None,
        )
        for k in range(12)
    ]
    return RunReport(
        title="made-up data",
        network="classification, 1-bit pointnet-vanilla, lsr, ema-max, recipe auto, seed 0",
        figures=[Figure("85.00 %", "test accuracy, last epoch"), Figure("135 kB", "weights and thresholds")],
        history=history,
        classes=names,
        confusion=confusion,
        unit=unit,
        class_scores=[ClassScore(name, 40, 50 + k % 50) for k, name in enumerate(names)],
        score_name="IoU" if of_points else "Accuracy",
        examples=examples,
        up="z",
        layers=[LayerEntropy("points.0.0", 64, 0.98, 0), LayerEntropy("head.0.0", 1024, 0.61, 12)],
        data=["data/a: layout CLASS/*, 9 classes", "held out for the test: <a>.ply"],
        options=[Option("epochs", str(epochs), "Passes over the training set.", True)],
        command="bipointnet train data/a --model pointnet-vanilla --epochs 12",
        facts=[("bipointnet", "0.1.0")],
    )

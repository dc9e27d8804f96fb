"""The figure of the demo: predictions, training curves and the confusion matrix."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bipointnet.files import write_beside
from bipointnet.viz.confusion import draw_confusion
from bipointnet.viz.picture import png_of

GOOD, BAD = "#2a7f4f", "#c0392b"
LINES = ("#1f5fa8", "#444444", "#c0392b", "#8e5ea2")


def draw_cloud(axes, points: np.ndarray, title: str, color: str) -> None:
    """Draw one cloud (N, 3), z up, from the front and above; near points are darker."""
    points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    turn, tilt = np.radians(35), np.radians(20)
    x = points[:, 0] * np.cos(turn) - points[:, 1] * np.sin(turn)
    depth = points[:, 0] * np.sin(turn) + points[:, 1] * np.cos(turn)
    y = points[:, 2] * np.cos(tilt) + depth * np.sin(tilt)
    order = np.argsort(-depth)
    axes.scatter(x[order], y[order], c=-depth[order], cmap="Blues", s=2.2, linewidths=0, vmin=-1.6, vmax=0.8)
    axes.set_title(title, fontsize=8, color=color, pad=2)
    axes.set_aspect("equal", adjustable="datalim")
    axes.axis("off")


def draw_curves(axes, curves: Mapping[str, Sequence[tuple[float, float]]], ylabel: str) -> None:
    """Draw named curves of (epoch, value)."""
    for (name, line), color in zip(curves.items(), LINES, strict=False):
        axes.plot(*zip(*line, strict=True), label=name, color=color, linewidth=1.6)
    axes.set_xlabel("epoch")
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def demo_picture(
    path: Path,
    clouds: np.ndarray,
    labels: np.ndarray,
    probabilities: np.ndarray,
    classes: Sequence[str],
    confusion: np.ndarray,
    accuracy: Mapping[str, Sequence[tuple[float, float]]],
    loss: Mapping[str, Sequence[tuple[float, float]]],
) -> None:
    """Write the predictions of the 1-bit network on clouds (M, N, 3), the curves of all networks, and its confusion."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 10.5), layout="constrained")
    top, bottom = np.asarray(figure.subfigures(2, 1, height_ratios=[1, 1.55]), object)
    top.suptitle(
        "Predictions of the 1-bit network on held-out shapes (red: wrong, true class in parentheses)", fontsize=11
    )
    columns = -(-len(clouds) // 2)
    panels = np.ravel(top.subplots(2, columns))
    for axes, cloud, label, p in zip(panels, clouds, labels, probabilities, strict=False):
        predicted = int(p.argmax())
        truth = "" if predicted == label else f" ({classes[label]})"
        title = f"{classes[predicted]} {100 * p[predicted]:.0f} %{truth}"
        draw_cloud(axes, cloud, title, GOOD if predicted == label else BAD)
    left, right = np.asarray(bottom.subfigures(1, 2, width_ratios=[1, 1.25]), object)
    upper, lower = np.ravel(left.subplots(2, 1, sharex=True))
    draw_curves(upper, accuracy, "test accuracy, %")
    upper.set_ylim(0, 100)
    upper.legend(fontsize=9, frameon=False)
    draw_curves(lower, loss, "training loss")
    upper.set_xlabel("")
    draw_confusion(right.subplots(), confusion, classes, "1-bit network, number of test shapes")
    write_beside(path, png_of(figure, 110))

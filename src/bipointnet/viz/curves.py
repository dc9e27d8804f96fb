"""Curves over epochs as SVG, without matplotlib."""

import html
import json
import math
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 10, 24  # margins
TICKS = 4  # about as many steps on an axis


class Curve(NamedTuple):
    """A named line of (epoch, value). style: its class in the style sheet."""

    name: str
    style: str
    points: Sequence[tuple[int, float]]


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from at most `low` to at least `high`.

    >>> ticks(0, 1.9), ticks(83, 97)
    ([0.0, 0.5, 1.0, 1.5, 2.0], [80.0, 85.0, 90.0, 95.0, 100.0])
    """
    size = max(abs(low), abs(high))
    size = size if size > 1e-100 else 1.0
    # Values that are all but equal have the steps of their size, as digits after the sixth do not fit an axis.
    rough = (high - low if high - low > 1e-5 * size else size) / TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.99)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, max(last, first + 1) + 1)]


def chart(title: str, curves: Sequence[Curve], unit: str = "", from_zero: bool = False) -> str:
    """A figure with its legend, as HTML: one polyline per curve that has points; nothing without any.

    Args:
        title: what the values are.
        curves: over the same epochs, or some of them.
        unit: follows a value, such as " %".
        from_zero: let the axis begin at 0.
    """
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return ""
    values = [value for curve in curves for _, value in curve.points]
    epochs = [epoch for curve in curves for epoch, _ in curve.points]
    levels = ticks(min(0, *values) if from_zero else min(values), max(values))
    first, last = min(epochs), max(epochs)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(epoch: float) -> float:
        return (LEFT + right) / 2 if first == last else LEFT + (right - LEFT) * (epoch - first) / (last - first)

    def y(value: float) -> float:
        return bottom - (bottom - TOP) * (value - levels[0]) / (levels[-1] - levels[0])

    parts = []
    for level in levels:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y(level):.1f}" y2="{y(level):.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(level) + 4:.1f}" text-anchor="end">{level:g}</text>')
    marks = sorted({epoch for epoch in map(int, ticks(first, last)) if first < epoch < last} | {first, last})
    crowded = (last - first) / 12
    parts += (
        f'<text x="{x(epoch):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{epoch}</text>'
        for epoch in marks
        if epoch in (first, last) or min(epoch - first, last - epoch) > crowded
    )
    for curve in curves:
        line = " ".join(f"{x(epoch):.1f},{y(value):.1f}" for epoch, value in curve.points)
        data = html.escape(json.dumps([[epoch, float(f"{value:.6g}")] for epoch, value in curve.points]))
        name = html.escape(curve.name)
        parts.append(f'<polyline class="{curve.style}" points="{line}" data-name="{name}" data-points="{data}"/>')
        end, value = curve.points[-1]
        parts.append(f'<circle class="{curve.style}" cx="{x(end):.1f}" cy="{y(value):.1f}" r="3"/>')
    legend = "".join(
        f'<span><i class="{curve.style}"></i>{html.escape(curve.name)} <b>{curve.points[-1][1]:.4g}{unit}</b></span>'
        for curve in curves
    )
    spoken = "; ".join(
        f"{curve.name}: from {curve.points[0][1]:.4g}{unit} in epoch {curve.points[0][0]} to "
        f"{curve.points[-1][1]:.4g}{unit} in epoch {curve.points[-1][0]}"
        for curve in curves
    )
    return (
        f'<figure class="chart" data-unit="{html.escape(unit)}"><figcaption><strong>{html.escape(title)}</strong>'
        f'<span class="legend">{legend}</span></figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(f"{title}. {spoken}")}">'
        f'{"".join(parts)}<line class="cursor" y1="{TOP}" y2="{bottom}" visibility="hidden"/></svg></figure>'
    )

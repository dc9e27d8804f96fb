"""Pictures of the theory and of studied networks: counterparts of the paper's figures, drawn from data.

The colors are those of Okabe and Ito (2008), which people with any kind of color vision can distinguish.
"""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.analysis import theory
from bipointnet.delta import delta
from bipointnet.files import write_beside

BLUE, ORANGE, GREEN, RED, SKY, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7"
COLORS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, "#000000")
MINUS, PLUS = BLUE, ORANGE  # the two values of a bit
SHOWN_CLOUDS, SHOWN_CHANNELS = 60, 128


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _write(figure: Any, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    write_beside(path, buffer.getvalue())


def _tidy(axes: Any, xlabel: str = "", ylabel: str = "", title: str = "") -> None:
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    if title:
        axes.set_title(title, fontsize=10.5)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def pooling_picture(path: Path, n: int = 1024) -> None:
    """What pooling does to one bit: values of a channel, their maximum over n points, the maximum minus delta(n)."""
    figure = _figure(10, 3.1)
    grid = np.linspace(-4, 5.5, 2000)
    density = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)

    def density_of_max(shift: float) -> np.ndarray:
        below = np.array([theory.log_cdf(x + shift) for x in grid])
        return n * np.exp(-((grid + shift) ** 2) / 2) / math.sqrt(2 * math.pi) * np.exp((n - 1) * below)

    d = delta(n)
    panels = (
        ("one value per point, after BatchNorm", density, 0.5, 1.0),
        (f"max over {n} points", density_of_max(0), 2.0**-n, theory.max_pool_entropy(n)),
        (f"EMA-max: max over {n} points - {d:.2f}", density_of_max(d), 0.5, theory.max_pool_entropy(n, d)),
    )
    for axes, (title, curve, minus, entropy) in zip(figure.subplots(1, 3, sharex=True), panels, strict=True):
        for side, color in ((grid < 0, MINUS), (grid >= 0, PLUS)):
            axes.fill_between(grid[side], curve[side], color=color, alpha=0.75, linewidth=0)
        axes.axvline(0, ymax=0.7, color="black", linewidth=1)
        axes.set_ylim(0, 1.45 * curve.max())
        for x, share, name, color in ((0.03, minus, "-1", MINUS), (0.97, 1 - minus, "+1", "#9a6a00")):
            text = f"{name}: {100 * share:.0f} %"
            axes.text(x, 0.97, text, transform=axes.transAxes, ha="left" if x < 0.5 else "right", va="top", color=color)
        axes.text(0.5, 0.86, f"{entropy:.2f} bits", transform=axes.transAxes, ha="center", va="top", weight="bold")
        _tidy(axes, "value (standard deviations of the input)", title=title)
        axes.set_yticks([])
    figure.supylabel("probability density", fontsize=10)
    _write(figure, path)


def theory_picture(path: Path, survey: Mapping[str, Sequence[Mapping[str, Any]]], inputs: int = 64) -> None:
    """Entropy over n; delta in closed form and simulated; the cost of a wrong n; Theorem 2 and simulated products."""
    figure = _figure(10, 7)
    (entropy, shift), (wrong, product) = figure.subplots(2, 2)

    counts = np.geomspace(1, 4096, 300)
    for values, color, style in (
        ([theory.max_pool_entropy(n, delta(n)) for n in counts], GREEN, "-"),
        ([theory.mean_pool_entropy(n) for n in counts], ORANGE, (0, (4, 4))),
        ([theory.max_pool_entropy(n) for n in counts], BLUE, "-"),
        ([theory.max_pool_entropy(n, delta(64)) for n in counts], PURPLE, "-."),
    ):
        entropy.plot(counts, values, color=color, linestyle=style, linewidth=2)
    entropy.text(1.1, 1.04, "EMA-max (green) and EMA-avg (orange): 1 bit")
    entropy.text(2.9, 0.66, "max", color=BLUE)
    entropy.text(210, 0.62, "max - delta(64)\nat every n", color="#a3487c", va="center")
    entropy.set_xscale("log", base=2)
    entropy.set_ylim(-0.04, 1.16)
    _tidy(entropy, "n, elements aggregated", "entropy of the bit (bits)", "Theorem 1: a plain max leaves nothing")

    rows = survey["pools"]
    shift.plot(counts, [delta(n) for n in counts], color=GREEN, linewidth=2, label=r"$\Phi^{-1}(2^{-1/n})$")
    label = "Algorithm 1, with 10 standard errors"
    n, found, errors = ([row[key] for row in rows] for key in ("n", "monte_carlo", "standard_error"))
    shift.errorbar(n, found, yerr=10 * np.array(errors), fmt="o", color="black", markersize=4, capsize=3, label=label)
    shift.set_xscale("log", base=2)
    shift.legend(fontsize=8.5, frameon=False, loc="lower right")
    _tidy(shift, "n, elements aggregated", "delta(n) (standard deviations)", "The shift, in closed form and simulated")

    ratios = np.geomspace(1 / 16, 16, 300)
    wrong.plot(ratios, [theory.bits_lost(1, r) for r in ratios], color=RED, linewidth=2)
    for r, what, side in ((0.5, "half", "right"), (2, "twice", "left")):
        lost = theory.bits_lost(1, r)
        wrong.plot([r], [lost], "o", color=RED)
        offset = (-9 if side == "right" else 9, -12)
        wrong.annotate(f"{what}: {lost:.2f}", (r, lost), offset, textcoords="offset points", ha=side)
    wrong.set_xscale("log", base=2)
    wrong.set_xticks([1 / 16, 1 / 4, 1, 4, 16], ["1/16", "1/4", "1", "4", "16"])
    wrong.set_ylim(-0.03, 1.05)
    _tidy(
        wrong,
        "elements aggregated / n of delta",
        "bits lost of 1",
        "Cost of the delta of another n, for every n",
    )

    draws = 10_000
    exact = theory.product_distribution(inputs)
    drawn = theory.simulate_products(inputs, draws, np.random.default_rng(0))
    found = np.bincount((drawn + inputs) // 2, minlength=inputs + 1) / draws
    near = np.abs(exact.values) <= 4 * math.sqrt(inputs)
    smooth = np.linspace(-4 * math.sqrt(inputs), 4 * math.sqrt(inputs), 400)
    product.bar(
        exact.values[near], found[near], width=1.5, color=SKY, label=f"{draws:,} simulated products".replace(",", " ")
    )
    product.plot(smooth, theory.normal_approximation(smooth, inputs), color=RED, linewidth=1.6, label=f"N(0, {inputs})")
    product.plot(exact.values[near], exact.probabilities[near], "k.", markersize=5, label="binomial")
    product.set_ylim(0, 1.35 * exact.probabilities.max())
    product.legend(fontsize=8.5, frameon=False)
    _tidy(
        product,
        f"z = sign(a) . sign(w), {inputs} inputs",
        "probability",
        f"Theorem 2: scale {math.sqrt(inputs):g} for {inputs} inputs",
    )
    _write(figure, path)


def pooled_picture(path: Path, runs: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Pooled features in two colors, one row per cloud, for each run (bits (M, C), entropy (C,)), and their entropies.

    Channels are sorted by their fraction of +1 and thinned evenly. If all rows look alike, the network cannot
    distinguish the clouds.
    """
    from matplotlib.colors import ListedColormap

    figure = _figure(max(3.2 * len(runs), 5), 4.8)
    panels = figure.subplots(2, len(runs), squeeze=False, height_ratios=[2.2, 1], sharey="row")
    for (name, (bits, entropy)), image, counts in zip(runs.items(), *panels, strict=True):
        order = np.argsort(bits.mean(axis=0), kind="stable")
        columns = order[np.arange(min(SHOWN_CHANNELS, len(order))) * len(order) // min(SHOWN_CHANNELS, len(order))]
        rows = np.arange(min(SHOWN_CLOUDS, len(bits))) * len(bits) // min(SHOWN_CLOUDS, len(bits))
        image.imshow(
            bits[np.ix_(rows, columns)], cmap=ListedColormap([MINUS, PLUS]), vmin=0, vmax=1, aspect="auto",
            interpolation="nearest",
        )  # fmt: skip
        image.set_title(name, fontsize=10.5)
        image.set_xticks([])
        image.set_xlabel("pooled channels, sorted")
        counts.hist(
            entropy, bins=np.linspace(0, 1, 21).tolist(), color=GREEN, weights=np.full(len(entropy), 100 / len(entropy))
        )
        _tidy(counts, "entropy of a channel (bits)")
        counts.set_title(f"mean {entropy.mean():.2f} bits", fontsize=9.5)
    panels[0, 0].set_ylabel("clouds, sorted by class")
    panels[1, 0].set_ylabel("channels, %")
    legend = [_patch(MINUS, "-1"), _patch(PLUS, "+1")]
    figure.legend(handles=legend, loc="outside upper left", ncols=2, frameon=False, fontsize=9)
    _write(figure, path)


def _patch(color: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=color, label=label)


def scale_picture(path: Path, runs: Mapping[str, Sequence[Any]]) -> None:
    """Standard deviation of each bi-linear output, and of the same product in floats, for each run's layers."""
    longest = max(len(layers) for layers in runs.values())
    columns = min(2, len(runs))
    lines = -(-len(runs) // columns)
    figure = _figure(max(5 * columns, 6), 0.4 + lines * (1.2 + 0.25 * longest))
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True).ravel()
    for axes in panels[len(runs) :]:
        axes.axis("off")
    for axes, (name, layers) in zip(panels, runs.items(), strict=False):
        rows = np.arange(len(layers))
        ones, floats = np.array([layer.scale for layer in layers]), np.array([layer.float_scale for layer in layers])
        roots = [math.sqrt(layer.inputs) for layer in layers]
        axes.hlines(rows, ones, floats, color="#999999", linewidth=1.4)
        axes.plot(floats, rows, "o", color=BLUE, label="the same product in floats")
        axes.plot(ones, rows, "D", color=RED, markersize=5, label="1 bit, as the layer returns it")
        axes.plot(roots, rows, "|", color="black", markersize=10, label="square root of the inputs")
        axes.set_yticks(rows, [layer.name for layer in layers], fontsize=8)
        axes.set_ylim(len(layers) - 0.4, -0.6)
        axes.set_xscale("log")
        _tidy(axes, title=name)
        axes.tick_params(labelbottom=True)
    figure.supxlabel("standard deviation of the output", fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    _write(figure, path)


def transform_picture(path: Path, cloud: np.ndarray, runs: Mapping[str, np.ndarray]) -> None:
    """A cloud (N, 3), and the cloud transformed by the input T-Net (3, 3) of each run, all at one scale.

    A cloud that is too small at that scale is also drawn enlarged in an inset.
    """
    clouds = {"input": cloud} | {name: cloud @ matrix for name, matrix in runs.items()}
    figure = _figure(max(3 * len(clouds), 6), 3.3)
    largest = max(float(np.abs(points).max()) for points in clouds.values())
    panels = figure.subplots(1, len(clouds), sharex=True, sharey=True)
    for axes, (name, points) in zip(panels, clouds.items(), strict=True):
        views = [axes]
        reach = float(np.abs(points).max())
        if reach < largest / 8:
            views.append(axes.inset_axes((0.53, 0.03, 0.44, 0.44)))
            views[1].set_title("enlarged", fontsize=8, pad=2)
            views[1].set_xticks([])
            views[1].set_yticks([])
        for view, limit in zip(views, (largest, reach), strict=False):
            view.scatter(points[:, 0], points[:, 2], s=3, color=BLUE, linewidths=0)
            view.set_aspect("equal")
            view.set_xlim(-1.08 * limit, 1.08 * limit)
            view.set_ylim(-1.08 * limit, 1.08 * limit)
        _tidy(axes, "x", title=name)
        radius = float(np.linalg.norm(points, axis=1).max())
        axes.text(0.03, 0.97, f"radius {radius:.3g}", transform=axes.transAxes, va="top")
    panels[0].set_ylabel("z (the input has radius 1)")
    _write(figure, path)


CURVES = {
    "test_oa": "test accuracy (%)",
    "entropy": "entropy of the pooled bits (bits)",
    "regularizer": "T-Net regularizer ||I - ZZ'||",
    "zero_gradient": "activations without gradient (%)",
}


def training_picture(path: Path, runs: Mapping[str, Sequence[Mapping[str, float | None]]]) -> None:
    """The curves in the logs of several runs; each run has one color."""
    curves = {
        key: {name: [(r["epoch"], r[key]) for r in rows if r.get(key) is not None] for name, rows in runs.items()}
        for key in CURVES
    }
    shown = {key: lines for key, lines in curves.items() if any(lines.values())}
    columns = min(2, len(shown))
    height = -(-len(shown) // columns)
    figure = _figure(5 * columns, 2.9 * height + 0.4)
    panels = figure.subplots(height, columns, squeeze=False).ravel()
    for axes, (key, lines) in zip(panels, shown.items(), strict=False):
        for (name, line), color, marker in zip(lines.items(), _colors(len(lines)), "osD^v<>*" * 8, strict=False):
            if line:
                x, y = zip(*line, strict=True)
                axes.plot(x, y, color=color, marker=marker, markersize=4, linewidth=1.5, label=name)
        if key == "regularizer":
            axes.set_yscale("log")
        axes.xaxis.get_major_locator().set_params(integer=True)
        _tidy(axes, "epoch", CURVES[key])
    entries = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if len(panels) > len(shown):
        panels[-1].axis("off")
        panels[-1].legend(entries.values(), entries.keys(), loc="center", frameon=False)
    else:
        place = {"loc": "outside upper center", "ncols": min(4, len(entries))}
        figure.legend(entries.values(), entries.keys(), frameon=False, fontsize=9, **place)
    _write(figure, path)


def _colors(count: int) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(count)]

"""Verify a packed model value by value, without PyTorch.

1. The golden vector in the file: the core checks it when it loads the file, on every instruction set.
2. The numpy reference against the portable core: every value of the program, bit for bit.
3. Every instruction set of this machine against the portable core: the same values, and the logits with normalization
   and with two threads, bit for bit.

`evaluation.verify_torch` adds the comparison with the PyTorch network that was exported.

The clouds are random clouds of awkward sizes and, if given, clouds of a test split.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet import _core
from bipointnet.data.normalize import normalize
from bipointnet.runtime import reference
from bipointnet.runtime.model import Model, load
from bipointnet.runtime.progress import Progress, no_progress

SIZES = (1, 2, 63, 511, 512, 513, 5000)
MOST_FOR_REFERENCE = 32  # test clouds for the reference, which is slow
MOST_DIFFERENCES = 20  # that a report lists
MOST_NUMBERS = 2**27  # in the values of a random cloud; they are held in memory twice


class Tally:
    """How many values were compared, how many differ, and where the first differences are."""

    def __init__(self) -> None:
        self.compared = self.different = 0
        self.first: list[str] = []

    def compare(self, place: str, found: np.ndarray, expected: np.ndarray) -> None:
        """Count the values that are not the same bits. All NaN are equal: no logit depends on which one it is."""
        self.compared += expected.size
        if found.shape != expected.shape:
            self._count(f"{place}: shape {found.shape}, expected {expected.shape}", expected.size)
            return
        different = found != expected
        if found.dtype == np.float32:
            different = found.view(np.uint32) != expected.astype(np.float32).view(np.uint32)
            different &= ~(np.isnan(found) & np.isnan(expected))
        wrong = int(different.sum())
        if wrong:
            self._count(f"{place}: {wrong} of {expected.size} values differ", wrong)

    def _count(self, place: str, count: int) -> None:
        self.different += count
        if len(self.first) < MOST_DIFFERENCES:
            self.first.append(place)

    def facts(self) -> dict[str, Any]:
        """For the report."""
        return {"values_compared": self.compared, "values_different": self.different, "first_differences": self.first}


class Case(NamedTuple):
    """A cloud (N, C) float32 as the network reads it, its name in reports, and the index of its category."""

    name: str
    cloud: np.ndarray
    category: int | None


def random_clouds(model: Model) -> list[np.ndarray]:
    """One normalized cloud (N, C) per size in SIZES; the larger ones contain some points twice.

    Sizes for which the values of all groups of neighbors take too much memory are left out.
    """
    rng = np.random.default_rng(0)
    sizes = [n for n in SIZES if sum(o.elements * o.outputs for o in model.operations(n)) <= MOST_NUMBERS]
    clouds = [rng.standard_normal((n, model.channels), np.float32) for n in sizes]
    for cloud in clouds:
        cloud[len(cloud) // 2 : len(cloud) // 2 + len(cloud) // 8] = cloud[: len(cloud) // 8]
    return [np.ascontiguousarray(normalize(cloud), np.float32) for cloud in clouds]


def cases(model: Model, data: np.ndarray | None) -> list[Case]:
    """The clouds to compare on: random ones, then the clouds of `data`. Categories take turns."""
    named = [(f"random cloud of {len(cloud)}", cloud) for cloud in random_clouds(model)]
    if data is not None:
        how = model.manifest["normalize"]
        named += [(f"test cloud {i}", reference.normalized(np.asarray(x, np.float32), how)) for i, x in enumerate(data)]
    count = len(model.categories)
    return [Case(name, cloud, i % count if count else None) for i, (name, cloud) in enumerate(named)]


def verify(path: str | Path, *, data: np.ndarray | None = None, progress: Progress = no_progress) -> dict[str, Any]:
    """Compare the packed model in `path` with the reference and on every instruction set; what `--json` prints.

    Args:
        path: the packed model.
        data: clouds (M, P, C) float32, in addition to the random ones.
        progress: called with (done, total) clouds.

    Returns:
        A report. `report["ok"]` says whether all checks passed; `summary(report)` says it in words.

    Examples:
        >>> report = verify("chairs.bpn")  # doctest: +SKIP
        >>> report["ok"], report["reference"]["values_compared"]  # doctest: +SKIP
        (True, 10367278)
    """
    path = Path(path)
    models = {name: load(path, name) for name in _core.isas()}
    portable = models.pop("portable")
    packed = reference.read(path)
    last = packed.manifest["program"][-1]["out"][0]
    compared = cases(portable, data)
    for_reference = len(SIZES) + MOST_FOR_REFERENCE
    against_reference, isas = Tally(), {name: Tally() for name in models}
    for i, (name, cloud, category) in enumerate(compared):
        values = portable.trace(cloud, category=category, normalize=False)
        if i < for_reference:
            _, expected = reference.run_program(packed, cloud, raw=True, category=category)
            _compare_values(against_reference, name, expected, values, packed)
        logits = _all_logits(portable, cloud, category, 1)
        traced = values[last]
        distinct, place = reference.distinct_points(cloud)
        kept = reference.thinned(distinct, packed.manifest.get("max_points", len(distinct)))
        if len(kept) < len(cloud):  # a trace shows all points
            traced = portable.trace(kept, category=category, normalize=False)[last]
        traced = traced if traced.ndim == 1 else traced[place]
        against_reference.compare(f"{name}, logits without trace", logits[0], traced)
        for isa, model in models.items():
            _compare_values(isas[isa], name, model.trace(cloud, category=category, normalize=False), values, packed)
            isas[isa].compare(f"{name}, logits", _all_logits(model, cloud, category, 2), logits)
        progress(i + 1, len(compared))
    return {
        "model": portable.manifest["model"],
        "clouds": len(compared),
        "golden_vector": {"isas": [*models, "portable"], "tolerance": portable.manifest["golden"]["tolerance"]},
        "reference": {"clouds": min(for_reference, len(compared)), **against_reference.facts()},
        "isas": {name: tally.facts() for name, tally in isas.items()},
        "torch": None,
        "ok": not any(tally.different for tally in (against_reference, *isas.values())),
    }


def _all_logits(model: Model, cloud: np.ndarray, category: int | None, threads: int) -> np.ndarray:
    """(2, ..., classes): without and with normalization."""
    return np.stack([model.logits(cloud, category=category, normalize=n, threads=threads) for n in (False, True)])


def _compare_values(
    tally: Tally,
    name: str,
    found: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    packed: reference.Packed,
) -> None:
    for op in packed.manifest["program"]:
        for result in op["out"]:
            tally.compare(f"{name}, {result} ({op['op']})", found[result], expected[result])


def summary(report: dict[str, Any]) -> list[tuple[str, str]]:
    """A report in words, as rows (check, result): how much was compared, how much differs, and why that is acceptable.

    Examples:
        >>> for check, result in summary(verify("chairs.bpn")):  # doctest: +SKIP
        ...     print(check, "-", result)
        golden vector - logits within 0.001 on avx2, portable
        numpy reference - 10,367,278 values compared with the portable core, none differs
        avx2 - 660,995,206 values compared with the portable core, none differs
    """
    golden, torch = report["golden_vector"], report["torch"]
    rows = [("golden vector", f"logits within {golden['tolerance']:g} on {', '.join(golden['isas'])}")]
    for name, tally in {"numpy reference": report["reference"], **report["isas"]}.items():
        compared, different = tally["values_compared"], tally["values_different"]
        rows += [(name, f"{compared:,} values compared with the portable core, {_count(different)}")]
    if torch:
        rows += [
            ("PyTorch, float64", f"{torch['bits_compared']:,} bits compared, {_bit_differences(torch)}"),
            ("", f"{torch['labels_compared']:,} labels compared, {_label_differences(torch)}"),
        ]
    return rows


def count_failures(report: dict[str, Any]) -> int:
    """How many values differ that must be equal; 0 if the report is ok."""
    different = sum(tally["values_different"] for tally in (report["reference"], *report["isas"].values()))
    kinds = ("bits", "floats", "indices", "labels") if report["torch"] else ()
    return different + sum(report["torch"][f"{kind}_unexplained"] for kind in kinds)


def failures(report: dict[str, Any]) -> list[str]:
    """The first differences that are not acceptable; empty if the report is ok."""
    tallies = [report["reference"], *report["isas"].values()]
    found = [place for tally in tallies for place in tally["first_differences"]]
    return found + (report["torch"]["first_unexplained"] if report["torch"] else [])


def _count(different: int) -> str:
    return {0: "none differs", 1: "1 differs"}.get(different, f"{different:,} differ")


def _bit_differences(torch: dict[str, Any]) -> str:
    """Why bits differ: the core sums in float32, PyTorch in float64."""
    different, near, follow, unexplained = (
        torch[f"bits_{name}"] for name in ("different", "within_rounding", "that_follow", "unexplained")
    )
    if not different:
        return _count(different)
    if unexplained:
        return f"{_count(different)}, {unexplained:,} of them without explanation"
    sums = "1 float sum is" if near == 1 else f"{near:,} float sums are"
    effect = f"; the other {follow:,} follow from it" if near == 1 else f"; the other {follow:,} follow from these"
    return (
        f"{_count(different)}, as expected: {sums} within float32 rounding of the threshold{effect if follow else ''}"
    )


def _label_differences(torch: dict[str, Any]) -> str:
    different, unexplained = torch["labels_different"], torch["labels_unexplained"]
    if not different:
        return _count(different)
    if unexplained:
        return f"{_count(different)}, {unexplained:,} of them without explanation"
    return f"{_count(different)}, as expected: they follow from such bits, or two logits are equal within rounding"

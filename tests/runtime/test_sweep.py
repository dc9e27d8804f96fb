"""The sweep over the number of points: turns, what is left out and why, processes, and the report."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bipointnet import load
from bipointnet.data.normalize import normalize
from bipointnet.data.shapes import CLASSES, held_out
from bipointnet.errors import UserError
from bipointnet.runtime import bench, sweep
from bipointnet.runtime.sweep import MOST_SECONDS, Measured, Turns
from bipointnet.runtime.timed_process import NotMeasuredError, TimedProcess, Turn

GOLDEN = Path(__file__).parents[1] / "golden"
SHAPES = GOLDEN / "shapes.bpn"


class Pretended:
    """A process whose calls take a given time, except that call `fails_at` fails. Notes (name, cloud, calls)."""

    def __init__(self, name: str, seconds: float, log: list[tuple[str, int, int]], fails_at: int = -1) -> None:
        self.name, self.seconds, self.log, self.fails_at, self.turns = name, seconds, log, fails_at, 0

    def turn(self, cloud: int, calls: int, limit: float) -> Turn:
        self.turns += 1
        if self.turns == self.fails_at:
            raise NotMeasuredError("broken")
        self.log.append((self.name, cloud, calls))
        return Turn([9.0] * (calls - 1) + [self.seconds], 4096)


def started(process: Any, rounds: int) -> Turns:
    turns = Turns(None)
    turns.start(process, rounds)
    return turns


def saved(folder: Path, points: int) -> Path:
    np.save(folder / "clouds.npy", np.stack([normalize(held_out(i, points)[0]) for i in range(2)]))
    return folder / "clouds.npy"


def test_runtimes_take_turns_on_the_same_clouds_and_slow_ones_have_fewer_rounds():
    log: list[tuple[str, int, int]] = []
    quick, slow = started(Pretended("quick", 0.001, log), 100), started(Pretended("slow", 0.04, log), 100)
    log.clear()
    sweep.take_turns([quick, slow], clouds=3)
    assert quick.rounds == 100
    assert slow.rounds == sweep.SECONDS / 0.04
    assert [entry[0] for entry in log[:2]] == ["quick", "slow"]
    assert [entry[1] for entry in log if entry[0] == "quick"] == [i % 3 for i in range(100)]
    places = [i for i, entry in enumerate(log) if entry[0] == "slow"]
    assert len(places) == slow.rounds
    assert set(np.diff(places)) == {5}, "evenly spread: 4 quick turns between them"
    for i in places:
        assert log[i][1] == log[i - 1][1], "the cloud of the round"
    assert {entry[2] for entry in log if entry[0] == "quick"} == {2}
    assert {entry[2] for entry in log if entry[0] == "slow"} == {1}
    assert quick.result() == Measured(1000.0, 100, 4096), "only the last call of a turn counts"


def test_the_slowest_calls_have_three_rounds_or_as_few_as_asked_for():
    for asked, expected in ((200, 3), (2, 2)):
        assert started(Pretended("slow", MOST_SECONDS, []), asked).rounds == expected


@pytest.mark.parametrize("fails_at", [1, 2, 5])
def test_a_runtime_that_fails_is_left_out_and_the_other_goes_on(fails_at):
    log: list[tuple[str, int, int]] = []
    good, bad = started(Pretended("good", 0.02, log), 10), started(Pretended("bad", 0.02, log, fails_at), 10)
    sweep.take_turns([good, bad], clouds=3)
    assert bad.result() == Measured(None, 0, None, "broken")
    assert good.result() == Measured(20000.0, 10, 4096)


def test_a_runtime_is_not_tried_on_larger_clouds_if_it_failed_or_would_take_too_long():
    fast, failed = Measured(1000.0, 3, 0), Measured(None, 0, None, "not enough memory")
    limit = int(1000 * MOST_SECONDS)  # points, if one point takes 1 ms
    assert sweep.refusal(10**9, {}) is None
    assert sweep.refusal(limit, {1: fast}) is None
    assert f"a call would take {2 * MOST_SECONDS:.0f} s" in str(sweep.refusal(2 * limit, {1: fast}))
    assert sweep.refusal(64, {16: fast, 32: failed}) == "not enough memory"


def test_speedups_are_ratios_and_unknown_where_a_time_is():
    packed, peer, failed = Measured(2.0, 1, None), Measured(50.0, 1, None), Measured(None, 0, None, "slow")
    assert sweep.speedups({"packed": packed, "onnxruntime": peer}) == {"onnxruntime": 25.0}
    assert sweep.speedups({"packed": packed, "onnxruntime": failed}) == {"onnxruntime": None}
    assert sweep.speedups({"packed": failed, "onnxruntime": peer}) == {"onnxruntime": None}
    assert sweep.speedups({"packed": packed}) == {}


@pytest.mark.parametrize("name", ["shapes", "rooms-semantic"])
def test_inputs_are_normalized_as_the_model_says_and_have_its_channels(name):
    model = load(GOLDEN / f"{name}.bpn")
    cloud = held_out(3, 50)[0]
    found = bench.as_input(model, cloud)
    assert found.shape == (50, model.channels)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, :3], normalize(cloud) if name == "shapes" else cloud, atol=1e-6)
    assert np.isfinite(model.logits(found, normalize=False)).all()


def test_the_accuracy_is_the_share_of_right_answers_of_models_that_classify_shapes():
    class Model:
        """Knows the class of the first five objects by their first point, whatever the number of points."""

        known = {held_out(i, 1)[0].tobytes(): CLASSES[i] for i in range(5)}  # noqa: RUF012

        def predict(self, cloud: np.ndarray, threads: int) -> Any:
            name = self.known.get(cloud[0].tobytes(), "nothing") if len(cloud) == 8 else "nothing"
            return type("Prediction", (), {"names": name})

    model: Any = Model()
    assert sweep.evaluate_sizes(model, [4, 8], 20, 1, lambda done, of: None) == {4: 0.0, 8: 25.0}
    assert sweep.evaluate_sizes(model, [], 20, 1, lambda done, of: None) == {}
    kinds = {"shapes": True, "shapes-tnets": True, "neighbors": False, "shapes-parts": False, "rooms-semantic": False}
    assert {name: sweep.classifies_shapes(load(GOLDEN / f"{name}.bpn")) for name in kinds} == kinds


def test_a_process_times_each_call_and_reports_memory(tmp_path):
    with TimedProcess("packed", SHAPES, saved(tmp_path, 64), 1) as process:
        for cloud, calls in ((0, 1), (1, 3)):
            turn = process.turn(cloud, calls, 60)
            assert len(turn.seconds) == calls
            assert min(turn.seconds) > 0
            assert turn.peak_bytes is None or turn.peak_bytes >= 0


def test_the_memory_of_onnxruntime_holds_its_largest_layer(tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    with TimedProcess("onnxruntime", SHAPES, saved(tmp_path, 4096), 1) as process:
        peak = process.turn(0, 1, 60).peak_bytes
    assert peak is None or peak >= 4 * 1024 * 4096, "1024 channels per point"


def test_a_process_that_fails_says_why(tmp_path):
    clouds = saved(tmp_path, 64)
    with (
        TimedProcess("packed", tmp_path / "nothing.bpn", clouds, 1) as process,
        pytest.raises(NotMeasuredError, match=r"failed \(.*nothing.bpn: no such file"),
    ):
        process.turn(0, 1, 60)
    with TimedProcess("packed", SHAPES, clouds, 1) as process:
        process.turn(0, 1, 60)
        with pytest.raises(NotMeasuredError, match=r"no answer within 0\.2 s"):
            process.turn(0, 10**9, 0.2)
        with pytest.raises(NotMeasuredError, match="the process ended"):
            process.turn(0, 1, 60)


def test_the_report_has_ascending_sizes_and_is_complete():
    seen: list[tuple[int, int]] = []
    report = sweep.sweep(
        GOLDEN / "neighbors.bpn", points=[64, 32, 64], rounds=2, progress=lambda done, of: seen.append((done, of))
    )
    assert json.loads(json.dumps(report)) == report
    assert [row["points"] for row in report["sizes"]] == [32, 64]
    assert seen[-1][0] == seen[-1][1]
    assert not report["float_twin"]
    assert report["test_clouds"] == 0
    for row in report["sizes"]:
        assert list(row["runtimes"]) == ["packed", "plain"]
        assert row["runtimes"]["packed"]["us"] > 0
        assert row["runtimes"]["packed"]["rounds"] == 2
        assert list(row["speedup"]) == ["plain"]
        assert row["accuracy"] is None


def test_the_sizes_are_those_that_the_page_names():
    assert list(sweep.POINTS) == sorted(set(sweep.POINTS))
    assert (sweep.POINTS[0], sweep.POINTS[-1]) == (32, 1_000_000)
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
    assert f"up to\n  {sweep.EVALUATED_POINTS:,} points" in page
    assert f"more than {MOST_SECONDS:.0f} s" in page
    assert f"{sweep.TEST_CLOUDS} objects" in page


def test_options_that_cannot_be_measured_are_refused():
    options: list[tuple[dict[str, Any], str]] = [
        ({"points": []}, "points: no sizes"),
        ({"points": [32, 0]}, "points is 0; expected an integer from 1"),
        ({"points": [sweep.MOST_POINTS + 1]}, f"expected an integer from 1 to {sweep.MOST_POINTS}"),
        ({"threads": 0}, "threads is 0; expected an integer from 1"),
        ({"rounds": 0}, "rounds is 0; expected at least 1"),
        ({"clouds": -1}, "clouds is -1; expected at least 0"),
    ]
    for option, sentence in options:
        with pytest.raises(UserError, match=sentence):
            sweep.sweep(SHAPES, **option)

"""The benchmark: every peer computes the float twin of the packed model, and the report is complete."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bipointnet import load
from bipointnet.errors import UserError
from bipointnet.evaluation.bench_torch import bench as bench_with_torch
from bipointnet.evaluation.bench_torch import torch_peer
from bipointnet.models import PointNet
from bipointnet.nn import LSR, BinaryLinear, EntropyMax, MeanPool, calibrate, deployed_bytes
from bipointnet.packing import pack
from bipointnet.runtime import bench
from bipointnet.runtime.float_twin import float_twin, numpy_twin, random_weights
from bipointnet.runtime.operations import float_bytes

GOLDEN = Path(__file__).parents[1] / "golden"


def packed(path: Path, classes: int, tnets: bool, channels: int = 3, mean: bool = False) -> Path:
    torch.manual_seed(0)
    pool = MeanPool() if mean else EntropyMax()
    network = PointNet(classes, channels, tnets, linear=BinaryLinear.of(LSR()), pool=pool)
    calibrate(network, torch.randn(4, 32, channels))
    pack.export(network.eval(), path, classes=[f"class {i}" for i in range(classes)], golden_points=4)
    return path


@pytest.fixture(scope="module")
def vanilla(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(tmp_path_factory.mktemp("bench") / "vanilla.bpn", 40, tnets=False)


def test_the_float_twin_has_the_layers_of_the_float_network(vanilla, tmp_path):
    assert float_bytes(load(vanilla).operations()) == 3_228_320
    model = load(packed(tmp_path / "transformed.bpn", 7, tnets=True, channels=6))
    steps = float_twin(model)
    assert steps is not None
    assert float_bytes(model.operations()) == deployed_bytes(PointNet(7, 6))
    assert sum(4 * s.outputs * (s.inputs + 1) for s in steps if s.kind == "linear") == deployed_bytes(PointNet(7, 6))
    assert [s.inputs for s in steps if s.kind == "linear" and not s.relu] == [256, 256, 256]
    assert [s.outputs for s in steps if s.kind == "transform"] == [3, 64]


@pytest.mark.parametrize("name", ["shapes", "shapes-xnor", "shapes-tnets", "shapes-parts", "rooms-semantic"])
def test_peers_compute_the_float_twin_of_every_kind_of_network(name):
    """`installed_peers` compares the logits of each peer with numpy."""
    model = load(GOLDEN / f"{name}.bpn")
    steps = float_twin(model)
    assert steps is not None
    layers = [o for o in model.operations() if o.weights is not None]
    linear = [s for s in steps if s.kind == "linear"]
    assert [s.outputs for s in linear] == [o.outputs for o in layers]
    dropped = len(model.categories)  # inputs that are constant
    assert all(o.inputs - s.inputs - s.shared in (0, dropped) for o, s in zip(layers, linear, strict=True))
    cloud = np.random.default_rng(0).standard_normal((33, model.channels), np.float32) / 4
    expected = numpy_twin(steps, random_weights(steps), cloud)
    assert expected.shape == model.logits(cloud, category=0 if model.categories else None).shape
    threads = torch.get_num_threads()
    try:
        assert "torch" in bench.installed_peers(steps, cloud, 1, {"torch": torch_peer})
    finally:
        torch.set_num_threads(threads)


def test_a_network_with_neighbors_is_timed_without_peers():
    assert float_twin(load(GOLDEN / "neighbors.bpn")) is None
    report = bench_with_torch(GOLDEN / "neighbors.bpn", points=32, rounds=1)
    assert not report["float_twin"]
    assert report["peers_us"] == report["speedup"] == {}
    assert report["bytes"]["float32"] > 0
    assert report["packed_us"] > 0


@pytest.mark.parametrize(("channels", "mean"), [(3, False), (6, True)])
def test_peers_compute_the_float_twin(tmp_path, channels, mean):
    """`installed_peers` compares the logits of each peer with numpy."""
    model = load(packed(tmp_path / "transformed.bpn", 5, tnets=True, channels=channels, mean=mean))
    cloud = np.random.default_rng(0).standard_normal((33, channels), np.float32) / 4
    threads, steps = torch.get_num_threads(), float_twin(model)
    assert steps is not None
    try:
        peers = bench.installed_peers(steps, cloud, 1, {"torch": torch_peer})
    finally:
        torch.set_num_threads(threads)
    assert "torch" in peers
    assert all(np.asarray(call()).shape == (1, 5) for call in peers.values())


def test_a_peer_with_different_logits_is_an_error():
    expected = np.arange(5, dtype=np.float32)
    bench._check("onnxruntime", expected[None] + 1e-5, expected)
    with pytest.raises(RuntimeError, match="onnxruntime: logits differ by"):
        bench._check("onnxruntime", expected[None] + 1, expected)


def test_runtimes_take_turns():
    order = []
    calls: dict[str, bench.Call] = {name: (lambda name=name: order.append(name)) for name in "abc"}
    seen = []
    times = bench.take_turns(calls, 4, lambda done, of: seen.append((done, of)))
    assert order == list("aaaabbbbcccc") * (4 + bench.WARM_UP)
    assert {name: (t.first.shape, t.repeated.shape) for name, t in times.items()} == dict.fromkeys(
        "abc", ((4,), (4, 3))
    )
    assert seen[-1] == (4 + bench.WARM_UP, 4 + bench.WARM_UP)


def test_the_report_is_complete(vanilla):
    seen, threads = [], torch.get_num_threads()
    report = bench_with_torch(vanilla, points=64, rounds=3, progress=lambda done, of: seen.append((done, of)))
    assert torch.get_num_threads() == threads
    assert seen[-1][0] == seen[-1][1]
    assert json.loads(json.dumps(report)) == report
    assert {"isa", "points", "threads", "predict_us", "machine", "versions"} <= set(report)
    assert report["bytes"]["float32"] == 3_228_320
    assert report["bytes"]["packed"] == vanilla.stat().st_size
    assert set(report["peers_us"]) == set(report["speedup"]) >= {"torch"}
    assert set(report["p99_us"]) == set(report["first_call_us"]) == {"packed", *report["peers_us"]}
    assert report["speedup"]["torch"] == pytest.approx(report["peers_us"]["torch"] / report["packed_us"], abs=0.01)
    assert report["isas_us"][report["isa"]] == report["packed_us"] > 0
    assert report["isas_speedup"][report["isa"]] == report["speedup"]
    assert report["batch"]["threads"] >= 1
    assert set(report["batch"]["us_per_cloud"]) == {"one_thread", "all_threads"}


def test_the_runtime_alone_runs_without_pytorch(vanilla):
    assert "torch" not in bench.bench(vanilla, points=32, rounds=1)["peers_us"]


@pytest.mark.parametrize("option", ["points", "threads", "rounds"])
def test_counts_below_one_are_rejected(vanilla, option):
    options: dict[str, Any] = {option: 0}
    with pytest.raises(UserError, match=f"{option} is 0"):
        bench.bench(vanilla, **options)

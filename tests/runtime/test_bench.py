"""The race: every peer computes the packed model's float twin, and the report says what it should."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bipointnet import load
from bipointnet.errors import UserError
from bipointnet.models import PointNet
from bipointnet.nn import LSR, BinaryLinear, EntropyMax, MeanPool, calibrate, deployed_bytes
from bipointnet.packing import pack
from bipointnet.runtime import bench


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


def test_the_twin_has_the_layers_of_the_float_network(vanilla, tmp_path):
    assert bench.float_bytes(bench.float_twin(load(vanilla))) == 3_228_320
    turned = load(packed(tmp_path / "turned.bpn", 7, tnets=True, channels=6))
    steps = bench.float_twin(turned)
    assert bench.float_bytes(steps) == deployed_bytes(PointNet(7, 6))
    assert [s.inputs for s in steps if s.kind == "linear" and not s.relu] == [256, 256, 256]
    assert [s.outputs for s in steps if s.kind == "transform"] == [3, 64], "passes over the points share their layers"


@pytest.mark.parametrize(("channels", "mean"), [(3, False), (6, True)])
def test_peers_compute_the_twin(tmp_path, channels, mean):
    """`peers_here` itself compares each peer's logits with numpy's."""
    model = load(packed(tmp_path / "turned.bpn", 5, tnets=True, channels=channels, mean=mean))
    cloud = np.random.default_rng(0).standard_normal((33, channels), np.float32) / 4
    threads = torch.get_num_threads()
    try:
        peers = bench.peers_here(bench.float_twin(model), cloud, 1)
    finally:
        torch.set_num_threads(threads)
    assert "torch" in peers
    assert all(np.asarray(call()).shape == (1, 5) for call in peers.values())


def test_a_peer_that_computes_something_else_is_refused():
    expected = np.arange(5, dtype=np.float32)
    bench._check("onnxruntime", expected[None] + 1e-5, expected)
    with pytest.raises(RuntimeError, match="onnxruntime is off"):
        bench._check("onnxruntime", expected[None] + 1, expected)


def test_all_take_turns():
    order = []
    calls: dict[str, bench.Call] = {name: (lambda name=name: order.append(name)) for name in "abc"}
    seen = []
    times = bench.take_turns(calls, 4, lambda done, of: seen.append((done, of)))
    assert order == list("aaaabbbbcccc") * (4 + bench.WARM_UP)
    assert {name: (t.cold.shape, t.warm.shape) for name, t in times.items()} == dict.fromkeys("abc", ((4,), (4, 3)))
    assert seen[-1] == (4 + bench.WARM_UP, 4 + bench.WARM_UP)


def test_the_report(vanilla):
    seen, threads = [], torch.get_num_threads()
    report = bench.bench(vanilla, points=64, threads=1, rounds=3, watch=lambda done, of: seen.append((done, of)))
    assert torch.get_num_threads() == threads
    assert seen[-1][0] == seen[-1][1]
    assert json.loads(json.dumps(report)) == report
    assert {
        "isa",
        "points",
        "threads",
        "ours_us",
        "predict_us",
        "peers_us",
        "ratio",
        "bytes",
        "p99_us",
        "machine",
    } <= set(report)
    assert report["bytes"]["fp32"] == 3_228_320
    assert report["bytes"]["packed"] == vanilla.stat().st_size
    assert set(report["peers_us"]) == set(report["ratio"]) >= {"torch"}
    assert report["ratio"]["torch"] == pytest.approx(report["peers_us"]["torch"] / report["ours_us"], abs=0.01)
    assert report["isas"][report["isa"]] == report["ours_us"] > 0
    assert report["batch"]["threads"] >= 1


@pytest.mark.parametrize("option", ["points", "threads", "rounds"])
def test_nothing_of_something_is_told(vanilla, option):
    options: dict[str, Any] = {option: 0}
    with pytest.raises(UserError, match=f"{option} is 0"):
        bench.bench(vanilla, **options)

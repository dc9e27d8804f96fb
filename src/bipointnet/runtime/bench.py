"""The latency of a packed model, compared with other runtimes on the same network in float32.

The other runtimes (peers) execute the float twin of the packed model (float_twin.py). A program with neighbors has no
twin, and then there are no peers.

All runtimes run in one process and take turns for many rounds, so that other load on the machine affects all of them
equally. A turn is four calls. In the first call the caches are full of the other runtimes' data, which costs a network
that fits the second-level cache most; its time is reported as `first_call_us`. The other three calls show the latency
of repeated calls; their median and 99th percentile are the result. All times are in microseconds. Every runtime does
the same: it reads a normalized cloud, an object of the built-in test split, and computes the logits. The time of
`Model.predict`, which also normalizes the cloud and computes probabilities, is reported as `predict_us`.
"""

import importlib.metadata
import io
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bipointnet import __version__, _core
from bipointnet.data.reading import cores
from bipointnet.data.shapes import held_out
from bipointnet.errors import UserError
from bipointnet.extras import installed
from bipointnet.runtime import reference
from bipointnet.runtime.float_twin import Step, Weights, float_twin, numpy_twin, onnx_twin, random_weights
from bipointnet.runtime.model import MOST_POINTS, MOST_THREADS, Model, load
from bipointnet.runtime.operations import float_bytes
from bipointnet.runtime.progress import Progress, no_progress

WARM_UP = 5  # rounds that are not counted
CALLS = 4  # per turn
BATCH = 64  # clouds
Call = Callable[[], object]
Peer = Callable[[list[Step], Weights, np.ndarray, int], Call]  # steps, weights, cloud (N, C), threads
NO_PEERS: Mapping[str, Peer] = MappingProxyType({})


def onnxruntime_peer(onnx: bytes, cloud: np.ndarray, threads: int) -> Call:
    """ONNX Runtime on the CPU."""
    return onnxruntime_calls(onnx, [cloud], threads)[0]


def onnxruntime_calls(onnx: bytes, clouds: Sequence[np.ndarray], threads: int) -> list[Call]:
    """ONNX Runtime on the CPU: one session, and one call for each of the clouds (N, C), which have equal sizes."""
    import onnxruntime  # pyright: ignore[reportMissingImports]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])

    def call_with(feed: dict[str, np.ndarray]) -> Call:
        return lambda: session.run(None, feed)[0]

    return [call_with({"points": _image(cloud)}) for cloud in clouds]


def openvino_peer(onnx: bytes, cloud: np.ndarray, threads: int, int8: bool = False) -> Call:
    """OpenVINO on the CPU; int8: quantized by NNCF."""
    import openvino  # pyright: ignore[reportMissingImports]

    core = openvino.Core()
    network: Any = core.read_model(onnx)
    if int8:
        import nncf  # pyright: ignore[reportMissingImports]

        rng = np.random.default_rng(1)
        samples = [_image(rng.permutation(cloud)) for _ in range(4)]
        nncf.set_log_level(40)
        with redirect_stdout(io.StringIO()):  # hide its progress bar
            network = nncf.quantize(network, nncf.Dataset(samples), subset_size=len(samples))
    # By default OpenVINO computes in bfloat16 if the CPU supports it.
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, **exact}
    request = core.compile_model(network, "CPU", settings).create_infer_request()
    request.set_input_tensor(openvino.Tensor(_image(cloud)))

    def call() -> object:
        request.infer()
        return request.get_output_tensor().data

    return call


def installed_peers(
    steps: list[Step], cloud: np.ndarray, threads: int, more: Mapping[str, Peer] = NO_PEERS
) -> dict[str, Call]:
    """The installed runtimes and those in `more`, each ready to run the float twin on `cloud` (N, C) float32.

    Each is called once, and its logits are compared with the logits of numpy.
    """
    weights = random_weights(steps)
    found: dict[str, Call] = {}
    if installed("onnx"):
        onnx = onnx_twin(steps, weights, *cloud.shape)
        if installed("onnxruntime"):
            found["onnxruntime"] = onnxruntime_peer(onnx, cloud, threads)
        if installed("openvino"):
            found["openvino"] = openvino_peer(onnx, cloud, threads)
            if installed("nncf"):
                found["openvino_int8"] = openvino_peer(onnx, cloud, threads, int8=True)
    found |= {name: peer(steps, weights, cloud, threads) for name, peer in more.items()}
    expected = numpy_twin(steps, weights, cloud)
    for name, call in found.items():
        _check(name, np.asarray(call()), expected)
    return found


class Times(NamedTuple):
    """Seconds of a runtime: the first call of each turn, (rounds,), and the other calls, (rounds, 3)."""

    first: np.ndarray
    repeated: np.ndarray


def take_turns(calls: Mapping[str, Call], rounds: int, progress: Progress) -> dict[str, Times]:
    """Call each runtime in turn, for `rounds` rounds after some rounds that are not counted."""
    seconds = {name: np.empty((rounds, CALLS)) for name in calls}
    for turn in range(-WARM_UP, rounds):
        for name, call in calls.items():
            for i in range(CALLS):
                started = time.perf_counter()
                call()
                if turn >= 0:
                    seconds[name][turn, i] = time.perf_counter() - started
        progress(turn + WARM_UP + 1, rounds + WARM_UP)
    return {name: Times(times[:, 0], times[:, 1:]) for name, times in seconds.items()}


def bench(
    path: str | Path,
    *,
    points: int | None = None,
    threads: int = 1,
    rounds: int = 200,
    more_peers: Mapping[str, Peer] = NO_PEERS,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Time the packed model in `path` and its peers on one cloud; what `--json` prints.

    Args:
        path: the packed model.
        points: points of the cloud. Default: the number in training.
        threads: threads of every runtime.
        rounds: rounds of four calls per runtime.
        more_peers: runtimes besides ONNX Runtime and OpenVINO. `evaluation.bench_torch.bench` adds PyTorch.
        progress: called with (done, total) rounds.

    Examples:
        >>> report = bench("chairs.bpn")  # doctest: +SKIP
        >>> report["packed_us"], report["peers_us"], report["speedup"]  # doctest: +SKIP
        (74.9, {'onnxruntime': 2345.2}, {'onnxruntime': 31.31})
    """
    for name, value in (("threads", threads), ("rounds", rounds)):
        if value < 1:
            raise UserError(f"{name} is {value}; expected at least 1")
    if points is not None and not 1 <= points <= MOST_POINTS:
        raise UserError(f"points is {points}; expected an integer from 1 to {MOST_POINTS}")
    model = load(path)
    points = points if points is not None else model.points
    # oneDNN's int8 and bfloat16 kernels for AMX crash on some virtual machines; float32 does not use AMX.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    steps = float_twin(model)
    cloud = as_input(model, held_out(0, points)[0])
    isas = {name: logits_call(load(path, name), cloud, threads) for name in _core.isas()}
    peers = {} if steps is None else installed_peers(steps, cloud, threads, more_peers)
    batch_rounds = max(rounds // 20, 3)
    total = rounds + batch_rounds + 2 * WARM_UP
    calls = {**isas, "predict": _predict_call(model, cloud, threads), **peers}
    times = take_turns(calls, rounds, lambda done, of: progress(done, total))
    # Batches are timed separately: one call takes as long as dozens of the others.
    many = threads if threads > 1 else min(cores(), MOST_THREADS)
    batch = bench_batch(model, points, many, batch_rounds, lambda done, of: progress(total - of + done, total))
    median = {name: _microseconds(t.repeated, 0.5) for name, t in times.items()}
    speedup = {isa: {peer: round(median[peer] / median[isa], 2) for peer in peers} for isa in isas}
    shown = {"packed": model.isa, **{name: name for name in peers}}
    fp32 = float_bytes(model.operations())
    return {
        "model": model.manifest["model"],
        "isa": model.isa,
        "points": points,
        "threads": threads,
        "rounds": rounds,
        "float_twin": steps is not None,
        "packed_us": median[model.isa],
        "predict_us": median["predict"],
        "peers_us": {name: median[name] for name in peers},
        "speedup": speedup[model.isa],
        "p99_us": {name: _microseconds(times[key].repeated, 0.99) for name, key in shown.items()},
        "first_call_us": {name: _microseconds(times[key].first, 0.5) for name, key in shown.items()},
        "isas_us": {name: median[name] for name in isas},
        "isas_speedup": speedup,
        "batch": batch,
        "bytes": {"packed": model.bytes, "float32": fp32, "ratio": round(fp32 / model.bytes, 2)},
        "machine": machine(),
        "versions": versions(peers),
    }


def bench_batch(model: Model, points: int, threads: int, rounds: int, progress: Progress) -> dict[str, Any]:
    """Time `predict` or `segment` for a batch, per cloud, with one thread and with several."""
    clouds = np.stack([as_input(model, held_out(i, points)[0]) for i in range(BATCH)])  # (B, N, C)
    calls = {"one_thread": _predict_call(model, clouds, 1), "all_threads": _predict_call(model, clouds, threads)}
    times = take_turns(calls, rounds, progress)
    us_per_cloud = {name: round(_microseconds(t.repeated, 0.5) / BATCH, 1) for name, t in times.items()}
    speedup = round(us_per_cloud["one_thread"] / us_per_cloud["all_threads"], 2)
    return {"clouds": BATCH, "threads": threads, "us_per_cloud": us_per_cloud, "speedup": speedup}


def cpu_name() -> str:
    """The name of the processor, or its architecture if the name is unknown."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """The machine, as a report names it."""
    return {"cpu": cpu_name(), "cores": cores(), "system": platform.platform()}


def _microseconds(seconds: np.ndarray, quantile: float) -> float:
    return round(1e6 * float(np.quantile(seconds, quantile)), 1)


def _image(cloud: np.ndarray) -> np.ndarray:
    """A cloud as a convolution reads it: (N, C) -> (1, C, 1, N)."""
    return np.ascontiguousarray(cloud.T[None, :, None, :])


def as_input(model: Model, cloud: np.ndarray) -> np.ndarray:  # (N, C) float32
    """A cloud (N, 3) as the network reads it. Channels past the third are random numbers in [0, 1)."""
    more = np.random.default_rng(0).random((len(cloud), max(model.channels - 3, 0)), np.float32)
    channels = np.concatenate([cloud, more], axis=1)[:, : model.channels]
    return reference.normalized(channels, model.manifest["normalize"])


def logits_call(model: Model, cloud: np.ndarray, threads: int) -> Call:
    """The logits of a cloud (N, C) that is normalized already."""
    category = 0 if model.categories else None
    return lambda: model.logits(cloud, category=category, normalize=False, threads=threads)


def _predict_call(model: Model, cloud: np.ndarray, threads: int) -> Call:
    """A whole call of `predict`, or of `segment`."""
    if not model.segments:
        return lambda: model.predict(cloud, threads=threads)
    category = 0 if model.categories else None
    return lambda: model.segment(cloud, category=category, threads=threads)


def _check(name: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Raise RuntimeError for a peer with different logits. int8 may differ by its rounding."""
    tolerance = 0.5 if name.endswith("int8") else 1e-3
    if found.ndim == 4:  # (1, classes, 1, N)
        found = found[0, :, 0].T
    error = float(np.abs(found.reshape(-1) - expected.reshape(-1)).max() / max(np.abs(expected).max(), 1e-6))
    if not error < tolerance:
        raise RuntimeError(f"{name}: logits differ by {error:.3g} of the largest; expected less than {tolerance}")


def versions(peers: Iterable[str]) -> dict[str, str]:
    """The versions of this package, of Python, of numpy and of the peers."""
    packages = {"numpy", *(name.removesuffix("_int8") for name in peers)}
    return {
        "bipointnet": __version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in sorted(packages)},
    }

"""How fast a packed model is, against the runtimes one would take instead, on the same network in float32.

The peers run the packed model's float twin: the same layers with float weights, BatchNorm folded into them and ReLU
where the 1-bit network has a sign. Its weights are random, which does not change a dense product's time.

All contestants run in one process and take turns for many rounds: what else the machine does hits all of them alike. A
turn is four calls. The first finds the caches full of the others' megabytes, which costs a network that fits the
second-level cache most; its times are reported as `cold`. The others are what a program that asks again and again
sees; their median (p50) and 99th percentile are the result. All times are in microseconds. Every contestant does the
same: it takes a cloud that is normalised already and ends with the logits. What `Model.predict` takes, which normalises
the cloud and adds probabilities, is reported beside it as `predict_us`.
"""

import importlib.metadata
import importlib.util
import io
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet import __version__, _core
from bipointnet.errors import UserError
from bipointnet.runtime.model import Model, load

WARM_UP = 5
CALLS = 4
BATCH = 64
Call = Callable[[], object]
Watch = Callable[[int, int], None]


class Step(NamedTuple):
    """One step of the float twin: `kind` of the values of step `source` (-1: the cloud).

    linear: (..., inputs) -> (..., outputs), with ReLU where `relu`; where there is a step `beside`, whose values all
    points share, these are further inputs. pool: over points, `how` max or mean. matrix: (size * size) -> (size, size)
    plus the identity. transform: the first `outputs` numbers times step `matrix`. join: the values of steps `parts`.
    """

    kind: str
    source: int
    inputs: int = 0
    outputs: int = 0
    relu: bool = False
    how: str = ""
    matrix: int = -1
    beside: int = -1
    shared: int = 0
    parts: tuple[int, ...] = ()


def float_twin(model: Model) -> list[Step]:
    """The float network with the layers of a packed one.

    A program starts anew from the points after each T-Net; steps that repeat earlier ones are those, not new ones. What
    a layer reads of the whole cloud it reads once, as no peer does by itself: copied to every point first, the same
    takes ONNX Runtime longer. The category of a cloud is a constant, which the layer's bias holds.
    """
    steps: list[Step] = []
    matrices: list[int] = []
    kept: list[tuple[int, bool, int]] = []  # step, whether of points, width
    source, beside, shared = -1, -1, 0

    def add(step: Step) -> int:
        if step not in steps:
            steps.append(step)
        return steps.index(step)

    operations = model.operations()
    for i, operation in enumerate(operations):
        op, fields = operation.op, operation.fields
        if op == "points":
            source = -1
        elif op == "transform":
            matrix = matrices[fields["matrix"]]
            source = add(Step("transform", source, operation.inputs, steps[matrix].outputs, matrix=matrix))
        elif op == "matrix":
            matrices.append(add(Step("matrix", source, operation.inputs, fields["size"])))
        elif op == "keep":
            if operations[i - 1].op != "category":
                kept.append((source, operation.on_points, operation.outputs))
        elif op == "join":
            parts = [part for part in kept if part[1]]
            wide = sum(width for _, _, width in parts)
            of_cloud = [(step, width) for step, on_points, width in kept if not on_points]
            if len(of_cloud) != 1:
                raise UserError(f"operation {i} joins {len(of_cloud)} values of the cloud; expected one to race it")
            beside, shared = of_cloud[0]
            source = add(Step("join", -1, wide, wide, parts=tuple(step for step, _, _ in parts)))
        elif "outputs" in fields:
            relu = i + 1 < len(operations) and operations[i + 1].op != "matrix"
            inputs = operation.inputs if beside < 0 else steps[source].outputs
            source = add(Step("linear", source, inputs, operation.outputs, relu, beside=beside, shared=shared))
            beside, shared = -1, 0
            if f"{i}.threshold" in model.tensors and op == "bilinear_pool":
                kept.append((source, True, operation.outputs))
        if op in ("bilinear_pool", "pool"):
            source = add(Step("pool", source, operation.outputs, operation.outputs, how=fields["pool"]))
    return steps


def float_bytes(steps: list[Step]) -> int:
    """Bytes of the float twin: weights and one bias an output, 4 bytes each."""
    return sum(4 * step.outputs * (step.inputs + step.shared + 1) for step in steps if step.kind == "linear")


def random_weights(steps: list[Step]) -> list[tuple[np.ndarray, np.ndarray] | None]:
    """Weight (inputs + shared, outputs) and bias (outputs,) of each linear step, such that values stay of size 1."""
    rng = np.random.default_rng(0)

    def drawn(step: Step) -> tuple[np.ndarray, np.ndarray] | None:
        if step.kind != "linear":
            return None
        inputs = step.inputs + step.shared
        weight = rng.standard_normal((inputs, step.outputs), np.float32) * np.float32((2 / inputs) ** 0.5)
        return weight, rng.standard_normal(step.outputs, np.float32) * np.float32(0.1)

    return [drawn(step) for step in steps]


def numpy_twin(steps: list[Step], weights: list[Any], cloud: np.ndarray) -> np.ndarray:
    """Logits (classes,), or (N, classes), of the float twin for a cloud (N, C): what all peers must compute."""
    values: list[np.ndarray] = []
    for step, parts in zip(steps, weights, strict=True):
        x = cloud if step.source < 0 else values[step.source]
        if step.kind == "linear":
            of_cloud = 0 if step.beside < 0 else values[step.beside] @ parts[0][step.inputs :]
            x = x @ parts[0][: step.inputs] + of_cloud + parts[1]
            x = np.maximum(x, 0) if step.relu else x
        elif step.kind == "join":
            x = np.concatenate([values[part] for part in step.parts], axis=1)
        elif step.kind == "pool":
            x = x.max(axis=0) if step.how == "max" else x.mean(axis=0)
        elif step.kind == "matrix":
            x = x.reshape(step.outputs, step.outputs) + np.eye(step.outputs, dtype=np.float32)
        else:
            size = step.outputs
            x = np.concatenate([x[:, :size] @ values[step.matrix], x[:, size:]], axis=1)
        values.append(x)
    return values[-1]


def onnx_twin(steps: list[Step], weights: list[Any], points: int, channels: int) -> bytes:
    """The float twin as an ONNX model: `points` (1, C, 1, N) -> `logits` (1, classes), or (1, classes, 1, N).

    Layers of points are 1 x 1 convolutions, of which ONNX Runtime makes more than of the equal matrix products: as
    products the whole network takes 1.5 times as long.
    """
    from onnx import TensorProto, checker, helper, numpy_helper  # pyright: ignore[reportMissingImports]

    nodes, constants, of_points = [], [], []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    for i, (step, parts) in enumerate(zip(steps, weights, strict=True)):
        x, out = ("points" if step.source < 0 else f"v{step.source}"), f"v{i}"
        on_points = step.source < 0 or of_points[step.source]
        of_points.append(on_points and step.kind != "pool")
        if step.kind == "linear":
            product = f"p{i}" if step.relu else out
            weight = parts[0][: step.inputs]
            weight = weight.T[:, :, None, None] if on_points else weight
            terms = [x, constant(f"w{i}", weight), constant(f"b{i}", parts[1])]
            if step.beside >= 0:
                cloud = [f"v{step.beside}", constant(f"u{i}", parts[0][step.inputs :])]
                shape = constant(f"s{i}", np.array([1, step.outputs, 1, 1]))
                of_cloud = node("Reshape", [node("MatMul", cloud, f"m{i}"), shape], f"r{i}")
                node("Add", [node("Conv", terms, f"q{i}"), of_cloud], product)
            else:
                node("Conv" if on_points else "Gemm", terms, product)
            if step.relu:
                node("Relu", [product], out)
        elif step.kind == "join":
            node("Concat", [f"v{part}" for part in step.parts], out, axis=1)
        elif step.kind == "pool":
            how = "GlobalMaxPool" if step.how == "max" else "GlobalAveragePool"
            node("Flatten", [node(how, [x], f"p{i}")], out)
        elif step.kind == "matrix":
            # The transposed matrix as the weights of a convolution: a point is a row vector in front of the matrix.
            size = step.outputs
            shape = constant(f"s{i}", np.array([size, size, 1, 1]))
            turned = node("Transpose", [node("Reshape", [x, shape], f"r{i}")], f"t{i}", perm=[1, 0, 2, 3])
            node("Add", [turned, constant(f"e{i}", np.eye(size, dtype=np.float32)[:, :, None, None])], out)
        elif step.inputs == step.outputs:
            node("Conv", [x, f"v{step.matrix}"], out)
        else:
            at = constant(f"c{i}", np.array([step.outputs, step.inputs - step.outputs]))
            nodes.append(helper.make_node("Split", [x, at], [f"h{i}", f"t{i}"], axis=1))
            node("Concat", [node("Conv", [f"h{i}", f"v{step.matrix}"], f"p{i}"), f"t{i}"], out, axis=1)
    nodes[-1].output[0] = "logits"
    graph = helper.make_graph(
        nodes,
        "twin",
        [helper.make_tensor_value_info("points", TensorProto.FLOAT, [1, channels, 1, points])],
        [
            helper.make_tensor_value_info(
                "logits", TensorProto.FLOAT, [1, steps[-1].outputs] + of_points[-1] * [1, points]
            )
        ],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    checker.check_model(model)
    return model.SerializeToString()


def onnxruntime_peer(onnx: bytes, cloud: np.ndarray, threads: int) -> Call:
    import onnxruntime  # pyright: ignore[reportMissingImports]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])
    feed = {"points": _image(cloud)}
    return lambda: session.run(None, feed)[0]


def openvino_peer(onnx: bytes, cloud: np.ndarray, threads: int, int8: bool = False) -> Call:
    import openvino  # pyright: ignore[reportMissingImports]

    core = openvino.Core()
    network: Any = core.read_model(onnx)
    if int8:
        import nncf  # pyright: ignore[reportMissingImports]

        rng = np.random.default_rng(1)
        samples = [_image(rng.permutation(cloud)) for _ in range(4)]
        nncf.set_log_level(40)
        with redirect_stdout(io.StringIO()):  # its progress bar
            network = nncf.quantize(network, nncf.Dataset(samples), subset_size=len(samples))
    # Else the plug-in computes in bfloat16 where the CPU has it.
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, **exact}
    request = core.compile_model(network, "CPU", settings).create_infer_request()
    request.set_input_tensor(openvino.Tensor(_image(cloud)))

    def call() -> object:
        request.infer()
        return request.get_output_tensor().data

    return call


def torch_peer(steps: list[Step], weights: list[Any], cloud: np.ndarray, threads: int) -> Call:
    import torch
    import torch.nn.functional as F

    tensors = [None if w is None else (torch.from_numpy(w[0].T.copy()), torch.from_numpy(w[1])) for w in weights]
    points = torch.from_numpy(cloud)
    torch.set_num_threads(threads)

    @torch.inference_mode()
    def call() -> object:
        values: list[Any] = []
        for step, parts in zip(steps, tensors, strict=True):
            x = points if step.source < 0 else values[step.source]
            if parts is not None:
                x = F.linear(x, parts[0][:, : step.inputs], parts[1])
                if step.beside >= 0:
                    x += F.linear(values[step.beside], parts[0][:, step.inputs :])
                x = x.relu_() if step.relu else x
            elif step.kind == "join":
                x = torch.cat([values[part] for part in step.parts], dim=1)
            elif step.kind == "pool":
                x = x.amax(dim=0, keepdim=True) if step.how == "max" else x.mean(dim=0, keepdim=True)
            elif step.kind == "matrix":
                x = x.reshape(step.outputs, step.outputs) + torch.eye(step.outputs)
            elif step.inputs == step.outputs:
                x = x @ values[step.matrix]
            else:
                x = torch.cat([x[:, : step.outputs] @ values[step.matrix], x[:, step.outputs :]], dim=1)
            values.append(x)
        return values[-1].numpy()

    return call


def peers_here(steps: list[Step], cloud: np.ndarray, threads: int) -> dict[str, Call]:
    """The runtimes that are installed, each ready to run the twin on `cloud` (N, C) float32."""
    weights = random_weights(steps)
    found: dict[str, Call] = {}
    if _installed("onnx"):
        onnx = onnx_twin(steps, weights, *cloud.shape)
        if _installed("onnxruntime"):
            found["onnxruntime"] = onnxruntime_peer(onnx, cloud, threads)
        if _installed("openvino"):
            found["openvino"] = openvino_peer(onnx, cloud, threads)
            if _installed("nncf"):
                found["openvino_int8"] = openvino_peer(onnx, cloud, threads, int8=True)
    if _installed("torch"):
        found["torch"] = torch_peer(steps, weights, cloud, threads)
    expected = numpy_twin(steps, weights, cloud)
    for name, call in found.items():
        _check(name, np.asarray(call()), expected)
    return found


class Times(NamedTuple):
    """Seconds of a contestant's first call of each turn, (rounds,), and of the others, (rounds, 3)."""

    cold: np.ndarray
    warm: np.ndarray


def take_turns(calls: dict[str, Call], rounds: int, watch: Watch) -> dict[str, Times]:
    """Call all in turn, `rounds` times after some that do not count."""
    seconds = {name: np.empty((rounds, CALLS)) for name in calls}
    for turn in range(-WARM_UP, rounds):
        for name, call in calls.items():
            for i in range(CALLS):
                started = time.perf_counter()
                call()
                if turn >= 0:
                    seconds[name][turn, i] = time.perf_counter() - started
        watch(turn + WARM_UP + 1, rounds + WARM_UP)
    return {name: Times(times[:, 0], times[:, 1:]) for name, times in seconds.items()}


def bench(
    path: str | Path,
    *,
    points: int | None = None,
    threads: int = 1,
    rounds: int = 200,
    watch: Watch = lambda done, of: None,
) -> dict[str, Any]:
    """Time the packed model in `path` and its peers on one cloud; what --json prints.

    points: of the cloud; by default 1024, or what a model that labels points was trained with.

    watch: called after every round with how many are done, and of how many.
    """
    for name, value in (("points", points), ("threads", threads), ("rounds", rounds)):
        if value is not None and value < 1:
            raise UserError(f"{name} is {value}; expected at least 1")
    model = load(path)
    points = points if points is not None else model.points if model.segments else 1024
    # oneDNN's int8 and bfloat16 kernels for AMX crash on some virtual machines; float32 does not use AMX.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    steps = float_twin(model)
    cloud = np.random.default_rng(0).standard_normal((points, model.channels), np.float32)
    cloud /= np.linalg.norm(cloud, axis=1).max()
    ours = {name: _network(load(path, name), cloud, threads) for name in _core.isas()}
    whole = {"predict": _predicting(model, cloud, threads)}
    batch_rounds = max(rounds // 20, 3)
    total = rounds + batch_rounds + 2 * WARM_UP
    with _torch_threads_kept():
        peers = peers_here(steps, cloud, threads)
        times = take_turns(ours | whole | peers, rounds, lambda done, of: watch(done, total))
    # Batches take turns of their own: a call takes as long as dozens of the others.
    many = threads if threads > 1 else _cores()
    batch = race_batch(model, points, many, batch_rounds, lambda done, of: watch(total - of + done, total))
    p50 = {name: _microseconds(t.warm, 0.5) for name, t in times.items()}
    p99 = {name: _microseconds(t.warm, 0.99) for name, t in times.items()}
    cold = {name: _microseconds(t.cold, 0.5) for name, t in times.items()}
    ratios = {isa: {peer: round(p50[peer] / p50[isa], 2) for peer in peers} for isa in ours}
    fp32 = float_bytes(steps)
    return {
        "model": model.manifest["model"],
        "isa": model.isa,
        "points": points,
        "threads": threads,
        "rounds": rounds,
        "ours_us": p50[model.isa],
        "predict_us": p50["predict"],
        "peers_us": {name: p50[name] for name in peers},
        "ratio": ratios[model.isa],
        "p99_us": {"ours": p99[model.isa], **{name: p99[name] for name in peers}},
        "cold_us": {"ours": cold[model.isa], **{name: cold[name] for name in peers}},
        "isas": {name: p50[name] for name in ours},
        "isas_ratio": ratios,
        "batch": batch,
        "bytes": {"packed": model.bytes, "fp32": fp32, "ratio": round(fp32 / model.bytes, 2)},
        "machine": {"cpu": cpu_name(), "cores": _cores(), "system": platform.platform()},
        "versions": _versions(peers),
    }


def race_batch(model: Model, points: int, threads: int, rounds: int, watch: Watch) -> dict[str, Any]:
    """Time a cloud of a batch, on one thread and on several."""
    clouds = np.random.default_rng(1).standard_normal((BATCH, points, model.channels), np.float32)
    calls = {"one_thread": _predicting(model, clouds, 1), "threads": _predicting(model, clouds, threads)}
    times = take_turns(calls, rounds, watch)
    each = {name: round(_microseconds(t.warm, 0.5) / BATCH, 1) for name, t in times.items()}
    speedup = round(each["one_thread"] / each["threads"], 2)
    return {"clouds": BATCH, "threads": threads, "us_a_cloud": each, "speedup": speedup}


def cpu_name() -> str:
    """The processor's name as its maker writes it, where the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _microseconds(seconds: np.ndarray, quantile: float) -> float:
    return round(1e6 * float(np.quantile(seconds, quantile)), 1)


def _image(cloud: np.ndarray) -> np.ndarray:
    """A cloud as a convolution reads it: (N, C) -> (1, C, 1, N)."""
    return np.ascontiguousarray(cloud.T[None, :, None, :])


@contextmanager
def _torch_threads_kept() -> Iterator[None]:
    """torch's number of threads belongs to the process: put it back."""
    if not _installed("torch"):
        yield
        return
    import torch

    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _network(model: Model, cloud: np.ndarray, threads: int) -> Call:
    category = 0 if model.categories else None
    return lambda: model.logits(cloud, category=category, normalize=False, threads=threads)


def _predicting(model: Model, cloud: np.ndarray, threads: int) -> Call:
    """All of `predict`, or of `segment`."""
    if not model.segments:
        return lambda: model.predict(cloud, threads=threads)
    category = 0 if model.categories else None
    return lambda: model.segment(cloud, category=category, threads=threads)


def _check(name: str, found: np.ndarray, expected: np.ndarray) -> None:
    """A peer that computes something else is no peer. int8 may be off by its rounding."""
    tolerance = 0.5 if name.endswith("int8") else 1e-3
    if found.ndim == 4:  # (1, classes, 1, N)
        found = found[0, :, 0].T
    error = float(np.abs(found.reshape(-1) - expected.reshape(-1)).max() / max(np.abs(expected).max(), 1e-6))
    if not error < tolerance:
        raise RuntimeError(f"{name} is off by {error:.3g} of the largest logit; expected less than {tolerance}")


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _versions(peers: dict[str, Call]) -> dict[str, str]:
    packages = {"numpy", *(name.removesuffix("_int8") for name in peers)}
    return {
        "bipointnet": __version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in sorted(packages)},
    }

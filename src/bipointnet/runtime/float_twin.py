"""The float twin of a packed model: the network that other runtimes execute in a benchmark.

It has the layers of the packed model with float weights, BatchNorm folded into them, and ReLU where the 1-bit network
has a sign. Its weights are random; the time of a dense product does not depend on them.
"""

from typing import Any, NamedTuple

import numpy as np

from bipointnet.errors import UserError
from bipointnet.runtime.model import Model

Weights = list[tuple[np.ndarray, np.ndarray] | None]  # of each step: weight and bias, or None


class Step(NamedTuple):
    """One step of the float twin, of the given `kind`; it reads the values of step `source` (-1: the cloud).

    linear: (..., inputs) -> (..., outputs), with ReLU if `relu`. If `beside` is a step, its `shared` values, one vector
    per cloud, are further inputs of every point.
    pool: over points, `how` is max or mean.
    matrix: (size * size) -> (size, size), plus the identity.
    transform: multiplies the first `outputs` channels by the values of step `matrix`.
    join: concatenates the values of the steps `parts`.
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
    """The steps of the float network with the layers of a packed one.

    A program starts again from the points after each T-Net; steps that repeat earlier ones are not added twice. A layer
    that reads a value of the whole cloud multiplies it once per cloud: no peer does so by itself, and ONNX Runtime is
    slower if the value is copied to every point first. The category of a cloud is a constant, part of the layer's bias.
    """
    steps: list[Step] = []
    matrices: list[int] = []
    kept: list[tuple[int, bool, int]] = []  # step, whether it has one value per point, width
    source, beside, shared = -1, -1, 0

    def add(step: Step) -> int:
        if step not in steps:
            steps.append(step)
        return steps.index(step)

    operations = model.operations()
    for i, operation in enumerate(operations):
        op, fields, outputs = operation.op, operation.fields, operation.outputs
        if op == "points":
            source = -1
        elif op == "transform":
            matrix = matrices[fields["matrix"]]
            source = add(Step("transform", source, operation.inputs, steps[matrix].outputs, matrix=matrix))
        elif op == "matrix":
            matrices.append(add(Step("matrix", source, operation.inputs, fields["size"])))
        elif op == "join":
            parts = [part for part in kept if part[1]]
            width = sum(width for _, _, width in parts)
            per_cloud = [(step, width) for step, on_points, width in kept if not on_points]
            if len(per_cloud) != 1:
                raise UserError(f"operation {i} joins {len(per_cloud)} values per cloud; expected one to benchmark it")
            beside, shared = per_cloud[0]
            source = add(Step("join", -1, width, width, parts=tuple(step for step, _, _ in parts)))
        elif operation.is_layer:
            relu = i + 1 < len(operations) and operations[i + 1].op != "matrix"
            inputs = operation.inputs if beside < 0 else steps[source].outputs
            source = add(Step("linear", source, inputs, outputs, relu, beside=beside, shared=shared))
            beside, shared = -1, 0
        if operation.keeps and operations[i - 1].op != "category":
            kept.append((source, operation.on_points, outputs))
        if operation.pools:
            source = add(Step("pool", source, outputs, outputs, how=fields["pool"]))
    return steps


def float_bytes(steps: list[Step]) -> int:
    """Bytes of the float twin: weights and one bias per output, 4 bytes each."""
    return sum(4 * step.outputs * (step.inputs + step.shared + 1) for step in steps if step.kind == "linear")


def random_weights(steps: list[Step]) -> Weights:
    """Weight (inputs + shared, outputs) and bias (outputs,) of each linear step, scaled so that values stay near 1."""
    rng = np.random.default_rng(0)

    def draw(step: Step) -> tuple[np.ndarray, np.ndarray] | None:
        if step.kind != "linear":
            return None
        inputs = step.inputs + step.shared
        weight = rng.standard_normal((inputs, step.outputs), np.float32) * np.float32((2 / inputs) ** 0.5)
        return weight, rng.standard_normal(step.outputs, np.float32) * np.float32(0.1)

    return [draw(step) for step in steps]


def numpy_twin(steps: list[Step], weights: Any, cloud: np.ndarray) -> np.ndarray:
    """Logits (classes,) or (N, classes) of the float twin for a cloud (N, C), which all peers must compute."""
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


def onnx_twin(steps: list[Step], weights: Any, points: int, channels: int) -> bytes:
    """The float twin as an ONNX model: `points` (1, C, 1, N) -> `logits` (1, classes), or (1, classes, 1, N).

    Layers that run per point are 1 x 1 convolutions; as matrix products ONNX Runtime takes 1.5 times as long.
    """
    from onnx import TensorProto, checker, helper, numpy_helper  # pyright: ignore[reportMissingImports]

    nodes, constants, per_point = [], [], []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    for i, (step, parts) in enumerate(zip(steps, weights, strict=True)):
        x, out = ("points" if step.source < 0 else f"v{step.source}"), f"v{i}"
        on_points = step.source < 0 or per_point[step.source]
        per_point.append(on_points and step.kind != "pool")
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
            # A point is a row vector in front of the matrix, so the convolution weights are the transposed matrix.
            size = step.outputs
            shape = constant(f"s{i}", np.array([size, size, 1, 1]))
            transposed = node("Transpose", [node("Reshape", [x, shape], f"r{i}")], f"t{i}", perm=[1, 0, 2, 3])
            node("Add", [transposed, constant(f"e{i}", np.eye(size, dtype=np.float32)[:, :, None, None])], out)
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
                "logits", TensorProto.FLOAT, [1, steps[-1].outputs] + per_point[-1] * [1, points]
            )
        ],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    checker.check_model(model)
    return model.SerializeToString()

"""The float twin of a packed model: the network that other runtimes execute in a benchmark.

It has the layers of the packed model with float weights, BatchNorm folded into them, and ReLU where the 1-bit network
has a sign. Its weights are random; the time of a dense product does not depend on them.
"""

from typing import Any, NamedTuple

import numpy as np

from bipointnet.runtime.model import Model
from bipointnet.runtime.operations import Operation

Weights = list[tuple[np.ndarray, np.ndarray] | None]  # of each step: weight and bias, or None
NOWHERE = -2  # no step; -1 is the cloud


class Step(NamedTuple):
    """One step of the float twin, of the given `kind`; it reads the values of step `source` (-1: the cloud).

    linear: (..., inputs) -> (..., outputs), with ReLU if `relu`. If `beside` is a step, its `shared` values, one vector
    per cloud, are further inputs of every point.
    pool: over points, `how` is max or mean.
    matrix: (size * size) -> (size, size), plus the identity.
    transform: multiplies each point by the values of step `matrix`.
    slice: `outputs` channels from channel `start` on.
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
    start: int = 0
    parts: tuple[int, ...] = ()


class Source(NamedTuple):
    """Where a value of the program is in the twin.

    step: of its channels per point or per cloud, of which there are `width`; NOWHERE if it has none. beside: the step
    of further channels, `shared` in all, that are the same at every point; NOWHERE for none.
    """

    step: int
    width: int
    beside: int = NOWHERE
    shared: int = 0


CONSTANT = Source(NOWHERE, 0)  # the category, and scales of bits: part of the bias and of the weights


class NoTwinError(Exception):
    """The program has an operation that the float twin does not have."""


class Twin:
    """The steps of a float twin, which grow by one operation of the program at a time."""

    def __init__(self, operations: list[Operation]) -> None:
        self.steps: list[Step] = []
        self.sources: dict[str, Source] = {}
        self.of_cloud = {o.name for o in operations if o.domain == "cloud"}
        # No ReLU in front of the logits and of the matrix of a transform, to which an affine operation adds 1.
        self.without_relu = {operations[-1].name, *(o.operands[1] for o in operations if o.op == "transform")}
        self.without_relu |= {o.operands[0] for o in operations if o.op == "affine" and o.name in self.without_relu}

    def add(self, step: Step) -> Source:
        self.steps.append(step)
        return Source(len(self.steps) - 1, step.outputs)

    def plain(self, name: str) -> Source:
        """A value without channels that are the same at every point."""
        source = self.sources[name]
        if source.step == NOWHERE or source.beside != NOWHERE:
            raise NoTwinError
        return source

    def translate(self, o: Operation) -> None:
        if o.op == "points":
            self.sources[o.name] = Source(-1, o.outputs)
        elif o.op in ("category", "mean_abs"):
            self.sources[o.name] = CONSTANT
        elif o.op in ("sign", "affine", "function"):  # ReLU stands for all of them
            self.sources[o.name] = self.sources[o.operands[0]]
        elif o.op == "broadcast":
            source = self.sources[o.operands[0]]
            if source != CONSTANT:
                source = self.plain(o.operands[0])
                source = Source(NOWHERE, 0, source.step, source.width)
            self.sources[o.name] = source
        elif o.op == "concat":
            self.sources[o.name] = self.concat([self.sources[name] for name in o.operands])
        elif o.op == "slice":
            source = self.plain(o.operands[0])
            self.sources[o.name] = self.add(Step("slice", source.step, source.width, o.outputs, start=o.fields["from"]))
        elif o.op == "transform" and o.inputs == o.outputs and o.operands[1] in self.of_cloud:
            x, matrix = self.plain(o.operands[0]), self.plain(o.operands[1])
            square = self.add(Step("matrix", matrix.step, matrix.width, o.outputs)).step
            self.sources[o.name] = self.add(Step("transform", x.step, o.inputs, o.outputs, matrix=square))
        elif o.op == "pool" and o.fields["pool"] != "sum":
            self.sources[o.name] = self.pool(self.plain(o.operands[0]), o.fields["pool"])
        elif o.op in ("dense", "bilinear", "bilinear_float", "bilinear_pool") and o.fields.get("groups", 1) == 1:
            layer = self.linear(o)
            if o.op == "bilinear_pool":
                self.sources |= dict.fromkeys(o.results[1:], layer)
                layer = self.pool(layer, o.fields["pool"])
            self.sources[o.name] = layer
        else:
            raise NoTwinError

    def linear(self, o: Operation) -> Source:
        source = self.sources[o.operands[0]]
        if source.step == NOWHERE:
            raise NoTwinError
        beside = -1 if source.beside == NOWHERE else source.beside
        relu = o.name not in self.without_relu
        return self.add(Step("linear", source.step, source.width, o.outputs, relu, beside=beside, shared=source.shared))

    def pool(self, source: Source, how: str) -> Source:
        return self.add(Step("pool", source.step, source.width, source.width, how=how))

    def concat(self, parts: list[Source]) -> Source:
        own = [(part.step, part.width) for part in parts if part.step != NOWHERE]
        shared = [(part.beside, part.shared) for part in parts if part.beside != NOWHERE]
        return Source(*self.joined(own), *self.joined(shared))

    def joined(self, parts: list[tuple[int, int]]) -> tuple[int, int]:
        """One step with the channels of all, and their number."""
        if len(parts) < 2:
            return parts[0] if parts else (NOWHERE, 0)
        width = sum(width for _, width in parts)
        return self.add(Step("join", -1, width, width, parts=tuple(step for step, _ in parts))).step, width


def float_twin(model: Model) -> list[Step] | None:
    """The steps of the float network with the layers of a packed one; None for a program with neighbors.

    A layer that reads a value of the whole cloud multiplies it once per cloud: no peer does so by itself, and ONNX
    Runtime is slower if the value is copied to every point first. The category of a cloud is a constant, part of the
    layer's bias. Only programs that pool over all points have a twin: PointNets and segmentation networks.
    """
    operations = model.operations()
    twin = Twin(operations)
    try:
        for operation in operations:
            twin.translate(operation)
    except NoTwinError:
        return None
    return twin.steps


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
    values: dict[int, np.ndarray] = {-1: cloud}
    for i, (step, parts) in enumerate(zip(steps, weights, strict=True)):
        x = values[step.source]
        if step.kind == "linear":
            of_cloud = 0 if step.beside < 0 else values[step.beside] @ parts[0][step.inputs :]
            x = x @ parts[0][: step.inputs] + of_cloud + parts[1]
            x = np.maximum(x, 0) if step.relu else x
        elif step.kind == "join":
            x = np.concatenate([values[part] for part in step.parts], axis=-1)
        elif step.kind == "slice":
            x = x[..., step.start : step.start + step.outputs]
        elif step.kind == "pool":
            x = x.max(axis=0) if step.how == "max" else x.mean(axis=0)
        elif step.kind == "matrix":
            x = x.reshape(step.outputs, step.outputs) + np.eye(step.outputs, dtype=np.float32)
        else:
            x = x @ values[step.matrix]
        values[i] = x
    return values[len(steps) - 1]


def onnx_twin(steps: list[Step], weights: Any, points: int, channels: int) -> bytes:
    """The float twin as an ONNX model: `points` (1, C, 1, N) -> `logits` (1, classes), or (1, classes, 1, N).

    Layers that run per point are 1 x 1 convolutions; as matrix products ONNX Runtime takes 1.5 times as long.
    """
    from onnx import TensorProto, checker, helper, numpy_helper  # pyright: ignore[reportMissingImports]

    nodes, constants = [], []
    per_point = {-1: True}  # whether a step has one value per point; -1 is the cloud

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def value(step: int) -> str:
        return "points" if step < 0 else f"v{step}"

    for i, (step, parts) in enumerate(zip(steps, weights, strict=True)):
        x, out = value(step.source), value(i)
        on_points = per_point[step.parts[0] if step.parts else step.source]
        per_point[i] = on_points and step.kind != "pool"
        if step.kind == "linear":
            product = f"p{i}" if step.relu else out
            weight = parts[0][: step.inputs]
            weight = weight.T[:, :, None, None] if on_points else weight
            terms = [x, constant(f"w{i}", weight), constant(f"b{i}", parts[1])]
            if step.beside >= 0:
                cloud = [value(step.beside), constant(f"u{i}", parts[0][step.inputs :])]
                shape = constant(f"s{i}", np.array([1, step.outputs, 1, 1]))
                of_cloud = node("Reshape", [node("MatMul", cloud, f"m{i}"), shape], f"r{i}")
                node("Add", [node("Conv", terms, f"q{i}"), of_cloud], product)
            else:
                node("Conv" if on_points else "Gemm", terms, product)
            if step.relu:
                node("Relu", [product], out)
        elif step.kind == "join":
            node("Concat", [value(part) for part in step.parts], out, axis=1)
        elif step.kind == "slice":
            bounds = (("from", step.start), ("to", step.start + step.outputs), ("axis", 1))
            node("Slice", [x, *(constant(f"{name}{i}", np.array([at])) for name, at in bounds)], out)
        elif step.kind == "pool":
            how = "GlobalMaxPool" if step.how == "max" else "GlobalAveragePool"
            node("Flatten", [node(how, [x], f"p{i}")], out)
        elif step.kind == "matrix":
            # A point is a row vector in front of the matrix, so the convolution weights are the transposed matrix.
            size = step.outputs
            shape = constant(f"s{i}", np.array([size, size, 1, 1]))
            transposed = node("Transpose", [node("Reshape", [x, shape], f"r{i}")], f"t{i}", perm=[1, 0, 2, 3])
            node("Add", [transposed, constant(f"e{i}", np.eye(size, dtype=np.float32)[:, :, None, None])], out)
        else:
            node("Conv", [x, value(step.matrix)], out)
    nodes[-1].output[0] = "logits"
    graph = helper.make_graph(
        nodes,
        "twin",
        [helper.make_tensor_value_info("points", TensorProto.FLOAT, [1, channels, 1, points])],
        [
            helper.make_tensor_value_info(
                "logits", TensorProto.FLOAT, [1, steps[-1].outputs] + per_point[len(steps) - 1] * [1, points]
            )
        ],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    checker.check_model(model)
    return model.SerializeToString()

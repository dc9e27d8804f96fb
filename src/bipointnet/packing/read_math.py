"""How arithmetic is read: element by element, functions, BatchNorm, softmax."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from bipointnet.packing.axes import CannotLower, Sym
from bipointnet.packing.graph import Node
from bipointnet.packing.reading import Handler, Reading, chosen_channels
from bipointnet.packing.record import Call, Value

Rows = Callable[[np.ndarray], np.ndarray]


def operand(r: Reading, call: Call, place: int) -> Sym:
    """An operand of arithmetic: a value, a constant tensor or a number."""
    found = call.args[place]
    if isinstance(found, Value):
        return r.sym(found)
    return Sym(None, (), (), np.array([r.number(call, found, lambda other: other.args[place])]))


def scaled(r: Reading, call: Call, sym: Sym) -> Sym:
    """The second operand of add and sub times their alpha."""
    alpha = call.argument(2, "alpha", 1)
    if alpha == 1:
        return sym
    if sym.numbers is not None:
        return Sym(None, sym.channels, sym.axes, sym.numbers * alpha)
    assert sym.node is not None
    return Sym(r.graph.affine(sym.node, np.array(alpha), np.array(0.0)), sym.channels, sym.axes)


def arithmetic(op: str) -> Handler:
    def read(r: Reading, call: Call) -> Sym:
        if call.kwargs.get("rounding_mode") is not None:
            raise CannotLower("a division that rounds; expected an exact one")
        a, b = operand(r, call, 0), operand(r, call, 1)
        b = scaled(r, call, b) if op in ("add", "subtract") else b
        return combined(r, op, a, b)

    return read


def rsub(r: Reading, call: Call) -> Sym:
    return combined(r, "subtract", operand(r, call, 1), operand(r, call, 0))


def combined(r: Reading, op: str, a: Sym, b: Sym) -> Sym:
    (x, y), channels, axes, _ = r.align([a, b])
    if isinstance(x, Node) and isinstance(y, Node):
        node = r.graph.arithmetic(op, x, y)
    elif isinstance(x, Node):
        node = _with_constant(r, op, _full(r, x, channels, y), np.asarray(y))
    elif isinstance(y, Node):
        node = _constant_first(r, op, np.asarray(x), _full(r, y, channels, x))
    else:
        raise CannotLower("two constants are combined with copies whose number depends on the cloud")
    return Sym(node, channels, axes)


def _full(r: Reading, node: Node, channels: Any, numbers: Any) -> Node:
    """The node with as many channels as the numbers, by repeating its only one."""
    if node.channels == 1 and len(np.asarray(numbers)) > 1:
        return r.graph.take(node, np.zeros(len(np.asarray(numbers)), int))
    return node


def _with_constant(r: Reading, op: str, x: Node, c: np.ndarray) -> Node:
    one, zero = np.ones_like(c), np.zeros_like(c)
    runs: dict[str, tuple[np.ndarray, np.ndarray, Rows]] = {
        "add": (one, c, lambda y: y + c),
        "subtract": (one, -c, lambda y: y - c),
        "multiply": (c, zero, lambda y: y * c),
        "divide": (1 / np.where(c == 0, np.nan, c), zero, lambda y: y / c),
    }
    slope, offset, run = runs[op]
    if not np.isfinite(slope).all():
        raise CannotLower("a division by zero")
    return r.graph.affine(x, slope, offset, run)


def _constant_first(r: Reading, op: str, c: np.ndarray, x: Node) -> Node:
    if op in ("add", "multiply"):
        return _with_constant(r, op, x, c)
    if op == "subtract":
        return r.graph.affine(x, -np.ones_like(c), c, lambda y: c - y)
    inverse = r.graph.function(x, "reciprocal")
    return _with_constant(r, "multiply", inverse, c)


# Functions of one number


def applied(r: Reading, sym: Sym, change: Callable[[Node], Node]) -> Sym:
    if sym.node is None:
        raise CannotLower("a function of a constant with copies whose number depends on the cloud")
    return Sym(change(sym.node), sym.channels, sym.axes)


def functions(r: Reading, sym: Sym, names: tuple[str, ...]) -> Sym:
    def change(node: Node) -> Node:
        for name in names:
            node = r.graph.function(node, name)
        return node

    return applied(r, sym, change)


def function(*names: str) -> Handler:
    return lambda r, call: functions(r, r.sym(call.args[0]), names)


def clipped(r: Reading, sym: Sym, low: float, high: float) -> Sym:
    """hardtanh from low to high; relu is that from 0 to infinity."""
    graph = r.graph
    if high == np.inf and low == -np.inf:
        return sym
    if high == np.inf:
        return applied(r, sym, lambda x: _moved(graph, graph.function(_moved(graph, x, 1, -low), "relu"), 1, low))
    if low == -np.inf:
        return applied(r, sym, lambda x: _moved(graph, graph.function(_moved(graph, x, -1, high), "relu"), -1, high))
    half, middle = (high - low) / 2, (high + low) / 2
    if half <= 0:
        raise CannotLower(f"numbers are clamped to {low} to {high}; expected a range")
    inner = lambda x: _moved(graph, x, 1 / half, -middle / half)  # noqa: E731
    return applied(r, sym, lambda x: _moved(graph, graph.function(inner(x), "hardtanh"), half, middle))


def _moved(graph: Any, node: Node, slope: float, offset: float) -> Node:
    return graph.affine(node, np.array(float(slope)), np.array(float(offset)))


def hardtanh(r: Reading, call: Call) -> Sym:
    low, high = call.argument(1, "min_val", -1), call.argument(2, "max_val", 1)
    return clipped(r, r.sym(call.args[0]), float(low), float(high))


def clamp(r: Reading, call: Call) -> Sym:
    given = dict(zip(("min", "max"), call.args[1:], strict=False)) | call.kwargs
    if any(isinstance(limit, Value) for limit in given.values()):
        raise CannotLower("numbers are clamped to tensors; expected numbers as limits")
    low, high = given.get("min"), given.get("max")
    low, high = -np.inf if low is None else float(low), np.inf if high is None else float(high)
    return clipped(r, r.sym(call.args[0]), low, high)


def leaky_relu(r: Reading, call: Call) -> Sym:
    slope = float(call.argument(1, "negative_slope", 0.01))
    if slope < 0:
        raise CannotLower(f"LeakyReLU with a negative slope of {slope:g}; expected a slope of 0 or more")
    function = "leaky_relu" if slope else "relu"  # LeakyReLU(0) has no negative values: every sign behind it is +1
    return applied(r, r.sym(call.args[0]), lambda x: r.graph.function(x, function, slope))


def negated_sym(r: Reading, sym: Sym) -> Sym:
    return applied(r, sym, lambda x: r.graph.affine(x, np.array(-1.0), np.array(0.0), np.negative))


def negated(r: Reading, call: Call) -> Sym:
    return negated_sym(r, r.sym(call.args[0]))


def silu(r: Reading, call: Call) -> Sym:
    return applied(r, r.sym(call.args[0]), lambda x: r.graph.arithmetic("multiply", x, r.graph.function(x, "sigmoid")))


def power(r: Reading, call: Call) -> Sym:
    exponent = call.args[1]
    ways = {2: ("square",), 0.5: ("sqrt",), -1: ("reciprocal",), -0.5: ("sqrt", "reciprocal"), 1: ()}
    if exponent not in ways:
        raise CannotLower(f"a power with exponent {exponent}; expected 2, 0.5, -0.5 or -1")
    return functions(r, r.sym(call.args[0]), ways[exponent])


def maximum(r: Reading, call: Call) -> Sym:
    """max(a, b) = relu(a - b) + b"""
    a, b = operand(r, call, 0), operand(r, call, 1)
    difference = combined(r, "subtract", a, b)
    return combined(r, "add", applied(r, difference, lambda x: r.graph.function(x, "relu")), b)


def minimum(r: Reading, call: Call) -> Sym:
    """min(a, b) = a - relu(a - b)"""
    a, b = operand(r, call, 0), operand(r, call, 1)
    difference = combined(r, "subtract", a, b)
    return combined(r, "subtract", a, applied(r, difference, lambda x: r.graph.function(x, "relu")))


# BatchNorm and softmax


def batch_norm(r: Reading, call: Call) -> Sym:
    x, weight, bias, mean, variance, *rest = call.args
    training, _, eps = rest if len(rest) == 3 else (False, *rest)
    if training:
        raise CannotLower("BatchNorm computes statistics of its input; expected one with running statistics")
    sym = r.sym(x)
    if sym.node is None or any(atom.role != "channel" for atom in sym.axes[1]):
        raise CannotLower("BatchNorm over points or neighbors; expected BatchNorm over channels")
    size = r.sizes(x)[1][0]
    ones, zeros = torch.ones(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
    given = [
        default if v is None else v.data
        for v, default in zip((weight, bias, mean, variance), (ones, zeros) * 2, strict=True)
    ]
    chosen = torch.from_numpy(chosen_channels(sym.axes[1], sym.channels).copy())
    w, b, m, v = (tensor.detach().double()[chosen] for tensor in given)

    def run(y: np.ndarray) -> np.ndarray:
        return torch.batch_norm(torch.from_numpy(y), w, b, m, v, False, 0.0, eps, False).numpy()

    slope = w * torch.rsqrt(v + eps)
    return Sym(r.graph.affine(sym.node, slope.numpy(), (b - m * slope).numpy(), run), sym.channels, sym.axes)


def softmax(r: Reading, call: Call) -> Sym:
    """At the end it is dropped; over points or neighbors it is exp(x - max) / sum."""
    sym = r.sym(call.args[0])
    if call in r.dropped:
        return sym
    axis = sym.axes[call.args[1] % len(sym.axes)]
    if call.name == "aten._log_softmax" or len(axis) != 1 or axis[0].role not in ("elements", "slots"):
        raise CannotLower("a softmax over channels before the end; expected one over points or neighbors, or none")
    sym = r.spread(sym)
    node = sym.node
    assert node is not None
    if node.domain is not axis[0].domain:
        raise CannotLower("a softmax over points of values of their neighbors; expected a pool over neighbors first")
    graph = r.graph
    shifted = graph.arithmetic("subtract", node, graph.broadcast(graph.pool(node, "max"), node.domain))
    raised = graph.function(shifted, "exp")
    total = graph.broadcast(graph.pool(raised, "sum"), node.domain)
    return Sym(graph.arithmetic("divide", raised, total), sym.channels, sym.axes)


def layer_norm(r: Reading, call: Call) -> list[Sym | None]:
    """(x - mean) / sqrt(variance + eps) over the channels, with layers of ones as means."""
    x, shape, weight, bias, eps = call.args
    sym = r.sym(x)
    atoms = tuple(atom for axis in sym.axes[-len(shape) :] for atom in axis)
    if sym.node is None or set(atoms) != set(sym.channels):
        raise CannotLower("LayerNorm over points or neighbors; expected one over all channels")
    node, graph = r.ordered(sym, atoms), r.graph
    mean = np.full((1, node.channels), 1 / node.channels)
    centered = graph.arithmetic("subtract", node, graph.linear(node, mean))
    variance = graph.linear(graph.function(centered, "square"), mean, np.array([eps]))
    node = graph.arithmetic("divide", centered, graph.function(variance, "sqrt"))
    numbers = [None if v is None else v.data.double().reshape(-1).numpy() for v in (weight, bias)]
    slope = np.ones(node.channels) if numbers[0] is None else numbers[0]
    offset = np.zeros(node.channels) if numbers[1] is None else numbers[1]
    return [Sym(graph.affine(node, slope, offset), atoms, sym.axes), None, None]


MATH: dict[str, Handler] = {
    "add": arithmetic("add"),
    "sub": arithmetic("subtract"),
    "rsub": rsub,
    "mul": arithmetic("multiply"),
    "div": arithmetic("divide"),
    "relu": function("relu"),
    "relu6": lambda r, call: clipped(r, r.sym(call.args[0]), 0.0, 6.0),
    "hardtanh": hardtanh,
    "clamp": clamp,
    "clamp_min": lambda r, call: clipped(r, r.sym(call.args[0]), float(call.args[1]), np.inf),
    "clamp_max": lambda r, call: clipped(r, r.sym(call.args[0]), -np.inf, float(call.args[1])),
    "leaky_relu": leaky_relu,
    "neg": negated,
    "abs": function("abs"),
    "square": function("square"),
    "sqrt": function("sqrt"),
    "rsqrt": function("sqrt", "reciprocal"),
    "reciprocal": function("reciprocal"),
    "exp": function("exp"),
    "sigmoid": function("sigmoid"),
    "tanh": function("tanh"),
    "silu": silu,
    "pow": power,
    "maximum": maximum,
    "minimum": minimum,
    "native_batch_norm": batch_norm,
    "_native_batch_norm_legit_no_training": batch_norm,
    "native_layer_norm": layer_norm,
    "_softmax": softmax,
    "_log_softmax": softmax,
}

"""How layers, products and pools are read."""

from typing import Any

import numpy as np

from bipointnet.nn import BinaryGrouped, EntropyMax, MaxPool, MeanPool, MeasuredMax
from bipointnet.nn.conv import BinaryConv
from bipointnet.packing.axes import Atom, CannotLower, Sym, channel
from bipointnet.packing.graph import Node
from bipointnet.packing.read_math import combined, negated_sym
from bipointnet.packing.read_products import matrix_product
from bipointnet.packing.reading import Handler, Reading
from bipointnet.packing.record import Call, Value
from bipointnet.packing.searches import geometry_search


def contracted(r: Reading, sym: Sym, dims: list[int]) -> tuple[Sym, Node, tuple[Atom, ...], int]:
    """Prepare a layer on some axes: the node has first the channels of all other axes, then those of the layer.

    Returns the symbol, the node, the other channels and their number.
    """
    atoms = tuple(atom for dim in dims for atom in sym.axes[dim])
    sym, atoms = r.as_channels(sym, atoms)
    sym = r.spread(sym)
    others = tuple(atom for atom in sym.channels if atom not in atoms)
    node = r.ordered(sym, (*others, *atoms))
    return sym, node, others, int(np.prod([atom.size for atom in others], dtype=np.int64))


def placed(r: Reading, sym: Sym, node: Node, others: tuple[Atom, ...], dims: list[int], outputs: int) -> Sym:
    """The result of a layer: its outputs are one axis, in place of the first of `dims`."""
    made = (channel(outputs, r.runs),) if outputs > 1 else ()
    axes = [made if i == dims[0] else axis for i, axis in enumerate(sym.axes) if i not in dims[1:]]
    return Sym(node, (*others, *made), tuple(axes))


def linear(r: Reading, sym: Sym, dims: list[int], weight: np.ndarray, bias: np.ndarray | None, groups: int = 1) -> Sym:
    """A float layer on the given axes; weight (M, K / groups)."""
    sym, node, others, copies = contracted(r, sym, dims)
    if node.channels != copies * weight.shape[1] * groups:
        raise CannotLower(f"a layer of {weight.shape[1] * groups} inputs reads {node.channels // copies}")
    bias = None if bias is None else np.tile(bias, copies)
    made = r.graph.linear(node, np.tile(weight, (copies, 1)), bias, copies * groups)
    return placed(r, sym, made, others, dims, len(weight))


def numbers_of(value: Any) -> np.ndarray | None:
    return None if value is None else value.data.detach().double().numpy()


def _is_constant(value: Value) -> bool:
    return not value.depends and value.data is not None


def mm(r: Reading, call: Call) -> Sym:
    a, b = call.args
    return product(r, a, b, r.sym(a), r.sym(b))


def addmm(r: Reading, call: Call) -> Sym:
    bias, a, b = call.args
    if call.kwargs.get("alpha", 1) != 1 or call.kwargs.get("beta", 1) != 1:
        raise CannotLower("addmm with factors; expected plain layers")
    if _is_constant(b) and _is_constant(bias) and bias.data.dim() == 1:
        return linear(r, r.sym(a), [1], numbers_of(b).T, numbers_of(bias))  # pyright: ignore
    return combined(r, "add", product(r, a, b, r.sym(a), r.sym(b)), r.sym(bias))


def bmm(r: Reading, call: Call) -> Sym:
    a, b = call.args[-2:]
    made = product(r, a, b, r.sym(a), r.sym(b))
    if len(call.args) == 3:
        return combined(r, "add", made, r.sym(call.args[0]))
    return made


def product(r: Reading, a: Value, b: Value, x: Sym, y: Sym) -> Sym:
    """x (..., i, j) times y (..., j, k), where the first axis counts matrices if there are three."""
    if _is_constant(b) and b.data is not None and _one_matrix(b):
        return linear(r, x, [len(x.axes) - 1], b.data.double().numpy().reshape(b.shape[-2:]).T, None)
    if _is_constant(a) and a.data is not None and _one_matrix(a):
        return linear(r, y, [len(y.axes) - 2], a.data.double().numpy().reshape(a.shape[-2:]), None)
    if _is_constant(b) and b.data is not None:
        return grouped(r, x, 2, b.data.double().numpy().transpose(0, 2, 1))
    if _is_constant(a) and a.data is not None:
        return grouped(r, y, 1, a.data.double().numpy())
    return matrix_product(r, x, y)


def grouped(r: Reading, sym: Sym, dim: int, matrices: np.ndarray) -> Sym:
    """One constant matrix (M, K) per channel of the first axis: a block-diagonal layer."""
    if any(atom.role != "channel" for atom in sym.axes[0]):
        raise CannotLower("a product with constant matrices that differ between points; expected one for all")
    groups, outputs, _ = matrices.shape
    sym, node, others, copies = contracted(r, sym, [0, dim])
    made = r.graph.linear(node, np.tile(matrices.reshape(groups * outputs, -1), (copies, 1)), None, copies * groups)
    outer, inner = ((channel(size, r.runs),) if size > 1 else () for size in (groups, outputs))
    axes = [{0: outer, dim: inner}.get(i, axis) for i, axis in enumerate(sym.axes)]
    return Sym(made, (*others, *outer, *inner), tuple(axes))


def _one_matrix(value: Value) -> bool:
    return len(value.shape) == 2 or value.shape[0] == 1


def convolution(r: Reading, call: Call) -> Sym:
    x, weight, bias, stride, padding, _, transposed, _, groups = call.args
    kernel = weight.shape[2:]
    sym, w = r.sym(x), numbers_of(weight)
    assert w is not None
    whole = [i + 2 for i, size in enumerate(kernel) if size > 1 and set(r.sizes(x)[i + 2]) == {size}]
    others = [size for i, size in enumerate(kernel) if i + 2 not in whole]
    if whole and not transposed and set(padding) == {0} and groups == 1 and {*others} <= {1} and set(stride) == {1}:
        made = linear(r, sym, [1, *whole], w.reshape(len(w), -1), numbers_of(bias))  # (channels, places) of a window
        axes = list(made.axes)
        for dim in whole:
            axes.insert(dim, ())
        return made.with_axes(axes)
    if transposed or set(kernel) != {1} or set(stride) != {1} or set(padding) != {0}:
        raise CannotLower(
            f"a convolution with kernel {'x'.join(map(str, kernel))} and stride {'x'.join(map(str, stride))}; expected "
            "1x1"
        )
    return linear(r, sym, [1], w.reshape(w.shape[:2]), numbers_of(bias), groups)


def layer(r: Reading, call: Call) -> Sym:
    """A 1-bit layer."""
    module: Any = call.function
    sym = r.sym(call.args[0])
    dims = [len(sym.axes) - 1]
    groups = 1
    if isinstance(module, BinaryConv):
        dims = [len(sym.axes) - 1 - module.places]
    elif isinstance(module, BinaryGrouped):
        dims, groups = [len(sym.axes) - 2, len(sym.axes) - 1], module.groups
    sym, node, others, copies = contracted(r, sym, dims)
    outputs = module.out_features
    if node.channels != copies * groups * module.in_features:
        raise CannotLower(f"a layer of {module.in_features} inputs reads {node.channels // (copies * groups)}")
    center = getattr(module, "center", None)
    if center is not None:
        numbers = np.tile(center.double().numpy(), copies * groups)
        node = r.graph.affine(node, np.array(1.0), -numbers, lambda y: y - numbers)
    rows = {"rows": np.arange(copies * outputs)}
    made = r.graph.make("layer", (node,), node.domain, copies * outputs, rows, module=module, groups=copies * groups)
    return placed(r, sym, made, others, dims, outputs)


# Reductions


def reduced(r: Reading, sym: Sym, dims: list[int], kind: str, keep: bool) -> Sym:
    """max, mean or sum over axes: first over neighbors, then over points, then over channels."""
    atoms = [atom for dim in dims for atom in sym.axes[dim]]
    sym = r.spread(sym)
    for atom in atoms:
        if atom.role == "free":
            sym = _without_copies(r, sym, atom, kind)
    for role in ("slots", "elements"):
        for atom in (atom for atom in atoms if atom.role == role):
            sym = _without_domain(r, sym, atom, kind)
    inner = tuple(atom for atom in atoms if atom.role == "channel")
    if inner:
        sym = _over_channels(r, sym, inner, kind)
    removed = set(atoms)
    axes = [tuple(atom for atom in axis if atom not in removed) for axis in sym.axes]
    return sym.with_axes(axis for i, axis in enumerate(axes) if keep or i not in dims)


def _without_copies(r: Reading, sym: Sym, atom: Atom, kind: str) -> Sym:
    if kind != "sum":
        return sym
    if len(set(atom.sizes)) > 1:
        raise CannotLower("a sum of copies whose number depends on the cloud; expected a mean")
    assert sym.node is not None
    node = r.graph.affine(sym.node, np.array(float(atom.size)), np.array(0.0))
    return Sym(node, sym.channels, sym.axes)


def _without_domain(r: Reading, sym: Sym, atom: Atom, kind: str) -> Sym:
    node = sym.node
    assert node is not None
    if node.domain is not atom.domain:
        if node.domain.above(atom.domain):  # pyright: ignore[reportArgumentType]
            raise CannotLower("a pool over copies of one value")
        raise CannotLower("a pool over points of values of their neighbors; expected a pool over the neighbors first")
    return Sym(r.graph.pool(node, kind), sym.channels, sym.axes)


def _over_channels(r: Reading, sym: Sym, inner: tuple[Atom, ...], kind: str) -> Sym:
    if kind == "max":
        raise CannotLower("a maximum over channels; expected one over points or neighbors")
    assert sym.node is not None
    others = tuple(atom for atom in sym.channels if atom not in inner)
    count = int(np.prod([atom.size for atom in inner]))
    copies = int(np.prod([atom.size for atom in others], dtype=np.int64))
    node = r.ordered(sym, (*others, *inner))
    weight = np.full((copies, count), 1 / count if kind == "mean" else 1.0)
    return Sym(r.graph.linear(node, weight, None, copies), others, sym.axes)


def _dims(sym: Sym, dims: Any) -> list[int]:
    if dims is None or dims == []:
        return list(range(len(sym.axes)))
    dims = [dims] if isinstance(dims, int) else dims
    return [dim % len(sym.axes) for dim in dims]


def reduction(kind: str, outputs: int = 1) -> Handler:
    def read(r: Reading, call: Call) -> Any:
        sym = r.sym(call.args[0])
        dims, keep = call.argument(1, "dim"), call.argument(2, "keepdim", False)
        made = reduced(r, sym, _dims(sym, dims), kind, keep)
        return [made, *[None] * (len(call.outputs) - 1)]

    return read


def deviation(root: bool) -> Handler:
    """var and std: the mean of the squares of the differences from the mean, times n / (n - correction)."""

    def read(r: Reading, call: Call) -> Sym:
        value, sym = call.args[0], r.sym(call.args[0])
        unbiased = call.argument(2, "unbiased", True) if not isinstance(call.argument(1, "dim"), bool) else call.args[1]
        dims = _dims(sym, None if isinstance(call.argument(1, "dim"), bool) else call.argument(1, "dim"))
        correction = call.kwargs.get("correction", float(unbiased))
        correction = 1.0 if correction is None else float(correction)
        keep = call.kwargs.get("keepdim", call.args[3] if len(call.args) > 3 else False)
        total = tuple(np.prod([r.sizes(value)[dim] for dim in dims], axis=0, dtype=np.int64).tolist())
        if correction and len(set(total)) > 1:
            raise CannotLower(
                "a variance whose divisor depends on the number of points; expected unbiased=False, or correction=0"
            )
        centered = combined(r, "subtract", sym, reduced(r, sym, dims, "mean", True))
        assert centered.node is not None
        squares = Sym(r.graph.function(centered.node, "square"), centered.channels, centered.axes)
        made = reduced(r, squares, dims, "mean", keep)
        assert made.node is not None
        node = made.node
        if correction:
            node = r.graph.affine(node, np.array(total[0] / (total[0] - correction)), np.array(0.0))
        return Sym(r.graph.function(node, "sqrt") if root else node, made.channels, made.axes)

    return read


def minimum_over(r: Reading, call: Call) -> Any:
    sym = negated_sym(r, r.sym(call.args[0]))
    dims, keep = call.argument(1, "dim"), call.argument(2, "keepdim", False)
    made = negated_sym(r, reduced(r, sym, _dims(sym, dims), "max", keep))
    return [made, *[None] * (len(call.outputs) - 1)]


def _windows(r: Reading, call: Call) -> bool:
    """Whether a pool has windows of other sizes than 1 or a whole axis, or padding."""
    if "adaptive" in call.name:
        return any(set(size) != {1} for size in r.sizes(call.outputs[0])[-2:])
    if any(call.argument(3, "padding") or ()):
        return True
    for axis, before in enumerate(r.sizes(call.args[0])[-2:]):
        window = tuple(other.argument(1, "kernel_size")[axis] for other in r.recording.match(call))
        stride = {(other.argument(2, "stride") or window)[axis] for other in r.recording.match(call)}
        if window != before and (set(window) != {1} or stride != {1}):
            return True
    return False


def adaptive(kind: str) -> Handler:
    """AdaptiveMaxPool and pools whose window is the whole axis: over all axes after the channels."""

    def read(r: Reading, call: Call) -> Any:
        sym, after = r.sym(call.args[0]), r.sizes(call.outputs[0])
        dims = [dim for dim in (-2, -1) if set(after[dim]) == {1} and sym.axes[dim]]
        if _windows(r, call):
            raise CannotLower("a pool over windows; expected a pool over all points or all neighbors")
        made = reduced(r, sym, [dim % len(sym.axes) for dim in dims], kind, True)
        return [made, *[None] * (len(call.outputs) - 1)]

    return read


def norm(r: Reading, call: Call) -> Sym:
    order = call.argument(1, "ord", 2)
    if order != 2:
        raise CannotLower(f"a norm of order {order}; expected the Euclidean norm")
    sym = r.sym(call.args[0])
    dims, keep = call.argument(2, "dim"), call.argument(3, "keepdim", False)
    if sym.node is None:
        raise CannotLower("the norm of a constant")
    squares = Sym(r.graph.function(sym.node, "square"), sym.channels, sym.axes)
    made = reduced(r, squares, _dims(sym, dims), "sum", keep)
    assert made.node is not None
    return Sym(r.graph.function(made.node, "sqrt"), made.channels, made.axes)


def pool(r: Reading, call: Call) -> Sym:
    """A pool of bipointnet.nn: over the axis before the last, of true neighbors if it gets their counts."""
    module: Any = call.function
    given = dict(zip(("x", "counts"), call.args, strict=False)) | call.kwargs
    sym, counts = r.spread(r.sym(given["x"])), given.get("counts")
    dim = len(sym.axes) - 2
    atoms = [atom for atom in sym.axes[dim] if atom.role != "free"]
    kind = "mean" if isinstance(module, MeanPool) else "max"
    shifted = isinstance(module, EntropyMax)
    if not isinstance(module, (MaxPool, MeanPool, MeasuredMax)) or type(module).forward not in _FORWARDS:
        raise CannotLower(f"{type(module).__name__} as a pool; expected MaxPool, MeanPool, EntropyMax or MeasuredMax")
    if type(module) not in (MaxPool, EntropyMax) and isinstance(module, MaxPool):
        raise CannotLower(f"{type(module).__name__}, a pool with a shift of its own; expected MaxPool or EntropyMax")
    if len(atoms) > 1 and shifted:
        raise CannotLower("EMA-max over points and their neighbors at once; expected a pool over the neighbors first")
    if sym.axes[dim] and not atoms and shifted:
        raise CannotLower("EMA-max over copies of one value")
    if len(atoms) == 1 and atoms[0].role != "channel":
        sym = _single_pool(r, sym, dim, atoms[0], kind, shifted, counts)
    else:
        sym = reduced(r, sym, [dim], kind, False)
    if isinstance(module, MeasuredMax):
        assert sym.node is not None
        shift = float(module.shift)
        node = r.graph.affine(sym.node, np.array(1.0), np.array(-shift), lambda y: y - shift)
        sym = Sym(node, sym.channels, sym.axes)
    return sym


_FORWARDS = (MaxPool.forward, MeanPool.forward, MeasuredMax.forward)


def _single_pool(r: Reading, sym: Sym, dim: int, atom: Atom, kind: str, shifted: bool, counts: Any) -> Sym:
    node = sym.node
    assert node is not None
    if node.domain is not atom.domain:
        raise CannotLower("a pool over points of values of their neighbors; expected a pool over the neighbors first")
    over, layer = "points", None
    if counts is not None and counts.call is not None and counts.call.name == "distinct.distinct_codes":
        over, layer = "distinct", counted_layer(counts.call, node)
    elif counts is not None:
        _require_counts(r, counts, atom)
        over = "neighbors"
    made = r.graph.pool(node, kind, over, "delta" if shifted else "none", layer)
    return Sym(made, sym.channels, tuple(axis for i, axis in enumerate(sym.axes) if i != dim))


def counted_layer(call: Call, node: Node) -> Node:
    """The 1-bit layer whose codes are counted, which must be the one that is pooled."""
    module, counted = call.args[0], node
    while counted.op in ("affine", "function"):
        counted = counted.inputs[0]
    if counted.op != "layer" or counted.fields["module"] is not module:
        raise CannotLower("EMA-max counts the codes of a layer that is not the one in front of the pool")
    return counted


def _require_counts(r: Reading, counts: Value, atom: Atom) -> None:
    """The counts must be those of the search that made the groups."""
    made = counts.call
    if made is None or not made.name.startswith("geometry.") or geometry_search(r, made)[0].domain is not atom.domain:
        raise CannotLower("a pool with counts of other neighbors; expected the counts of the neighbors that it pools")


LAYERS: dict[str, Handler] = {
    "mm": mm,
    "addmm": addmm,
    "bmm": bmm,
    "baddbmm": bmm,
    "convolution": convolution,
    "max": reduction("max"),
    "amax": reduction("max"),
    "mean": reduction("mean"),
    "sum": reduction("sum"),
    "var": deviation(False),
    "std": deviation(True),
    "min": minimum_over,
    "amin": minimum_over,
    "adaptive_max_pool2d": adaptive("max"),
    "adaptive_max_pool3d": adaptive("max"),
    "_adaptive_avg_pool2d": adaptive("mean"),
    "max_pool2d_with_indices": adaptive("max"),
    "avg_pool2d": adaptive("mean"),
    "linalg_vector_norm": norm,
    "norm": norm,
}

"""Pools in the call graph of a foreign network: in which calls maxima and means over points hide."""

import re
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn

from bipointnet.convert.graph import RANKING, TRANSPARENT, CallGraph
from bipointnet.convert.trace import call_name
from bipointnet.nn.pools import MaxPool, MeanPool, MeasuredMax

ARITHMETIC = {"add", "sub", "mul", "div", "truediv", "radd", "rsub"}
SCATTERED = {"scatter_reduce": 3, "index_reduce": 3, "segment_reduce": 0}  # the position of what they pool
INDEX_VIEWS = {"expand", "expand_as", "getitem", "index_select", "long", "reshape", "to", "unsqueeze", "view"}
OWN_INPUT = "combined with its own input, as in x - x.mean()"
HIDDEN = {"max", "amax", "scatter", "segment", "scatter_reduce", "scatter_max", "global_max_pool"}  # in opaque code
# Not replaced, and as blind as a maximum: of many points, nearly every value has the same sign.
EXTREMES = {"min", "amin", "topk", "sort", "kthvalue", "cummax", "cummin", "logsumexp"}
OTHER_LIBRARIES = {"scatter_max", "segment_csr", "segment_max_csr", "segment_coo", "segment_max_coo"}


@dataclass
class Pool:
    """A pool of the network.

    call: the call. source: what it pools. kind: "max" or "mean". dims, keepdim, window, stride: as of the function.
    scattered: whether groups have different sizes. indices: whether the network reads the indices of the maxima.
    obstacle: why it cannot be replaced, or None. extreme: whether it is one of EXTREMES.
    """

    call: fx.Node
    source: fx.Node
    kind: str
    dims: tuple[int, ...] = ()
    keepdim: bool = False
    window: tuple[Any, ...] = ()  # sizes may be nodes, known only at run time
    stride: tuple[int, ...] = ()
    scattered: bool = False
    indices: bool = False
    obstacle: str | None = None
    extreme: bool = False

    def __str__(self) -> str:
        where = f"windows of {list(self.window)}" if self.window else f"dim {', '.join(map(str, self.dims))}"
        return f"{self.kind} over {'groups' if self.scattered else where}"


def find_pool(graph: CallGraph, node: fx.Node) -> Pool | None:
    """The pool that this call is, or None."""
    name = call_name(node)
    if isinstance(graph.module(node), (MaxPool, MeasuredMax, MeanPool)):
        kind = "mean" if isinstance(graph.module(node), MeanPool) else "max"
        return Pool(node, node.all_input_nodes[0], kind, (-2,))
    if named := re.fullmatch(r"(adaptive_?)?(max|avg)_?pool([123])d", graph.label(node).lower()):
        kind, rank = {"max": "max", "avg": "mean"}[named[2]], int(named[3])
        found = _adaptive_pool(graph, node, kind, rank) if named[1] else _window_pool(graph, node, kind, rank)
        found.obstacle = "it has three dimensions" if rank == 3 else found.obstacle
    elif name in ("max", "amax", "mean"):
        found = _reduction(graph, node)
    elif name in EXTREMES:
        found = _extreme(graph, node)
    elif name in SCATTERED:
        found = _scattered(graph, node)
    elif name in OTHER_LIBRARIES:
        found = Pool(node, node.all_input_nodes[0], "max", scattered=True, obstacle="an operation of another library")
    elif "opaque" in node.meta and HIDDEN & {*node.meta["opaque"]}:
        found = Pool(
            node, node.all_input_nodes[0], "max", obstacle="inside a function that cannot be traced; give an example"
        )
    else:
        found = None
    if found is not None and found.obstacle is None:
        found.obstacle = _not_over_points(graph, found)
    return found


def _adaptive_pool(graph: CallGraph, node: fx.Node, kind: str, rank: int) -> Pool:
    sizes = _tuple(graph.option(node, "output_size", None, 1), rank)
    dims = tuple(i - rank for i, size in enumerate(sizes) if size == 1)
    odd = any(size not in (None, 1) for size in sizes) or graph.option(node, "return_indices", False, 2)
    why = f"its output size is {sizes}, expected 1" if odd else None
    return Pool(node, node.all_input_nodes[0], kind, dims, keepdim=True, obstacle=why)


def _window_pool(graph: CallGraph, node: fx.Node, kind: str, rank: int) -> Pool:
    plain = {"padding": 0, "dilation": 1, "ceil_mode": False, "return_indices": False}
    plain = plain if kind == "max" else {"padding": 0, "ceil_mode": False, "divisor_override": None}
    window, stride = _tuple(graph.option(node, "kernel_size", None, 1), rank), graph.option(node, "stride", None, 2)
    stride = () if stride in (None, [], ()) else _tuple(stride, rank)
    pool = Pool(node, node.all_input_nodes[0], kind, window=window, stride=stride)
    for position, (option, value) in enumerate(plain.items(), start=3):
        if any(v != value for v in _tuple(graph.option(node, option, value, position), rank)):
            pool.obstacle = f"its windows have {option}"
    return pool


def _reduction(graph: CallGraph, node: fx.Node) -> Pool | None:
    dims = graph.option(node, "dim", node.kwargs.get("axis"), 1)
    keepdim = bool(graph.option(node, "keepdim", False, 2))
    if dims is None or isinstance(dims, fx.Node) or not node.all_input_nodes:  # of all elements, or of two tensors
        return None
    name, values, indices = call_name(node), [node], False
    if name == "max":  # returns values and indices
        taken = {user: user.args[1] if call_name(user) in ("getitem", "getattr") else None for user in node.users}
        values = [user for user, item in taken.items() if item in (0, "values")]
        if not any(user.users for user in values) and None not in taken.values():
            return None  # an argmax
        indices = any(user.users or item is None for user, item in taken.items() if user not in values)
    pool = Pool(node, node.all_input_nodes[0], "mean" if name == "mean" else "max", _tuple(dims), keepdim)
    pool.indices = indices
    if any(call_name(user) in ARITHMETIC and pool.source in user.all_input_nodes for v in values for user in v.users):
        pool.obstacle = OWN_INPUT
    return pool


def _extreme(graph: CallGraph, node: fx.Node) -> Pool | None:
    name, values = call_name(node), [user for user in node.users if not graph.is_index(user)]
    if not node.all_input_nodes or (name in RANKING and not any(user.users for user in values)):
        return None  # the indices are read only, as of neighbors
    if name in ("min", "amin") and not isinstance(graph.option(node, "dim", None, 1), (int, tuple, list)):
        return None  # of all elements, or of two tensors
    if name == "sort" and not any(call_name(user) == "getitem" for value in values for user in value.users):
        return None  # all values are read, not the largest
    base = graph.preceding(node.all_input_nodes[0], TRANSPARENT)[1]
    if call_name(base) == "neg":
        base = graph.preceding(base.all_input_nodes[0], TRANSPARENT)[1]
    if graph.kinds[base] not in ("layer", "norm", "other norm"):
        return None  # such as distances
    return Pool(node, node.all_input_nodes[0], "max", obstacle=f"it is {name}", extreme=True)


def _scattered(graph: CallGraph, node: fx.Node) -> Pool | None:
    name = call_name(node)
    reduce = graph.option(node, "reduce", None, 1 if name == "segment_reduce" else 4)
    source = graph.option(
        node, {"scatter_reduce": "src", "index_reduce": "source"}.get(name, "data"), None, SCATTERED[name]
    )
    if reduce not in ("amax", "max", "mean") or not isinstance(source, fx.Node):
        return None
    return Pool(node, source, "mean" if reduce == "mean" else "max", scattered=True)


def indexed_by_input(graph: CallGraph, pool: Pool) -> bool:
    """Whether an input says to which cloud each element of a scattered pool belongs, as `batch` in torch_geometric.

    It has one dimension. The edges of a graph, which may be an input too, have two.
    """
    node = graph.option(pool.call, "index", None, 2)
    while isinstance(node, fx.Node) and node.op != "placeholder":
        if call_name(node) not in INDEX_VIEWS or not node.all_input_nodes:
            return False
        node = node.all_input_nodes[0]
    return isinstance(node, fx.Node) and node.meta.get("rank") == 1


def _not_over_points(graph: CallGraph, pool: Pool) -> str | None:
    passed, base = graph.preceding(pool.source, TRANSPARENT)
    if any(graph.kinds[node] == "view" for node in passed):
        return None
    channels = _channel_dims(graph, base.all_input_nodes[0] if graph.kinds[base] == "norm" else base)
    rank = pool.source.meta.get("rank")  # known in a record
    dims = {d - rank if rank is not None and d >= 0 else d for d in pool.dims}
    channels = {c - rank if rank is not None and c >= 0 else c for c in channels}
    return "over channels" if dims & channels else None


def _channel_dims(graph: CallGraph, node: fx.Node) -> set[int]:
    """The dimension of the channels in the output of a layer or normalization."""
    module = graph.module(node)
    if isinstance(module, nn.LayerNorm):
        return {-1}
    if isinstance(module, nn.GroupNorm):
        return {1}
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() < 2:
        return set()
    places = weight.dim() - 2  # channels are before these in a convolution, and last in a linear layer
    return {1, -1 - places} if places else {-1}


def _tuple(value: Any, rank: int = 1) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank

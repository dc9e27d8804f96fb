"""Convert any PyTorch network of linear layers and 1x1 convolutions to 1 bit.

The changes follow from the data flow between layers, which convert/trace.py, record.py and graph.py find:

- A layer becomes 1-bit unless it is *first*, *last*, excluded by name, or not supported. A first layer reads
  coordinates: the network's input, or a function of it without a layer between, such as x @ T, x[index] or a function
  that cannot be inspected. A concatenation of coordinates and features does not count as coordinates. A last layer is
  one whose output no other layer reads.
- sign(ReLU(x)) is always +1, so a rectifier before or after a 1-bit layer becomes Hardtanh. Rectifiers are ReLU and
  similar functions (LeakyReLU, PReLU, ELU, GELU, SiLU and so on). Tanh and Hardtanh stay, and so does every
  activation between float layers.
- A max over points becomes max - delta(n), a mean stays a mean. Both then read the output of BatchNorm: the activation
  between is removed. Where other 1-bit layers read that activation too, they read the same signs without it. Without
  BatchNorm in front, `calibrate` measures the shift (MeasuredMax). In a scattered max, as in torch_geometric, n is the
  number of elements of each target. A max in front of a 1-bit layer that cannot be replaced is an error, and so are
  amin, topk, sort and the like.
- Dropout in front of a 1-bit layer is removed: sign turns a dropped 0 into +1.
- A method without bias drops the bias of a layer only if BatchNorm follows. A layer with zero weights starts from small
  random ones.
- Inputs of 0 and 1, such as one-hot categories, that an example shows are read as -1 and +1: sign(0) = sign(1).
"""

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import torch
from torch import nn

from bipointnet.convert.check import check
from bipointnet.convert.decide import Decisions, decide
from bipointnet.convert.graph import CallGraph
from bipointnet.convert.methods import Methods
from bipointnet.convert.rebuild import rebuild
from bipointnet.convert.record import record
from bipointnet.convert.report import Report, Row, bits
from bipointnet.convert.substitute import Substituted
from bipointnet.convert.trace import TracedNetwork, Untraceable, copy_unfused, trace
from bipointnet.convert.zero_one import center_zero_one
from bipointnet.errors import UserError
from bipointnet.nn.names import as_pool
from bipointnet.nn.pools import MaxPool, MeanPool, MeasuredMax

Network = TypeVar("Network", bound=nn.Module)


def binarize(
    model: Network,
    method: Methods = "lsr",
    pool: nn.Module | str = "ema-max",
    exclude: str | Sequence[str] = (),
    example: Any = None,
) -> Network:
    """Convert `model` to 1 bit: returns the new network; its attribute `report` says what changed, what not, and why.

    The new layers start from the old weights; the rest of the network is copied. Train the result. Before training,
    `bipointnet.calibrate(network, batch)` sets LSR's scales and the measured shifts from the first real batch. With
    "ir-net", call `bipointnet.set_progress(network, epoch / epochs)` before every epoch: its gradient narrows.

    The new network is an instance of the class of `model`, or of a subclass, and keeps its forward, attributes and
    methods; it can be copied and pickled. Where functions called by a forward must change (F.relu, torch.max), the
    network substitutes them while a forward runs. A method of your own that is called from outside a forward runs as it
    is, without substitutions.

    Args:
        model: any network; it is not modified.
        method: a Method, or its name in METHODS; or a dictionary of these by patterns of layer names, such as
            `{"encoder.*": XNOR(), "*": "lsr"}`, where the first match counts and "fp" keeps a layer float.
        pool: the replacement of a max over points, or its name in POOLS; "max" keeps it a plain max. A mean becomes
            EntropyMean.
        exclude: names of further layers that stay float, or patterns such as "encoder.*".
        example: an input, or a tuple of inputs, of at least two clouds that differ. The network is then recorded on it
            instead of traced, and the result is checked: an input that moves the output of `model` but not of the new
            network, a 1-bit layer whose input bits are all equal, and a parameter without a path to the output are
            errors; findings that a batch cannot prove are warnings in the report.

    Examples:
        >>> model = PointNet(num_classes=40)  # or any other torch.nn.Module
        >>> network = binarize(model, method="lsr", pool="ema-max", exclude="head.*")
        >>> print(str(network.report).splitlines()[-1])  # print(network.report) shows every layer
        13 of 18 layers in 1 bit; 111,087,136 bits before, 24,637,632 after (4.5 times fewer)
        >>> calibrate(network, torch.rand(8, 256, 3))
    """
    _require_network(model)
    pool = as_pool(pool, "binarize")
    if not isinstance(pool, (MaxPool, MeanPool, MeasuredMax)):
        raise UserError(f"binarize: pool is {pool!r}, expected a pool of bipointnet.nn; give one such as EntropyMax()")
    inputs = example if example is None or isinstance(example, tuple) else (example,)
    traced = _data_flow(model, inputs)
    graph = CallGraph(traced)
    decisions = decide(graph, method, pool, (exclude,) if isinstance(exclude, str) else tuple(exclude))
    if inputs is not None:
        center_zero_one(model, inputs, decisions)
    network = rebuild(model, graph, decisions)
    warnings = decisions.warnings if inputs is None else check(model, network, inputs, type(pool) is MaxPool)
    setattr(network, "report", _report(model, network, graph, decisions, traced, warnings))  # noqa: B010
    return cast(Network, network)


def _require_network(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise UserError(f"binarize: model is {model!r}, expected a torch.nn.Module")
    wrappers = (torch.jit.ScriptModule, nn.DataParallel, nn.parallel.DistributedDataParallel)
    if isinstance(model, wrappers) or hasattr(model, "_orig_mod"):  # _orig_mod: torch.compile
        raise UserError(
            f"binarize: model is a {type(model).__name__}, expected a network that is not compiled or wrapped; "
            "give the network inside, and wrap the result"
        )
    again = next((name or type(m).__name__ for name, m in model.named_modules() if isinstance(m, Substituted)), None)
    if again is not None:
        raise UserError(
            f"binarize: {again} was made by binarize, expected a float network; binarize the float network once more"
        )
    lazy = [name for name, p in model.named_parameters() if isinstance(p, nn.parameter.UninitializedParameter)]
    if lazy:
        raise UserError(f"binarize: {lazy[0]} has no shape yet, expected a built network; run a batch through it first")


def _data_flow(model: nn.Module, inputs: tuple[Any, ...] | None) -> TracedNetwork:
    """The data flow of a run on the inputs, or of a trace.

    A record does not see the results of a torch.autograd.Function. If such a result reaches a layer, a trace is better.
    """
    if inputs is not None:
        recorded = record(copy_unfused(model), inputs)
        graph = CallGraph(recorded)
        coordinates = graph.coordinates()
        if all(coordinates[node] is not None for node in graph.nodes if graph.kinds[node] == "layer"):
            return recorded
        try:
            return trace(copy_unfused(model))
        except Untraceable:
            return recorded
    try:
        return trace(copy_unfused(model))
    except Untraceable as obstacle:
        raise UserError(
            f"binarize: {type(model).__name__} cannot be traced without data, because {obstacle}; "
            "expected a forward that takes the same branch for all inputs; give a batch as example="
        ) from obstacle.__cause__


def _report(
    model: nn.Module,
    network: nn.Module,
    graph: CallGraph,
    decisions: Decisions,
    traced: TracedNetwork,
    warnings: Sequence[str],
) -> Report:
    order = {node: i for i, node in enumerate(graph.nodes)}
    rows = [decisions.rows[key] for key in sorted(decisions.rows, key=lambda key: order.get(key, len(order)))]
    before, after = (
        sum(bits(module, counted) for module in modules.modules())
        for modules, counted in ((model, set()), (network, set()))
    )
    before -= sum(row.bits_before for row in rows)
    after -= sum(row.bits_after for row in rows)
    if before or after:
        rows.append(Row("(the rest)", "rest", "", "float", "such as BatchNorm", before, after))
    notes = [f"not inspected: {', '.join(traced.opaque)}"] if traced.opaque else []
    if traced.recorded:
        notes.append("recorded on the example: branches that it does not take are not inspected")
    return Report(tuple(rows), tuple(notes), tuple(warnings))

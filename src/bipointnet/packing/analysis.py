"""From a network to its graph: run it, read the runs, choose the logits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bipointnet.errors import UserError
from bipointnet.packing.axes import Sym
from bipointnet.packing.graph import Graph, Node
from bipointnet.packing.interpolation import distances
from bipointnet.packing.read_gather import GATHERS, GEOMETRY
from bipointnet.packing.read_graphs import GRAPHS, scatter_pool
from bipointnet.packing.read_layers import LAYERS, layer, pool
from bipointnet.packing.read_math import MATH
from bipointnet.packing.read_views import VIEWS, aliased
from bipointnet.packing.reading import Failure, Handler, Reading
from bipointnet.packing.record import Call, Value
from bipointnet.packing.runs import DifferentBranch, Recording, prepared, understand_inputs

AFTER_SOFTMAX = ("view", "_unsafe_view", "transpose", "permute", "clone", "squeeze", "unsqueeze")
_ATEN = {**VIEWS, **MATH, **LAYERS, **GATHERS, **GRAPHS}
HANDLERS: dict[str, Handler] = {
    **{f"aten.{name}": handler for name, handler in _ATEN.items()},
    **{f"aten.{name}_": handler for name, handler in _ATEN.items()},  # in place
    **{f"geometry.{name}": handler for name, handler in GEOMETRY.items()},
    "layer": layer,
    "pool": pool,
    "scatter_pool": scatter_pool,
    "aliased": aliased,
}


@dataclass
class Analysis:
    """What a network computes: `output` are the logits, one channel per class. chosen: which output of the network."""

    recording: Recording
    reading: Reading
    output: Node
    chosen: str

    @property
    def graph(self) -> Graph:
        return self.reading.graph


@torch.no_grad()
def analyze(
    network: nn.Module, example: Any, classes: int, categories: int, replace: Mapping[Callable[..., Any], str]
) -> Analysis:
    """Run and read a network; raises UserError if something in it has no counterpart in a packed file."""
    root = prepared(network)
    if example is None:
        expected = getattr(network, "categories", 0)
        if isinstance(expected, int) and categories != expected:
            raise UserError(
                f"categories has {categories} names; expected {expected}, one per category input of the network"
            )
    recording = Recording(root, understand_inputs(root, example, categories), replace, categories)
    while True:
        try:
            return _read(recording, classes)
        except DifferentBranch as different:
            if recording.runs[different.run].points >= recording.runs[0].points:
                points = recording.runs[0].points, recording.runs[different.run].points
                raise UserError(
                    f"export: {different.call.where()}: clouds of {points[0]} and of {points[1]} points take different "
                    "branches; expected the same computation for all sizes"
                ) from different
            recording.without(different.run)
        except UserError:
            recording.release()
            raise


def _read(recording: Recording, classes: int) -> Analysis:
    reading = Reading(recording, HANDLERS, distances)
    chosen, value = _logits(recording, classes)
    reading.dropped = _last_softmax(value)
    found = reading.read(value)
    if isinstance(found, Failure):
        raise found.error()
    return Analysis(recording, reading, _arranged(reading, found, classes), chosen)


def _logits(recording: Recording, classes: int) -> tuple[str, Value]:
    """The output that is called logits, or the first one with as many channels as there are classes."""
    outputs = recording.outputs()
    if "logits" in outputs:
        return "logits", outputs["logits"]
    for name, value in outputs.items():
        if not value.integer and value.depends and classes in value.shape[-2:]:
            return name, value
    sizes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in outputs.items())
    raise UserError(
        f"classes has {classes} names; expected one per logit, but no output of the network has {classes} channels: "
        f"{sizes}"
    )


def _last_softmax(value: Value) -> set[Call]:
    """The softmax at the end, if only views follow it."""
    call = value.call
    while call is not None and call.name.removeprefix("aten.") in AFTER_SOFTMAX:
        call = call.args[0].call
    return {call} if call is not None and call.name in ("aten._softmax", "aten._log_softmax") else set()


def _arranged(reading: Reading, sym: Sym, classes: int) -> Node:
    """The logits as a node of the cloud or of the input points."""
    sym = reading.spread(sym)
    assert sym.node is not None
    if sym.node.channels != classes:
        raise UserError(f"classes has {classes} names; expected {sym.node.channels}, one per logit")
    order = tuple(atom for axis in sym.axes for atom in axis if atom.role == "channel")
    node = reading.ordered(sym, order)
    if node.domain.kind == "cloud" or node.domain is reading.graph.points.domain:
        return node
    if node.domain.kind == "set" and set(node.domain.sizes) == {1}:
        return reading.graph.pool(node, "max")
    raise UserError(
        "export: the logits belong to chosen points or neighbors; expected logits of the cloud or of all input points"
    )

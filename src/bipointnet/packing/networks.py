"""Which networks can be packed, and how each is walked: its stages in the order of the program."""

from collections.abc import Callable
from typing import Any

from torch import nn

from bipointnet.errors import UserError
from bipointnet.models import PartPointNet, PointNet, ScenePointNet
from bipointnet.models.pointnet import TNet
from bipointnet.nn import ConcatLinear, PooledLayer
from bipointnet.packing.fold import Stage
from bipointnet.packing.program import Program, kind


def _layer_stage(name: str, layer: nn.Module) -> Stage:
    """A stage from linear -> [norm] -> activation as a Sequential."""
    steps = list(layer.children()) if isinstance(layer, nn.Sequential) else []
    norm: Any = steps.pop(1) if len(steps) > 1 and isinstance(steps[1], nn.BatchNorm1d) else None
    if len(steps) != 2:
        raise UserError(
            f"{name}: a {kind(layer)} of {', '.join(map(kind, layer.children()))}; expected a linear layer, "
            "BatchNorm or none, and an activation"
        )
    linear = steps[0]
    if isinstance(linear, ConcatLinear):
        return Stage(f"{name}.0.linear", linear.linear, norm, steps[1])
    return Stage(f"{name}.0", linear, norm, steps[1])


def _layer_stages(name: str, layers: nn.Sequential) -> list[Stage]:
    return [_layer_stage(f"{name}.{i}", layer) for i, layer in enumerate(layers)]


def _pooled_stages(name: str, layer: nn.Module) -> list[Stage]:
    if not isinstance(layer, PooledLayer):
        raise UserError(f"{name}: a {kind(layer)}; expected a PooledLayer")
    activation = None if type(layer.activation) is nn.Identity else layer.activation
    return [Stage(name, layer.linear, layer.norm, activation, layer.pool)]


def _trunk(name: str, net: TNet | PointNet) -> list[Stage]:
    """What a T-Net and the rest of PointNet have in common: points, pool, head."""
    return [
        *_layer_stages(f"{name}points", net.points),
        *_pooled_stages(f"{name}pooled", net.pooled),
        *_layer_stages(f"{name}head", net.head),
    ]


def _tnet(program: Program, name: str, net: TNet, before: list[Stage]) -> None:
    """The stages before a T-Net, the T-Net itself, and its matrix."""
    program.run([*before, *_trunk(name, net), Stage(f"{name}last", net.last)])
    program.keep_matrix(net.size)


def _start(program: Program, net: PointNet | PartPointNet | ScenePointNet, before: list[Stage]) -> int:
    """A pass over the points for each matrix, and the start of the main pass; returns the numbers a point.

    `before` are the stages in front of the feature transform. Nothing is kept between the passes but the matrices, as
    the first layers cost less than storing their outputs.
    """
    channels = int(before[0].linear.weight.shape[1])  # pyright: ignore
    if net.input_transform is not None and net.feature_transform is not None:
        program.start(channels)
        _tnet(program, "input_transform.", net.input_transform, [])
        program.start(channels)
        program.transform(0)
        _tnet(program, "feature_transform.", net.feature_transform, before)
    program.start(channels)
    if net.input_transform is not None:
        program.transform(0)
    return channels


def _pointnet(program: Program, net: PointNet) -> int:
    first, last = _layer_stage("first", net.first), Stage("last", net.last)
    if type(net.dropout) not in (nn.Identity, nn.Dropout):
        raise UserError(f"dropout: a {kind(net.dropout)}; expected nn.Identity or nn.Dropout")
    channels = _start(program, net, [first])
    if net.feature_transform is None:
        program.run([first, *_trunk("", net)], reader=last)
    else:
        program.run([first])
        program.transform(1)
        program.run(_trunk("", net), reader=last)
    program.run_last(last)
    return channels


def _label_points(program: Program, net: PartPointNet | ScenePointNet) -> None:
    """The head of a network that labels points, on all that was kept."""
    last = Stage("last", net.last)
    program.join()
    program.run([_layer_stage("joined", net.joined), *_layer_stages("head", net.head)], reader=last)
    program.run_last(last)


def _part_pointnet(program: Program, net: PartPointNet) -> int:
    first, second, third, fourth = (
        _layer_stage(name, getattr(net, name)) for name in ("first", "second", "third", "fourth")
    )
    linear, *norm = net.fifth.children()
    fifth = Stage("fifth.0", linear, norm[0] if norm else None, None, net.pool)  # pyright: ignore[reportArgumentType]
    joined = _layer_stage("joined", net.joined)
    _require_shared_bits([second, third, fourth, fifth, joined])
    channels = _start(program, net, [first, second, third])
    for stage, following in ((first, second), (second, third)):
        program.run([stage], reader=following)
        program.keep(following)
    if net.feature_transform is None:
        program.run([third], reader=fourth)
        program.keep(fourth)
    else:
        program.run([third])
        program.keep()
        program.transform(1)
    program.run([fourth], reader=fifth)
    program.keep(fifth)
    program.run_pooled(fifth, joined)
    program.keep()
    if net.categories:
        program.category(net.categories)
    _label_points(program, net)
    return channels


def _scene_pointnet(program: Program, net: ScenePointNet) -> int:
    first, joined = _layer_stage("first", net.first), _layer_stage("joined", net.joined)
    encoder = [*_layer_stages("points", net.points), *_pooled_stages("pooled", net.pooled)]
    _require_shared_bits([encoder[0], joined])
    channels = _start(program, net, [first])
    if net.feature_transform is None:
        program.run([first], reader=encoder[0])
    else:
        program.run([first])
        program.transform(1)
    program.keep(encoder[0])
    program.run(encoder, reader=joined)
    program.keep()
    _label_points(program, net)
    return channels


def _require_shared_bits(readers: list[Stage]) -> None:
    """Refuse layers that would take other bits of a feature than the head, which reads it too."""
    for stage in readers:
        if not stage.binary:
            raise stage.refuse("a float layer; expected a 1-bit one, as only features of 1 bit are joined")
        if stage.scales_points or stage.input_threshold != 0:
            raise stage.refuse(
                "another layer reads the same bits, but its method scales points or compares with a number of its own; "
                "expected one of bnn, xnor++, bi-real, ir-net, lsr to label points"
            )


# The networks that can be packed; a subclass with another forward is another network.
WALKERS: dict[type[nn.Module], tuple[str, Callable[[Program, Any], int]]] = {
    PointNet: ("pointnet", _pointnet),
    PartPointNet: ("pointnet-part", _part_pointnet),
    ScenePointNet: ("pointnet-semantic", _scene_pointnet),
}


# What each of them does, as the manifest says.
TASKS: dict[type[nn.Module], str] = {PointNet: "classify", PartPointNet: "part", ScenePointNet: "semantic"}


def task_of(model: nn.Module) -> str:
    """The task of a network that can be packed: "classify", "part" or "semantic"."""
    walker(model)
    return next(task for kind_of, task in TASKS.items() if isinstance(model, kind_of))


def walker(model: nn.Module) -> tuple[str, Callable[[Program, Any], int]]:
    """The network's name and what writes its program, which returns the numbers a point."""
    for kind_of, (name, walk) in WALKERS.items():
        if isinstance(model, kind_of) and type(model).forward is kind_of.forward:
            vanilla = getattr(model, "input_transform", None) is None
            return name.replace("pointnet", "pointnet-vanilla") if vanilla else name, walk
    known = [kind_of.__name__ for kind_of in WALKERS]
    changed = " with another forward" if kind(model) in known else ""
    raise UserError(
        f"the network is a {kind(model)}{changed}; expected one of those that can be packed so far: {', '.join(known)}"
    )

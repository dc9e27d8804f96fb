"""The networks that can be packed, and for each the stages in the order of its program."""

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
    """The stage of a Sequential of linear -> [norm] -> activation."""
    steps = list(layer.children()) if isinstance(layer, nn.Sequential) else []
    norm: Any = steps.pop(1) if len(steps) > 1 and isinstance(steps[1], nn.BatchNorm1d) else None
    if len(steps) != 2:
        raise UserError(
            f"{name}: a {kind(layer)} of {', '.join(map(kind, layer.children()))}; expected a linear layer, optionally "
            "BatchNorm, and an activation"
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
    """The stages that a T-Net and the rest of PointNet have in common: points, pool, head."""
    return [
        *_layer_stages(f"{name}points", net.points),
        *_pooled_stages(f"{name}pooled", net.pooled),
        *_layer_stages(f"{name}head", net.head),
    ]


def _tnet(program: Program, name: str, net: TNet, before: list[Stage]) -> None:
    """Write the stages before a T-Net, the T-Net itself, and its matrix."""
    program.write_stages([*before, *_trunk(name, net), Stage(f"{name}last", net.last)])
    program.keep_matrix(net.size)


def _start(program: Program, net: PointNet | PartPointNet | ScenePointNet, before: list[Stage]) -> int:
    """Write one pass over the points per matrix, and the start of the main pass; returns the channels per point.

    `before` are the stages in front of the feature transform. Only the matrices are kept between the passes, because
    running the first layers again costs less than storing their outputs.
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
        program.write_stages([first, *_trunk("", net)], reader=last)
    else:
        program.write_stages([first])
        program.transform(1)
        program.write_stages(_trunk("", net), reader=last)
    program.write_last(last)
    return channels


def _label_points(program: Program, net: PartPointNet | ScenePointNet) -> None:
    """Write the head of a network that labels points, which reads all kept values."""
    last = Stage("last", net.last)
    program.join()
    program.write_stages([_layer_stage("concat", net.concat), *_layer_stages("head", net.head)], reader=last)
    program.write_last(last)


def _part_pointnet(program: Program, net: PartPointNet) -> int:
    first, second, third, fourth = (
        _layer_stage(name, getattr(net, name)) for name in ("first", "second", "third", "fourth")
    )
    linear, *norm = net.fifth.children()
    fifth = Stage("fifth.0", linear, norm[0] if norm else None, None, net.pool)  # pyright: ignore[reportArgumentType]
    joined = _layer_stage("concat", net.concat)
    _require_shared_bits([second, third, fourth, fifth, joined])
    channels = _start(program, net, [first, second, third])
    for stage, following in ((first, second), (second, third)):
        program.write_stages([stage], reader=following)
        program.keep(following)
    if net.feature_transform is None:
        program.write_stages([third], reader=fourth)
        program.keep(fourth)
    else:
        program.write_stages([third])
        program.keep()
        program.transform(1)
    program.write_stages([fourth], reader=fifth)
    program.keep(fifth)
    program.write_pooled(fifth, joined)
    program.keep()
    if net.categories:
        program.category(net.categories)
    _label_points(program, net)
    return channels


def _scene_pointnet(program: Program, net: ScenePointNet) -> int:
    first, joined = _layer_stage("first", net.first), _layer_stage("concat", net.concat)
    encoder = [*_layer_stages("points", net.points), *_pooled_stages("pooled", net.pooled)]
    _require_shared_bits([encoder[0], joined])
    channels = _start(program, net, [first])
    if net.feature_transform is None:
        program.write_stages([first], reader=encoder[0])
    else:
        program.write_stages([first])
        program.transform(1)
    program.keep(encoder[0])
    program.write_stages(encoder, reader=joined)
    program.keep()
    _label_points(program, net)
    return channels


def _require_shared_bits(readers: list[Stage]) -> None:
    """Raise UserError unless all layers binarize a feature as the head does, which reads it too."""
    for stage in readers:
        if not stage.binary:
            raise stage.error("a float layer; expected a 1-bit layer, because only 1-bit features can be joined")
        if stage.scales_points or stage.input_threshold != 0:
            raise stage.error(
                "another layer reads the same bits, but its method scales points or compares with its own threshold; "
                "expected one of bnn, xnor++, bi-real, ir-net, lsr to label points"
            )


# Class -> name in the manifest, and the function that writes its program and returns the channels per point.
# A subclass that overrides forward is a different network and cannot be packed.
WRITERS: dict[type[nn.Module], tuple[str, Callable[[Program, Any], int]]] = {
    PointNet: ("pointnet", _pointnet),
    PartPointNet: ("pointnet-part", _part_pointnet),
    ScenePointNet: ("pointnet-semantic", _scene_pointnet),
}


# The task of each of them, as the manifest names it.
TASKS: dict[type[nn.Module], str] = {PointNet: "classify", PartPointNet: "part", ScenePointNet: "semantic"}


def task_of(model: nn.Module) -> str:
    """The task of a network that can be packed: "classify", "part" or "semantic"."""
    find_writer(model)
    return next(task for network, task in TASKS.items() if isinstance(model, network))


def find_writer(model: nn.Module) -> tuple[str, Callable[[Program, Any], int]]:
    """The row of WRITERS for a network; UserError if there is none. Without T-Nets its name is a vanilla one."""
    for network, (name, write) in WRITERS.items():
        if isinstance(model, network) and type(model).forward is network.forward:
            vanilla = getattr(model, "input_transform", None) is None
            return name.replace("pointnet", "pointnet-vanilla") if vanilla else name, write
    known = [network.__name__ for network in WRITERS]
    changed = " with a different forward" if kind(model) in known else ""
    raise UserError(f"the network is a {kind(model)}{changed}; expected one of: {', '.join(known)}")

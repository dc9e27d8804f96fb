"""Channels of 0 and 1 that 1-bit layers read, such as one-hot categories: as sign(0) = sign(1), they would vanish.

Found on an example: where a float tensor that the network is given, or makes from integers, has channels of zeros and
ones, they are replaced by quarters and three quarters. The channels of a layer's input that are quarters and three
quarters now carry them unchanged. For such a channel the layer subtracts 1/2, so that 0 is read as -1 and 1 as +1.
"""

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from bipointnet.convert.decide import Decisions
from bipointnet.convert.generators import preserved_generators, seed_generators
from bipointnet.nn.fused_pool import in_full


def center_zero_one(model: nn.Module, inputs: tuple[Any, ...], decisions: Decisions) -> None:
    """Set the center of the new layers that read channels of 0 and 1, and say so in their rows."""
    seen = _marked_channels(copy.deepcopy(model), inputs, [*decisions.layers])
    for key, row in decisions.rows.items():
        channels = seen.get(row.name) if row.kind == "layer" else None
        if channels is not None and channels.any():
            layer = decisions.layers[row.name]
            layer.center = (channels / 2).to(layer.weight)
            note = f"{int(channels.sum())} channels of 0 and 1 are read as -1 and +1"
            decisions.rows[key] = replace(row, why=f"{row.why}; {note}" if row.why else note)


@torch.no_grad()
def _marked_channels(model: nn.Module, inputs: tuple[Any, ...], names: list[str]) -> dict[str, Tensor]:
    """Which input channels of each layer are marked in all of its calls: bool, by name."""
    found: dict[str, Tensor] = {}

    def hook(name: str, places: int) -> Any:
        def see(module: nn.Module, given: tuple[Tensor, ...]) -> None:
            x = given[0].movedim(-1 - places, -1).flatten(0, -2)  # (rows, K)
            marked = ((x == 0.25) | (x == 0.75)).all(dim=0)
            found[name] = found[name] & marked if name in found else marked

        return see

    for name in names:
        layer = model.get_submodule(name)
        places = layer.weight.dim() - 2  # pyright: ignore
        layer.register_forward_pre_hook(hook(name, places))
    given = tree_map(lambda leaf: _marked(leaf) if isinstance(leaf, Tensor) else leaf, inputs)
    with preserved_generators(), in_full(model), _Marking():
        seed_generators()
        try:
            model(*given)
        except Exception:  # it refuses these values; a dead input is found by convert/check.py
            return {}
    return found


def _marked(x: Tensor) -> Tensor:
    """Quarters and three quarters in place of the zeros and ones of channels that have nothing else, on any axis."""
    if not x.is_floating_point() or x.dim() == 0:
        return x
    ones = x == 1
    both = ones | (x == 0)
    marked = torch.zeros_like(ones)
    for axis in range(x.dim()):
        others = [dim for dim in range(x.dim()) if dim != axis] or [0]
        marked |= both.all(others, keepdim=True) & ones.any(others, keepdim=True) & ~ones.all(others, keepdim=True)
    return torch.where(marked, x / 2 + 0.25, x)


class _Marking(TorchFunctionMode):
    """Marks the zeros and ones that are made from integers and truth values, such as F.one_hot(labels).float()."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return output
        tensors = [leaf for leaf in tree_leaves((args, kwargs or {})) if isinstance(leaf, Tensor)]
        if all(tensor.is_floating_point() for tensor in tensors):
            return output
        in_place = getattr(func, "__name__", "").endswith("_")
        return output.copy_(_marked(output)) if in_place else _marked(output)

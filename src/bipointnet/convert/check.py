"""Checks of a converted network on an example: no dead input, no constant bits, no parameter without gradient.

Copies of both networks run in train mode without dropout, the new one after `calibrate`. What the batch proves is an
error:

- an input moves the output of the float network, but nothing that replaces it moves the output of the new one;
- all input bits of a 1-bit layer are equal, although its inputs are not, or those of the float layer are not;
- a parameter that has a gradient in the float network is not connected to the output of the new one.

What another batch might refute is a warning: rows of bits that are all equal, a gradient of exactly zero.
"""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from bipointnet.convert.generators import preserved_generators, seed_generators
from bipointnet.convert.record import tensors_in
from bipointnet.errors import UserError
from bipointnet.nn.calibrate import calibrate
from bipointnet.nn.fused_pool import fused_layers
from bipointnet.nn.hooks import hooked
from bipointnet.nn.linear import BinaryLinear

FEW_BITS = 64  # fewer may be equal by chance
MOVED, NO_GRADIENT = 1e-4, 1e-5  # relative to the largest output and the largest gradient: less may be rounding


def check(model: nn.Module, network: nn.Module, inputs: tuple[Any, ...], plain_max: bool) -> tuple[str, ...]:
    """Raise UserError if `network` is dead where `model` is not; return warnings.

    plain_max: whether the user accepted maxima in front of 1-bit layers, whose bits are equal: then such bits, and an
    input that is lost in them, are a warning.
    """
    with preserved_generators():
        try:
            after = _Run(network, inputs, [n for n, m in network.named_modules() if isinstance(m, BinaryLinear)])
            before = _Run(model, inputs, [*after.layers])
        except UserError:  # of the network that binarize made, which would not train
            raise
        except Exception as error:  # such as BatchNorm on a single cloud
            return (
                f"not checked: {type(error).__name__} in train mode ({_first_line(error)}); give at least two clouds",
            )
        if not before.outputs or not all(output.isfinite().all() for output in (*before.outputs, *after.outputs)):
            return ("not checked: no finite floats in the output",)
        return (
            *_check_bits(before, after, plain_max),
            *_check_gradients(before, after),
            *_check_inputs(before, after, plain_max),
        )


class _Run:
    """Runs of a copy of one network, and what the layers of these names read in the first."""

    def __init__(self, network: nn.Module, inputs: tuple[Any, ...], layers: list[str]) -> None:
        self.name, self.network, self.inputs = type(network).__name__, copy.deepcopy(network), inputs
        for layer in fused_layers(self.network):
            layer.fused = False
        for module in self.network.modules():
            if isinstance(module, nn.modules.dropout._DropoutNd):
                module.p = 0.0
        if not self.network.training:
            self.network.train()
        self.layers: dict[str, Any] = {name: self.network.get_submodule(name) for name in layers}
        if any(isinstance(layer, BinaryLinear) for layer in self.layers.values()):
            seed_generators()
            calibrate(self.network, inputs)
        self.read: dict[str, Tensor] = {}  # the inputs of the layers in the latest run, (rows, K)
        with torch.enable_grad():
            self.outputs = self.run(inputs)
            self.gradients = self._gradients()
        self.outputs = [output.detach() for output in self.outputs]
        self.first_read = dict(self.read)

    def run(self, inputs: tuple[Any, ...]) -> list[Tensor]:
        """The float tensors of the output; the same random numbers are drawn in every run."""
        self.read = {}

        def see(name: str, module: nn.Module, x: Tensor, output: Tensor) -> None:
            rows = x.detach().movedim(-1 - getattr(module, "places", 0), -1).flatten(0, -2)
            self.read[name] = torch.cat([self.read[name], rows]) if name in self.read else rows

        seed_generators()
        with hooked(self.layers, see):
            return [tensor for tensor in tensors_in(self.network(*inputs)) if tensor.is_floating_point()]

    def _gradients(self) -> dict[str, Tensor | None]:
        generator = torch.Generator().manual_seed(0)
        terms = []
        for output in self.outputs:
            weights = torch.rand(output.shape, generator=generator).to(
                output
            )  # softmax sums are constant, these are not
            terms.append((output * weights).sum())
        loss = sum(term for term in terms if term.requires_grad)
        wanted = {name: p for name, p in self.network.named_parameters() if p.requires_grad}
        if not isinstance(loss, Tensor):
            return {}
        return dict(zip(wanted, torch.autograd.grad(loss, [*wanted.values()], allow_unused=True), strict=True))

    def signs(self, name: str, rows: Tensor) -> Tensor:
        """The bits that a layer reads of these rows."""
        return self.layers[name].factors(rows)[0] > 0


@torch.no_grad()
def _check_bits(before: _Run, after: _Run, plain_max: bool) -> Iterator[str]:
    for name, rows in after.first_read.items():
        signs = after.signs(name, rows)
        # Zeros prove nothing: BatchNorm of equal values is 0 in 1 bit, and what rounding left of them in floats.
        same = _all_equal(rows) and (not bool(rows.any()) or _all_equal(before.first_read.get(name, rows)))
        if same or signs.numel() < FEW_BITS:
            continue
        if bool(signs.all()) or not bool(signs.any()):
            found = f"all input bits of the 1-bit layer {name} are {'+1' if signs.all() else '-1'} on the example"
            if not plain_max:
                raise UserError(
                    f"binarize: {found}, so they carry no information, expected both signs; the layer reads values of "
                    f'one sign, such as distances or maxima; use exclude="{name}"'
                )
            yield found
        elif bool((signs == signs[0]).all()) and not bool((rows == rows[0]).all()):
            yield f"the 1-bit layer {name} reads the same bits in all {len(rows)} rows of the example"


def _all_equal(x: Tensor) -> bool:
    return bool((x == x.flatten()[0]).all())


def _check_gradients(before: _Run, after: _Run) -> Iterator[str]:
    floats = {name: g.abs().max() for name, g in before.gradients.items() if g is not None and g.numel()}
    largest = max(floats.values(), default=torch.zeros(()))
    for name, size in floats.items():
        if name not in after.gradients or size <= NO_GRADIENT * largest:
            continue
        gradient = after.gradients[name]
        if gradient is None:
            raise UserError(
                f"binarize: {name} has a gradient in {before.name} but not in the 1-bit network, expected one; its "
                f'output is lost behind a 1-bit layer; use exclude="{name.rpartition(".")[0]}", and please report this'
            )
        if not bool(gradient.any()):
            yield f"{name} has a gradient of 0 on the example"


@torch.no_grad()
def _check_inputs(before: _Run, after: _Run, plain_max: bool) -> Iterator[str]:
    leaves, structure = tree_flatten(before.inputs)
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor) or not leaf.is_floating_point() or leaf.numel() < 2:
            continue
        tried = [
            tree_unflatten([*leaves[:i], other, *leaves[i + 1 :]], structure) for other in _replacements(leaf.detach())
        ]
        moving = [other for other in tried if _moves(before, other, MOVED)]
        if moving and not any(_moves(after, other, 0.0) for other in moving):
            found = f"input {i} affects the output of {before.name} but not that of the 1-bit network"
            lost = _where_lost(after, moving)
            if lost is None and plain_max:
                yield found
                continue
            where = "where all values are equal, as in a maximum of Hardtanh; use exclude= for the layers around it"
            where = where if lost is None else f'in the signs that the layer {lost} reads; use exclude="{lost}"'
            raise UserError(f"binarize: {found}, expected both; it is lost {where}")


def _replacements(x: Tensor) -> list[Tensor]:
    """Other values in place of an input: of another cloud, mirrored, and random ones of the same mean and deviation."""
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).to(x)
    return [x.roll(1, 0), -x, x.mean() + x.std() * noise]


def _moves(run: _Run, inputs: Any, least: float) -> bool:
    try:
        outputs = run.run(inputs)
    except Exception:  # the network refuses these values
        return False
    pairs = [*zip(outputs, run.outputs, strict=False)]
    if len(outputs) != len(run.outputs) or any(a.shape != b.shape for a, b in pairs):
        return True
    return any(bool((a - b).abs().max() > least * b.abs().max()) for a, b in pairs if a.numel())


def _where_lost(after: _Run, replaced: list[Any]) -> str | None:
    """The first 1-bit layer that reads other values but the same bits whatever replaces an input; None without one."""
    lost = [name for name, rows in after.first_read.items() if rows.numel() >= FEW_BITS]
    for inputs in replaced:
        after.run(inputs)
        pairs = {name: (after.first_read[name], after.read[name]) for name in lost if name in after.read}
        lost = [
            name
            for name, (first, rows) in pairs.items()
            if first.shape == rows.shape
            and not torch.equal(first, rows)
            and torch.equal(after.signs(name, first), after.signs(name, rows))
        ]
    return lost[0] if lost else None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0]

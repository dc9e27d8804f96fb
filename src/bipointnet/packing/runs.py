"""Runs of a network on clouds of several sizes, and which calls of one run correspond to which of another.

One run shows what a network computes; several show which sizes depend on the number of points. The first runs keep all
tensors, because neighbor searches are recognized by their values; the others keep shapes only. Clouds that are smaller
than the first may be too small for the network, or may take another branch; such runs are left out.
"""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bipointnet.errors import UserError
from bipointnet.nn import BinaryLinear, fused_layers
from bipointnet.packing.float64 import in_float64
from bipointnet.packing.record import Call, Run, Value, record

FIRST = 131  # points of the first cloud, without an example
KEPT = (204, 89)  # sizes of further runs that keep their tensors; of the three, two differ modulo 2, 3, 4, 5 and 64
SHAPES = (523, 2503, 5, 19, 47, 157, 389, 709, 967)  # sizes of runs that keep shapes
CHECKED = 1200  # a size that no rule was fitted to
MOST_TRIED = 64  # channels that are tried without an example


class DifferentBranch(Exception):
    """The call has no counterpart in the run with this number."""

    def __init__(self, run: int, call: Call) -> None:
        super().__init__(run, call)
        self.run, self.call = run, call


def prepared(network: nn.Module) -> nn.Module:
    """A copy in float64 on the CPU, in eval mode, without fused layers and with fixed 1-bit weights."""
    try:
        root = copy.deepcopy(network)
    except Exception as error:
        raise UserError(
            f"export: {type(network).__name__} cannot be copied ({error}); expected a network that copy.deepcopy "
            "accepts; delete tensors that a forward has stored on its modules"
        ) from error
    root = root.cpu().double().eval()
    for layer in fused_layers(root):
        layer.fused = False
    for layer in root.modules():
        if isinstance(layer, BinaryLinear):
            _fix_weight(layer)
    return root


def _fix_weight(layer: BinaryLinear) -> None:
    """Binarize the weight once, not in every run."""
    weight, scale = layer.method.binarize_weight(layer), layer.method.scale(layer)

    def factors(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return layer.method.binarize_input(layer.centered(x), layer), weight, scale

    layer.factors = factors


class Inputs:
    """How a cloud becomes the inputs of a network.

    layout: "points" for (1, N, C), "channels" for (1, C, N), "rows" for (N, C). others: what follows the cloud: "batch"
    for zeros (N,), "category" for a number (1,), or the shape of a one-hot category.
    """

    def __init__(self, layout: str, channels: int, others: Sequence[Any] = (), cloud: np.ndarray | None = None) -> None:
        self.layout, self.channels, self.others, self.cloud = layout, channels, tuple(others), cloud

    @property
    def category_input(self) -> int | None:
        """The number of the input that is the category."""
        return next((i for i, other in enumerate(self.others, 1) if other != "batch"), None)

    def make(self, cloud: np.ndarray, category: int = 0) -> list[Tensor]:
        """The inputs for a cloud (N, C)."""
        x = torch.from_numpy(np.ascontiguousarray(cloud, np.float64)).clone()
        made = [{"points": x[None], "channels": x.T.contiguous()[None], "rows": x}[self.layout]]
        for other in self.others:
            if other == "batch":
                made.append(torch.zeros(len(cloud), dtype=torch.int64))
            elif other == "category":
                made.append(torch.tensor([category]))
            else:
                one_hot = torch.zeros(other, dtype=torch.float64)
                one_hot.view(-1)[category] = 1
                made.append(one_hot)
        return made

    def random_cloud(self, points: int) -> np.ndarray:
        """A cloud like the example; without one, a random cloud in the unit sphere."""
        random = np.random.default_rng(points)
        if self.cloud is not None:
            chosen = self.cloud[random.integers(len(self.cloud), size=points)]
            return chosen + 0.1 * self.cloud.std(axis=0) * random.normal(size=chosen.shape)
        cloud = random.normal(size=(points, self.channels))
        cloud[:, :3] -= cloud[:, :3].mean(axis=0)
        cloud[:, :3] /= max(np.sqrt((cloud[:, :3] ** 2).sum(axis=1).max()), 1e-9)
        return cloud


def _runs(root: nn.Module, inputs: list[Tensor]) -> Exception | None:
    try:
        with torch.no_grad(), in_float64(), torch.random.fork_rng(devices=[]):
            root(*inputs)
    except Exception as error:
        return error
    return None


def understand_inputs(root: nn.Module, example: Any, categories: int) -> Inputs:
    """How the inputs of a network are made, from an example or by trying."""
    if example is None:
        others = ["category"] if categories else []
        needed = [p for p in inspect.signature(root.forward).parameters.values() if p.default is p.empty]
        for channels in range(3, MOST_TRIED + 1) if len(needed) == 1 else ():
            inputs = Inputs("points", channels, others)
            if _runs(root, inputs.make(inputs.random_cloud(FIRST))) is None:
                return inputs
        raise UserError(
            f"export: {type(root).__name__} does not run on clouds (1, N, C); expected a network on such clouds, or an "
            "example; give its inputs for one cloud as example="
        )
    given = list(example) if isinstance(example, (tuple, list)) else [example]
    if not given or not all(isinstance(x, Tensor) for x in given):
        raise UserError("export: example is not a tensor or a tuple of tensors; expected the inputs of the network")
    first = given[0].detach().cpu().double()
    if first.dim() not in (2, 3):
        raise UserError(
            f"export: the first input of the example has shape {tuple(first.shape)}; expected clouds (B, N, C), (B, C, "
            "N) or (N, C)"
        )
    others = [_other(i, x, given[0], categories) for i, x in enumerate(given) if i]
    if first.dim() == 2:
        return Inputs("rows", first.shape[1], others, _part_of_batch(first, given).numpy())
    ways = [("channels", first.shape[1]), ("points", first.shape[2])]
    errors = []
    for layout, channels in sorted(ways, key=lambda way: way[1]):
        cloud = first[0].T if layout == "channels" else first[0]
        inputs = Inputs(layout, channels, others, cloud.numpy())
        errors.append(_runs(root, inputs.make(inputs.random_cloud(len(cloud) + 37))))
        if errors[-1] is None:
            return inputs
    raise UserError(
        f"export: {type(root).__name__} runs on no cloud of another size than the example's ({errors[0]}); expected a "
        "network for any number of points; do not build layers for a fixed number of points"
    )


def _part_of_batch(first: Tensor, given: list[Tensor]) -> Tensor:
    """The rows of the first cloud, by a batch vector if there is one."""
    batches = [x for x in given[1:] if not x.dtype.is_floating_point and x.shape == first.shape[:1]]
    return first[batches[0].cpu() == batches[0].min().cpu()] if batches else first


def _other(number: int, x: Tensor, first: Tensor, categories: int) -> Any:
    if not x.dtype.is_floating_point and x.dim() == 1:
        if first.dim() == 2 and x.shape[0] == first.shape[0]:
            return "batch"
        if categories:
            return "category"
    if categories and x.shape[-1] == categories and x.numel() == x.shape[0] * categories:
        return (1, *x.shape[1:])
    raise UserError(
        f"export: input {number} of the example, {tuple(x.shape)} of {x.dtype}, is neither a category nor a batch "
        "vector; expected the cloud and at most a category; compute everything else in the forward"
    )


class Recording:
    """Runs of one network; `across` finds a value of the first run in all others."""

    def __init__(
        self, root: nn.Module, inputs: Inputs, replace: Mapping[Callable[..., Any], str], categories: int = 0
    ) -> None:
        self.root, self.inputs, self.replace, self.categories = root, inputs, replace, categories
        self._categories: list[Run] = []
        cloud = inputs.random_cloud(FIRST) if inputs.cloud is None else inputs.cloud[:1024]
        self.runs = [self.run_on(cloud)]
        self.kept = 1
        for points in KEPT:
            run = self._smaller_or_larger(points, keep=True)
            self.runs += [run] if run else []
            self.kept += run is not None
        for points in (*SHAPES, CHECKED):
            run = self._smaller_or_larger(points, keep=False)
            self.runs += [run] if run else []
        self._index()

    def run_on(self, cloud: np.ndarray, category: int = 0, keep: bool = True) -> Run:
        with torch.random.fork_rng(devices=[]):
            return record(self.root, self.inputs.make(cloud, category), len(cloud), keep, self.replace)

    def _smaller_or_larger(self, points: int, keep: bool) -> Run | None:
        try:
            return self.run_on(self.inputs.random_cloud(points), keep=keep)
        except Exception as error:
            if points < self.runs[0].points:
                return None
            raise UserError(
                f"export: {type(self.root).__name__} runs on {self.runs[0].points} points but not on {points} "
                f"({error}); expected a network for any number of points"
            ) from error

    def _index(self) -> None:
        self._calls = [run.by_key() for run in self.runs]
        self._places = {call: i for calls in self._calls[0].values() for i, call in enumerate(calls)}
        self._matched: dict[Call, list[Call]] = {}
        self._across: dict[Value, list[Value]] = {}
        for values in zip(*(run.inputs for run in self.runs), strict=True):
            self._across[values[0]] = list(values)

    def without(self, run: int) -> None:
        """Leave out a run that takes another branch."""
        del self.runs[run]
        self.kept -= run < self.kept
        self._index()

    def match(self, call: Call) -> list[Call]:
        """The same call in every run."""
        if call not in self._matched:
            expected = len(self._calls[0][call.key])
            found = []
            for number, calls in enumerate(self._calls):
                same = calls.get(call.key, [])
                if len(same) != expected:
                    raise DifferentBranch(number, call)
                found.append(same[self._places[call]])
            # What was written into a memory may differ in number, as in a loop over the points.
            self._pair(call, [[*([] if one.name == "aliased" else one.inputs), *one.outputs] for one in found])
            self._matched[call] = found
        return self._matched[call]

    def _pair(self, call: Call, lists: list[list[Value]]) -> None:
        """Remember that these values correspond, if all of them do: a failed match leaves nothing behind."""
        for number, values in enumerate(lists):
            if len(values) != len(lists[0]):
                raise DifferentBranch(number, call)
        pairs = [(values[0], list(values)) for values in zip(*lists, strict=True)]
        for first, values in pairs:
            known = self._across.get(first, values)
            for number, (one, other) in enumerate(zip(known, values, strict=True)):
                if one is not other or len(one.shape) != len(first.shape):
                    raise DifferentBranch(number, call)
        self._across.update(pairs)

    def across(self, value: Value) -> list[Value]:
        """The same value in every run."""
        if value not in self._across and value.call is not None:
            self.match(value.call)
        return self._across.get(value, [value] * len(self.runs))

    def release(self) -> None:
        """Drop all tensors."""
        for run in (*self.runs, *self._categories):
            run.release()

    def place(self, call: Call) -> tuple[int, int]:
        """The number of a call among those with its key in the first run, and how many there are."""
        return self._places[call], len(self._calls[0][call.key])

    def for_categories(self, value: Value) -> list[Tensor]:
        """A value of the first run, for every category."""
        if not self._categories:
            cloud = self.inputs.random_cloud(self.runs[0].points)
            self._categories = [self.run_on(cloud, category) for category in range(self.categories)]
        if value.call is None:
            place = self.runs[0].inputs.index(value)
            found = [run.inputs[place] for run in self._categories]
        else:
            key, place = value.call.key, self._places[value.call]
            found = [run.by_key()[key][place].outputs[value.output] for run in self._categories]
        return [one.data for one in found if one.data is not None]

    def outputs(self) -> dict[str, Value]:
        """The tensors that the network returns, in the first run, by name where they have one."""
        output = self.runs[0].output
        if isinstance(output, Value):
            return {"output": output}
        if isinstance(output, dict):
            named = output
        elif hasattr(output, "_asdict"):
            named = output._asdict()
        elif isinstance(output, (tuple, list)):
            named = {f"output {i}": one for i, one in enumerate(output)}
        else:
            named = vars(output) if hasattr(output, "__dict__") else {}
        return {str(name): one for name, one in named.items() if isinstance(one, Value)}

"""Any PyTorch network of linear layers and 1x1 convolutions, turned into its 1-bit version.

What changes follows from who reads whose result, which nn/trace.py and nn/calls.py find out:

- A layer becomes 1-bit unless it is *first* or *last*, kept by name, or cannot be. First is every layer that reads
  coordinates: the network's input, or what is computed from it without a layer, as x @ T is, and a concatenation
  with features is not. Last is every layer whose result no other layer reads.
- sign(ReLU(x)) is +1 always, so a rectifier that a 1-bit layer writes to or reads from becomes Hardtanh. Rectifiers
  are ReLU and its relatives (LeakyReLU, PReLU, ELU, GELU, SiLU and so on); Tanh and Hardtanh stay. What stands
  between float layers is left alone.
- A max over points becomes max - delta(n), a mean stays a mean; both then read BatchNorm's output, without the
  activation between. Where no BatchNorm is in front, `calibrate` measures the shift (MeasuredMax).
- Dropout that a 1-bit layer would read goes: sign turns a dropped 0 into +1.
"""

import copy
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils.parametrize import is_parametrized

from bipointnet.convert.graph import ACTIVATIONS, PASSED, Calls, Pool, has_matrix
from bipointnet.convert.record import follow
from bipointnet.convert.report import Report, Row, bits
from bipointnet.convert.trace import call_name, is_linear, scope
from bipointnet.errors import UserError
from bipointnet.nn.conv import BinaryConv, PointPool
from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.methods import LSR, Method
from bipointnet.nn.pools import EntropyMax, EntropyMean, MaxPool, MeanPool, MeasuredMax


def binarize(
    model: nn.Module,
    method: Method = LSR(),
    pool: nn.Module = EntropyMax(),
    exclude: str | Sequence[str] = (),
    example: Any = None,
) -> tuple[nn.Module, Report]:
    """The 1-bit version of `model`, and a report of what was changed, what was not, and why.

    The new layers start from the old weights; the rest of the network is as it was. It has to be trained. Before that,
    `bipointnet.calibrate(network, batch)` sets LSR's scales and the measured shifts from the first real batch.

    The network is the old one with modules exchanged, wherever that will do. Where functions that a forward calls have
    to change (F.relu, torch.max), it is a torch.fx.GraphModule with the same names of layers.

    Args:
        model: any network; it is left untouched.
        method: how layers are binarized. A method without bias, such as LSR, drops the biases of its layers.
        pool: what a max over points becomes; MaxPool() keeps it a plain max. A mean becomes EntropyMean.
        exclude: names of more layers that stay float, or patterns such as "encoder.*".
        example: an input, or a tuple of several; needed where a forward looks at the shape or the values of its input.
            It is run through copies of the network, also to check that what was traced computes the same.
    """
    if not isinstance(model, nn.Module):
        raise UserError(f"binarize: model is {model!r}, expected a torch.nn.Module; give the network itself")
    wrappers = (torch.jit.ScriptModule, nn.DataParallel, nn.parallel.DistributedDataParallel)
    if isinstance(model, wrappers) or hasattr(model, "_orig_mod"):  # the latter is torch.compile's
        raise UserError(
            f"binarize: model is a {type(model).__name__}, expected a network that is not compiled or wrapped; "
            "give the one inside, and wrap the result"
        )
    if not isinstance(method, Method):
        raise UserError(f"binarize: method is {method!r}, expected a Method; give an object such as LSR()")
    if not isinstance(pool, (MaxPool, MeanPool, MeasuredMax)):
        raise UserError(f"binarize: pool is {pool!r}, expected a pool of bipointnet.nn; give one such as EntropyMax()")
    lazy = [name for name, p in model.named_parameters() if isinstance(p, nn.parameter.UninitializedParameter)]
    if lazy:
        raise UserError(f"binarize: {lazy[0]} has no shape yet, expected a built network; run a batch through it first")
    inputs = example if example is None or isinstance(example, tuple) else (example,)
    return _Conversion(model, method, pool, (exclude,) if isinstance(exclude, str) else tuple(exclude), inputs).run()


class _Conversion:
    """One network on its way: what its modules are exchanged for, and the rows of its report."""

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        pool: nn.Module,
        exclude: tuple[str, ...],
        example: tuple[Any, ...] | None,
    ) -> None:
        self.model, self.method, self.pool, self.exclude = model, method, pool, exclude
        followed = follow(model, example)
        self.obstacle, self.unseen = followed.obstacle, followed.unseen
        self.calls = Calls(followed)
        self.exchange: defaultdict[str, dict[fx.Node, nn.Module]] = defaultdict(dict)  # by module and call
        self.beyond: list[str] = []  # why exchanging modules will not do
        self.rows: dict[fx.Node | str, Row] = {}

    def run(self) -> tuple[nn.Module, Report]:
        self._layers()
        passed = self._pools() | self._dropouts()
        for node in reversed(self.calls.nodes):
            if node in passed and not node.users:
                self.calls.graph.erase_node(node)
        self._activations(passed)
        for name, by_call in self.exchange.items():
            if len(by_call) < len(self.calls.of[name]) or len({_identity(m) for m in by_call.values()}) > 1:
                self.beyond.append(f"{name} has to become different things at its calls")
        if not self.beyond:
            network = self._with_modules_exchanged()
        elif self.obstacle is None:
            network = self._rewritten()
        else:
            raise UserError(
                f"binarize: the forward of {type(self.model).__name__} has to change, as {self.beyond[0]}, and cannot "
                f"be rewritten, as {self.obstacle}; expected a module for every activation; use nn.ReLU() and the like"
            )
        return network, self._report(network)

    def _all_float_around(self, node: fx.Node) -> bool:
        writers, readers = self.calls.around(node)
        return not any(str(layer.target) in self.exchange for layer in writers | readers)

    def _layers(self) -> None:
        calls = self.calls
        layers = {
            name: module
            for name, module in calls.modules.items()
            if has_matrix(module, recurse=is_parametrized(module)) and ".parametrizations." not in f".{name}."
        }
        for pattern in self.exclude:
            if not any(fnmatchcase(name, pattern) for name in layers):
                raise UserError(
                    f"binarize: exclude={pattern!r} names no layer, expected one of {', '.join(layers) or 'none'}; "
                    'give a name or a pattern such as "encoder.*"'
                )
        coordinates, shared = calls.coordinates(), calls.shared_parameters()
        counted: set[Tensor] = set()
        for name, module in layers.items():
            uses, size = calls.of[name], bits(module, counted)
            now, why, size_after = "float", self._why_float(name, module, coordinates, shared), size
            if why is None:
                new = _binary(module, self.method)
                self.exchange[name] = dict.fromkeys(uses, new)
                dropped = getattr(module, "bias", None) is not None and new.bias is None
                notes = [f"called {len(uses)} times"] * (len(uses) > 1) + ["its bias is dropped"] * dropped
                now, why, size_after = type(new).__name__, "; ".join(notes), bits(new, set())
            self.rows[uses[0] if uses else name] = Row(name, "layer", _shape(module), now, why, size, size_after)
        for node in calls.nodes:
            if calls.kinds[node] == "layer" and node.op != "call_module":
                why = "called as a function; only modules become 1-bit"
                self.rows[node] = Row(calls.name(node), "layer", call_name(node), "float", why)
        if not self.exchange:
            found = "; ".join(f"{row.name or row.was}: {row.why}" for row in self.rows.values())
            raise UserError(
                f"binarize: no layer of {type(self.model).__name__} can become 1-bit ({found or 'it has none'}); "
                "expected a linear or 1x1 convolution layer between the first and the last; give such a network"
            )

    def _why_float(
        self, name: str, module: nn.Module, coordinates: dict[fx.Node, bool | None], shared: set[Tensor]
    ) -> str | None:
        uses = self.calls.of[name]
        if not uses:
            return "never called as a layer"
        if any(fnmatchcase(name, pattern) for pattern in self.exclude):
            return "kept by name"
        if any(coordinates[call] is not False for call in uses):
            return "first: reads the network's input"
        if any(not self.calls.around(call)[1] for call in uses):
            return "last: no other layer reads it"
        if shared & {*module.parameters()}:
            return "shares its weights with another layer, or a forward reads them by itself"
        if any(self.calls.kinds[self.calls.back(call, ("view", "dropout"))[1]] == "one sign" for call in uses):
            return "reads numbers of one sign: all its bits would be equal"
        return _unfit(module)

    def _pools(self) -> set[fx.Node]:
        """Exchange the pools over points; return the calls that they now read past."""
        calls, passed = self.calls, set()
        for node in calls.nodes:
            pool = calls.pool(node)
            if pool is None or not all(calls.around(node)) or self._all_float_around(node):
                continue
            if isinstance(pool, Pool) and self.obstacle is not None and node.op != "call_module":
                pool = "a function, in a forward that cannot be rewritten"
            if isinstance(pool, str):
                self.rows[node] = Row(calls.name(node), "pool", calls.label(node), "kept", pool)
                continue
            normed = calls.kinds[calls.back(node, PASSED)[1]] == "norm"
            new = copy.deepcopy(self.pool) if pool.kind == "max" else EntropyMean()
            why = "behind BatchNorm" if normed else "no BatchNorm in front"
            if isinstance(new, EntropyMax) and not normed:
                new, why = MeasuredMax(), f"{why}: calibrate measures its shift"
            self.rows[node] = Row(calls.name(node), "pool", str(pool), type(new).__name__, why)
            passed |= calls.read_past(node, PASSED, ACTIVATIONS)
            self._put(new, pool)
        return passed

    def _put(self, new: nn.Module, pool: Pool) -> None:
        node, graph = pool.call, self.calls.graph
        dynamic = any(isinstance(size, fx.Node) for size in pool.window)
        if pool.dims != (-2,) or pool.keepdim:
            new = PointPool(new, pool.dims, pool.keepdim, () if dynamic else pool.window, pool.stride)
        new.to(next(self.model.parameters()))  # its device and dtype
        if node.op == "call_module":
            self.exchange[str(node.target)][node] = new
            return
        self.beyond.append(f"{self.calls.name(node)} is a function")
        name = self._add(f"{scope(node)}.pool".lstrip("."), new)
        with graph.inserting_before(node):
            sizes = [list(pool.window)] if dynamic else []
            put = graph.create_node("call_module", name, (node.all_input_nodes[0], *sizes))
        self.calls.kinds[put] = "other"
        pool.result.replace_all_uses_with(put)
        for gone in dict.fromkeys([*node.users, node]):
            graph.erase_node(gone)

    def _add(self, name: str, module: nn.Module) -> str:
        """Add a module to the traced network under this name, or this name and a number."""
        place, _, attribute = name.rpartition(".")
        parent, free, number = self.calls.root.get_submodule(place), attribute, 0
        while hasattr(parent, free):
            number += 1
            free = f"{attribute}_{number}"
        setattr(parent, free, module)
        full = f"{place}.{free}".lstrip(".")
        self.calls.modules[full] = module
        return full

    def _dropouts(self) -> set[fx.Node]:
        """Let no 1-bit layer read dropout; return the calls that are now read past."""
        calls, passed = self.calls, set()
        for node in [n for n in calls.nodes if calls.kinds[n] == "layer" and str(n.target) in self.exchange]:
            drops = [p for p in calls.back(node, ("view", "dropout"))[0] if calls.kinds[p] == "dropout"]
            stuck = self.obstacle is not None and any(p.op != "call_module" for p in drops)
            why = "a 1-bit layer reads it, and sign turns a dropped 0 into +1"
            for drop in drops:
                now = "kept" if stuck else "removed"
                reason = f"{why}, but the forward cannot be rewritten" if stuck else why
                self.rows[drop] = Row(calls.name(drop), "dropout", calls.label(drop), now, reason)
            if drops and not stuck:
                passed |= calls.read_past(node, ("view", "dropout"), ("dropout",))
        return passed

    def _activations(self, passed: set[fx.Node]) -> None:
        """Exchange what is still read for Hardtanh, and what was read past, and is read no more, for nothing."""
        calls, alive = self.calls, {*self.calls.graph.nodes}
        for node in calls.nodes:
            kind = calls.kinds[node]
            if kind not in (*ACTIVATIONS, "dropout"):
                continue
            row = Row(calls.name(node), "activation", calls.label(node), "removed", "in front of a pool")
            if node not in alive:
                self.rows.setdefault(node, row)
                self._exchange_call(node, nn.Identity())
                continue
            if node in passed:
                self.beyond.append(f"{calls.name(node)} goes on some ways and stays on others")
            if kind == "rectifier" and not self._all_float_around(node):
                self.rows[node] = replace(row, now="Hardtanh", why="")
                self._exchange_call(node, nn.Hardtanh())
            elif kind == "rectifier":
                self.rows[node] = replace(row, now="kept", why="between float layers")

    def _exchange_call(self, node: fx.Node, module: nn.Module) -> None:
        if node.op == "call_module":
            self.exchange[str(node.target)][node] = module
            return
        self.beyond.append(f"{self.calls.name(node)} is a function")
        if isinstance(module, nn.Hardtanh):
            node.op, node.target = "call_function", F.hardtanh
            node.args, node.kwargs = (node.all_input_nodes[0],), {}

    def _with_modules_exchanged(self) -> nn.Module:
        network = copy.deepcopy(self.model)
        news = {}
        for name, by_call in self.exchange.items():
            old, new = network.get_submodule(name), next(iter(by_call.values()))
            if isinstance(new, nn.Hardtanh):
                new.inplace = getattr(old, "inplace", False)
            news[old] = new.train(old.training)
        for parent in network.modules():
            for key, child in parent._modules.items():  # named_children() leaves out the second name of a module
                if child in news:
                    setattr(parent, key, news[child])
        return network

    def _rewritten(self) -> nn.Module:
        root, graph = self.calls.root, self.calls.graph
        modes = {name: module.training for name, module in self.model.named_modules()}
        alive = {*graph.nodes}
        for name, by_call in self.exchange.items():
            left = {node: new for node, new in by_call.items() if node in alive}
            everywhere = all(node in left for node in self.calls.of[name] if node in alive)
            if everywhere and len({_identity(new) for new in left.values()}) == 1:
                root.set_submodule(name, next(iter(left.values())))
            else:
                for node, new in left.items():
                    node.target = self._add(name, new)
        for node in reversed(graph.nodes):
            if not node.users and (node.op == "get_attr" or call_name(node) in ("getattr", "getitem", "size")):
                graph.erase_node(node)
        network = _Rewritten(root, graph, class_name=type(self.model).__name__)
        for name, module in network.named_modules():
            module.training = modes.get(name, self.model.training)
        return network

    def _report(self, network: nn.Module) -> Report:
        order = {node: i for i, node in enumerate(self.calls.nodes)}
        rows = [self.rows[key] for key in sorted(self.rows, key=lambda key: order.get(key, len(order)))]
        there = dict(network.named_modules())  # a rewritten network has only what it calls
        gone = {row: row.bits_before > 0 and row.name not in there for row in rows}
        rows = [replace(row, now="left out", bits_after=0) if gone[row] else row for row in rows]
        before, after = (
            sum(bits(module, counted) for module in model.modules())
            for model, counted in ((self.model, set()), (network, set()))
        )
        before -= sum(row.bits_before for row in rows)
        after -= sum(row.bits_after for row in rows)
        if before or after:
            rows.append(Row("(the rest)", "rest", "", "float", "such as BatchNorm", before, after))
        notes = [f"not looked into: {', '.join(self.unseen)}"] if self.unseen else []
        if self.obstacle is not None:
            notes.append(f"seen on the example only, as {self.obstacle}")
        return Report(tuple(rows), tuple(notes))


class _Rewritten(fx.GraphModule):
    """A network whose forward was rewritten."""

    def __reduce__(self) -> Any:
        # torch.fx would trace its code once more when it is loaded, and freeze `training` as it then is.
        raise UserError(
            f"{type(self).__name__} was rewritten by binarize and cannot be pickled, expected its state_dict(); "
            "save that, and load it into the network that binarize makes of the float network again"
        )


def _binary(module: nn.Module, method: Method) -> BinaryLinear:
    """A 1-bit layer with the weights of a float one."""
    weight: Tensor = module.weight  # pyright: ignore
    bias: Tensor | None = getattr(module, "bias", None)
    outputs, inputs, *places = weight.shape
    with torch.random.fork_rng(devices=[]):  # the weights it would draw are not used
        new = BinaryConv(inputs, outputs, method, len(places)) if places else BinaryLinear(inputs, outputs, method)
    new.to(weight).train(module.training)  # device and dtype
    with torch.no_grad():
        new.weight.copy_(weight.reshape(outputs, inputs))
        for name, scale in method.learned(new.weight).items():
            getattr(new, name).copy_(scale)
        if bias is None:
            new.bias = None
        elif new.bias is not None:
            new.bias.copy_(bias)
            new.bias.requires_grad_(bias.requires_grad)
    return new


def _unfit(module: nn.Module) -> str | None:
    """Why a layer cannot become 1-bit, or None."""
    if isinstance(module, BinaryLinear):
        return "1 bit already"
    if is_parametrized(module) or module._forward_pre_hooks or module._forward_hooks:
        return "a parametrization or hook is on it"
    if isinstance(module, (nn.Conv1d, nn.Conv2d)):
        plain = {"kernel_size": 1, "stride": 1, "padding": 0, "groups": 1}
        for option, value in plain.items():
            found = getattr(module, option)
            if found != value and found != (value,) * len(module.kernel_size):
                return f"{option} is {found}, expected {value}"
    if not is_linear(module):
        return f"{type(module).__name__} is not a linear layer or 1x1 convolution"
    return None if module.weight.requires_grad else "frozen: requires_grad is False"  # pyright: ignore


def _shape(module: nn.Module) -> str:
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() < 2:
        return type(module).__name__
    return f"{type(module).__name__} {weight.shape[1] * getattr(module, 'groups', 1)} -> {weight.shape[0]}"


def _identity(module: nn.Module) -> Any:
    """Equal for modules of which one may serve for both: those without a state that print the same."""
    return id(module) if [*module.parameters(), *module.buffers()] else repr(module)

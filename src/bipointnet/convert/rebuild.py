"""The converted network: a copy with new modules, and with substituted calls where new modules do not suffice."""

import copy
from collections import defaultdict

from torch import fx, nn

from bipointnet.convert.decide import Decisions, NewCall
from bipointnet.convert.graph import CallGraph
from bipointnet.convert.sites import Chain, site_of
from bipointnet.convert.substitute import CallTable, Change, PerCall, substitute
from bipointnet.nn.conv import PointPool
from bipointnet.nn.scatter import ScatterPool

KEEP = Change("keep")
STRENGTH = ("keep", "hardtanh", "identity", "pool")  # of two changes of one site, the later one counts


def rebuild(model: nn.Module, graph: CallGraph, decisions: Decisions) -> nn.Module:
    """A copy of `model` with everything that was decided."""
    return _Rebuilding(copy.deepcopy(model), graph, decisions).run()


class _Rebuilding:
    def __init__(self, network: nn.Module, graph: CallGraph, decisions: Decisions) -> None:
        self.network, self.graph, self.decisions = network, graph, decisions
        self.replaced: dict[nn.Module, nn.Module] = {}  # old modules of the copy, and their replacements
        self.changes: dict[fx.Node, Change] = {}

    def run(self) -> nn.Module:
        for name, layer in self.decisions.layers.items():
            self._replace(name, layer)
        self._replace_called_modules()
        self._add_function_changes()
        tables = self._tables()
        for owner, table in tables.items():
            module = self.network.get_submodule(owner)
            substitute(module, table)
        for parent in [*self.network.modules()]:
            for key, child in parent._modules.items():  # named_children() omits the second name of a module
                if child in self.replaced:
                    parent._modules[key] = self.replaced[child]
        return self.network

    def _replace(self, name: str, new: nn.Module) -> None:
        old = self.network.get_submodule(name)
        self.replaced[old] = new.train(old.training)

    def _replace_called_modules(self) -> None:
        by_module: defaultdict[str, dict[fx.Node, NewCall]] = defaultdict(dict)
        for node, new in self.decisions.calls.items():
            if node.op == "call_module":
                by_module[str(node.target)][node] = new
        for name, by_call in by_module.items():
            news = {_equivalence_key(new.module): new.module for new in by_call.values()}
            if len(news) == 1 and len(by_call) == len(self.graph.calls_of[name]):
                self._replace(name, next(iter(news.values())))
                continue
            alternatives = {key: f"alternative_{i}" for i, key in enumerate(news)}
            original = self.network.get_submodule(name)
            for module in news.values():
                module.train(original.training)
            modules = {alternatives[key]: module for key, module in news.items()}
            self._replace(name, PerCall(name, original, modules))
            for node in self.graph.calls_of[name]:
                new = by_call.get(node)
                named = new and alternatives[_equivalence_key(new.module)]
                self.changes[node] = KEEP if new is None else Change(new.kind, named or "")

    def _add_function_changes(self) -> None:
        pools: dict[
            tuple[str, str, Chain, str], str
        ] = {}  # a site has one pool, but one per step of a loop if it has state
        calls: defaultdict[tuple[int, str, Chain], int] = defaultdict(int)
        for node, new in self.decisions.calls.items():
            if node.op == "call_module":
                continue
            owner, run, called, chain = site_of(node)
            step, calls[run, called, chain] = calls[run, called, chain], calls[run, called, chain] + 1
            name = ""
            if new.kind == "pool":
                alike = _equivalence_key(new.module)
                key = owner, called, chain, str(step) if alike == str(id(new.module)) else alike
                pools[key] = name = pools.get(key) or self._add_module(owner, new.module)
            self.changes[node] = Change(new.kind, name, new.inplace, new.indices)

    def _add_module(self, owner: str, module: nn.Module) -> str:
        """Add a pool to the owner of a call; return its name there."""
        parent, name, number = self.network.get_submodule(owner), "pool", 0
        while hasattr(parent, name):
            number += 1
            name = f"pool_{number}"
        parent.add_module(name, module.train(parent.training))
        return name

    def _tables(self) -> dict[str, CallTable]:
        """The table of each module that makes calls that change; a site has the changes of all its calls, in order."""
        wanted = {self._key(node) for node in self.changes}
        runs: defaultdict[tuple[str, str, Chain], defaultdict[int, list[Change]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for node in self.graph.nodes:
            if "site" in node.meta and self._key(node) in wanted:
                runs[self._key(node)][site_of(node).run].append(self.changes.get(node, KEEP))
        tables: defaultdict[str, dict[tuple[str, Chain], tuple[Change, ...]]] = defaultdict(dict)
        for (owner, called, chain), by_run in runs.items():
            tables[owner][called, chain] = _strongest([*by_run.values()])
        return {owner: CallTable(changes) for owner, changes in tables.items()}

    def _key(self, node: fx.Node) -> tuple[str, str, Chain]:
        site = site_of(node)
        return site.owner, site.called, site.chain


def _strongest(runs: list[list[Change]]) -> tuple[Change, ...]:
    """One change per call for a forward that runs several times."""
    length = max(map(len, runs))
    padded = [run + [KEEP] * (length - len(run)) for run in runs]
    return tuple(max(at, key=lambda change: STRENGTH.index(change.kind)) for at in zip(*padded, strict=True))


def _equivalence_key(module: nn.Module) -> str:
    """Equal for modules that can replace each other: without state, with the same repr, after the same layer."""
    if [*module.parameters(), *module.buffers()]:
        return str(id(module))
    codes = module.codes.last_input if isinstance(module, (PointPool, ScatterPool)) else None
    return repr(module) if codes is None else f"{module!r} {id(codes)}"

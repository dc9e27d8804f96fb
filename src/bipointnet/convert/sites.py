"""Call sites: the places in a network's own code where it calls a function or a module.

A site is found while the network is traced or recorded, and recognized again whenever the converted network runs. It
is the chain of Python frames from the call up to the forward of the module that makes it, without the frames of
PyTorch and of this package. A frame is a function, a digest of its code, and the position of the instruction that it
executes. So a helper function that is called twice has two sites, and code that was edited since has none of the
recorded ones.
"""

import hashlib
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import NamedTuple

from torch import fx, nn


class Step(NamedTuple):
    """One frame of a chain."""

    function: str
    digest: str
    instruction: int


Chain = tuple[Step, ...]  # innermost first


class Site(NamedTuple):
    """A call. owner: the module whose forward makes it. run: which run of that forward, counted over the network."""

    owner: str
    run: int
    called: str
    chain: Chain


_digests: dict[int, tuple[CodeType, str]] = {}  # by id(code); holding the code keeps its id unique


def _digest(code: CodeType) -> str:
    if id(code) not in _digests:
        content = repr((code.co_qualname, code.co_names, code.co_varnames)).encode() + code.co_code
        _digests[id(code)] = code, hashlib.sha256(content).hexdigest()[:16]
    return _digests[id(code)][1]


def _hidden(frame: FrameType) -> bool:
    home = frame.f_globals.get("__name__", "")
    return home.split(".")[0] == "torch" or home.startswith("bipointnet.convert")


def chain_to(stop: Callable[[FrameType], bool]) -> Chain:
    """The visible frames between the caller and the first frame that `stop` accepts."""
    steps: list[Step] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not stop(frame):
        if not _hidden(frame):
            steps.append(Step(frame.f_code.co_qualname, _digest(frame.f_code), frame.f_lasti))
        frame = frame.f_back
    return tuple(steps)


def in_checkpoint(stop: Callable[[FrameType], bool]) -> bool:
    """Whether torch.utils.checkpoint runs the caller, below the first frame that `stop` accepts."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not stop(frame):
        if frame.f_globals.get("__name__") == "torch.utils.checkpoint":
            return True
        frame = frame.f_back
    return False


def runs_forward(module: nn.Module) -> Callable[[FrameType], bool]:
    """Whether a frame is PyTorch's call of this module, directly above its forward."""

    def stop(frame: FrameType) -> bool:
        called = frame.f_code.co_name in ("_call_impl", "_wrapped_call_impl")
        return called and frame.f_locals.get("self") is module

    return stop


def called_name(function: object) -> str:
    """The name of a function, "relu" for torch.relu, F.relu and x.relu_() alike."""
    return getattr(function, "__name__", "").strip("_")


def site_of(node: fx.Node) -> Site:
    return node.meta["site"]

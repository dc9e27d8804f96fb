"""A training step on a GPU, recorded once as a CUDA graph and replayed.

A step launches hundreds of short kernels; started one by one from Python they leave the GPU idle half of the time. A
graph starts them all at once. It repeats the same kernels on the same memory, so what changes between steps lies in
tensors that the graph reads: the indices of the clouds, the learning rate, and the states of the random generators,
which PyTorch updates before each replay. The numbers are those of the plain loop.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from bipointnet.errors import UserError
from bipointnet.training.random_state import RandomState

WARM_UP_STEPS = 3  # before recording: they allocate, compile, and choose algorithms

Step = Callable[[Tensor], tuple[Tensor, Tensor]]


class CapturedStep:
    """Calls of `step(rows)` by replaying a CUDA graph, which the first call records.

    A step changes `model` and `optimizer`, and draws from `generator` and from PyTorch's own generator. It must not
    read values of tensors on the CPU. Every call must pass the same function, and as many rows as the first one.

    Args:
        model, optimizer, generator: what recording must leave as it was.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, generator: Generator) -> None:
        self.model, self.optimizer, self.generator = model, optimizer, generator
        self.graph: torch.cuda.CUDAGraph | None = None
        self.rows = self.loss = self.correct = torch.empty(0)  # what the graph reads and writes

    def __call__(self, step: Step, rows: Tensor) -> tuple[Tensor, Tensor]:
        if self.graph is None:
            self.graph = self._record(step, rows)
        self.rows.copy_(rows)
        self.graph.replay()
        return self.loss.clone(), self.correct.clone()

    def _record(self, step: Step, rows: Tensor) -> torch.cuda.CUDAGraph:
        self.rows = rows.clone()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        with unchanged(self.model, self.optimizer, self.generator):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UP_STEPS):
                    step(self.rows)
            torch.cuda.current_stream().wait_stream(side)
            try:
                with torch.cuda.graph(graph):
                    self.loss, self.correct = step(self.rows)
            except RuntimeError as error:
                reason = str(error).splitlines()[0]
                raise UserError(
                    f"a training step cannot be recorded as a CUDA graph ({reason}); train with --no-capture"
                ) from error
        return graph


@contextmanager
def unchanged(model: nn.Module, optimizer: Optimizer, generator: Generator) -> Iterator[None]:
    """At the end, weights, buffers, the optimizer's state and the random generators have the values of the start.

    The tensors stay the same: a graph keeps their addresses. State that the optimizer creates inside starts as zeros.
    """

    def moments() -> dict[tuple[Tensor, str], Tensor]:
        return {(p, name): value for p, state in optimizer.state.items() for name, value in state.items()}

    weights = {name: value.clone() for name, value in model.state_dict().items()}
    before = {key: value.clone() for key, value in moments().items()}
    random = RandomState.of(generator)
    try:
        yield
    finally:
        model.load_state_dict(weights)
        for key, value in moments().items():
            value.copy_(before[key]) if key in before else value.zero_()
        random.restore(generator)

"""Benchmark a packed model with PyTorch among the peers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from bipointnet.runtime import bench as runtime_bench
from bipointnet.runtime.bench import Call
from bipointnet.runtime.float_twin import Step, Weights


def bench(path: str | Path, **options: Any) -> dict[str, Any]:
    """`runtime.bench.bench` with PyTorch as one more peer; takes the same options.

    Examples:
        >>> bench("chairs.bpn", rounds=50)["speedup"]  # doctest: +SKIP
        {'onnxruntime': 31.31, 'torch': 41.75}
    """
    with _torch_threads_restored():
        return runtime_bench.bench(path, more_peers={"torch": torch_peer}, **options)


def torch_peer(steps: list[Step], weights: Weights, cloud: np.ndarray, threads: int) -> Call:
    """The float twin in PyTorch, in inference mode. Sets the number of threads of the process."""
    tensors = [None if w is None else (torch.from_numpy(w[0].T.copy()), torch.from_numpy(w[1])) for w in weights]
    points = torch.from_numpy(cloud)
    torch.set_num_threads(threads)

    @torch.inference_mode()
    def call() -> object:
        values: dict[int, Any] = {-1: points}
        for i, (step, parts) in enumerate(zip(steps, tensors, strict=True)):
            x = values[step.source]
            if parts is not None:
                x = F.linear(x, parts[0][:, : step.inputs], parts[1])
                if step.beside >= 0:
                    x += F.linear(values[step.beside], parts[0][:, step.inputs :])
                x = x.relu_() if step.relu else x
            elif step.kind == "join":
                x = torch.cat([values[part] for part in step.parts], dim=1)
            elif step.kind == "slice":
                x = x[:, step.start : step.start + step.outputs]
            elif step.kind == "pool":
                x = x.amax(dim=0, keepdim=True) if step.how == "max" else x.mean(dim=0, keepdim=True)
            elif step.kind == "matrix":
                x = x.reshape(step.outputs, step.outputs) + torch.eye(step.outputs)
            else:
                x = x @ values[step.matrix]
            values[i] = x
        return values[len(steps) - 1].numpy()

    return call


@contextmanager
def _torch_threads_restored() -> Iterator[None]:
    """Restore the number of threads, which PyTorch keeps per process."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)

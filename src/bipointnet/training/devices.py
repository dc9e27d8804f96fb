"""Where a run computes: the device, the memory of a CPU, and the processes of torchrun."""

import ctypes
import os

import torch
import torch.distributed as dist

from bipointnet.errors import UserError


def pick_device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("device is 'cuda', but torch sees no GPU; expected one, or use --device cpu")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def keep_freed_memory() -> None:
    """Make glibc keep freed memory, as a step on a CPU otherwise spends a third of its time on getting it back."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        trim_threshold, mmap_threshold, maximum = -1, -3, 2**31 - 1
        libc.mallopt(mmap_threshold, maximum)
        libc.mallopt(trim_threshold, maximum)


class Workers:
    """The processes that torchrun started, seen from this one; a single process without torchrun."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        if device.type == "cuda":
            torch.cuda.set_device(device)
        if self.count > 1:
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    @property
    def is_first(self) -> bool:
        """The first process evaluates and writes files."""
        return self.rank == 0

    def agree(self, number: int | None) -> int | None:
        """The largest of the numbers of all processes; None if none of them has one."""
        if self.count == 1:
            return number
        largest = torch.tensor(number or 0, device="cuda" if dist.get_backend() == "nccl" else "cpu")
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest) or None

    def average(self, x: torch.Tensor | None) -> None:
        """Replace x by its mean over all processes."""
        if self.count > 1 and x is not None:
            dist.all_reduce(x)
            x /= self.count

    def close(self) -> None:
        if self.count > 1:
            dist.destroy_process_group()

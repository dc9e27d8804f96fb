"""The engine Ray Data: actors of a cluster, each with a model of its own. Ray restarts what is lost."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from bipointnet.errors import UserError
from bipointnet.extras import require
from bipointnet.scale.work import Row, Work


def run_ray(work: Work, chunks: Sequence[list[str]], workers: int, address: str | None) -> Iterator[list[Row]]:
    """The rows of all files, block by block, in the order in which they are finished.

    address: of a running cluster, "auto" for one that was started on this machine; None: start one here.
    """
    require("the engine ray", "ray")
    import ray
    import ray.data

    _connect(address)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    # One block per chunk: what is lost with a worker is computed again, and nothing else.
    paths = [{"path": path} for chunk in chunks for path in chunk]
    listed = ray.data.from_items(paths, override_num_blocks=len(chunks))

    class Actor(_Actor):
        """A class of this call: the work travels with its code, and does not have to be kept in the object store."""

        own = work

    pool = ray.data.ActorPoolStrategy(size=workers)
    done = listed.map_batches(Actor, batch_size=None, compute=pool, num_cpus=1)
    for block in done.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        yield block.to_pylist()  # pyright: ignore[reportAttributeAccessIssue]


def _connect(address: str | None) -> None:
    import ray

    logging.getLogger("ray.data").setLevel(logging.WARNING)
    if ray.is_initialized():
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"--address is {address!r}; no Ray cluster answers ({reason}); start one with `ray start --head`, or leave "
            "--address out"
        ) from error


class _Actor:
    """Maps the paths of a block to rows."""

    own: Work

    def __call__(self, batch: dict[str, Any]) -> Any:
        import pyarrow

        return pyarrow.Table.from_pylist(self.own.rows([str(path) for path in batch["path"]]))

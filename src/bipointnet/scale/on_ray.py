"""The engine Ray Data: actors of a cluster, each with a worker process that has a model. Ray restarts what is lost.

A file that kills its process ends only that; the actor lives on, and the file becomes a row with an error, as with the
local engine.
"""

import logging
import os
import pickle
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from bipointnet.errors import UserError
from bipointnet.extras import require
from bipointnet.scale.local import Worker
from bipointnet.scale.work import Row, Work

_ANSWERS = "answers"  # the column of the actors' results: lists of rows, pickled
_CONNECT_SECONDS = 10  # until a cluster that does not answer is given up
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and empty settings


def run_ray(work: Work, chunks: Sequence[list[str]], workers: int, address: str | None) -> Iterator[list[Row]]:
    """The rows of all files, block by block, in the order in which they are finished.

    address: of a running cluster, "auto" for one that was started on this machine; None: start one here.
    """
    require("the engine ray", "ray")
    # Its messages about actors are alarming and untrue here: what is lost is computed again.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray.data

    _connect(address)
    # One block per chunk: what is lost with an actor is computed again, and nothing else.
    paths = [{"path": path} for chunk in chunks for path in chunk]
    listed = ray.data.from_items(paths, override_num_blocks=len(chunks))
    listed.context.enable_progress_bars = False
    listed.context.print_on_execution_start = False

    class Actor(_Actor):
        """A class of this call: the work travels with its code, and does not have to be kept in the object store."""

        own = work
        folder = os.getcwd()

    pool = ray.data.ActorPoolStrategy(size=workers)
    done = listed.map_batches(Actor, batch_size=None, compute=pool, num_cpus=1)
    for block in done.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        for answer in block[_ANSWERS]:  # pyright: ignore
            yield pickle.loads(answer.as_buffer())


def _connect(address: str | None) -> None:
    import ray
    from ray.exceptions import RayError

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if ray.is_initialized():
        return
    try:
        _require_grpc(address)
        # Without an address, Ray would look for a cluster in the environment and on this machine.
        ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError, RayError) as error:
        reason = str(error).strip().partition("\n")[0]
        if address is None:
            raise UserError(
                f"Ray does not start on this machine ({reason}); name a cluster with --address, or use the engine local"
            ) from error
        raise UserError(
            f"--address is {address!r}; no Ray cluster answers ({reason}); start one with `ray start --head`, or leave "
            "--address out"
        ) from error


def _require_grpc(address: str | None) -> None:
    """OSError if no gRPC server listens at host:port, as Ray's do; Ray would try for many minutes.

    Such a server answers the preface of HTTP/2 with a frame of settings (type 4 in the fourth byte; RFC 9113, 3.4).
    """
    host, separator, port = (address or "").rpartition("://")[2].rpartition(":")
    if not separator:
        return
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS) as connection:
        if os.environ.get("RAY_USE_TLS", "0") != "1":
            connection.sendall(_HTTP2_PREFACE)
            frame = connection.makefile("rb").read(9)
            if len(frame) < 9 or frame[3] != 4:
                raise ConnectionError("another program listens there; the port of `ray start --head` is 6379")


class _Actor:
    """Maps the paths of a block to rows, which stay pickled: a worker's arrays need no conversion on their way."""

    own: Work
    folder: str  # of the process that started the job, in which relative paths begin

    def __init__(self) -> None:
        from ray import cloudpickle

        with suppress(OSError):  # a machine without this folder; absolute paths do not need it
            os.chdir(self.folder)
        # By Ray's own means, so that the class may be one that only the script of the job defines.
        self._worker = Worker(self.own, cloudpickle.dumps(self.own))  # pyright: ignore[reportPrivateImportUsage]

    def __call__(self, batch: dict[str, Any]) -> Any:
        import pyarrow

        return pyarrow.table({_ANSWERS: list(self._worker.answers([str(path) for path in batch["path"]]))})

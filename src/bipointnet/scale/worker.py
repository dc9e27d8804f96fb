"""A worker process of the local engine: reads its work and then batches of paths from stdin, writes rows to stdout.

It writes None as soon as it has its work. It ends as soon as its stdin is closed, whatever it is doing: then the
process that started it has ended, or needs it no more.
"""

import os
import queue
import sys
import threading
from typing import Any

from bipointnet.scale.local import receive, send


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    work = receive(sys.stdin.buffer)
    send(answers, None)
    batches: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(batches,), daemon=True).start()
    while True:
        send(answers, work.rows(batches.get()))


def _listen(batches: "queue.SimpleQueue[Any]") -> None:
    while True:
        try:
            batches.put(receive(sys.stdin.buffer))
        except EOFError:
            os._exit(0)


if __name__ == "__main__":
    main()

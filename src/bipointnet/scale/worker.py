"""A worker process of the local engine: reads its work and then batches of paths from stdin, writes rows to stdout.

It writes None as soon as it has its work.
"""

import os
import sys

from bipointnet.scale.local import receive, send


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    work = receive(sys.stdin.buffer)
    send(answers, None)
    while True:
        try:
            paths = receive(sys.stdin.buffer)
        except EOFError:  # the process that started this one has ended, or needs it no more
            return
        send(answers, work.rows(paths))


if __name__ == "__main__":
    main()

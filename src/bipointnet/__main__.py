"""Run the command line: `python -m bipointnet` is the same as `bipointnet`."""

import atexit
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run a command. Ctrl-C ends it with exit code 130, also while the command line is being imported.

    Examples:
        >>> main()  # doctest: +SKIP
    """
    try:
        from bipointnet.cli import main as run

        run()
    except KeyboardInterrupt:
        _leave()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _leave()
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt but Python's own shutdown


def _leave() -> NoReturn:
    """End an interrupted command without Python's shutdown, which aborts if a thread is still in compiled code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()

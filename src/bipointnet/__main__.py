"""Run the command line: `python -m bipointnet` is the same as `bipointnet`."""

import signal
import sys


def main() -> None:
    """Run a command. Ctrl-C ends it with exit code 130, also while the command line is being imported.

    Example:
        >>> main()  # doctest: +SKIP
    """
    try:
        from bipointnet.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt but Python's own shutdown


if __name__ == "__main__":
    main()

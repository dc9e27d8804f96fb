"""The command line: parses, calls, prints. The commands are in the files beside this one, in the order of --help."""

import sys

from bipointnet.cli import analyze, export, predict, segment, train  # noqa: F401
from bipointnet.cli.common import app, err, plain
from bipointnet.errors import UserError


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2."""
    try:
        app()
    except UserError as error:
        err.print(f"[bold red]error:[/] {plain(error)}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(130)

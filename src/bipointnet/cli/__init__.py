"""The command line: parses, calls, prints. One file per command or group of commands.

May import everything; nothing imports it. PyTorch is imported only once paths and options have been checked.
"""

import sys

import typer

from bipointnet import __version__
from bipointnet.cli import analyze, bench, demo, eval, export, inspect, predict, segment, train, verify
from bipointnet.cli.common import err, plain
from bipointnet.errors import UserError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

# In the order in which people work; --help lists them in this order.
COMMANDS = {
    "demo": demo.demo,
    "train": train.train,
    "eval": eval.evaluate,
    "predict": predict.predict,
    "segment": segment.segment,
    "export": export.export,
    "inspect": inspect.inspect,
    "verify": verify.verify,
    "bench": bench.bench,
    "analyze": analyze.analyze,
}
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)

# The parent of all errors in arguments and options; typer has had it in different modules.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True),
) -> None:
    """1-bit neural networks for point clouds: train, evaluate, export and run them."""
    if version:
        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run a command. A user's mistake is one sentence and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except UserError as error:
        _complain(str(error))
        sys.exit(2)
    except UsageError as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "bipointnet"
        sentence = error.format_message().rstrip(".")  # pyright: ignore[reportAttributeAccessIssue]
        _complain(f"{sentence}; see `{command} --help`")
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        err.print("stopped")
        sys.exit(130)


def _complain(sentence: str) -> None:
    err.print(f"[bold red]error:[/] {plain(sentence)}", highlight=False, soft_wrap=True)

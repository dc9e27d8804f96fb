"""The command line: parses, calls, prints. One file per command or group of commands.

May import everything; nothing imports it. PyTorch is imported only once paths and options have been checked.
"""

import errno
import functools
import io
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import typer

from bipointnet import __version__
from bipointnet.cli import (
    analyze,
    bench,
    demo,
    eval,
    export,
    inspect,
    models,
    predict,
    reproduce,
    segment,
    train,
    verify,
    web,
)
from bipointnet.cli.common import complain, err
from bipointnet.errors import UserError, describe_os_error
from bipointnet.extras import import_whole, installed

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

# In the order in which people work; --help lists them in this order.
COMMANDS = {
    "demo": demo.demo,
    "train": train.train,
    "eval": eval.evaluate,
    "models": models.models,
    "predict": predict.predict,
    "segment": segment.segment,
    "view": web.view,
    "web": web.web,
    "export": export.export,
    "inspect": inspect.inspect,
    "verify": verify.verify,
    "bench": bench.bench,
    "analyze": analyze.analyze,
    "reproduce": reproduce.reproduce,
}


class _Ended(Exception):
    """Ctrl-C or a closed pipe, in a form that typer does not handle itself."""


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            if installed("bipointnet._core"):  # training works from a clone in which the core is not built
                import_whole("bipointnet._core")
            command(*arguments, **options)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            raise _Ended from error

    return run


for _name, _command in COMMANDS.items():
    app.command(_name)(_guarded(_command))

# The parent of all errors in arguments and options; typer has had it in different modules.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", metavar="", help="Print the version.", is_eager=True),
) -> None:
    """1-bit neural networks for point clouds: train, evaluate, export and run them."""
    if version:
        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run a command. A user's mistake, or an error of the operating system, is one sentence and exit code 2."""
    sys.exit(_run())


def _run() -> int:
    """The exit code of the command in sys.argv. Ctrl-C and a closed pipe give the code that a shell reports for it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may have bytes that are not UTF-8
    try:
        code = app(standalone_mode=False) or 0
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except UserError as error:
        return _complain(str(error))
    except UsageError as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "bipointnet"
        sentence = error.format_message().rstrip(".")  # pyright: ignore[reportAttributeAccessIssue]
        return _complain(f"{sentence}; see `{command} --help`")
    except (_Ended, KeyboardInterrupt, typer.Abort, BrokenPipeError) as error:
        if isinstance(error.__cause__ or error, BrokenPipeError):
            _discard_output()
            return 128 + signal.SIGPIPE
        with suppress(OSError):
            err.print("stopped")
        return 128 + signal.SIGINT
    except OSError as error:
        written = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # files are named in the error
        sentence = describe_os_error(error, "standard output" if written else "the operating system")
        _discard_output()
        return _complain(sentence)
    except MemoryError:
        return _complain("not enough memory; expected a smaller input, or a machine with more memory")


def _discard_output() -> None:
    """Redirect standard output to nowhere, so that Python does not report at its exit what it cannot write."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _complain(sentence: str) -> int:
    with suppress(OSError):  # a standard error that cannot be written; the exit code remains
        complain(sentence)
    return 2

"""A server for tests: imports all that a command may need once, then runs each command in a forked child.

Starting Python with PyTorch takes two seconds, a fork a few hundredths. Reads one JSON object per line (arguments,
folder, environment, files for stdout and stderr) and answers with the exit code.
"""

import json
import os
import signal
import sys
import traceback
from typing import Any, NoReturn

import bipointnet.analysis.study
import bipointnet.data
import bipointnet.packing.pack
import bipointnet.training.loop  # noqa: F401
from bipointnet.cli import main


def run(job: dict[str, Any]) -> NoReturn:
    signal.alarm(300)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["environment"])
    for number, path in enumerate((job["stdout"], job["stderr"]), start=1):
        os.dup2(os.open(path, os.O_WRONLY), number)
    sys.argv = ["bipointnet", *job["arguments"]]
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

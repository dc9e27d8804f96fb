"""Libraries in a child process: started once, replaced if it dies, limited, and gone when the program ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from awkward_files import P, las

from bipointnet.data import child_process, clouds
from bipointnet.errors import UserError

HEAD = "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"


@pytest.fixture
def laz(tmp_path: Path) -> Path:
    (tmp_path / "scan.laz").write_bytes(las("1.2", 0, ".laz"))
    return tmp_path / "scan.laz"


@pytest.fixture(autouse=True)
def own_children() -> Iterator[None]:
    """No child of another test, and none for others: it may have a parser of this file."""
    child_process._stop_all()
    yield
    child_process._stop_all()


def served_by(monkeypatch: pytest.MonkeyPatch, parser: str) -> None:
    """Let the next child read files with this parser, the body of a function of `path`."""
    body = "\n".join("    " + line for line in parser.splitlines())
    code = (
        f"{HEAD}from bipointnet.data import child_process, scan_libraries\ndef parse(path):\n{body}\n"
        "scan_libraries.parser_of = lambda suffix: parse\nchild_process.serve()\n"
    )
    monkeypatch.setattr(child_process, "_START", code)


def error_of(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        clouds.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def only_child() -> int:
    (child,) = child_process._idle
    return child.pid


def is_gone(pid: int) -> bool:
    for _ in range(3000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":  # it has ended, and nobody has asked for its status
            return True
        time.sleep(0.01)
    return False


def test_a_child_is_reused_and_replaced_if_it_dies(laz: Path) -> None:
    clouds.read(laz)
    first = only_child()
    clouds.read(laz)
    assert only_child() == first
    os.kill(first, signal.SIGKILL)
    child_process._idle[0].wait()
    np.testing.assert_allclose(clouds.read(laz).points, P)
    assert only_child() != first


def test_a_file_that_is_refused_does_not_end_the_child(laz: Path, tmp_path: Path) -> None:
    clouds.read(laz)
    first = only_child()
    (tmp_path / "bad.laz").write_bytes(laz.read_bytes()[:300])
    error_of(tmp_path / "bad.laz")
    assert only_child() == first


@pytest.mark.parametrize(
    ("parser", "sentence"),
    [
        (
            "import os; os.abort()",
            "the library that reads .laz crashed (status -6); the file is damaged, copy it again",
        ),
        ("import os; os._exit(3)", "crashed (status 3)"),
        ("while True: pass", "took more than 1 s of processor time"),
        ("bytearray(10**10)", "declares more than fits into memory"),
        (
            "raise BaseException('called `Option::unwrap()` on a\\n `None` value')",
            "(called `Option::unwrap()` on a `None`",
        ),
        ("while True: yield bytes(1000)", "expands to more than"),
    ],
)
def test_what_a_library_does_is_one_sentence(
    laz: Path, monkeypatch: pytest.MonkeyPatch, parser: str, sentence: str
) -> None:
    monkeypatch.setattr(child_process, "_SECONDS", 1)
    monkeypatch.setattr(child_process, "_MOST_BYTES", 100_000)
    with monkeypatch.context() as patched:
        served_by(patched, parser)
        assert sentence in error_of(laz)
        child_process._stop_all()
    np.testing.assert_allclose(clouds.read(laz).points, P)


def test_what_a_library_prints_is_not_part_of_the_reply(laz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prints = "import os; print('hello', flush=True); os.write(1, b'hello')\n"
    served_by(
        monkeypatch,
        prints + "yield bytes(24)\nyield {'format': 'F', 'names': list('xyz'), 'bits': [0] * 3, 'notes': []}",
    )
    assert clouds.read(laz).points.tolist() == [[0, 0, 0]]


def test_threads_have_a_child_each(laz: Path) -> None:
    found = []

    def read() -> None:
        found.extend(clouds.read(laz).points for _ in range(5))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 15
    assert all(np.allclose(points, P) for points in found)
    assert 1 <= len(child_process._idle) <= 3


def run(code: str, **options: object) -> "subprocess.Popen[str]":
    head = f"import sys; sys.path[:] = {sys.path!r}\nfrom bipointnet.data import child_process, clouds\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # pyright: ignore[reportArgumentType, reportCallIssue]
    )


def test_no_child_is_left_when_the_program_ends(laz: Path) -> None:
    program = run(f"clouds.read({str(laz)!r}); print(child_process._idle[0].pid)")
    out, error = program.communicate()
    assert (program.returncode, error) == (0, "")
    assert is_gone(int(out))


def test_no_child_is_left_when_the_program_is_killed(laz: Path) -> None:
    program = run(
        f"clouds.read({str(laz)!r}); print(child_process._idle[0].pid, flush=True); input()", stdin=subprocess.PIPE
    )
    assert program.stdout is not None
    child = int(program.stdout.readline())
    program.kill()
    program.communicate()
    assert is_gone(child)


def test_ctrl_c_stops_the_child_quietly(laz: Path) -> None:
    busy = "while True: pass"
    code = f"""
child_process._START = {busy!r}
start = child_process._idle_child
def noted(path):
    child = start(path)
    print(child.pid, flush=True)
    return child
child_process._idle_child = noted
try:
    clouds.read({str(laz)!r})
except KeyboardInterrupt:
    print("stopped")
"""
    program = run(code, start_new_session=True)
    assert program.stdout is not None
    child = int(program.stdout.readline())
    time.sleep(0.3)  # then it waits for the child; just before, a signal does not interrupt the wait
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    out, error = program.communicate()
    assert error == ""
    assert (program.returncode, out) == (0, "stopped\n")
    assert is_gone(child)


def test_a_forked_process_starts_its_own_child(laz: Path) -> None:
    code = f"""
import os
path = {str(laz)!r}
clouds.read(path)
before = child_process._idle[0].pid
if os.fork() == 0:
    clouds.read(path)
    os._exit(0 if child_process._idle[0].pid != before else 1)
status = os.wait()[1]
clouds.read(path)
print(status, child_process._idle[0].pid == before)
"""
    out, error = run(code).communicate()
    assert (out, error) == ("0 True\n", "")


def test_a_relative_path_follows_the_current_folder(laz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that is reused was started in another folder."""
    first = clouds.read(laz)
    monkeypatch.chdir(tmp_path)
    again = clouds.read("scan.laz")
    assert np.array_equal(first.points, again.points)

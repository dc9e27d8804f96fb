"""Files are never half-written: a killed process, a full disk or Ctrl-C leaves the old content or the new one."""

import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from bipointnet.errors import describe_os_error
from bipointnet.files import write_all, write_beside

OLD, NEW = b"old" * 100_000, b"new" * 200_000


def in_child(function: Callable[[], object]) -> int:
    """The pid of a child process that calls a function and exits with 0, or with 1 after any exception."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until the child can handle it
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        return child
    try:
        signal.alarm(600)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        function()
        os._exit(0)
    except BaseException:
        os._exit(1)


def end(child: int, number: int) -> None:
    """Send a signal until a child ends: Python ignores Ctrl-C in callbacks of the garbage collector."""
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        os.kill(child, number)
        time.sleep(0.001)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def leftovers(folder: Path) -> list[str]:
    return [name for name in names(folder) if name.endswith(".part")]


def write_forever(path: Path) -> NoReturn:
    while True:
        write_beside(path, NEW)
        write_beside(path, OLD)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_writer_leaves_a_whole_file_and_the_next_write_no_other(tmp_path, number):
    path = tmp_path / "model.bpn"
    write_beside(path, OLD)
    rng = random.Random(0)
    seen = 0
    for _ in range(40):
        child = in_child(lambda: write_forever(path))
        time.sleep(rng.uniform(0, 0.02))
        end(child, number)
        assert path.read_bytes() in (OLD, NEW)
        seen += len(leftovers(tmp_path))
        write_beside(path, OLD)
        assert names(tmp_path) == ["model.bpn"]
    if number == signal.SIGKILL:
        assert seen, "some were killed while they wrote, or this test shows nothing"


def test_a_writer_that_still_runs_keeps_its_temporary_file(tmp_path, monkeypatch):
    """Another process writes to the same target in the middle of a write; both succeed, and the last one counts."""
    path = tmp_path / "model.bpn"
    sync = os.fsync

    def write_meanwhile(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        assert len(leftovers(tmp_path)) == 1
        assert os.waitpid(in_child(lambda: write_beside(path, OLD)), 0)[1] == 0
        assert path.read_bytes() == OLD
        assert len(leftovers(tmp_path)) == 1
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", write_meanwhile)
    write_beside(path, NEW)
    assert path.read_bytes() == NEW
    assert names(tmp_path) == ["model.bpn"]


def test_many_writers_at_once(tmp_path):
    """Processes and threads that write the same file never fail and never mix."""

    def write_often() -> None:
        for _ in range(20):
            write_beside(tmp_path / "a", NEW)
            write_beside(tmp_path / "a", OLD)

    children = [in_child(write_often) for _ in range(3)]
    errors: list[BaseException] = []

    def attempt() -> None:
        try:
            write_often()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 3
    assert not errors
    assert (tmp_path / "a").read_bytes() == OLD
    assert names(tmp_path) == ["a"]


def test_if_one_of_several_files_cannot_be_written_none_changes(tmp_path):
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"kept")

    def write_limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(NEW) - 1, len(NEW) - 1))
        with pytest.raises(OSError, match="too large") as caught:
            write_all({small: b"new", large: NEW})
        assert describe_os_error(caught.value).startswith(f"{large}: the file is larger than this system allows")

    assert os.waitpid(in_child(write_limited), 0)[1] == 0
    assert small.read_bytes() == b"kept"
    assert names(tmp_path) == ["small"]


def test_any_name_that_the_system_accepts_can_be_written(tmp_path):
    write_beside(tmp_path / ("x" * 255), NEW)
    assert names(tmp_path) == ["x" * 255]
    with pytest.raises(OSError, match="too long") as caught:
        write_beside(tmp_path / ("y" * 256), NEW)
    assert describe_os_error(caught.value) == f"{tmp_path}/{'y' * 256}: the name is too long; choose a shorter one"
    assert len(names(tmp_path)) == 1


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path):
    (tmp_path / "real").write_bytes(OLD)
    (tmp_path / "link").symlink_to("real")
    write_beside(tmp_path / "link", NEW)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == NEW
    (tmp_path / "full").symlink_to("/dev/full")  # never the device itself: a test must not be able to replace it
    with pytest.raises(OSError, match="No space left") as caught:
        write_beside(tmp_path / "full", NEW)
    assert str(tmp_path / "full") in str(caught.value)
    assert Path("/dev/full").is_char_device()


def test_the_error_names_the_target(tmp_path):
    (tmp_path / "file").touch()
    for path, words in ((tmp_path, "a folder; expected a file"), (tmp_path / "file" / "a", "a part of this path is a")):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the sentence is compared
            write_beside(path, NEW)
        assert describe_os_error(caught.value).startswith(f"{path}: {words}")


def test_an_error_without_a_file_names_what_is_known():
    assert describe_os_error(OSError(28, "full"), "standard output").startswith("standard output: no space left")
    assert describe_os_error(OSError("odd")) == (
        "the operating system: failed (odd); try again, or choose another path"
    )

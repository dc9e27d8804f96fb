"""Errors of the operating system are one sentence and exit code 2; Ctrl-C and a closed pipe end a command quietly."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import complaint, run

from bipointnet.config import Config
from bipointnet.models import build, checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"
SHAPES = GOLDEN / "shapes.bpn"
ROOM = GOLDEN / "rooms-semantic.bpn"
LONG = "x" * 300
COMMAND = [sys.executable, "-m", "bipointnet"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a cloud, a scan and a run with an untrained network."""
    root = tmp_path_factory.mktemp("place")
    rng = np.random.default_rng(0)
    np.save(root / "cloud.npy", rng.normal(size=(200, 3)).astype(np.float32))
    np.save(root / "scan.npy", rng.uniform(0, 1, (300, 6)).astype(np.float32))
    (root / "folder.bpn").mkdir()
    config = Config(points=32, epochs=20, model="pointnet-vanilla")
    facts = {"classes": ["a", "b"], "channels": 3, "data": "mine", "epoch": 7}
    stored = {"model": config.model, "method": config.method, "points": 32, "epochs": 20}
    checkpoint.save(root / "run" / "last.safetensors", build(config, 2, 3).state_dict(), {"config": stored, **facts})
    return root


def started(*arguments: str | Path, cwd: Path, before: Callable[[], None] | None = None, stdout: int = subprocess.PIPE):
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, cwd=cwd, stdout=stdout, stderr=subprocess.PIPE, text=True, preexec_fn=before)


def outcome(*arguments: str | Path, cwd: Path, **options) -> tuple[int, list[str]]:
    """The exit code of a command and its lines on stderr."""
    process = started(*arguments, cwd=cwd, **options)
    errors = process.communicate(timeout=120)[1]
    return process.returncode, errors.splitlines()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["inspect", LONG], ["the name is too long; choose a shorter one"]),
        (["verify", LONG], ["the name is too long"]),
        (["bench", LONG], ["the name is too long"]),
        (["eval", LONG, "shapes"], ["the name is too long"]),
        (["train", LONG], ["the name is too long"]),
        (["analyze", LONG], ["the name is too long"]),
        (["predict", LONG, "-m", SHAPES], ["too long"]),
        (["predict", "cloud.npy", "-m", LONG], ["the name is too long"]),
        (["segment", LONG, "-m", ROOM], ["too long"]),
        (["segment", "scan.npy", "-m", ROOM, "-o", LONG], ["expected the name of the files to write"]),
        (["segment", "scan.npy", "-m", ROOM, "-o", "cloud.npy/a"], ["cloud.npy/a.ply: a part of this path is a file"]),
        (["export", "run", "-o", LONG], ["the name is too long"]),
        (["export", "run", "-o", "folder.bpn"], ["folder.bpn: a folder"]),
        (["export", "run", "-o", "cloud.npy/a.bpn"], ["cloud.npy/a.bpn: a part of this path is a file"]),
        (["export", "run", "-o", "/dev/full"], ["/dev/full: no space left on the device; free some space"]),
        (["export", "run", "-o", "/proc/a.bpn"], ["/proc/a.bpn: "]),
    ],
)
def test_a_path_that_cannot_be_used_is_one_sentence(place, arguments, words):
    before = sorted(place.rglob("*"))
    done = run(*arguments, cwd=place)
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert [word for word in words if word not in lines[0]] == [], lines[0]
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("arguments", [["inspect", SHAPES], ["inspect", SHAPES, "--json"], ["--help"], ["--version"]])
def test_a_full_device_on_standard_output_is_one_sentence(place, arguments):
    with open("/dev/full", "wb") as full:
        code, lines = outcome(*arguments, cwd=place, stdout=full.fileno())
    assert (code, len(lines)) == (2, 1), lines
    assert lines[0].startswith("error: standard output: no space left on the device")


@pytest.mark.parametrize("arguments", [["inspect", SHAPES], ["inspect", SHAPES, "--json"], ["predict", "."]])
def test_a_closed_pipe_ends_a_command_quietly(place, arguments):
    """As with Unix tools, the exit code is the one of SIGPIPE, and nothing is printed."""
    read, write = os.pipe()
    os.close(read)
    model = ["-m", SHAPES] if arguments[0] == "predict" else []
    code, lines = outcome(*arguments, *model, cwd=place, stdout=write)
    os.close(write)
    assert (code, lines) == (128 + signal.SIGPIPE, [])


def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        (["export", "run", "-o", "out/m.bpn"], "out/m.bpn"),
        (["segment", "scan.npy", "-m", ROOM, "-o", "out/s"], "out/s."),
    ],
)
def test_a_full_disk_leaves_the_old_files(place, arguments, target):
    """All files of `segment` are replaced together: the small ones are not new where a large one is old."""
    (place / "out").mkdir(exist_ok=True)
    old = dict.fromkeys(["s.ply", "s.npy", "s.html", "s.png"], b"old")
    # Of an earlier labeling and an earlier export, whose files may be replaced.
    old |= {"s.html": b"<title>Labeled point cloud</title>", "m.bpn": SHAPES.read_bytes()}
    for name, content in old.items():
        (place / "out" / name).write_bytes(content)
    code, lines = outcome(*arguments, cwd=place, before=limit_file_size)
    assert code == 2
    assert lines[-1].startswith(f"error: {target}")
    assert "the file is larger than this system allows" in lines[-1]
    assert {path.name: path.read_bytes() for path in (place / "out").iterdir()} == old


def obey_permissions() -> None:
    """Let root, as whom tests may run, read and write only what the permissions allow (after exec)."""
    drop_from_bounding_set, override, search = 24, 1, 2  # of linux/prctl.h and linux/capability.h
    for capability in (override, search):
        ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        (["inspect", "secret.bpn"], "secret.bpn"),
        (["predict", "cloud.npy", "-m", "secret.bpn"], "secret.bpn"),
        (["predict", "closed", "-m", SHAPES], "closed"),
        (["predict", "closed/a.npy", "-m", SHAPES], "closed/a.npy"),
        (["segment", "closed/a.npy", "-m", ROOM], "closed/a.npy"),
        (["segment", "scan.npy", "-m", ROOM, "-o", "fixed/s"], "fixed/s.ply"),
    ],
)
def test_a_missing_permission_is_one_sentence(place, tmp_path, arguments, target):
    for name in ("cloud.npy", "scan.npy"):
        (tmp_path / name).write_bytes((place / name).read_bytes())
    (tmp_path / "secret.bpn").write_bytes(SHAPES.read_bytes())
    (tmp_path / "secret.bpn").chmod(0)
    (tmp_path / "closed").mkdir(0)
    (tmp_path / "fixed").mkdir(0o555)
    code, lines = outcome(*arguments, cwd=tmp_path, before=obey_permissions)
    (tmp_path / "closed").chmod(0o700)
    assert (code, len(lines)) == (2, 1), lines
    assert lines[0].startswith(f"error: {target}: permission denied; check the permissions")


@pytest.mark.parametrize(
    "arguments", [["export", "run", "-o", "c.bpn"], ["segment", "scan.npy", "-m", ROOM, "-o", "c"]]
)
def test_ctrl_c_at_any_moment_says_stopped_and_leaves_nothing(place, arguments):
    """Where the command was already done, it ends as if nothing had happened."""
    for delay in (0.15, 0.4, 0.8, 1.3):
        process = started(*arguments, cwd=place)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=120)[1]
        # Before Python runs the first line of the package, it ends itself: by the signal, or with an error of its own.
        early = any(
            sign in errors for sign in ("import site", "Fatal Python error: init_", "Could not import runpy module")
        )
        assert early or process.returncode in (0, 128 + signal.SIGINT, -signal.SIGINT), errors
        if process.returncode == 128 + signal.SIGINT:
            assert "Traceback" not in errors
        assert not [path for path in place.iterdir() if path.name.endswith(".part")]
        for path in place.glob("c.*"):
            assert path.stat().st_size > 100
            path.unlink()


def test_export_says_that_a_run_is_unfinished(place):
    done = run("export", "run", "-o", "u.bpn", cwd=place)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "warning: run: an unfinished run, at epoch 7 of 20; to finish it, repeat its training with --resume"
    ]
    assert "Unfinished: trained for 7 of 20 epochs" in run("inspect", "u.bpn", cwd=place).stdout
    assert "Unfinished: trained for 7 of 20 epochs" in run("inspect", "run", cwd=place).stdout
    (place / "u.bpn").unlink()


def test_the_name_of_a_paper_leads_to_the_name_of_the_backbone(place):
    assert "did you mean 'pointnet2'?" in complaint("train", "shapes", "--model", "pointnet++", cwd=place)
    assert "did you mean 'pointnet'?" in complaint("train", "shapes", "--model", "PointNet", cwd=place)

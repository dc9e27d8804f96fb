"""Ctrl-C, SIGTERM, kill -9 and a full disk during a training: nothing that was saved is lost."""

import dataclasses
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import succeed
from labeled_data import CLASSES, write_parts

from bipointnet.config import Config
from bipointnet.data.dataset import PointClouds
from bipointnet.models import checkpoint
from bipointnet.training.interrupts import Interrupted, Interrupts
from bipointnet.training.loop import train
from bipointnet.training.progress import Progress

QUICK = Config(points=24, epochs=3, batch=16, lr=3e-3, device="cpu", drop=0.3, jitter=0.01)
STEPS = 6  # per epoch: 96 clouds in batches of 16
OPTIONS = ["--points", "8", "--epochs", "6", "--batch", "8", "--device", "cpu"]


def same_bits(a: Path, b: Path) -> bool:
    """Whether two runs have the same weights, optimizer state and figures."""
    for name in ("last", "best", "resume"):
        (first, known), (second, found) = (checkpoint.load(run / f"{name}.safetensors") for run in (a, b))
        if first.keys() != second.keys() or not all(torch.equal(first[key], second[key]) for key in first):
            return False
        histories = [[{**row, "seconds": 0} for row in facts.get("history", ())] for facts in (known, found)]
        if histories[0] != histories[1]:
            return False
    return True


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob("*.part"))


def interrupt_at(moments: list[tuple[int, int]], number: int):
    """A progress callback that sends a signal after these steps, each once."""

    def on_progress(progress: Progress) -> None:
        moment = (progress.epoch, progress.step)
        if progress.row is None and moment in moments:
            moments.remove(moment)
            signal.raise_signal(number)

    return on_progress


@pytest.mark.parametrize(("seed", "method"), [(0, "lsr"), (1, "fp"), (2, "ir-net")])
def test_a_run_interrupted_at_random_steps_ends_with_the_same_bits(tiny, tmp_path, seed, method):
    """Dropout, augmentations and the means over an epoch continue in the middle of an epoch too."""
    config = dataclasses.replace(QUICK, method=method, warmup=1, clip=1.0)
    train(config, tiny, tmp_path / "whole")
    rng = np.random.default_rng(seed)
    moments = [(int(step) // STEPS + 1, int(step) % STEPS + 1) for step in rng.permutation(3 * STEPS)[:4]]
    number = (signal.SIGINT, signal.SIGTERM)[seed % 2]
    on_progress = interrupt_at(moments, number)
    found = []
    finished = False
    while not finished:
        try:
            train(config, tiny, tmp_path / "cut", resume=True, on_progress=on_progress)
            finished = True
        except Interrupted as stopped:
            found.append((stopped.number, leftovers(tmp_path / "cut")))
    assert len(found) >= 3  # the last step of the last epoch has nothing left to interrupt
    assert all(entry == (number, []) for entry in found)
    assert same_bits(tmp_path / "whole", tmp_path / "cut")


def test_a_second_signal_stops_at_once_and_leaves_whole_files(tiny, tmp_path):
    def twice(progress: Progress) -> None:
        if (progress.epoch, progress.step) == (2, 3):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    config = dataclasses.replace(QUICK, epochs=13)  # evaluated, and so saved, from epoch 4 on
    with pytest.raises(KeyboardInterrupt):
        train(config, tiny, tmp_path / "run", on_progress=twice)
    assert not leftovers(tmp_path)
    assert not (tmp_path / "run" / "resume.safetensors").exists()  # nothing was saved after the first signal
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_one_inside_another_tells_it_and_a_second_signal_acts_at_once():
    with Interrupts() as outer, Interrupts() as inner:
        signal.raise_signal(signal.SIGINT)
        assert (inner.number, outer.number) == (signal.SIGINT, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_that_is_ignored_stays_ignored():
    """As for a command that nohup or a shell script started in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
        assert interrupts.number is None
    finally:
        signal.signal(signal.SIGINT, before)


# Saves the state after every epoch. After a number of epochs, each step waits until the file `go` exists.
GATED = """
import os, sys, time
import bipointnet.training.loop as loop
from bipointnet.cli import main
loop.SAVE_SECONDS, rate, gate = 0, loop.learning_rate, float(sys.argv.pop(1))
def gated(config, epochs):
    while epochs >= gate and not os.path.exists("go"):
        time.sleep(0.02)
    return rate(config, epochs)
loop.learning_rate = gated
main()
"""


def started(folder: Path, gate: float, *arguments: str, limit: int | None = None) -> subprocess.Popen[str]:
    """`bipointnet train ARGUMENTS`, which waits after `gate` epochs until it is interrupted by `interrupt`."""
    (folder / "go").unlink(missing_ok=True)
    command = [sys.executable, "-c", GATED, str(gate), "train", *arguments]
    set_limit = None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, preexec_fn=set_limit
    )


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def interrupt(folder: Path, process: subprocess.Popen[str], number: int) -> str:
    """Send a signal to a process that waits at its gate, and open the gate; what it writes to stderr."""
    process.send_signal(number)
    (folder / "go").touch()
    return process.communicate(timeout=120)[1]


def test_the_printed_command_continues_the_run(folder_of_clouds, tmp_path):
    run = tmp_path / "my run"
    succeed("train", "data", *OPTIONS, "-o", "whole", cwd=tmp_path)
    process = started(tmp_path, 1.4, "data", *OPTIONS, "-o", "my run")
    wait_for(run / "last.safetensors", process)
    text = interrupt(tmp_path, process, signal.SIGINT)
    assert process.returncode == 130, text
    assert not leftovers(run)
    line = text.strip().splitlines()[-1]
    assert "of 6; the state is saved. To continue: bipointnet train data -o 'my run' --resume" in line
    command = shlex.split(line.partition("To continue: ")[2])
    succeed(*command[1:], cwd=tmp_path)
    assert same_bits(tmp_path / "whole", run)


def test_the_printed_command_continues_a_series_of_runs(tmp_path):
    write_parts(tmp_path / "data")
    options = ["--task", "part", "--category", "each", "--points", "8", "--epochs", "2", "--batch", "32", "--no-norm"]
    options += ["--model", "pointnet-vanilla"]
    process = started(tmp_path, 0, "data", *options, "-o", "runs")
    wait_for(tmp_path / "runs" / CLASSES[0] / "config.json", process)
    text = interrupt(tmp_path, process, signal.SIGTERM)
    assert process.returncode == 143, text
    command = shlex.split(text.strip().splitlines()[-1].partition("To continue: ")[2])
    assert {"--category", "each", "--epochs", "2", "--no-norm", "--resume"} <= set(command)
    assert "mean over categories" in succeed(*command[1:], cwd=tmp_path)


def test_a_full_disk_is_one_sentence_and_keeps_the_last_checkpoint(folder_of_clouds, tmp_path):
    run = tmp_path / "run"
    process = started(tmp_path, 1.4, "data", *OPTIONS, "-o", "run")
    wait_for(run / "last.safetensors", process)
    interrupt(tmp_path, process, signal.SIGINT)
    before = {path.name: path.read_bytes() for path in run.glob("*.safetensors")}
    process = started(tmp_path, 99, "data", "-o", "run", "--resume", limit=100_000)  # a checkpoint has 1 MB or more
    _, text = process.communicate(timeout=120)
    assert process.returncode == 2, text
    errors = [line for line in text.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, text
    assert "File too large" in errors[0]
    assert "Traceback" not in text
    assert {path.name: path.read_bytes() for path in run.glob("*.safetensors")} == before
    assert not leftovers(run)


def test_an_interrupted_run_keeps_the_weights_and_the_facts_of_its_last_whole_epoch(tiny: PointClouds, tmp_path):
    with pytest.raises(Interrupted):
        train(QUICK, tiny, tmp_path / "run", on_progress=interrupt_at([(1, STEPS)], signal.SIGINT))
    weights = checkpoint.load(tmp_path / "run" / "last.safetensors")[0]
    with pytest.raises(Interrupted):
        train(QUICK, tiny, tmp_path / "run", resume=True, on_progress=interrupt_at([(2, 3)], signal.SIGINT))
    found, facts = checkpoint.load(tmp_path / "run" / "last.safetensors")
    assert (facts["epoch"], facts["epochs"]) == (1, 3)
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    assert not (tmp_path / "run" / "result.json").exists()

"""A kill at any moment loses nothing but time, and a run continues only as it was started."""

import csv
import dataclasses
import json
import re
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import QUICK, Killed, kill_at, same, weights

from bipointnet.data.dataset import Split
from bipointnet.errors import UserError
from bipointnet.models import checkpoint
from bipointnet.training.loop import train


@pytest.mark.parametrize("method", ["fp", "lsr"])
@pytest.mark.parametrize("moment", [(1, 1), (2, 3), (3, 2)])
def test_resume_ends_in_the_same_weights_bit_for_bit(tiny, tmp_path, monkeypatch, method, moment):
    monkeypatch.setattr("bipointnet.training.loop.SAVE_SECONDS", 0.0)
    config = dataclasses.replace(QUICK, method=method, warmup=1, optimizer="adamw", weight_decay=0.01, jitter=0.01)
    config = dataclasses.replace(config, precise_norm=method == "lsr")
    train(config, tiny, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, tiny, tmp_path / "cut", on_progress=kill_at(*moment))
    figures = train(config, tiny, tmp_path / "cut", resume=True)
    for name in ("last", "best", "resume"):
        assert same(weights(tmp_path / "whole", name), weights(tmp_path / "cut", name))
    whole = json.loads((tmp_path / "whole" / "result.json").read_text())
    assert {**whole, "seconds": 0} == {**figures, "seconds": 0}
    tables = [list(csv.DictReader((tmp_path / run / "metrics.csv").open())) for run in ("whole", "cut")]
    assert [{**row, "seconds": 0} for row in tables[0]] == [{**row, "seconds": 0} for row in tables[1]]


def test_a_killed_process_leaves_checkpoints_that_load(folder_of_clouds, tmp_path, bipointnet):
    """SIGKILL at odd moments, while checkpoints are written after every epoch."""
    run = tmp_path / "run"
    options = ["--points", "8", "--epochs", "400", "--batch", "48", "-o", str(run), "--device", "cpu"]
    code = "import bipointnet.training.loop as t; t.SAVE_SECONDS = 0; from bipointnet.cli import main; main()"
    for wait in (0.3, 0.11, 0.53):
        again = ["--resume"] if run.exists() else []
        process = subprocess.Popen([sys.executable, "-c", code, "train", str(folder_of_clouds), *options, *again])
        seen = (run / "resume.safetensors").stat().st_mtime_ns if run.exists() else 0
        deadline = time.monotonic() + 90
        while not (run / "last.safetensors").exists() or (run / "resume.safetensors").stat().st_mtime_ns == seen:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for name in ("last", "resume"):
            tensors, facts = checkpoint.load(run / f"{name}.safetensors")
            assert tensors
            assert facts["epoch"] >= 1
    checkpoint.load_run(run)


def test_a_resumed_run_removes_what_a_killed_one_left(tiny, tmp_path):
    config = dataclasses.replace(QUICK, epochs=1)
    train(config, tiny, tmp_path)
    (tmp_path / ".bipointnet-0123456789ab-00000000.part").write_bytes(b"half a checkpoint")
    train(config, tiny, tmp_path, resume=True)
    assert not list(tmp_path.glob(".*"))


def test_a_run_is_never_overwritten_and_resumes_only_with_its_own_options(tiny, tmp_path):
    train(dataclasses.replace(QUICK, epochs=1), tiny, tmp_path)
    with pytest.raises(UserError, match="--resume"):
        train(dataclasses.replace(QUICK, epochs=1), tiny, tmp_path)
    with pytest.raises(UserError, match=r"lr = 0\.003, found 0\.1 now"):
        train(dataclasses.replace(QUICK, epochs=1, lr=0.1), tiny, tmp_path, resume=True)


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 100, 2000])
def test_a_truncated_checkpoint_gives_one_sentence(tiny, tmp_path, keep):
    train(dataclasses.replace(QUICK, epochs=1), tiny, tmp_path)
    path = tmp_path / "last.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"last.safetensors: not a checkpoint"):
        checkpoint.load_run(tmp_path)


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    import safetensors.torch

    safetensors.torch.save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(UserError, match="not a checkpoint"):
        checkpoint.load_run(tmp_path / "other.safetensors")
    with pytest.raises(UserError, match="it is not there"):
        checkpoint.load_run(tmp_path / "nowhere")
    checkpoint.save(
        tmp_path / "wrong.safetensors", {"x": torch.zeros(2)}, {"config": {}, "classes": ["a"], "channels": 3}
    )
    with pytest.raises(UserError, match="do not fit"):
        checkpoint.load_run(tmp_path / "wrong.safetensors")


def test_a_run_resumes_with_the_files_it_was_started_with(tiny, tmp_path):
    """A file that was added may move another one from the test to the training."""
    files = (("ball/1.npy", "01"), ("ball/2.npy", "02"))
    train(dataclasses.replace(QUICK, epochs=1), dataclasses.replace(tiny, trained_on=files), tmp_path)
    changed = dataclasses.replace(tiny, trained_on=(files[0], ("ball/3.npy", "03")))
    with pytest.raises(UserError, match=r"1 are new or edited, 1 are gone, the first is ball/2\.npy"):
        train(dataclasses.replace(QUICK, epochs=1), changed, tmp_path, resume=True)
    train(
        dataclasses.replace(QUICK, epochs=1), dataclasses.replace(tiny, trained_on=files[::-1]), tmp_path, resume=True
    )


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("dataset", "'tiny', now 'other'"),
        ("classes", "['ball', 'stick', 'plate'], now ['ball', 'stick', 'x']"),
        ("channels", "3, now 4"),
        ("train_clouds", "96, now 95"),
        ("test_clouds", "48, now 47"),
    ],
)
def test_a_run_does_not_resume_on_other_data(tiny, tmp_path, name, found):
    config = dataclasses.replace(QUICK, epochs=1)
    train(config, tiny, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}

    def wider(split: Split) -> Split:
        return dataclasses.replace(split, points=np.concatenate([split.points, split.points[..., :1]], axis=-1))

    def shorter(split: Split) -> Split:
        return dataclasses.replace(split, points=split.points[1:], labels=split.labels[1:])

    changes: dict[str, dict[str, Any]] = {
        "dataset": {"name": "other"},
        "classes": {"classes": ("ball", "stick", "x")},
        "channels": {"train": wider(tiny.train), "test": wider(tiny.test)},
        "train_clouds": {"train": shorter(tiny.train)},
        "test_clouds": {"test": shorter(tiny.test)},
    }
    with pytest.raises(UserError, match=re.escape(f"started on other data ({name}: {found}); resume with the same")):
        train(config, dataclasses.replace(tiny, **changes[name]), tmp_path, resume=True)
    assert before == {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}

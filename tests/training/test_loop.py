"""The training loop: it learns, and it is repeatable."""

import csv
import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from tiny_runs import QUICK, new_run, same, weights

from bipointnet.config import CHOICES, Config
from bipointnet.data.dataset import PointClouds
from bipointnet.data.summary import Summary
from bipointnet.errors import UserError
from bipointnet.evaluation.networks import evaluate
from bipointnet.models import checkpoint
from bipointnet.models.pointnet import TNet, orthogonality
from bipointnet.nn import BinaryLinear, fused_layers, set_progress
from bipointnet.nn.hooks import hooked
from bipointnet.training.devices import Workers
from bipointnet.training.loop import train
from bipointnet.training.progress import Progress
from bipointnet.training.run_folder import COLUMNS
from bipointnet.training.schedule import is_evaluated, learning_rate


@pytest.mark.learning
@pytest.mark.parametrize("method", CHOICES["method"])
def test_every_method_learns(tiny, tmp_path, method):
    figures = train(dataclasses.replace(QUICK, method=method, epochs=12), tiny, tmp_path / "run")
    rows = list(csv.DictReader((tmp_path / "run" / "metrics.csv").open()))
    assert [int(row["epoch"]) for row in rows] == list(range(1, 13))
    # Measured over 5 seeds per method (ATEN_CPU_CAPABILITY=default; lsr also avx2): the loss falls to a factor of 0.02
    # to 0.50, and the accuracy is 93.8 to 100 %. Chance is 33 %.
    assert float(rows[-1]["loss"]) < 0.8 * float(rows[0]["loss"])
    assert figures["last_oa"] > 67


COMBINATIONS = [
    *itertools.product(["pointnet-vanilla"], CHOICES["method"], CHOICES["pool"]),
    *itertools.product(["pointnet"], ["fp", "xnor", "lsr"], CHOICES["pool"]),
    ("pointnet2", "lsr", "ema-max"),
    ("local-base", "lsr", "ema-max"),
]
LONG_COMBINATIONS = [
    *itertools.product(["pointnet2", "dgcnn", "pointcnn", "local-base"], ["fp", "xnor", "lsr"], CHOICES["pool"]),
    *itertools.product(["pointconv"], ["fp", "xnor", "lsr"], [None]),
]


@pytest.mark.parametrize(
    ("model", "method", "pool"),
    [*COMBINATIONS, *(pytest.param(*one, marks=pytest.mark.long) for one in LONG_COMBINATIONS)],
)
def test_every_combination_takes_the_steps_of_adam_and_saves_what_it_evaluated(tiny, tmp_path, model, method, pool):
    config = dataclasses.replace(QUICK, model=model, method=method, pool=pool, epochs=1, batch=48)
    figures = train(config, tiny, tmp_path)

    run = new_run(config, tiny)
    start = {name: value.clone() for name, value in run.model.named_parameters()}
    optimizer = torch.optim.Adam(run.model.parameters(), fused=True)
    set_progress(run.model.train(), 0.0)
    for step, rows in enumerate(run.batches(1)):
        (clouds,), labels = run.draw(rows)
        optimizer.param_groups[0]["lr"] = config.lr * (1 + math.cos(math.pi * step / 2)) / 2
        optimizer.zero_grad()
        output = run.model(clouds)
        loss = torch.nn.functional.cross_entropy(output.logits, labels)
        if output.transform is not None:
            loss = loss + config.transform_penalty * orthogonality(output.transform)
        loss.backward()
        scales = [p for name, p in run.model.named_parameters() if name.endswith("alpha") and p.dim() == 0]
        own = [net.last.alpha for net in run.model.modules() if isinstance(net, TNet) and hasattr(net.last, "alpha")]
        scales = [p for p in scales if not any(p is other for other in own)]
        before = [scale.detach().clone() for scale in scales]
        optimizer.step()
        for scale, old in zip(scales, before, strict=True):
            scale.data = old * torch.exp(scale.data - old)  # training/scales.py says why
    saved = weights(tmp_path)
    assert same(saved, run.model.state_dict())  # the same operations in the same order: equal bit for bit

    # A plain max leaves bits that are all +1; no gradient gets past some of them before training.
    if method == "fp" or pool != "max":
        for name, value in start.items():
            assert value.dim() < 2 or not torch.equal(saved[name], value), f"{name} was not trained"

    network, facts = checkpoint.load_run(tmp_path)
    assert facts["classes"] == list(tiny.classes)
    found = evaluate(network, torch.from_numpy(tiny.test.points), tiny.test.labels, 3, config.points)
    assert (found.overall, found.mean_class) == (figures["last_oa"], figures["last_macc"])


@pytest.mark.parametrize("method", ["fp", "lsr"])
def test_a_seed_determines_everything(tiny, tmp_path, method):
    """Dropout (of the float network) and augmentations included."""
    config = dataclasses.replace(QUICK, method=method, rotate=20, scale=1.2, shift=0.1, jitter=0.01, drop=0.3)
    config = dataclasses.replace(config, init_bias_std=0.0 if method == "fp" else 0.5)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(dataclasses.replace(config, seed=seed), tiny, tmp_path / name)
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert not same(weights(tmp_path / "a"), weights(tmp_path / "c"))


def test_precise_statistics_are_means_over_all_processes(tiny):
    """DDP copies the statistics of the first process to the others before every forward."""
    run = new_run(dataclasses.replace(QUICK, precise_norm=True), tiny)
    run.network.train()
    run.measure_norms()
    alone = {name: value.clone() for name, value in run.model.state_dict().items() if "running" in name}

    class Other(Workers):
        def average(self, x: torch.Tensor | None) -> None:
            assert x is not None
            x += 1

    run.workers, run.network = Other(torch.device("cpu")), torch.nn.Module()
    run.measure_norms()
    for name, value in alone.items():
        torch.testing.assert_close(run.model.state_dict()[name], value + 1)


def test_a_run_starts_with_biases_of_the_given_standard_deviation(tiny, tmp_path):
    for name, init_bias_std in (("a", 0.0), ("b", 1.0)):
        train(dataclasses.replace(QUICK, epochs=1, lr=1e-6, init_bias_std=init_bias_std), tiny, tmp_path / name)
    assert weights(tmp_path / "a")["first.1.bias"].std() < 1e-3
    assert 0.7 < weights(tmp_path / "b")["first.1.bias"].std() < 1.3
    with pytest.raises(UserError, match=r"init_bias_std is 1.0 with --init, which brings its own weights"):
        train(dataclasses.replace(QUICK, init_bias_std=1.0), tiny, tmp_path / "c", init=tmp_path / "a")
    assert not (tmp_path / "c").exists()


def test_precise_statistics_are_means_over_all_batches_of_clouds_as_they_are(tiny):
    run = new_run(dataclasses.replace(QUICK, precise_norm=True, rotate=180.0, scale=2.0, shift=5.0), tiny)
    first = run.model.get_submodule("first.0"), run.model.get_submodule("first.1")
    for buffer in run.model.buffers():
        buffer.fill_(7)  # what was measured before does not count
    run.network.train()
    run.measure_norms()
    means, variances = [], []
    for rows in run.batches(run.config.epochs + 1):
        (clouds,), _ = run.draw(rows, augmented=False)
        assert clouds.norm(dim=-1).max() < 1.0001, "in the unit sphere: neither scaled nor shifted"
        found = first[0](clouds).flatten(0, 1)
        means.append(found.mean(dim=0))
        variances.append(found.var(dim=0))
    torch.testing.assert_close(first[1].running_mean, torch.stack(means).mean(dim=0))
    torch.testing.assert_close(first[1].running_var, torch.stack(variances).mean(dim=0))
    assert {module.momentum for module in run.model.modules() if isinstance(module, torch.nn.BatchNorm1d)} == {0.1}


@pytest.mark.learning
def test_two_processes_hold_the_same_alpha_and_learn(folder_of_clouds, tmp_path):
    """DDP under torchrun with two CPU processes; each rank writes its alphas before and after training."""
    script = tmp_path / "rank.py"
    script.write_text(
        """
import json, os, sys
from pathlib import Path
import torch.distributed as dist
import bipointnet.training.loop as t
from bipointnet.config import Config
from bipointnet.data import open_dataset

seen = {}
def alphas(run):
    return {k: v.tolist() for k, v in run.model.state_dict().items() if k.endswith("alpha")}
epoch = t.Run.run_epoch
def spy(run, *arguments):
    seen.setdefault("start", alphas(run))
    row = epoch(run, *arguments)
    seen["end"] = alphas(run)
    seen["norms"] = sum(value.double().sum().item() for k, value in run.model.state_dict().items() if "running" in k)
    seen["weight"] = run.model.state_dict()["pooled.linear.weight"].double().sum().item()
    return row
t.Run.run_epoch = spy
data, out = sys.argv[1:]
config = Config(points=24, epochs=8, batch=16, lr=3e-3, device="cpu", precise_norm=True)
figures = t.train(config, open_dataset(data, 24), Path(out))
Path(out, f"rank{os.environ['RANK']}.json").write_text(json.dumps({**seen, "oa": figures["last_oa"]}))
"""
    )
    run = tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, str(script), str(folder_of_clouds), str(run)], check=True, env=environment, timeout=240)
    first, second = (json.loads((run / f"rank{rank}.json").read_text()) for rank in (0, 1))
    assert len(first["start"]) == 4
    assert first["start"] == second["start"]
    assert first["end"] == second["end"] != first["start"]
    assert first["weight"] == second["weight"]
    assert first["norms"] == second["norms"], "precise statistics are of all clouds, not of the clouds of a process"
    # Measured over 6 seeds in one process, with ATEN_CPU_CAPABILITY = default and avx2: 87.5 to 100 %. Chance is 33 %.
    assert first["oa"] > 67
    checkpoint.load_run(run)


def test_init_copies_what_fits(tiny, tmp_path):
    train(QUICK, tiny, tmp_path / "first")
    four = PointClouds("four", (*tiny.classes, "none"), tiny.train, tiny.test)
    train(dataclasses.replace(QUICK, lr=1e-12), four, tmp_path / "second", init=tmp_path / "first")
    before, after = weights(tmp_path / "first"), weights(tmp_path / "second")
    assert after["last.weight"].shape == (4, 256)
    for name in before:
        if name.endswith((".weight", ".alpha")) and name != "last.weight":
            torch.testing.assert_close(after[name], before[name], atol=1e-8, rtol=1e-6)


def test_init_from_a_float_run_measures_alpha_for_its_weights(tiny, tmp_path):
    """alpha = std(float product) / std(1-bit product) of the first batch."""
    train(dataclasses.replace(QUICK, method="fp"), tiny, tmp_path / "float")
    run = new_run(QUICK, tiny, init=tmp_path / "float")
    state, copied = run.model.state_dict(), weights(tmp_path / "float")
    names = [name.removesuffix(".alpha") for name in state if name.endswith(".alpha")]
    assert len(names) == 4
    inputs: dict[str, torch.Tensor] = {}
    layers = {name: run.model.get_submodule(name) for name in names}
    for layer in fused_layers(run.model):
        layer.fused = False
    with hooked(layers, lambda name, layer, x, output: inputs.update({name: x})), torch.no_grad():
        run.model.train()(*run.draw(next(run.batches(1)))[0])
    for name, layer in layers.items():
        assert isinstance(layer, BinaryLinear)
        assert torch.equal(layer.weight, copied[f"{name}.weight"])
        centered, x = layer.weight - layer.weight.mean(), inputs[name]
        bits = torch.where(x >= 0, 1.0, -1.0) @ torch.where(centered >= 0, 1.0, -1.0).T
        assert state[f"{name}.alpha"].item() == pytest.approx(((x @ centered.T).std() / bits.std()).item(), rel=1e-2)


def test_compile_checks_itself_and_learns_the_same(tiny, tmp_path):
    """With one step per epoch, the first loss is computed with the same weights.

    It is not the same number: before training many normalized values are almost 0, and rounding flips their signs.
    """
    config = dataclasses.replace(QUICK, epochs=2, batch=len(tiny.train), compile=True)
    compiled = train(config, tiny, tmp_path / "compiled")
    plain = train(dataclasses.replace(config, compile=False), tiny, tmp_path / "plain")
    rows = [list(csv.DictReader((tmp_path / run / "metrics.csv").open())) for run in ("compiled", "plain")]
    assert float(rows[0][0]["loss"]) == pytest.approx(float(rows[1][0]["loss"]), rel=0.05)
    assert compiled["instead"] == plain["instead"] == {"batch": 96, "epochs": 2, "lr": 3e-3}


def test_compile_that_changes_gradients_is_refused(tiny, tmp_path, monkeypatch):
    class Dropping(torch.nn.Module):
        """A broken compiler: correct values, lost gradients."""

        def __init__(self, model: torch.nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x.detach())

    monkeypatch.setattr(torch, "compile", lambda model, **options: Dropping(model))
    with pytest.raises(UserError, match="train without --compile"):
        train(dataclasses.replace(QUICK, compile=True), tiny, tmp_path)
    assert not list(tmp_path.iterdir())


def test_learning_rate_rises_then_falls_along_a_cosine():
    config = Config(epochs=10, warmup=2, lr=0.1)
    assert learning_rate(config, 0) == 0
    assert learning_rate(config, 1) == pytest.approx(0.5 * 0.1 * 0.5 * (1 + math.cos(math.pi / 10)))
    assert learning_rate(config, 5) == pytest.approx(0.05)
    assert learning_rate(config, 10) == pytest.approx(0, abs=1e-12)
    assert learning_rate(Config(lr=0.1), 0) == 0.1


def test_every_tenth_epoch_and_the_last_ten_are_evaluated():
    assert [e for e in range(1, 41) if is_evaluated(e, 40)] == [10, 20, 30, *range(31, 41)]


def test_result_has_the_documented_keys(tiny, tmp_path):
    figures = train(dataclasses.replace(QUICK, epochs=1), tiny, tmp_path)
    promised = {"dataset", "model", "method", "pool", "recipe", "seed", "points", "epochs"}
    promised |= {"last_oa", "best_oa", "seconds", "device", "commit", "version", "held_out", "data", "layout"}
    assert promised <= figures.keys()
    assert json.loads((tmp_path / "result.json").read_text()) == figures
    assert next(csv.reader((tmp_path / "metrics.csv").open())) == list(COLUMNS)
    assert list((tmp_path / "tensorboard").iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"points": 49}, ["48 points per training cloud", "points = 49", "--points 48"]),
        ({"device": "cuda"}, ["no GPU", "--device cpu"]),
    ],
)
def test_an_impossible_run_is_refused_before_anything_is_written(tiny, tmp_path, monkeypatch, change, words):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError) as error:
        train(dataclasses.replace(QUICK, **change), tiny, tmp_path / "run")
    assert all(word in str(error.value) for word in words)
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_is_an_error_and_nothing_is_saved(tiny, tmp_path):
    broken = PointClouds("broken", tiny.classes, tiny.train, tiny.test)
    broken.train.points[5] = np.nan
    with pytest.raises(UserError, match="the loss is nan in epoch 1; expected a finite number; try an --lr below"):
        train(dataclasses.replace(QUICK, method="fp"), broken, tmp_path / "run")
    assert not (tmp_path / "run" / "last.safetensors").exists()


def test_a_single_class_is_refused(tiny, tmp_path):
    rooms = dataclasses.replace(tiny, name="rooms", classes=("room",))
    with pytest.raises(UserError, match="rooms: all clouds are of one class, room; expected two or more classes"):
        train(QUICK, rooms, tmp_path)


def test_the_held_out_files_and_the_data_path_are_recorded(tiny, tmp_path):
    held_out, trained_on = ("ball/1.npy", "stick/7.npy"), (("ball/2.npy", "00ff"),)
    summary = Summary("my/clouds", "CLASS/*", (), held_out=held_out)
    data = dataclasses.replace(tiny, held_out=held_out, trained_on=trained_on, summary=summary)
    figures = train(dataclasses.replace(QUICK, epochs=1), data, tmp_path, data_path="my/clouds")
    assert figures["held_out"] == ["ball/1.npy", "stick/7.npy"]
    assert (figures["data"], figures["layout"]) == ("my/clouds", "CLASS/*")
    for name in ("last", "best", "resume"):
        facts = checkpoint.load(tmp_path / f"{name}.safetensors")[1]
        assert facts["held_out"] == ["ball/1.npy", "stick/7.npy"]
        assert facts["trained_on"] == [["ball/2.npy", "00ff"]]
    assert json.loads((tmp_path / "data.json").read_text())["held_out"] == ["ball/1.npy", "stick/7.npy"]


def test_progress_is_reported_after_every_step_and_epoch(tiny, tmp_path):
    seen: list[Progress] = []
    train(dataclasses.replace(QUICK, epochs=12), tiny, tmp_path, on_progress=seen.append)
    steps = [(progress.epoch, progress.step) for progress in seen if progress.row is None]
    assert steps == list(itertools.product(range(1, 13), range(1, 7)))
    ends = [(progress, progress.row) for progress in seen if progress.row is not None]
    assert [progress.epoch for progress, _ in ends] == list(range(1, 13))
    assert [progress.epoch for progress, _ in ends if progress.evaluated] == list(range(3, 13))
    first, last = ends[0], ends[-1]
    assert str(first[0]) == f"epoch 1/12, loss {first[1]['loss']:.3f}"
    assert str(last[0]).endswith(f", test accuracy {last[1]['test_oa']:.1f} %")


def test_without_tensorboard_a_run_is_trained_and_saved_all_the_same(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    train(QUICK, tiny, tmp_path)
    assert (tmp_path / "result.json").exists()
    assert (tmp_path / "best.safetensors").exists()
    assert not (tmp_path / "tensorboard").exists()
    lines = [line for line in capsys.readouterr().err.splitlines() if "TensorBoard" in line]
    assert len(lines) == 1
    assert "pip install tensorboard" in lines[0]

"""The training loop.

Randomness is a function of (seed, epoch, rank) alone: every epoch starts from generators seeded anew. So a run that is
killed and resumed from the end of any epoch repeats the undisturbed run, bit for bit on a CPU, and a checkpoint needs
no generator state.

A run folder holds
    config.json           the configuration
    last.safetensors      weights of the last finished epoch that was saved
    best.safetensors      weights of the epoch with the best test accuracy, or mIoU where points are labelled
    resume.safetensors    weights, optimizer state and history: what --resume reads
    metrics.csv           one row per epoch; TensorBoard's files are in tensorboard/. Evaluated epochs also have the
                          entropy of the pooled bits, the T-Net regularizer and the share of activations that pass
                          no gradient
    result.json           the figures of the finished run
"""

import csv
import ctypes
import dataclasses
import hashlib
import io
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bipointnet import __version__
from bipointnet.config import Config, from_mapping
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.errors import UserError
from bipointnet.evaluation.probe import probe
from bipointnet.files import write_beside
from bipointnet.models import Output, build, checkpoint
from bipointnet.nn import calibrate, init_biases, set_progress
from bipointnet.training import augment
from bipointnet.training.compile_check import compare_gradients
from bipointnet.training.tasks import TASKS

EVALUATE_EVERY, EVALUATE_LAST = 10, 10
SAVE_SECONDS = 10.0
EVALUATED = ("test_oa", "test_macc", "test_miou", "entropy", "regularizer", "zero_gradient")
COLUMNS: tuple[str, ...] = ("epoch", "lr", "loss", "train_oa", *EVALUATED, "seconds")
Row = dict[str, Any]


class Moment(NamedTuple):
    """Where a run stands; what `train` tells its watcher after every step, with the row at the end of an epoch."""

    epoch: int
    step: int
    steps: int
    row: Row | None


def ignore(moment: Moment) -> None:
    pass


def seed_of(*parts: int | str) -> int:
    """A 63-bit seed that depends on all parts."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little") >> 1


def learning_rate(config: Config, done: float) -> float:
    """Rising over the warm-up, falling to 0 along a cosine; `done` counts epochs and may be a fraction."""
    rise = min(1.0, done / config.warmup) if config.warmup else 1.0
    return config.lr * rise * 0.5 * (1 + math.cos(math.pi * min(done / config.epochs, 1.0)))


def is_evaluated(epoch: int, epochs: int) -> bool:
    """The test set is evaluated after every 10th epoch and each of the last 10."""
    return epoch % EVALUATE_EVERY == 0 or epoch > epochs - EVALUATE_LAST


def pick_device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("device is 'cuda', but torch sees no GPU; expected one, or use --device cpu")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def keep_freed_memory() -> None:
    """Have glibc keep what is freed: a step on a CPU else spends a third of its time on pages that come and go."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        trim_threshold, mmap_threshold, most = -1, -3, 2**31 - 1
        libc.mallopt(mmap_threshold, most)
        libc.mallopt(trim_threshold, most)


class Workers:
    """This process among those torchrun started; alone where it started none."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        if device.type == "cuda":
            torch.cuda.set_device(device)
        if self.count > 1:
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def close(self) -> None:
        if self.count > 1:
            dist.destroy_process_group()


def check(config: Config, data: PointClouds, workers: Workers) -> None:
    """Whether `data` can feed this run."""
    for name, split in (("training", data.train), ("test", data.test)):
        if split.points.shape[1] < config.points:
            raise UserError(
                f"{data.name}: its {name} clouds hold {split.points.shape[1]} points, {config.points} are asked for; "
                f"use --points {split.points.shape[1]} or fewer"
            )
    TASKS[config.task](config, data).check()
    if len(data.train) < 2 * workers.count:
        raise UserError(f"{data.name}: {len(data.train)} training clouds; expected at least {2 * workers.count}")
    if config.batch % workers.count or config.batch < 2 * workers.count:
        raise UserError(
            f"batch is {config.batch}; expected a multiple of the {workers.count} processes, two each or more"
        )


class Run:
    """One training run: the network, its optimizer and its history."""

    def __init__(
        self, config: Config, data: PointClouds, workers: Workers, device: torch.device, init: Path | None = None
    ) -> None:
        self.config, self.data, self.workers, self.device = config, data, workers, device
        self.task = TASKS[config.task](config, data)
        self.history: list[Row] = []
        self.best = -1.0
        self.clouds, self.labels = self._to_device(data.train)
        self.test_clouds, self.test_labels = self._to_device(data.test)
        self.targets = torch.from_numpy(self.task.target(data.train)).to(device)
        self.share = min(config.batch, len(data.train)) // workers.count
        self.steps = len(data.train) // (self.share * workers.count)
        first = next(self.batches(1))[0]
        torch.manual_seed(seed_of(config.seed, "weights"))
        sizes = len(self.task.classes), data.channels, len(self.task.categories)
        self.model = build(config, *sizes)
        if config.init_bias_std:
            init_biases(self.model, config.init_bias_std, first[0])
        self.model.to(device)
        self._measure(first, take_over(self.model, init) if init else set())
        # All ranks start from rank 0's parameters, which DDP hands out, so LSR's alpha is the same everywhere.
        # fallback_random: dropout draws the same mask compiled or not, so that `warm_up` can compare the two.
        self.evaluated: nn.Module = self.model
        if config.compile:
            self.evaluated = torch.compile(self.model, options={"fallback_random": True})  # pyright: ignore[reportAttributeAccessIssue]
        self.network = DistributedDataParallel(self.evaluated) if workers.count > 1 else self.evaluated
        self.optimizer = self._make_optimizer()

    def _to_device(self, split: Split) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(split.points).to(self.device), torch.from_numpy(split.labels).to(self.device)

    def _measure(self, first: tuple[Tensor, ...], known: set[str]) -> None:
        """Set what a network takes from its first batch, unless another run brought it."""
        measured = {name for name in self.model.state_dict() if name.endswith((".alpha", ".shift"))}
        if measured - known:
            calibrate(self.model, *first)

    def _make_optimizer(self) -> torch.optim.Optimizer:
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[self.config.optimizer]
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": self.config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        return kind(groups, lr=self.config.lr, fused=True)

    @property
    def facts(self) -> dict[str, Any]:
        """What a checkpoint says of its run."""
        evaluated = [row for row in self.history if row["test_oa"] is not None]
        return {
            "config": dataclasses.asdict(self.config),
            "data": self.data.name,
            "classes": list(self.task.classes),
            "categories": list(self.task.categories),
            "parts": self.data.parts if self.task.categories else (),
            "up": self.config.up or self.data.up,
            "channels": self.data.channels,
            "version": __version__,
            "epoch": len(self.history),
            **{name: evaluated[-1].get(name) if evaluated else None for name in ("test_oa", "test_miou")},
        }

    def batches(self, epoch: int) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """This rank's batches of one epoch, what the network is given and what it is to say: fresh points of shuffled
        clouds. All are full; a rest is left out.
        """
        seed, rank, count = self.config.seed, self.workers.rank, self.workers.count
        order = np.random.default_rng(seed_of(seed, epoch, "order")).permutation(len(self.clouds))
        order = order[: self.steps * count * self.share].reshape(self.steps, count, self.share)[:, rank]
        rng = torch.Generator(self.device).manual_seed(seed_of(seed, epoch, rank, "points"))
        torch.manual_seed(seed_of(seed, epoch, rank, "dropout"))
        up = self.config.up or self.data.up
        for mine in torch.from_numpy(order).to(self.device):
            drawn, target = augment.draw_points(self.clouds[mine], self.targets[mine], self.config.points, rng)
            clouds, *told = self.task.inputs(drawn, self.labels[mine])
            yield (augment.augment(clouds, self.config, up, rng), *told), target

    def evaluate(self) -> dict[str, float]:
        return self.task.evaluate(self.evaluated, self.test_clouds, self.test_labels)

    def warm_up(self) -> None:
        """Compile on a real batch, leaving no trace in the network, and see that the compiler can be trusted."""
        before = {name: value.clone() for name, value in self.model.state_dict().items()}
        inputs, target = next(self.batches(1))
        self.model.train()
        self.evaluated.train()
        compare_gradients(self.model, self.evaluated, lambda network: self.task.loss(network(*inputs), target))
        self.evaluate()
        self.model.load_state_dict(before)

    def run_epoch(self, epoch: int, watch: Callable[[Moment], None]) -> Row:
        self.network.train()
        set_progress(self.model, (epoch - 1) / self.config.epochs)
        losses, right = [], []
        for step, (inputs, target) in enumerate(self.batches(epoch)):
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(self.config, epoch - 1 + step / self.steps)
            self.optimizer.zero_grad()
            output: Output = self.network(*inputs)
            loss = self.task.loss(output, target)
            loss.backward()
            if self.config.clip:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
            self.optimizer.step()
            losses.append(loss.detach())
            right.append((output.logits.detach().argmax(dim=-1) == target).float().mean())
            watch(Moment(epoch, step + 1, self.steps, None))
        row: Row = dict.fromkeys(COLUMNS)
        row |= {
            "epoch": epoch,
            "lr": learning_rate(self.config, epoch - 1),
            "loss": torch.stack(losses).mean().item(),
            "train_oa": 100 * torch.stack(right).mean().item(),
        }
        if not math.isfinite(row["loss"]):
            raise UserError(
                f"the loss is {row['loss']} in epoch {epoch}; expected a number; try a lower --lr than {self.config.lr}"
            )
        if self.workers.leads and is_evaluated(epoch, self.config.epochs):
            row |= self.evaluate()
            row |= probe(self.model, *self.task.inputs(self.test_clouds[:, : self.config.points], self.test_labels))
        return row

    def save(self, folder: Path) -> None:
        """All that --resume needs in one file, then the weights for people."""
        weights = self.model.state_dict()
        tensors = {f"weights.{name}": value for name, value in weights.items()}
        for index, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
        facts = self.facts
        checkpoint.save(folder / "resume.safetensors", tensors, {**facts, "history": self.history, "best": self.best})
        checkpoint.save(folder / "last.safetensors", weights, facts)
        write_csv(folder / "metrics.csv", self.history)

    def resume(self, path: Path) -> None:
        """Take up where `save` left off, in a run of this very configuration."""
        tensors, facts = checkpoint.load(path)
        require_same_config(path.parent, facts["config"], self.config)
        self.model.load_state_dict(
            {k.removeprefix("weights."): v for k, v in tensors.items() if k.startswith("weights.")}
        )
        state: dict[int, dict[str, Tensor]] = {}
        for key in tensors.keys() - {k for k in tensors if k.startswith("weights.")}:
            _, index, name = key.split(".")
            state.setdefault(int(index), {})[name] = tensors[key]
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        self.history = [dict.fromkeys(COLUMNS) | row for row in facts["history"]]
        self.best = facts.get("best", facts.get("best_oa", -1.0))


def require_same_config(folder: Path, started: dict[str, Any], config: Config) -> None:
    """UserError where a run was started with other options than are asked for now."""
    before = dataclasses.asdict(from_mapping(str(folder), started))
    for name, value in dataclasses.asdict(config).items():
        if name != "device" and before[name] != value:
            raise UserError(
                f"{folder}: started with {name} = {before[name]!r}, now asked for {value!r}; "
                "resume with the same options, or choose another folder with -o"
            )


def take_over(model: nn.Module, source: Path) -> set[str]:
    """Copy every tensor of a run whose name and shape fit into `model`; returns the names copied."""
    path = checkpoint.checkpoint_path(source)
    tensors, _ = checkpoint.load(path)
    own = model.state_dict()
    fitting = {name: value for name, value in tensors.items() if name in own and own[name].shape == value.shape}
    if not fitting:
        raise UserError(
            f"{path}: none of its {len(tensors)} tensors fits this network; expected a run of the same backbone"
        )
    model.load_state_dict(fitting, strict=False)
    return set(fitting)


def write_csv(path: Path, history: list[Row]) -> None:
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS)
    table.writeheader()
    table.writerows(history)
    write_beside(path, text.getvalue().encode())


def commit() -> str | None:
    """The commit of the source tree this package runs from, if it runs from one."""
    here = Path(__file__).parent
    found = subprocess.run(["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else None


def result(run: Run, seconds: float) -> dict[str, Any]:
    """The figures of a finished run, as result files hold them. The last epoch comes first."""
    config, last = run.config, run.history[-1]
    labelled = {"last_miou": last["test_miou"], "best_miou": run.best}
    named = {"last_macc": last["test_macc"], "best_oa": run.best}
    return {
        "dataset": run.data.name,
        "task": config.task,
        "model": config.model,
        "method": config.method,
        "pool": config.pool,
        "recipe": config.recipe,
        "seed": config.seed,
        "points": config.points,
        "epochs": config.epochs,
        "last_oa": last["test_oa"],
        **(labelled if run.task.score == "test_miou" else named),
        "entropy": last["entropy"],
        "regularizer": last.get("regularizer"),
        "zero_gradient": last.get("zero_gradient"),
        "seconds": seconds,
        "device": torch.cuda.get_device_name(run.device) if run.device.type == "cuda" else platform.machine(),
        "commit": commit(),
        "torch": torch.__version__,
        "config": dataclasses.asdict(config),
        **run.task.final(run.evaluated, run.test_clouds, run.test_labels),
    }


def train(
    config: Config,
    data: PointClouds,
    folder: Path,
    *,
    resume: bool = False,
    init: Path | None = None,
    watch: Callable[[Moment], None] = ignore,
) -> dict[str, Any]:
    """Train a network on `data` into the run folder `folder`; returns what result.json holds.

    resume: go on where a run in `folder` was cut off; without one there, start.
    init: a run or checkpoint whose weights to start from, where they fit.
    """
    if init and config.init_bias_std:
        raise UserError(
            f"init_bias_std is {config.init_bias_std} with --init, which brings weights; expected one of the two"
        )
    device = pick_device(config.device)
    workers = Workers(device)
    try:
        check(config, data, workers)
        saved = folder / "resume.safetensors"
        if saved.exists() and not resume:
            raise UserError(
                f"{folder}: holds a run already; add --resume to go on with it, or choose another folder with -o"
            )
        # Float layers of a full-precision network may use TF32; those of a 1-bit network are few and stay float32.
        torch.set_float32_matmul_precision("high" if config.method == "fp" else "highest")
        if device.type == "cpu":
            keep_freed_memory()
        run = Run(config, data, workers, device, init)
        if saved.exists():
            run.resume(saved)
        if config.compile:
            run.warm_up()
        if workers.leads:
            write_beside(folder / "config.json", json.dumps(dataclasses.asdict(config), indent=2).encode())
        seconds = fit(run, folder, watch)
        figures = result(run, seconds)
        if workers.leads:
            write_beside(folder / "result.json", json.dumps(figures, indent=2).encode())
        return figures
    finally:
        workers.close()


def fit(run: Run, folder: Path, watch: Callable[[Moment], None]) -> float:
    """All epochs that are left; returns the wall time of the whole run in seconds, earlier parts included."""
    board = open_board(folder, len(run.history)) if run.workers.leads else None
    before = float(run.history[-1]["seconds"] or 0) if run.history else 0.0
    started = saved = time.perf_counter()
    for epoch in range(len(run.history) + 1, run.config.epochs + 1):
        row = run.run_epoch(epoch, watch) | {"seconds": before + time.perf_counter() - started}
        run.history.append(row)
        if board is not None:
            for name, value in row.items():
                if value is not None:
                    board.add_scalar(name, value, epoch)
            evaluated = row[run.task.score]
            if evaluated is not None and evaluated > run.best:
                run.best = evaluated
                checkpoint.save(folder / "best.safetensors", run.model.state_dict(), run.facts)
            if evaluated is not None or time.perf_counter() - saved > SAVE_SECONDS:
                run.save(folder)
                saved = time.perf_counter()
        watch(Moment(epoch, run.steps, run.steps, row))
    if board is not None:
        board.close()
    return before + time.perf_counter() - started


def open_board(folder: Path, epochs_done: int) -> Any:
    """TensorBoard's writer; what an earlier, cut-off part wrote after `epochs_done` is hidden."""
    from torch.utils.tensorboard.writer import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"), purge_step=epochs_done + 1)

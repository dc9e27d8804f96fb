"""The training loop.

Randomness is a function of (seed, epoch, rank) alone: every epoch seeds its generators anew. So a run that is killed
and resumed from the end of any epoch repeats the uninterrupted run, bit for bit on a CPU, and a checkpoint needs no
generator state. run_folder.py lists the files of a run.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bipointnet import __version__
from bipointnet.config import Config
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.errors import UserError
from bipointnet.evaluation.probe import probe
from bipointnet.files import remove_leftovers
from bipointnet.models import Output, build, checkpoint
from bipointnet.nn import calibrate, init_biases, set_progress
from bipointnet.nn.pools import LONGEST_TABLE
from bipointnet.training import augment, facts, recipes
from bipointnet.training.capture import CapturedStep
from bipointnet.training.compile_check import compare_gradients
from bipointnet.training.devices import Workers, keep_freed_memory, pick_device
from bipointnet.training.interrupts import Interrupted, Interrupts
from bipointnet.training.partial import Partial
from bipointnet.training.progress import OnProgress, Progress, ignore
from bipointnet.training.provenance import provenance
from bipointnet.training.report import write_report
from bipointnet.training.resume_options import STATE
from bipointnet.training.run_folder import (
    COLUMNS,
    REPORT,
    Row,
    copy_weights,
    load_state,
    open_tensorboard,
    save_state,
    write_csv,
    write_json,
)
from bipointnet.training.scales import RelativeSteps
from bipointnet.training.schedule import derive_seed, is_evaluated, learning_rate
from bipointnet.training.tasks import TASKS, Answers
from bipointnet.training.teacher import Teacher

SAVE_SECONDS = 10.0  # between checkpoints of epochs that are not evaluated


def check(config: Config, data: PointClouds, processes: int = 1) -> None:
    """Raise UserError if `data` cannot feed this run."""
    for name, split in (("training", data.train), ("test", data.test)):
        if split.points.shape[1] < config.points:
            raise UserError(
                f"{data.name}: {split.points.shape[1]} points per {name} cloud; expected at least points = "
                f"{config.points}; use --points {split.points.shape[1]} or fewer"
            )
    TASKS[config.task](config, data).check()
    if len(data.train) < 2 * processes:
        raise UserError(f"{data.name}: {len(data.train)} training clouds; expected at least {2 * processes}")
    if config.batch % processes or config.batch < 2 * processes:
        raise UserError(
            f"batch is {config.batch}; expected a multiple of the {processes} processes, two clouds each or more"
        )


def never() -> bool:
    return False


class Run:
    """One training run: the network, its optimizer and its history."""

    def __init__(
        self,
        config: Config,
        data: PointClouds,
        workers: Workers,
        device: torch.device,
        init: Path | None = None,
        data_path: str | None = None,
    ) -> None:
        self.config, self.data, self.workers, self.device = config, data, workers, device
        self.data_path = data_path or data.name
        self.init = None if init is None else str(init)
        self.task = TASKS[config.task](config, data)
        self.history: list[Row] = []
        self.partial: Partial | None = None  # of an epoch that a signal interrupted
        self.answers: Answers | None = None  # of the newest epoch that this process evaluated
        self.points_rng = torch.Generator(device)
        self.best = -1.0
        self.seconds = 0.0  # wall time, interrupted parts included
        self.clouds, self.labels = self._to_device(data.train)
        self.test_clouds, self.test_labels = self._to_device(data.test)
        self.targets = torch.from_numpy(self.task.target(data.train)).to(device)
        self.share = min(config.batch, len(data.train)) // workers.count  # clouds per step of this process
        self.steps = len(data.train) // (self.share * workers.count)
        first = self.draw(next(self.batches(1)))[0]
        self.teacher = None
        if config.teacher is not None:
            self.teacher = Teacher(config, self.task.classes, self.task.categories, data, device)
        torch.manual_seed(derive_seed(config.seed, "weights"))
        sizes = len(self.task.classes), data.channels, len(self.task.categories)
        self.model = build(config, *sizes)
        if config.init_bias_std:
            init_biases(self.model, config.init_bias_std, first[0])
        self.model.to(device)
        self._calibrate(first, copy_weights(self.model, init) if init else set())
        # DDP copies the parameters of rank 0 to all ranks, so LSR's alpha is the same everywhere.
        # fallback_random: dropout draws the same mask compiled or not, so that `warm_up` can compare the two.
        self.forward: nn.Module = self.model
        if config.compile:
            self.forward = torch.compile(self.model, options={"fallback_random": True})  # pyright: ignore[reportAttributeAccessIssue]
        self.network = DistributedDataParallel(self.forward) if workers.count > 1 else self.forward
        self.optimizer = self._make_optimizer()
        self.relative_steps = RelativeSteps(self.model)
        # Shifts of more points are computed on the CPU, which a captured step must not do.
        captured = config.capture and device.type == "cuda" and workers.count == 1 and config.points <= LONGEST_TABLE
        self.captured = CapturedStep(self.model, self.optimizer, self.points_rng) if captured else None

    def _to_device(self, split: Split) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(split.points).to(self.device), torch.from_numpy(split.labels).to(self.device)

    def _calibrate(self, first: tuple[Tensor, ...], copied: set[str]) -> None:
        """Set the values that a network takes from its first batch, unless they were all copied from another run."""
        measured = {name for name in self.model.state_dict() if name.endswith((".alpha", ".shift"))}
        if measured - copied:
            calibrate(self.model, first)

    def _make_optimizer(self) -> torch.optim.Optimizer:
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[self.config.optimizer]
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": self.config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        # The rate is a tensor, so that a captured step reads its present value. On a GPU the optimizer takes float32.
        on_gpu = self.device.type == "cuda"
        rate = torch.tensor(self.config.lr, dtype=torch.float32 if on_gpu else torch.float64, device=self.device)
        return kind(groups, lr=rate, fused=True, capturable=on_gpu)

    @property
    def facts(self) -> dict[str, Any]:
        """What a checkpoint says about its run."""
        evaluated = [row for row in self.history if row["test_oa"] is not None]
        return {
            "config": dataclasses.asdict(self.config),
            "data": self.data_path,
            "dataset": self.data.name,
            "layout": facts.layout(self.data),
            **facts.counts(self.data, self.task.classes),
            "points": self.config.points,
            "extent": facts.extent(self.data),
            "cloud_points": facts.cloud_points(self.data),
            "confidence": evaluated[-1].get("confidence") if evaluated else None,
            "held_out": list(self.data.held_out),
            "trained_on": list(self.data.trained_on),
            "classes": list(self.task.classes),
            "categories": list(self.task.categories),
            "parts": self.data.parts if self.task.categories else (),
            "up": self.config.up or self.data.up,
            "channels": self.data.channels,
            "blocks": None if self.data.blocks is None else self.data.blocks.as_json(),
            "scans": None if self.data.scans is None else self.data.scans.as_json(),
            "version": __version__,
            "epoch": len(self.history),
            "epochs": self.config.epochs,
            **{name: evaluated[-1].get(name) if evaluated else None for name in ("test_oa", "test_miou")},
        }

    def batches(self, epoch: int, start: Partial | None = None) -> Iterator[Tensor]:
        """The indices of the clouds of this rank's steps in one epoch, shuffled; seeds the generators of the epoch.

        Every batch is full; clouds that would fill only a part of one are left out. With `start`, the batches after
        this part of the epoch.
        """
        seed, rank, count = self.config.seed, self.workers.rank, self.workers.count
        order = np.random.default_rng(derive_seed(seed, epoch, "order")).permutation(len(self.clouds))
        order = order[: self.steps * count * self.share].reshape(self.steps, count, self.share)[:, rank]
        rng = self.points_rng.manual_seed(derive_seed(seed, epoch, rank, "points"))
        torch.manual_seed(derive_seed(seed, epoch, rank, "dropout"))
        if start is not None:
            order = order[start.step :]
            start.random.restore(rng)
        return iter(torch.from_numpy(order).to(self.device))

    def draw(self, rows: Tensor, augmented: bool = True) -> tuple[tuple[Tensor, ...], Tensor]:
        """The inputs and targets of a step on these clouds: newly drawn points, augmented."""
        rng = self.points_rng
        drawn, target = augment.draw_points(self.clouds[rows], self.targets[rows], self.config.points, rng)
        clouds, *category = self.task.inputs(drawn, self.labels[rows])
        if augmented:
            clouds = augment.augment(clouds, self.config, self.config.up or self.data.up, rng)
        return (clouds, *category), target

    def step(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Train on the clouds of these indices; returns the loss and the fraction of correct predictions."""
        inputs, target = self.draw(rows)
        self.optimizer.zero_grad()
        output: Output = self.network(*inputs)
        loss = self.task.loss(output, target)
        if self.teacher is not None:
            counts = target >= 0 if self.config.task == "semantic" else None
            loss = self.teacher.loss(loss, output, inputs, counts)
        loss.backward()
        if self.config.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.relative_steps(self.optimizer.step)
        return loss.detach(), self.task.correct(output.logits.detach(), target)

    def take_step(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """A step as `step` makes it, captured if the run captures steps."""
        return self.step(rows) if self.captured is None else self.captured(self.step, rows)

    def predict(self) -> Answers:
        return self.task.predict(self.forward, self.test_clouds, self.test_labels)

    def last_answers(self) -> Answers:
        """The predictions of the last epoch, which are computed anew if the run was finished before."""
        self.answers = self.answers or self.predict()
        return self.answers

    def warm_up(self) -> None:
        """Compile on a real batch, check the compiled gradients, and restore the network."""
        before = {name: value.clone() for name, value in self.model.state_dict().items()}
        inputs, target = self.draw(next(self.batches(1)))
        self.model.train()
        self.forward.train()
        compare_gradients(self.model, self.forward, lambda network: self.task.loss(network(*inputs), target))
        self.predict()
        self.model.load_state_dict(before)

    def run_epoch(self, epoch: int, on_progress: OnProgress, stopped: Callable[[], bool] = never) -> Row | None:
        """Train for one epoch, or its rest, and return its figures.

        `stopped` is called between two steps. If it is true, `partial` is what was done, and the result None.
        """
        start, self.partial = self.partial, None
        self.network.train()
        set_progress(self.model, (epoch - 1) / self.config.epochs)
        losses = [] if start is None else list(start.losses.to(self.device))
        correct = [] if start is None else list(start.correct.to(self.device))
        for step, rows in enumerate(self.batches(epoch, start), start=len(losses)):
            for group in self.optimizer.param_groups:
                group["lr"].fill_(learning_rate(self.config, epoch - 1 + step / self.steps))
            loss, share = self.take_step(rows)
            losses.append(loss)
            correct.append(share)
            on_progress(Progress(epoch, self.config.epochs, step + 1, self.steps, None))
            if step + 1 < self.steps and stopped():
                self.partial = Partial.of(losses, correct, self.points_rng)
                return None
        row: Row = dict.fromkeys(COLUMNS)
        row |= {
            "epoch": epoch,
            "lr": learning_rate(self.config, epoch - 1),
            "loss": torch.stack(losses).mean().item(),
            "train_oa": 100 * torch.stack(correct).mean().item(),
        }
        if not math.isfinite(row["loss"]):
            raise UserError(
                f"the loss is {row['loss']} in epoch {epoch}; expected a finite number; try an --lr below "
                f"{self.config.lr}"
            )
        if self.config.precise_norm and epoch == self.config.epochs:
            self.measure_norms()
        if self.workers.is_first and is_evaluated(epoch, self.config.epochs):
            self.answers = self.predict()
            row |= self.task.figures(self.answers)
            row |= probe(self.model, *self.task.inputs(self.test_clouds[:, : self.config.points], self.test_labels))
        return row

    @torch.no_grad()
    def measure_norms(self) -> None:
        """Measure the statistics of BatchNorm over the training clouds of all processes, which are not augmented.

        As in training, clouds that would fill only a part of a batch are left out.

        In training they are mostly those of the last ten batches. If these are small, the network that is evaluated
        depends on them more than on the last epochs (Wu and Johnson 2021, arXiv 2105.07576).
        """
        norms = [module for module in self.model.modules() if isinstance(module, nn.BatchNorm1d)]
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean over all batches
        for rows in self.batches(self.config.epochs + 1):
            self.forward(*self.draw(rows, augmented=False)[0])  # DDP would copy the statistics of the first process
        for norm in norms:
            self.workers.average(norm.running_mean)
            self.workers.average(norm.running_var)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum

    def save(self, folder: Path) -> None:
        """Write the checkpoints. resume.safetensors comes first: it alone is enough to continue.

        In the middle of an epoch it is the only one: last.safetensors keeps the weights at the end of an epoch.
        """
        known = self.facts
        state = {**known, "history": self.history, "best": self.best, "seconds": self.seconds, "init": self.init}
        save_state(folder / STATE, self.model, self.optimizer, state, self.partial)
        if self.partial is None:
            checkpoint.save(folder / "last.safetensors", self.model.state_dict(), known)
        write_csv(folder / "metrics.csv", self.history)

    def resume(self, path: Path) -> None:
        """Continue where `save` stopped, in a run of the same configuration on the same data."""
        saved, self.partial = load_state(path, self.model, self.optimizer, self.facts)
        self.history, self.best, self.seconds = saved["history"], saved["best"], saved["seconds"]
        self.init = saved.get("init")


def result(run: Run) -> dict[str, Any]:
    """The content of result.json. Figures of the last epoch come before those of the best."""
    config, last = run.config, run.history[-1]
    of_points = {"last_miou": last["test_miou"], "best_miou": run.best}
    of_clouds = {"last_macc": last["test_macc"], "best_oa": run.best}
    return {
        "dataset": run.data.name,
        "data": run.data_path,
        "layout": facts.layout(run.data),
        **facts.counts(run.data, run.task.classes),
        "task": config.task,
        "model": config.model,
        "method": config.method,
        "pool": config.pool,
        **recipes.summary(config, run.data),
        "seed": config.seed,
        "points": config.points,
        "epochs": config.epochs,
        "last_oa": last["test_oa"],
        **(of_points if run.task.score == "test_miou" else of_clouds),
        "entropy": last["entropy"],
        "regularizer": last["regularizer"],
        "zero_gradient": last["zero_gradient"],
        "seconds": run.seconds,
        **provenance(run.device),
        "config": dataclasses.asdict(config),
        "held_out": list(run.data.held_out),
        **(run.task.final(run.last_answers()) if run.workers.is_first else {}),
    }


def train(
    config: Config,
    data: PointClouds,
    folder: Path,
    *,
    resume: bool = False,
    init: Path | None = None,
    data_path: str | None = None,
    on_start: Callable[[], None] = lambda: None,
    on_progress: OnProgress = ignore,
) -> dict[str, Any]:
    """Train a network on `data` into the run folder `folder`; returns the content of its result.json.

    Args:
        config: the network and the recipe.
        data: from `bipointnet.open_dataset`, with at least `config.points` points per cloud.
        folder: where the files of the run go; see run_folder.py.
        resume: continue an interrupted run in `folder`; start one if there is none.
        init: a run folder or checkpoint whose weights to start from, as far as they fit.
        data_path: the name or folder of the data as the user gave it, for result.json and the checkpoints.
        on_start: called once, by the first process, after all checks and before the first epoch.
        on_progress: called after every step and at the end of every epoch.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> from bipointnet import Config, open_dataset
        >>> config = Config(points=16, epochs=1, batch=256, device="cpu")
        >>> figures = train(config, open_dataset("shapes", config.points), Path(mkdtemp()) / "run")
        >>> figures["method"], 0 <= figures["last_oa"] <= 100
        ('lsr', True)
    """
    if init and config.init_bias_std:
        raise UserError(
            f"init_bias_std is {config.init_bias_std} with --init, which brings its own weights; expected one of the "
            "two; leave the other out"
        )
    device = pick_device(config.device)
    workers = Workers(device)
    try:
        check(config, data, workers.count)
        saved = folder / STATE
        if saved.exists() and not resume:
            raise UserError(
                f"{folder}: contains a run already; add --resume to continue it, or choose another folder with -o"
            )
        # Float layers of a full-precision network may use TF32; those of a 1-bit network are few and stay float32.
        torch.set_float32_matmul_precision("high" if config.method == "fp" else "highest")
        if device.type == "cpu":
            keep_freed_memory()
        if workers.is_first:
            remove_leftovers(folder)
        run = Run(config, data, workers, device, init, data_path)
        if saved.exists():
            run.resume(saved)
        if config.compile:
            run.warm_up()
        with Interrupts() as interrupts:
            if workers.is_first:
                write_json(folder / "config.json", dataclasses.asdict(config))
                if data.summary:
                    write_json(folder / "data.json", data.summary.as_json())
                on_start()
            fit(run, folder, on_progress, interrupts)
        figures = result(run)
        if workers.is_first:
            write_report(run, figures, folder / REPORT)
            write_json(folder / "result.json", figures)  # last: a run with it is finished
        return figures
    finally:
        workers.close()


def fit(run: Run, folder: Path, on_progress: OnProgress, interrupts: Interrupts) -> None:
    """Train the remaining epochs. After a signal, save the state and raise Interrupted."""
    board = open_tensorboard(folder, len(run.history)) if run.workers.is_first else None
    before = run.seconds
    started = saved = time.perf_counter()
    # Several processes must stop at the same step; they agree at the end of an epoch.
    stopped = never if run.workers.count > 1 else lambda: interrupts.number is not None
    for epoch in range(len(run.history) + 1, run.config.epochs + 1):
        row = run.run_epoch(epoch, on_progress, stopped)
        run.seconds = before + time.perf_counter() - started
        number = run.workers.agree(interrupts.number)
        score = None
        if row is not None:
            row["seconds"] = run.seconds
            run.history.append(row)
            score = row[run.task.score]
            if board is not None:
                for name, value in row.items():
                    if value is not None:
                        board.add_scalar(name, value, epoch)
        if run.workers.is_first:
            if score is not None and score > run.best:
                run.best = score
                checkpoint.save(folder / "best.safetensors", run.model.state_dict(), run.facts)
            if score is not None or number is not None or time.perf_counter() - saved > SAVE_SECONDS:
                run.save(folder)
                saved = time.perf_counter()
        if row is not None:
            on_progress(Progress(epoch, run.config.epochs, run.steps, run.steps, row))
        if number is not None and len(run.history) < run.config.epochs:
            raise Interrupted(number, epoch, run.config.epochs)
    if board is not None:
        board.close()

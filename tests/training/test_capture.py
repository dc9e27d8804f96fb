"""Captured steps: recording leaves a run as it was, and on a GPU a captured run has the losses of the plain one.

CI has no GPU. benchmarks/training_speed.py compares the losses of every backbone there.
"""

import dataclasses

import pytest
import torch

from bipointnet.config import CHOICES, Config
from bipointnet.training.capture import unchanged
from bipointnet.training.devices import Workers, pick_device
from bipointnet.training.loop import Run

QUICK = Config(points=24, epochs=3, batch=16, lr=3e-3, device="cpu")
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def new_run(config: Config, data) -> Run:
    device = pick_device(config.device)
    return Run(config, data, Workers(device), device)


def state(run: Run) -> list[torch.Tensor]:
    moments = [value for values in run.optimizer.state.values() for value in values.values()]
    return [value.detach().clone() for value in (*run.model.state_dict().values(), *moments)]


def steps(run: Run, epoch: int) -> list[torch.Tensor]:
    run.network.train()
    return [run.step(rows)[0] for rows in run.batches(epoch)]


@pytest.mark.parametrize("method", ["fp", "lsr", "ir-net"])
@pytest.mark.parametrize("trained", [0, 1])
def test_steps_inside_unchanged_leave_no_trace(tiny, method, trained):
    """Neither before the first step, when the optimizer has no state, nor later. (A float network has dropout.)"""
    config = dataclasses.replace(QUICK, method=method, jitter=0.01)
    expected, run = new_run(config, tiny), new_run(config, tiny)
    for epoch in range(1, trained + 1):
        steps(expected, epoch)
        steps(run, epoch)
    addresses = [value.data_ptr() for value in run.model.state_dict().values()]
    batches = [run.batches(trained + 1) for run in (expected, run)]  # seeds the generators
    rows = [next(each) for each in batches]
    with unchanged(run.model, run.optimizer, run.points_rng):
        run.network.train()
        for _ in range(3):
            run.step(rows[1])
    assert [value.data_ptr() for value in run.model.state_dict().values()] == addresses
    expected.network.train()
    torch.manual_seed(7)
    left = expected.step(rows[0])
    torch.manual_seed(7)
    right = run.step(rows[1])
    assert torch.equal(left[0], right[0])
    assert all(torch.equal(a, b) for a, b in zip(state(expected), state(run), strict=True))


def test_the_random_generators_continue_where_they_were(tiny):
    run = new_run(dataclasses.replace(QUICK, method="fp", jitter=0.01), tiny)
    rows = next(run.batches(1))
    torch.manual_seed(3)
    before = run.points_rng.get_state(), torch.get_rng_state()
    with unchanged(run.model, run.optimizer, run.points_rng):
        run.network.train()
        run.step(rows)
        assert not torch.equal(run.points_rng.get_state(), before[0])
        assert not torch.equal(torch.get_rng_state(), before[1])
    assert torch.equal(run.points_rng.get_state(), before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


@on_gpu
@pytest.mark.parametrize("model", CHOICES["model"])
@pytest.mark.parametrize("method", ["fp", "lsr"])
def test_a_captured_step_has_the_loss_of_the_plain_one(tiny, model, method):
    """Sums by atomic additions differ in their last digit from run to run, so later steps differ by more."""
    config = Config(model=model, method=method, points=48, epochs=3, batch=16, jitter=0.01, device="cuda")
    losses = []
    for capture in (False, True):
        run = new_run(dataclasses.replace(config, capture=capture), tiny)
        run.network.train()
        losses.append(run.take_step(next(run.batches(1)))[0].item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)

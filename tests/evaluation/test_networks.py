"""Networks in batches: the same answers as at once, little memory, and every module keeps its own mode."""

import itertools
import weakref

import numpy as np
import pytest
import torch
from torch import nn

from bipointnet.evaluation import metrics
from bipointnet.evaluation.networks import classify, eval_mode, evaluate, map_batches
from bipointnet.models import Output, PointNet
from bipointnet.nn import LSR, BinaryLinear, EntropyMax


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return PointNet(num_classes=4, linear=BinaryLinear.of(LSR()), pool=EntropyMax())


def modes(model: nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


def test_a_frozen_layer_stays_frozen(model):
    model.train()
    frozen = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    assert frozen
    for module in frozen:
        module.eval()
    before = modes(model)
    assert len({*before}) == 2
    evaluate(model, torch.randn(5, 20, 3), np.arange(5) % 4, classes=4, points=16)
    assert modes(model) == before


def test_modes_are_restored_after_an_error(model):
    model.train()
    before = modes(model)
    with pytest.raises(ZeroDivisionError):
        map_batches(model, lambda rows: 1 // 0, 8, 4)
    assert modes(model) == before
    with eval_mode(model):
        assert not any(modes(model))


@pytest.mark.parametrize(("count", "batch"), [(1, 4), (8, 4), (9, 4), (3, 100)])
def test_batches_cover_all_rows_once_and_in_order(model, count, batch):
    rows = map_batches(model, lambda part: list(range(count))[part], count, batch)
    assert list(itertools.chain(*rows)) == list(range(count))
    assert max(map(len, rows)) <= batch


def test_batches_give_what_one_call_gives(model):
    clouds, labels = torch.randn(10, 30, 3), np.arange(10) % 4
    whole, bits = classify(model, clouds, 24, batch=10)
    parts, part_bits = classify(model, clouds, 24, batch=3)
    # Matrix products of other sizes may round differently; no bit may depend on the batch beyond that.
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-4)
    assert (bits == part_bits).float().mean() > 0.99
    found = evaluate(model, clouds, labels, classes=4, points=24)
    assert np.array_equal(found.confusion, metrics.confusion_matrix(labels, whole.argmax(dim=1).numpy(), 4))
    torch.testing.assert_close(torch.from_numpy(found.probabilities), whole.softmax(dim=1))
    assert not whole.requires_grad


class Recording(nn.Module):
    """Labels points at random, and counts how many of its outputs are alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: set[int] = set()
        self.most = 0

    def forward(self, x: torch.Tensor, *category: torch.Tensor) -> Output:
        logits = torch.randn(*x.shape[:2], 50)
        self.alive.add(id(logits))
        self.most = max(self.most, len(self.alive))
        weakref.finalize(logits, self.alive.discard, id(logits))
        return Output(logits, torch.randn(len(x), 8))


def test_a_split_is_labeled_with_the_logits_of_few_batches_in_memory(monkeypatch):
    from labeled_data import POINTS, parts

    from bipointnet.config import Config
    from bipointnet.training import tasks

    monkeypatch.setattr(tasks, "POINTS_AT_ONCE", 2 * POINTS)
    data, model = parts(test=32), Recording()
    task = tasks.PartSegmentation(Config(task="part", points=POINTS), data)
    figures = task.figures(task.predict(model, torch.from_numpy(data.test.points), torch.from_numpy(data.test.labels)))
    assert figures["test_miou"] < 100
    assert model.most <= 2, "the batch that is computed and the one before it"

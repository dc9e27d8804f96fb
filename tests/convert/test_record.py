"""Tracing and recording: forwards that branch, loop, draw random numbers and store; torch_geometric; the report."""

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from foreign_networks import FourLayers, SetNet, built, graph, sequential_pointnet
from torch import nn

from bipointnet import UserError, binarize
from bipointnet.convert import report_of
from bipointnet.models import PointNet
from bipointnet.nn import (
    METHODS,
    BinaryLinear,
)


class Branching(nn.Module):
    """Takes a different branch for loud inputs."""

    def __init__(self, relu=None):
        super().__init__()
        self.one, self.two, self.three = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.four, self.relu = nn.Linear(8, 2), relu or nn.ReLU()

    def forward(self, x):
        loud = x.abs().mean() > 1
        x = self.relu(self.two(self.relu(self.one(x))))
        if loud:
            x = self.relu(self.three(x))
        return self.four(x)


def test_branches_on_data_need_an_example_and_stay_branches():
    torch.manual_seed(0)
    with pytest.raises(
        UserError, match=r"torch.fx stops at .*test_record.py:\d+, `if loud:`.*give a batch as example="
    ):
        binarize(Branching())
    loud, quiet = torch.randn(4, 3) * 9, torch.randn(4, 3) / 9
    network = binarize(Branching(), example=loud)
    report = report_of(network)
    assert report.binarized == ["two", "three"]
    assert "recorded on the example" in str(report)
    two = F.hardtanh(network.two(F.hardtanh(network.one(quiet))))
    torch.testing.assert_close(network(quiet), network.four(two))
    two = F.hardtanh(network.two(F.hardtanh(network.one(loud))))
    torch.testing.assert_close(network(loud), network.four(F.hardtanh(network.three(two))))


def test_a_layer_that_an_example_never_reaches_stays_float():
    report = report_of(binarize(Branching(), example=torch.zeros(4, 3)))
    assert report.kept["three"] == "never called as a layer"


def test_functions_are_substituted_in_a_forward_that_branches_on_data():
    torch.manual_seed(0)
    loud = torch.randn(4, 3) * 9
    network = binarize(Branching(relu=F.relu), example=loud)
    two = F.hardtanh(network.two(F.hardtanh(network.one(loud))))
    torch.testing.assert_close(network(loud), network.four(F.hardtanh(network.three(two))))


class Repeating(nn.Module):
    """A loop whose length is an argument, with a pool behind it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 16), nn.Linear(16, 4)
        self.hidden, self.norms = (nn.ModuleList(m(16, 16) for _ in range(4)) for m in (nn.Linear, self._norm))
        self.head = nn.Linear(16, 16)

    @staticmethod
    def _norm(width, _):
        return nn.Sequential(nn.Flatten(0, 1), nn.BatchNorm1d(width), nn.Unflatten(0, (4, -1)))

    def forward(self, x, times=3):
        x = torch.tanh(self.first(x))
        for layer, norm in zip(self.hidden[:times], self.norms, strict=False):
            x = F.relu(norm(layer(x)))
        return self.last(torch.tanh(self.head(x.max(1)[0])))


def test_a_loop_with_different_changes_must_have_the_length_of_the_example():
    torch.manual_seed(0)
    x = torch.randn(4, 9, 3)
    network = binarize(Repeating(), example=x)
    assert [row.now for row in report_of(network) if row.kind == "activation"] == ["Hardtanh", "Hardtanh", "removed"]
    network(x)
    for times in (2, 4):
        with pytest.raises(UserError, match=f"Repeating calls relu {times} times in a loop, expected 3"):
            network(x, times)


def test_a_branch_on_a_shape_stays_a_branch():
    class Shaped(FourLayers):
        def forward(self, x):
            if x.shape[1] > 3:
                x = x[:, :3]
            return super().forward(x)

    with pytest.raises(UserError, match=r"`if x.shape\[1\] > 3:`"):
        binarize(Shaped(relu=F.relu))
    torch.manual_seed(0)
    network = binarize(Shaped(relu=F.relu), example=torch.randn(4, 5, 3))
    x = torch.randn(4, 5, 3)
    assert torch.equal(network(x), network(x[:, :3]))
    assert network(torch.randn(4, 2, 3)).shape == (4, 2, 8)


def test_a_loop_over_data_is_recorded():
    class Looping(FourLayers):
        def forward(self, x):
            x = self.relu(self.one(x))
            for _ in range(int(x.shape[0])):
                x = self.relu(self.two(x))
            return self.four(self.relu(self.three(x)))

    network = binarize(Looping(), example=torch.randn(3, 3))

    report = report_of(network)
    assert "called 3 times" in next(row.why for row in report if row.name == "two")
    assert network(torch.randn(5, 3)).shape == (5, 8)


class Noisy(FourLayers):
    def forward(self, x):
        return super().forward(x + torch.randn(3))


class Remembering(FourLayers):
    def forward(self, x):
        self.seen = x * 2
        return super().forward(x)


class Detached(FourLayers):
    def forward(self, x):
        with torch.no_grad():
            x = x * 2
        return super().forward(x)


@pytest.mark.parametrize("kind", [Noisy, Remembering, Detached])
@pytest.mark.parametrize("relu", [None, F.relu], ids=["nn.ReLU", "F.relu"])
@pytest.mark.parametrize("example", [None, torch.randn(4, 5, 3)], ids=["traced", "recorded"])
def test_a_forward_keeps_what_it_does_besides(kind, relu, example):
    torch.manual_seed(0)
    drawn = torch.get_rng_state()
    network = binarize(kind(relu=relu), example=example)
    x = torch.ones(4, 5, 3, requires_grad=True)
    # Different noise may give the same bits: in 40 networks, 0 to 12 of 19 outputs equaled the first.
    outputs = [network(x) for _ in range(20)]
    assert all(torch.equal(output, outputs[0]) for output in outputs) == (kind is not Noisy)
    outputs[0].sum().backward()
    assert (x.grad is None) == (kind is Detached)
    assert hasattr(network, "seen") == (kind is Remembering)
    del drawn


def test_opaque_functions_are_named():
    _, _, _, report = built("grouping")
    assert "not inspected" in str(report)
    assert "farthest_points" in str(report)


def test_modules_without_layers_are_opaque_if_they_cannot_be_traced():
    class Flip(nn.Module):
        def forward(self, x):
            return -x if x.sum() > 0 else x

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8))

        def forward(self, x):
            return x * self.scale if x.sum() > 0 else x

    class Rectify(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else F.relu(x)

    report = report_of(binarize(FourLayers(Flip(), relu=F.relu)))
    assert report.notes == ("not inspected: Flip",)
    for hiding in (Gate(), Rectify()):
        with pytest.raises(UserError, match=r"x.sum\(\) > 0"):
            binarize(FourLayers(hiding))


def test_arguments_with_a_default_can_be_given():
    class Optional(FourLayers):
        def forward(self, x, scale=None, deep=True):
            if scale is not None:
                x = x * scale
            return super().forward(x) if deep else x

    network = binarize(Optional(relu=F.relu))
    x = torch.randn(4, 5, 3)
    assert torch.equal(network(x), network(x / 2, scale=2))
    assert torch.equal(network(x, deep=False), x)


def test_uncalled_layers_stay():
    model = FourLayers(relu=F.relu)
    model.unused = nn.Linear(8, 8)
    network = binarize(model)
    assert torch.equal(network.state_dict()["unused.weight"], model.state_dict()["unused.weight"])
    row = next(row for row in report_of(network) if row.name == "unused")
    assert (row.now, row.why) == ("float", "never called as a layer")
    left = sum(
        p.numel() * (1 if n.split(".")[0] in ("two", "three") and "weight" in n else 32)
        for n, p in network.named_parameters()
    )
    assert report_of(network).bits_after == left


def test_functions_inside_torch_geometric_are_substituted():
    torch.manual_seed(0)
    given = graph()
    network = binarize(SetNet().double(), example=given)
    now = {row.name: row.now for row in report_of(network)}
    assert now["relu"] == "Hardtanh"
    assert now["conv1.aggr_module.scatter_reduce"] == "MeasuredMax"


def test_a_linear_layer_is_recognized_by_its_behavior():
    class Doubling(pyg.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    layers = [pyg.Linear(4, 4), nn.ReLU(), pyg.Linear(4, 4), nn.ReLU(), Doubling(4, 4), nn.ReLU(), pyg.Linear(4, 4)]
    report = report_of(binarize(nn.Sequential(*layers)))
    assert report.binarized == ["2"]


def test_the_report_counts_every_bit():
    model = sequential_pointnet().double()
    network = binarize(model, METHODS["bnn"])
    report = report_of(network)
    assert report.bits_before == 64 * sum(p.numel() for p in model.parameters())
    weights = sum(m.weight.numel() for m in network.modules() if isinstance(m, BinaryLinear))
    others = sum(p.numel() for p in network.parameters()) - weights
    assert report.bits_after == weights + 64 * others
    assert [row.name for row in report if row.kind == "layer"] == ["0.0", "0.3", "0.6", "3.0", "3.4", "4"]
    text = str(report)
    assert "4 of 6 layers in 1 bit" in text
    assert all(row.name in text and row.why in text for row in report)


def test_a_bias_is_dropped_only_if_the_method_has_none():
    model = sequential_pointnet()
    lsr = binarize(model)
    report = report_of(lsr)
    assert lsr.get_submodule("0.3").bias is None
    assert "its bias is dropped, as BatchNorm follows" in next(row.why for row in report if row.name == "0.3")
    bnn = binarize(model, METHODS["bnn"])
    assert torch.equal(bnn.state_dict()["0.3.bias"], model.state_dict()["0.3.bias"])
    assert bnn.get_submodule("3.0").bias is None, "the old layer had none"


@pytest.mark.parametrize("in_use", [True, False])
def test_the_random_numbers_of_the_user_stay(monkeypatch, in_use):
    """Also those of GPUs; CUDA that is not in use is not seeded for later."""
    states, seeds = {0: 11, 1: 22}, []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: in_use)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: states[device])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: states.update({device: state}))
    monkeypatch.setattr(
        torch.cuda, "manual_seed_all", lambda seed: (seeds.append(seed), states.update({0: seed, 1: seed}))
    )
    model, example = PointNet(num_classes=4, tnets=False), torch.rand(4, 16, 3)
    before = torch.get_rng_state()
    binarize(model, example=example)
    assert bool(seeds) == in_use
    assert states == {0: 11, 1: 22}
    assert torch.equal(torch.get_rng_state(), before)

"""Networks that `binarize` has to follow: forwards that branch, loop, draw and keep, torch_geometric, the report."""

import pickle

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from foreign_networks import ClassicPointNet, Reads, SetNet, built, graph, sequential_pointnet
from torch import nn

from bipointnet import UserError, binarize
from bipointnet.nn import (
    METHODS,
    BinaryLinear,
)


class Branching(nn.Module):
    """Goes another way for loud inputs."""

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
    network, report = binarize(Branching(), example=loud)
    assert report.binarized == ["two", "three"]
    assert "seen on the example only" in str(report)
    two = F.hardtanh(network.two(F.hardtanh(network.one(quiet))))
    torch.testing.assert_close(network(quiet), network.four(two))
    two = F.hardtanh(network.two(F.hardtanh(network.one(loud))))
    torch.testing.assert_close(network(loud), network.four(F.hardtanh(network.three(two))))


def test_a_layer_that_an_example_never_reaches_stays_float():
    _, report = binarize(Branching(), example=torch.zeros(4, 3))
    assert report.kept["three"] == "never called as a layer"


def test_functions_that_would_have_to_change_in_such_a_network_are_an_error():
    with pytest.raises(UserError, match=r"has to change, as relu is a function, and cannot be rewritten.*use nn.ReLU"):
        binarize(Branching(relu=F.relu), example=torch.randn(4, 3) * 9)


def test_a_branch_on_a_shape_goes_the_way_of_the_example_and_no_other():
    class Shaped(Reads):
        def forward(self, x):
            if x.shape[1] > 3:
                x = x[:, :3]
            return super().forward(x)

    with pytest.raises(UserError, match=r"`if x.shape\[1\] > 3:`"):
        binarize(Shaped(relu=F.relu))
    network, _ = binarize(Shaped(relu=F.relu), example=torch.randn(4, 5, 3))
    network(torch.randn(4, 8, 3))
    with pytest.raises(UserError, match=r"takes another way at .*test_record.py:\d+ than the example did"):
        network(torch.randn(4, 2, 3))


def test_a_loop_over_data_is_taped():
    class Looping(Reads):
        def forward(self, x):
            x = self.relu(self.one(x))
            for _ in range(int(x.shape[0])):
                x = self.relu(self.two(x))
            return self.four(self.relu(self.three(x)))

    network, report = binarize(Looping(), example=torch.randn(3, 3))
    assert "called 3 times" in next(row.why for row in report if row.name == "two")
    assert network(torch.randn(5, 3)).shape == (5, 8)


def test_what_a_trace_would_freeze_or_lose_is_noticed():
    class Noisy(Reads):
        def forward(self, x):
            return super().forward(x + torch.randn(3))

    class Remembering(Reads):
        def forward(self, x):
            self.seen = x * 2
            return super().forward(x)

    class Detached(Reads):
        def forward(self, x):
            with torch.no_grad():
                x = x * 2
            return super().forward(x)

    for kind, why in ((Noisy, "draws random numbers"), (Remembering, "changes self.seen"), (Detached, "no_grad")):
        with pytest.raises(UserError, match=why):
            binarize(kind(relu=F.relu), example=torch.randn(4, 5, 3))
        network, _ = binarize(kind(), example=torch.randn(4, 5, 3))  # by exchanging modules
        assert isinstance(network, kind)
        assert not torch.equal(network(torch.ones(4, 5, 3)), network(torch.ones(4, 5, 3))) or kind is not Noisy


def test_functions_without_layers_are_not_looked_into_and_named():
    _, _, _, report = built("grouping")
    assert "not looked into" in str(report)
    assert "farthest_points" in str(report)


def test_modules_without_layers_are_not_looked_into_if_they_cannot_be():
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

    _, report = binarize(Reads(Flip(), relu=F.relu))
    assert report.notes == ("not looked into: Flip",)
    for hiding in (Gate(), Rectify()):
        with pytest.raises(UserError, match=r"x.sum\(\) > 0"):
            binarize(Reads(hiding))


def test_arguments_with_a_default_keep_it():
    class Optional(Reads):
        def forward(self, x, scale=None, deep=True):
            if scale is not None:
                x = x * scale
            return super().forward(x) if deep else x

    network, _ = binarize(Optional(relu=F.relu))
    x = torch.randn(4, 5, 3)
    assert torch.equal(network(x), network(x, scale=None))
    with pytest.raises(AssertionError, match="deep has been specialized"):
        network(x, deep=False)


def test_tensors_made_in_a_forward_move_with_the_network():
    network, _ = binarize(ClassicPointNet())
    output, transform = network.to("meta")(torch.randn(4, 3, 20, device="meta"))
    assert output.device == transform.device == torch.device("meta")


def test_layers_that_are_never_called_are_left_out_of_a_rewritten_network():
    model = Reads(relu=F.relu)
    model.unused = nn.Linear(8, 8)
    network, report = binarize(model)
    assert not hasattr(network, "unused")
    assert next(row for row in report if row.name == "unused").now == "left out"
    left = sum(
        p.numel() * (1 if n.split(".")[0] in ("two", "three") and "weight" in n else 32)
        for n, p in network.named_parameters()
    )
    assert report.bits_after == left


def test_a_rewritten_network_is_not_pickled():
    network, _ = binarize(ClassicPointNet())
    with pytest.raises(UserError, match=r"cannot be pickled, expected its state_dict\(\)"):
        pickle.dumps(network)


def test_set_abstraction_of_torch_geometric_with_a_function_between_is_an_error_that_names_it():
    torch.manual_seed(0)
    with pytest.raises(UserError, match="as relu is a function"):
        binarize(SetNet().double(), example=graph())


def test_a_linear_layer_is_known_by_what_it_computes():
    class Doubling(pyg.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    layers = [pyg.Linear(4, 4), nn.ReLU(), pyg.Linear(4, 4), nn.ReLU(), Doubling(4, 4), nn.ReLU(), pyg.Linear(4, 4)]
    _, report = binarize(nn.Sequential(*layers))
    assert report.binarized == ["2"]


def test_the_report_counts_every_bit():
    model = sequential_pointnet().double()
    network, report = binarize(model, METHODS["bnn"])
    assert report.bits_before == 64 * sum(p.numel() for p in model.parameters())
    weights = sum(m.weight.numel() for m in network.modules() if isinstance(m, BinaryLinear))
    others = sum(p.numel() for p in network.parameters()) - weights
    assert report.bits_after == weights + 64 * others
    assert [row.name for row in report if row.kind == "layer"] == ["0.0", "0.3", "0.6", "3.0", "3.4", "4"]
    text = str(report)
    assert "4 of 6 layers in 1 bit" in text
    assert all(row.name in text and row.why in text for row in report)


def test_a_bias_goes_where_the_method_has_none_and_stays_where_it_has_one():
    model = sequential_pointnet()
    lsr, report = binarize(model)
    assert lsr.get_submodule("0.3").bias is None
    assert "its bias is dropped" in next(row.why for row in report if row.name == "0.3")
    bnn, _ = binarize(model, METHODS["bnn"])
    assert torch.equal(bnn.state_dict()["0.3.bias"], model.state_dict()["0.3.bias"])
    assert bnn.get_submodule("3.0").bias is None, "the old layer had none"

"""Nothing dies silently in 1 bit: inputs, biases, coordinates and pools of networks in the manner of others."""

import pytest
import torch
from published_networks import (
    EdgePartNet,
    GraphPointNet2,
    IndexPartNet,
    PointPartNet,
    PositionNet,
    clouds,
    graph_of_clouds,
    one_hot,
)
from torch import Tensor, nn

from bipointnet import UserError, binarize, calibrate
from bipointnet.convert import report_of
from bipointnet.nn import METHODS, BinaryConv, BinaryLinear, ScatterPool, delta
from bipointnet.nn.hooks import hooked


def why(network: nn.Module, name: str) -> str:
    return next(row.why for row in report_of(network) if row.name == name)


@pytest.mark.parametrize("method", METHODS)
def test_a_bias_without_batchnorm_and_zero_weights_survive(method):
    torch.manual_seed(0)
    given = clouds(), one_hot(torch.arange(6))
    network = binarize(EdgePartNet(), method, example=given)
    layer = network.transform.transform
    assert isinstance(layer, BinaryLinear)
    assert layer.bias is not None
    assert torch.equal(layer.bias, torch.eye(3).flatten())
    calibrate(network, given)
    network.train()(*given).square().sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.any()
    if method == "lsr":
        assert layer.alpha > 0
        with hooked({"": network.transform}, lambda name, module, x, output: found.append(output)):
            found: list[Tensor] = []
            network(*given)
        assert (found[0] - torch.eye(3)).abs().max() < 0.1, "it starts near the identity, as the float network does"


def test_alpha_of_a_zero_product_counts_as_not_measured():
    layer = BinaryLinear(8, 8, "lsr")
    calibrate(layer, torch.zeros(4, 8))
    assert layer.alpha > 0


def test_a_bias_is_dropped_only_in_front_of_batchnorm():
    layers = [nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU()]
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), *layers, nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    state = binarize(model).state_dict()
    assert "2.bias" not in state
    assert torch.equal(state["5.bias"], model.state_dict()["5.bias"]), "LayerNorm keeps a bias per channel"
    assert torch.equal(state["8.bias"], model.state_dict()["8.bias"])


@pytest.mark.parametrize(("kind", "encode"), [(PointPartNet, one_hot), (IndexPartNet, lambda labels: labels)])
def test_a_category_of_0_and_1_moves_the_output(kind, encode):
    torch.manual_seed(0)
    points, labels = clouds(), torch.arange(6) % 3
    network = binarize(kind(), example=(points, encode(labels)))
    layer = network.convs1
    assert isinstance(layer, BinaryConv)
    assert layer.center is not None
    assert layer.center.nonzero().flatten().tolist() == list(range(64, 80)), "also categories that no cloud has"
    assert "16 channels of 0 and 1 are read as -1 and +1" in why(network, "convs1")
    read = []
    with hooked({"": layer}, lambda name, module, x, output: read.append(layer.factors(x.movedim(1, -1))[0])):
        network(points, encode(labels))
    assert torch.equal(read[0][:, 0, 64:80], 2 * torch.eye(16)[labels] - 1)
    assert not torch.equal(network(points, encode(labels)), network(points, encode(labels + 7)))


class FlaggedNet(nn.Module):
    """Coordinates, and two flags of 0 and 1 per point that skip the first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.mid, self.last = nn.Linear(3, 16), nn.Linear(18, 24), nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Tensor:
        features = torch.cat([self.first(x[..., :3]).relu(), x[..., 3:]], dim=-1)
        return self.last(self.mid(features).relu().amax(dim=1))


def test_flags_next_to_coordinates_are_read():
    torch.manual_seed(0)
    x = torch.cat([torch.randn(4, 30, 3), torch.randint(2, (4, 30, 2)).float()], dim=-1)
    network = binarize(FlaggedNet(), example=x)
    assert "2 channels of 0 and 1 are read as -1 and +1" in why(network, "mid")
    flipped = torch.cat([x[..., :3], 1 - x[..., 3:]], dim=-1)
    assert not torch.equal(network(x), network(flipped))


def test_without_an_example_the_report_warns_of_a_category():
    (warning,) = report_of(binarize(PointPartNet())).warnings
    assert "the 1-bit layer convs1 reads the input label" in warning


def test_a_dead_input_is_an_error_that_names_the_layer():
    class Distances(PointPartNet):
        def encode(self, label):
            return label.squeeze(1) / 2 + 9  # of one sign

    torch.manual_seed(0)
    given = clouds(), one_hot(torch.arange(6))
    with pytest.raises(
        UserError, match=r'input 1 affects the output of Distances .* the layer convs1 .*exclude="convs1"'
    ):
        binarize(Distances(), example=given)
    assert report_of(binarize(Distances(), example=given, exclude="convs1")).warnings == ()


def test_constant_bits_are_an_error_that_names_the_layer():
    class Squared(nn.Sequential):
        def forward(self, x):  # pyright: ignore[reportIncompatibleMethodOverride]
            x = self[1](torch.tanh(self[0](x)))
            return self[3](torch.tanh(self[2](x * x + 1)))

    torch.manual_seed(0)
    model = Squared(*(nn.Linear(i, o) for i, o in ((3, 16), (16, 16), (16, 16), (16, 4))))
    with pytest.raises(UserError, match=r'all input bits of the 1-bit layer 2 are \+1 .*exclude="2"'):
        binarize(model, example=torch.randn(8, 3))


@pytest.mark.parametrize(
    ("exclude", "message"),
    [
        ((), r'all input bits of the 1-bit layer head are \+1 .*exclude="head"'),
        ("head", r"input 0 affects the output of Saturated but not .* it is lost where all values are equal"),
    ],
)
def test_a_network_that_is_constant_because_its_values_are_equal_is_an_error(exclude, message):
    """A maximum of Hardtanh is 1 nearly everywhere, and no sign changes what is equal."""

    class Saturated(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Linear(3, 64), nn.BatchNorm1d(64)
            self.hidden, self.head, self.last = nn.Linear(64, 64), nn.Linear(64, 32), nn.Linear(32, 4)

        def forward(self, x):
            x = torch.relu(self.hidden(torch.relu(self.first(x))))
            return self.last(torch.relu(self.head(torch.quantile(8 * self.norm(x.mT).mT.relu(), 1.0, dim=1))))

    torch.manual_seed(0)
    example = torch.randn(8, 200, 3)
    with pytest.raises(UserError, match=message):
        binarize(Saturated(), example=example, exclude=exclude)
    warnings = report_of(binarize(Saturated(), example=example, exclude=exclude, pool="max")).warnings
    assert any("input 0 affects the output of Saturated" in warning for warning in warnings)


@pytest.mark.parametrize("batch", [torch.zeros(4, 3, 32), torch.ones(1, 3, 32), torch.randn(1, 3, 1)])
def test_a_batch_that_proves_nothing_raises_no_alarm(batch):
    from foreign_networks import ClassicPointNet

    torch.manual_seed(0)
    binarize(ClassicPointNet(), example=batch)
    binarize(nn.Sequential(*(nn.Conv1d(i, o, 1) for i, o in ((3, 8), (8, 8), (8, 8), (8, 2)))), example=batch)


@pytest.mark.parametrize("example", [None, torch.randn(4, 24, 3)], ids=["traced", "recorded"])
def test_a_layer_that_reads_coordinates_through_an_opaque_function_stays_float(example):
    torch.manual_seed(0)
    report = report_of(binarize(PositionNet(), example=example, pool="max"))
    assert report.kept["position"].startswith("first: reads the network's input")
    assert {"query", "value", "head"} <= set(report.binarized)


@pytest.mark.parametrize("plain_last", [True, False])
def test_scattered_pools_have_both_bits(plain_last):
    torch.manual_seed(0)
    given = graph_of_clouds()
    network = binarize(GraphPointNet2(plain_last), example=given)
    now = [row.now for row in report_of(network) if row.kind == "pool"]
    assert now == ["MeasuredMax" if plain_last else "EntropyMax"] * 3
    calibrate(network, given)
    shares = {}
    layers = {"aggr": network.get_submodule("sa2.local_nn.lins.0"), "global": network.get_submodule("mlp.lins.0")}
    with hooked(layers, lambda name, module, x, output: shares.update({name: (x[:, :32] >= 0).double().mean().item()})):
        network.train()(*given)
    assert all(0.25 < share < 0.75 for share in shares.values()), shares


def test_a_pool_over_edges_counts_elements_and_one_over_clouds_counts_codes():
    torch.manual_seed(0)
    given = graph_of_clouds()
    float_network = GraphPointNet2(plain_last=False)
    ema, plain = binarize(float_network, example=given), binarize(float_network, example=given, pool="max")
    pooled: list[Tensor] = []
    for network in (ema, plain):
        aggregation = network.sa1.aggr_module
        with hooked({"": aggregation}, lambda name, module, x, output: pooled.append(output)):
            network(*given)
    counts = torch.bincount(given[1][1], minlength=len(given[0]))
    shift = torch.tensor([delta(max(n, 1)) for n in counts.tolist()])
    assert len(set(counts.tolist())) > 5
    torch.testing.assert_close(pooled[0], pooled[1] - shift.unsqueeze(1))
    pools = {name: module.codes.last_input for name, module in ema.named_modules() if isinstance(module, ScatterPool)}
    assert [name for name, codes in pools.items() if codes is not None] == ["pool"], "the pool over clouds"
    assert pools["pool"] is ema.get_submodule("sa3.lins.1").last_input

"""Laws of `binarize`, on networks written as other people write them."""

import copy
import functools
import pickle
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.nn.pool.glob import global_max_pool, global_mean_pool

from bipointnet import UserError, binarize
from bipointnet.models import PointNet
from bipointnet.nn import (
    LSR,
    METHODS,
    BinaryLinear,
    EntropyMax,
    MaxPool,
    MeanPool,
    MeasuredMax,
    PointPool,
    Report,
    calibrate,
    delta,
    hard_sign,
)

# Networks of others, in our words


SMALL, PUBLISHED = (8, 16, 24, 16, 12), (64, 128, 1024, 512, 256)


class SpatialTransformer(nn.Module):
    """The T-Net of the first PyTorch PointNets: functions for all but the layers, an identity made in NumPy."""

    def __init__(self, k: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        a, b, c, d, e = sizes
        self.k, self.width = k, c
        self.conv1, self.conv2, self.conv3 = nn.Conv1d(k, a, 1), nn.Conv1d(a, b, 1), nn.Conv1d(b, c, 1)
        self.fc1, self.fc2, self.fc3 = nn.Linear(c, d), nn.Linear(d, e), nn.Linear(e, k * k)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(a), nn.BatchNorm1d(b), nn.BatchNorm1d(c)
        self.bn4, self.bn5 = nn.BatchNorm1d(d), nn.BatchNorm1d(e)

    def forward(self, x):
        batch = x.size()[0]
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.bn3(self.conv3(x)))
        x = torch.max(x, 2, keepdim=True)[0]
        x = x.view(-1, self.width)
        x = F.relu(self.bn4(self.fc1(x)))
        x = F.relu(self.bn5(self.fc2(x)))
        x = self.fc3(x)
        identity = torch.from_numpy(np.eye(self.k).flatten().astype(np.float32)).view(1, -1).repeat(batch, 1)
        if x.is_cuda:
            identity = identity.cuda()
        x = x + identity
        return x.view(-1, self.k, self.k)


class ClassicPointNet(nn.Module):
    def __init__(self, classes: int = 5, sizes: tuple[int, ...] = SMALL, transforms: bool = True) -> None:
        super().__init__()
        a, b, c, d, e = sizes
        self.width = c
        self.stn = SpatialTransformer(3, sizes) if transforms else None
        self.fstn = SpatialTransformer(a, sizes) if transforms else None
        self.conv1, self.conv2, self.conv3 = nn.Conv1d(3, a, 1), nn.Conv1d(a, b, 1), nn.Conv1d(b, c, 1)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(a), nn.BatchNorm1d(b), nn.BatchNorm1d(c)
        self.fc1, self.fc2, self.fc3 = nn.Linear(c, d), nn.Linear(d, e), nn.Linear(e, classes)
        self.bn4, self.bn5 = nn.BatchNorm1d(d), nn.BatchNorm1d(e)

    def forward(self, x):  # (B, 3, N)
        transform = None
        if self.stn is not None:
            x = torch.bmm(x.transpose(2, 1), self.stn(x)).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        if self.fstn is not None:
            transform = self.fstn(x)
            x = torch.bmm(x.transpose(2, 1), transform).transpose(2, 1)
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.bn3(self.conv3(x)))
        x = torch.max(x, 2, keepdim=True)[0]
        x = x.view(-1, self.width)
        x = F.relu(self.bn4(self.fc1(x)))
        x = F.relu(self.bn5(self.fc2(x)))
        return self.fc3(x), transform


def block(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU(inplace=True)]


def dense(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()]


def sequential_pointnet(classes: int = 5, sizes: tuple[int, ...] = SMALL, dropout: float = 0.0) -> nn.Sequential:
    a, b, c, d, e = sizes
    return nn.Sequential(
        nn.Sequential(*block(3, a), *block(a, b), *block(b, c)),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
        nn.Sequential(*dense(c, d), nn.Dropout(dropout), *dense(d, e), nn.Dropout(dropout)),
        nn.Linear(e, classes),
    )


def farthest_points(xyz, number):
    """(B, N, 3) -> (B, number): with a loop that writes into tensors, as everybody copies it."""
    batch, points, _ = xyz.shape
    chosen = torch.zeros(batch, number, dtype=torch.long)
    distance = torch.full((batch, points), 1e10, dtype=xyz.dtype)
    farthest = torch.zeros(batch, dtype=torch.long)
    rows = torch.arange(batch)
    for i in range(number):
        chosen[:, i] = farthest
        step = ((xyz - xyz[rows, farthest].unsqueeze(1)) ** 2).sum(-1)
        closer = step < distance
        distance[closer] = step[closer]
        farthest = distance.max(-1)[1]
    return chosen


def gather(points, index):
    shape = list(index.shape)
    rows = torch.arange(shape[0]).view(-1, *[1] * (len(shape) - 1)).expand(shape)
    return points[rows, index]


class Abstraction(nn.Module):
    """A set abstraction of PointNet++ with 1x1 convolutions over (B, C, K, S)."""

    def __init__(self, centres: int, neighbours: int, widths: list[int]) -> None:
        super().__init__()
        self.centres, self.neighbours = centres, neighbours
        self.convs = nn.ModuleList(nn.Conv2d(i, o, 1) for i, o in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for o in widths[1:])

    def forward(self, xyz, features):
        centres = gather(xyz, farthest_points(xyz, self.centres))
        nearest = torch.cdist(centres, xyz).topk(self.neighbours, largest=False)[1]  # (B, S, K)
        grouped = gather(xyz, nearest) - centres.unsqueeze(2)
        if features is not None:
            grouped = torch.cat([grouped, gather(features, nearest)], dim=-1)
        grouped = grouped.permute(0, 3, 2, 1)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            grouped = F.relu(norm(conv(grouped)))
        return centres, torch.max(grouped, 2)[0].permute(0, 2, 1)


class GroupingNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sa1, self.sa2 = Abstraction(8, 5, [3, 16, 32]), Abstraction(4, 3, [35, 32, 48])
        self.head = nn.Sequential(*dense(48, 24), nn.Linear(24, 5))

    def forward(self, xyz):
        xyz, features = self.sa2(*self.sa1(xyz, None))
        return self.head(features.mean(dim=1))


class EdgeNet(nn.Module):
    """DGCNN of torch_geometric's modules, with its own linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = pyg.EdgeConv(pyg.MLP([6, 16, 16])), pyg.EdgeConv(pyg.MLP([32, 24]))
        self.lin, self.head = pyg.Linear(40, 32), pyg.MLP([32, 16, 5])

    def forward(self, x, edges, batch):
        one = self.conv1(x, edges)
        return self.head(global_max_pool(self.lin(torch.cat([one, self.conv2(one, edges)], 1)), batch))


class SetNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = pyg.PointNetConv(pyg.MLP([6, 16, 16]))
        self.conv2 = pyg.PointNetConv(pyg.MLP([19, 24, 24]), pyg.Linear(24, 24))
        self.head = nn.Linear(24, 5)

    def forward(self, x, edges, batch):
        return self.head(global_mean_pool(self.conv2(self.conv1(x, x, edges), x, edges).relu(), batch))


def plain_mlp() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(60, 32), nn.ReLU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 5))


def graph() -> tuple[Tensor, Tensor, Tensor]:
    edges = torch.randint(0, 40, (2, 160))
    return torch.randn(40, 3).double(), torch.cat([edges, edges.flip(0)], 1), torch.arange(40) // 10


def channels_first() -> tuple[Tensor]:
    return (torch.randn(6, 3, 20).double(),)


def points_first() -> tuple[Tensor]:
    return (torch.randn(6, 20, 3).double(),)


# name: network, its inputs, whether binarize needs them, and the layers that stay float
NETWORKS = {
    "classic": (ClassicPointNet, channels_first, False, ["stn.conv1", "conv1", "fc3"]),
    "sequential": (functools.partial(sequential_pointnet, dropout=0.3), channels_first, False, ["0.0", "4"]),
    "grouping": (GroupingNet, points_first, False, ["sa1.convs.0", "head.3"]),
    "mlp": (plain_mlp, points_first, False, ["1", "5"]),
    "pyg-mlp": (lambda: pyg.MLP([3, 16, 16, 16, 5]), points_first, False, ["lins.0", "lins.3"]),
    "pyg-dropout": (lambda: pyg.MLP([3, 16, 16, 16, 5], dropout=0.5), points_first, False, ["lins.0", "lins.3"]),
    "pyg-edges": (EdgeNet, graph, True, ["conv1.nn.lins.0", "head.lins.1"]),
}
every_network = pytest.mark.parametrize("name", NETWORKS)


def built(name: str, **options) -> tuple[nn.Module, tuple[Tensor, ...], nn.Module, Report]:
    """A network, an input, its 1-bit version and the report."""
    torch.manual_seed(0)
    make, inputs, needed, _ = NETWORKS[name]
    model, given = make().double(), inputs()
    if name in ("pyg-mlp", "pyg-dropout"):  # its BatchNorm wants rows
        given = (given[0].reshape(-1, 3),)
    return model, given, *binarize(model, example=given if needed else None, **options)


def logits(output) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


def steady(model: nn.Module) -> nn.Module:
    """Without dropout, as the 1-bit networks built by hand are."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def shaken(model: nn.Module) -> nn.Module:
    """With BatchNorm as after some training: all of its numbers count, and some slopes fall."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
            assert isinstance(module.running_mean, Tensor)
            assert isinstance(module.running_var, Tensor)
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return model


# What comes out is the 1-bit network


def hand_built(network: nn.Module, names: list[str], method, transforms: bool) -> PointNet:
    """Our own 1-bit PointNet with the parameters and statistics of these layers, in the order of ours."""
    twin = PointNet(5, linear=BinaryLinear.of(method), pool=EntropyMax(), tnets=transforms).double()
    ours = [m for m in twin.modules() if isinstance(m, (nn.Linear, BinaryLinear, nn.BatchNorm1d))]
    for name, module in zip(names, ours, strict=True):
        state = network.get_submodule(name).state_dict()
        if isinstance(module, BinaryLinear) and module.bias is not None and "bias" not in state:
            state["bias"] = torch.zeros(module.out_features)
        if isinstance(module, nn.Linear):
            state["weight"] = state["weight"].reshape(module.weight.shape)
        module.load_state_dict(state)
    return twin


STN = ["conv1", "bn1", "conv2", "bn2", "conv3", "bn3", "fc1", "bn4", "fc2", "bn5", "fc3"]
VANILLA = {
    "functions": (lambda: ClassicPointNet(sizes=PUBLISHED, transforms=False), STN),
    "modules": (
        lambda: sequential_pointnet(sizes=PUBLISHED),
        ["0.0", "0.1", "0.3", "0.4", "0.6", "0.7", "3.0", "3.1", "3.4", "3.5", "4"],
    ),
}


@pytest.mark.parametrize(("style", "method"), [("modules", "lsr"), *(("functions", method) for method in METHODS)])
def test_a_converted_conv_pointnet_is_the_one_built_by_hand(style, method):
    torch.manual_seed(0)
    make, names = VANILLA[style]
    network, _ = binarize(shaken(make().double()), METHODS[method])
    twin, x = hand_built(network, names, METHODS[method], transforms=False), torch.randn(4, 3, 24).double()
    for mode in (True, False):
        network.train(mode)
        twin.train(mode)
        torch.testing.assert_close(logits(network(x)), twin(x.transpose(1, 2)).logits)


def test_a_converted_pointnet_with_transforms_is_the_one_built_by_hand():
    torch.manual_seed(0)
    network, _ = binarize(shaken(ClassicPointNet(sizes=PUBLISHED).double()))
    encoder = [f"stn.{n}" for n in STN] + STN[:2] + [f"fstn.{n}" for n in STN] + STN[2:]
    twin, x = hand_built(network, encoder, LSR(), transforms=True), torch.randn(4, 3, 24).double()
    for mode in (True, False):
        (found, transform), expected = network.train(mode)(x), twin.train(mode)(x.transpose(1, 2))
        torch.testing.assert_close(found, expected.logits)
        torch.testing.assert_close(transform, expected.transform)


@pytest.mark.parametrize("tnets", [False, True])
def test_our_float_pointnet_becomes_our_1_bit_pointnet(tnets):
    torch.manual_seed(0)
    network, _ = binarize(steady(shaken(PointNet(5, tnets=tnets).double())))
    twin = PointNet(5, tnets=tnets, linear=BinaryLinear.of(LSR()), pool=EntropyMax()).double()
    twin.load_state_dict(network.state_dict())
    x = torch.randn(4, 24, 3).double()
    assert isinstance(network, PointNet)
    assert torch.equal(network(x).logits, twin(x).logits)
    assert torch.equal(network.eval()(x).logits, twin.eval()(x).logits)


@every_network
def test_layers_that_read_coordinates_and_last_layers_stay_float(name):
    _, _, network, report = built(name)
    assert list(report.kept) == NETWORKS[name][3]
    binary = {n for n, m in network.named_modules() if isinstance(m, BinaryLinear)}
    assert binary == set(report.binarized)


@every_network
def test_the_given_network_is_left_untouched(name):
    torch.manual_seed(0)
    model = NETWORKS[name][0]().double()
    next(m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) or m is model).eval()
    before, modes, shown = copy.deepcopy(model.state_dict()), [m.training for m in model.modules()], repr(model)
    forwards = [m.__dict__.keys() for m in model.modules()]
    drawn = torch.get_rng_state()
    network, _ = binarize(model, example=NETWORKS[name][1]() if NETWORKS[name][2] else None)
    assert repr(model) == shown
    assert [m.training for m in model.modules()] == modes
    assert [m.__dict__.keys() for m in model.modules()] == forwards
    if not NETWORKS[name][2]:
        assert torch.equal(drawn, torch.get_rng_state())
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    theirs = {p.data_ptr() for p in model.parameters()}
    assert not any(p.data_ptr() in theirs for p in network.parameters())


@every_network
def test_weights_are_taken_over(name):
    model, _, network, report = built(name)
    for layer in (*report.binarized, *report.kept):
        old, new = (dict(m.named_parameters())[f"{layer}.weight"] for m in (model, network))
        assert torch.equal(old.flatten(), new.flatten())


def test_learned_scales_start_from_the_weights_that_were_taken_over():
    network, report = binarize(sequential_pointnet(), METHODS["xnor++"])
    state = network.state_dict()
    for layer in report.binarized:
        torch.testing.assert_close(state[f"{layer}.alpha"], state[f"{layer}.weight"].abs().mean())


@every_network
@pytest.mark.parametrize("method", METHODS)
def test_gradients_reach_every_parameter(name, method):
    _, given, network, _ = built(name, method=METHODS[method])
    output = network(*given)
    outputs = output if isinstance(output, tuple) else (output,)
    torch.stack([out.square().sum() for out in outputs]).sum().backward()
    assert [n for n, p in network.named_parameters() if p.grad is None or not p.grad.isfinite().all()] == []


@every_network
def test_copies_and_state_dicts_carry_everything(name):
    _, given, network, _ = built(name)
    twin = copy.deepcopy(network)
    for parameter in twin.parameters():
        nn.init.normal_(parameter)
    assert not torch.equal(logits(network.eval()(*given)), logits(twin.eval()(*given)))
    twin.load_state_dict(network.state_dict())
    assert torch.equal(logits(network(*given)), logits(twin(*given)))


@pytest.mark.parametrize("name", [n for n in NETWORKS if NETWORKS[n][1] is not graph])
def test_calibrate_sets_the_scales_of_a_converted_network(name):
    _, (x,), network, report = built(name)
    network = steady(network)
    first, read = network.get_submodule(report.binarized[0]), []
    assert isinstance(first, BinaryLinear)
    first.register_forward_pre_hook(lambda module, inputs: read.append(inputs[0]))
    calibrate(network, x)
    network.train()(x)
    a = read[-1].movedim(-1 - getattr(first, "places", 0), -1)
    centred = first.weight - first.weight.mean()
    ratio = (a @ centred.T).std(unbiased=False) / (hard_sign(a) @ hard_sign(centred).T).std(unbiased=False)
    torch.testing.assert_close(first.alpha, ratio)


def blobs(count: int) -> tuple[Tensor, Tensor]:
    """Balls, sticks and plates: (B, 3, N)."""
    labels = torch.arange(count) % 3
    stretch = torch.tensor([[1, 1, 1], [0.2, 0.2, 1], [1, 1, 0.2]])[labels]
    return torch.randn(count, 3, 20) * stretch.unsqueeze(2), labels


@pytest.mark.parametrize("make", [functools.partial(ClassicPointNet, transforms=False), sequential_pointnet])
def test_a_converted_network_learns(make):
    torch.manual_seed(0)
    (x, y), (unseen, truth) = blobs(96), blobs(96)
    network, _ = binarize(make(3, (32, 64, 128, 64, 32)))
    calibrate(network, x)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    losses = []
    for _ in range(40):
        loss = F.cross_entropy(logits(network.train()(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    assert (logits(network.eval()(unseen)).argmax(1) == truth).float().mean() > 0.8


# Activations


class Spelled(nn.Module):
    """conv, BatchNorm, an activation, a pool, and two more layers; activation and pool as they are given."""

    def __init__(
        self,
        activation: Any = F.relu,
        pool: Any = lambda x: x.max(2)[0],
        convolution: Any = nn.Conv1d,
        norm: Any = nn.BatchNorm1d,
    ) -> None:
        super().__init__()
        self.first, self.hidden, self.norm = convolution(3, 8, 1), convolution(8, 16, 1), norm(16)
        self.head, self.last = nn.Linear(16, 8), nn.Linear(8, 4)
        self.activation, self.pool = activation, pool

    def forward(self, x):
        x = self.hidden(torch.tanh(self.first(x)))
        x = self.pool(self.activation(self.norm(x)))
        return self.last(self.activation(self.head(x.flatten(1))))


RECTIFIERS = {
    "F.relu": F.relu,
    "F.relu in place": lambda x: F.relu(x, inplace=True),
    "torch.relu": torch.relu,
    "x.relu": lambda x: x.relu(),
    "x.relu_": lambda x: x.relu_(),
    "clamp": lambda x: x.clamp(min=0),
    "F.leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "F.gelu": F.gelu,
    "nn.ReLU": nn.ReLU(),
    "nn.ReLU in place": nn.ReLU(inplace=True),
    "nn.LeakyReLU": nn.LeakyReLU(0.2),
    "nn.PReLU": nn.PReLU(),
    "nn.SiLU": nn.SiLU(),
    "nn.ReLU6": nn.ReLU6(),
}


@pytest.mark.parametrize("activation", RECTIFIERS)
def test_every_rectifier_becomes_hardtanh_and_goes_in_front_of_a_pool(activation):
    torch.manual_seed(0)
    model, x = Spelled(RECTIFIERS[activation]).double(), torch.randn(5, 3, 12).double()
    network, report = binarize(model)
    assert [row.now for row in report if row.kind == "activation"] == ["removed", "Hardtanh"]
    features = network.norm(network.hidden(torch.tanh(network.first(x))))
    pooled = features.max(2).values - delta(12)
    torch.testing.assert_close(network(x), network.last(F.hardtanh(network.head(pooled))))


def test_an_activation_that_a_pool_and_others_read_goes_for_the_pool_only():
    class Segmenter(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.hidden, self.norm = nn.Conv1d(3, 8, 1), nn.Conv1d(8, 8, 1), nn.BatchNorm1d(8)
            self.mix, self.last, self.relu = nn.Conv1d(16, 8, 1), nn.Conv1d(8, 4, 1), nn.ReLU(inplace=True)

        def forward(self, x):
            x = self.norm(self.hidden(torch.tanh(self.first(x))))
            self.relu(x)  # in place: what reads x from here on reads the result
            whole = x.max(dim=-1, keepdim=True).values.expand(-1, -1, x.shape[-1])
            return self.last(torch.relu(self.mix(torch.cat([x, whole], 1))))

    torch.manual_seed(0)
    network, _ = binarize(Segmenter().double())
    x = torch.randn(5, 3, 12).double()
    normed = network.norm(network.hidden(torch.tanh(network.first(x))))
    whole = (normed.max(2, keepdim=True).values - delta(12)).expand(-1, -1, 12)
    expected = network.last(F.hardtanh(network.mix(torch.cat([F.hardtanh(normed), whole], 1))))
    torch.testing.assert_close(network(x), expected)


def test_what_stands_between_float_layers_is_left_alone():
    model = nn.Sequential(*(m for i in range(6) for m in (nn.Linear(8, 8), nn.ReLU())), nn.Linear(8, 8))
    network, report = binarize(model, keep=["2", "4"])
    assert report.kept["2"] == report.kept["4"] == "kept by name"
    kept = [type(network[i]).__name__ for i in (1, 3, 5, 7, 9, 11)]
    assert kept == ["ReLU", "ReLU", "Hardtanh", "Hardtanh", "Hardtanh", "Hardtanh"]


def test_dropout_goes_where_sign_would_read_it_and_stays_alive_elsewhere():
    _, (x,), network, report = built("pyg-dropout")
    assert [row.now for row in report if row.kind == "dropout"] == ["removed", "removed"]
    assert not torch.equal(network.train()(x), network(x)), "the one in front of the last layer"
    assert torch.equal(network.eval()(x), network(x))


def test_a_layer_that_reads_one_sign_only_stays_float():
    model = nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 2))
    _, report = binarize(model)
    assert report.binarized == ["4"]
    assert "one sign" in report.kept["2"]


# Pools


def unpacked(x: Tensor) -> Tensor:
    values, _ = torch.max(x, 2)
    return values


POOLS_1D = {
    "torch.max": lambda x: torch.max(x, 2)[0],
    "torch.max keepdim": lambda x: torch.max(x, 2, keepdim=True)[0],
    "torch.max named": lambda x: torch.max(x, dim=-1).values,
    "torch.max unpacked": unpacked,
    "torch.amax": lambda x: torch.amax(x, 2),
    "x.max": lambda x: x.max(2)[0],
    "x.amax": lambda x: x.amax(dim=(2,)),
    "transposed": lambda x: x.transpose(1, 2).max(dim=1)[0],
    "nn.MaxPool1d": nn.MaxPool1d(12),
    "nn.AdaptiveMaxPool1d": nn.AdaptiveMaxPool1d(1),
    "F.max_pool1d": lambda x: F.max_pool1d(x, x.size(2)),
    "F.adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 1),
    "torch.mean": lambda x: torch.mean(x, 2),
    "x.mean": lambda x: x.mean(dim=-1, keepdim=True),
    "nn.AdaptiveAvgPool1d": nn.AdaptiveAvgPool1d(1),
    "F.avg_pool1d": lambda x: F.avg_pool1d(x, x.size(2)),
}
POOLS_2D = {  # of (B, C, 3, 4), all of it
    "torch.amax": lambda x: x.amax(dim=(2, 3)),
    "torch.mean": lambda x: x.mean([2, 3]),
    "nn.MaxPool2d": nn.MaxPool2d((3, 4)),
    "nn.AdaptiveMaxPool2d": nn.AdaptiveMaxPool2d(1),
    "nn.AdaptiveAvgPool2d": nn.AdaptiveAvgPool2d((1, 1)),
    "F.max_pool2d": lambda x: F.max_pool2d(x, kernel_size=[x.size(2), x.size(3)]),
    "F.adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 1),
}
SPELLINGS = [(f"{n} 1d", p, False) for n, p in POOLS_1D.items()] + [(f"{n} 2d", p, True) for n, p in POOLS_2D.items()]


@pytest.mark.parametrize(("spelling", "pool", "flat"), SPELLINGS, ids=[s[0] for s in SPELLINGS])
@pytest.mark.parametrize("activation", [F.relu, nn.ReLU()], ids=["F.relu", "nn.ReLU"])
def test_every_pool_over_points_becomes_an_ema_pool_of_what_batchnorm_gives(spelling, pool, flat, activation):
    torch.manual_seed(0)
    kind = (nn.Conv2d, nn.BatchNorm2d) if flat else (nn.Conv1d, nn.BatchNorm1d)
    model, x = Spelled(activation, pool, *kind).double(), torch.randn(5, 3, *((3, 4) if flat else (12,))).double()
    network, report = binarize(model)
    mean = "mean" in spelling or "vg" in spelling
    assert [row.now for row in report if row.kind == "pool"] == ["EntropyMean" if mean else "EntropyMax"]
    normed = network.norm(network.hidden(torch.tanh(network.first(x)))).flatten(2)  # (B, 16, 12)
    pooled = normed.mean(2) if mean else normed.max(2).values - delta(12)
    torch.testing.assert_close(network(x), network.last(F.hardtanh(network.head(pooled))))


@pytest.mark.parametrize("points", [1, 2, 7, 40])
def test_delta_follows_the_number_of_points_at_run_time(points):
    torch.manual_seed(0)
    model, x = Spelled().double(), torch.randn(5, 3, points).double()
    ema, plain = binarize(model)[0], binarize(model, pool=MaxPool())[0]
    pooled = []
    for network in (ema, plain):
        network.head.register_forward_pre_hook(lambda m, inputs: pooled.append(inputs[0]))
        network(x)
    torch.testing.assert_close(pooled[0], pooled[1] - delta(points))


@pytest.mark.parametrize(
    ("pool", "built_in"),
    [
        (PointPool(MaxPool(), window=(4,)), nn.MaxPool1d(4)),
        (PointPool(MaxPool(), window=(5,), stride=(2,)), nn.MaxPool1d(5, 2)),
        (PointPool(MaxPool(), window=(2, 3)), nn.MaxPool2d((2, 3))),
        (PointPool(MeanPool(), window=(1, 3)), nn.AvgPool2d((1, 3))),
        (PointPool(MaxPool(), dims=(1,)), lambda x: x.amax(1)),
        (PointPool(MaxPool(), dims=(-1, 1), keepdim=True), lambda x: x.amax((-1, 1), keepdim=True)),
        (PointPool(MeanPool(), dims=(0, 2)), lambda x: x.mean((0, 2))),
    ],
)
def test_point_pool_pools_what_pytorch_pools(pool, built_in):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 13).double() if len(pool.window) == 1 else torch.randn(2, 3, 7, 9).double()
    torch.testing.assert_close(pool(x), built_in(x))
    pool(x).view(-1)  # networks call .view() on what they pool


def test_a_pool_without_batchnorm_measures_its_shift():
    torch.manual_seed(0)
    network, report = binarize(Spelled(norm=nn.Identity))
    assert [row.now for row in report if row.kind == "pool"] == ["MeasuredMax"]
    pooled, x = [], torch.randn(64, 3, 12)
    network.head.register_forward_pre_hook(lambda m, inputs: pooled.append(inputs[0]))
    calibrate(network, x)
    network(x)
    assert pooled[-1].median() == 0
    (pool,) = [m for m in network.modules() if isinstance(m, MeasuredMax)]
    assert pool.shift != 0


class Reads(nn.Module):
    """Layers with something between the second and the third, and something at the end."""

    def __init__(self, between=lambda x: x, end=lambda x: x, width=8, relu=None):
        super().__init__()
        self.one, self.two, self.three, self.four = (
            nn.Linear(3, 8),
            nn.Linear(8, 8),
            nn.Linear(width, 8),
            nn.Linear(8, 8),
        )
        self.between, self.end, self.relu = between, end, relu or nn.ReLU()

    def forward(self, x):
        x = self.between(self.relu(self.two(self.relu(self.one(x)))))
        return self.end(self.four(self.relu(self.three(x))))


def values_and_indices(x: Tensor) -> Tensor:
    values, indices = x.max(1)
    return values + indices


@pytest.mark.parametrize(
    ("between", "why"),
    [
        (lambda x: x - x.mean(1, keepdim=True), "combined with"),
        (lambda x: x.max(-1, keepdim=True)[0].expand(-1, -1, 8), "over channels"),
        (values_and_indices, "indices"),
        (lambda x: F.adaptive_max_pool1d(x, 4)[..., [0, 1, 2, 3, 0, 1, 2, 3]], "output size"),
        (lambda x: F.max_pool1d(x, 3, 1, 1), "padding"),
    ],
)
def test_what_is_no_pool_over_points_is_left_as_it_is(between, why):
    torch.manual_seed(0)
    network, report = binarize(Reads(between))
    assert [(row.now, why in row.why) for row in report if row.kind == "pool"] == [("kept", True)]
    x = torch.randn(4, 5, 3)
    read = between(F.hardtanh(network.two(F.hardtanh(network.one(x)))))
    torch.testing.assert_close(network(x), network.four(F.hardtanh(network.three(read))))


def test_predictions_are_no_pool():
    network, report = binarize(Reads(end=lambda x: x.max(-1)[1]))
    assert not [row for row in report if row.kind == "pool"]
    assert network(torch.randn(4, 5, 3)).dtype == torch.long


# What cannot be 1-bit is told


def stack(hidden: nn.Module, **options) -> tuple[nn.Module, dict[str, str]]:
    model = nn.Sequential(nn.Conv1d(3, 8, 1), nn.ReLU(), hidden, nn.Conv1d(8, 8, 1), nn.ReLU(), nn.Conv1d(8, 2, 1))
    network, report = binarize(model, **options)
    assert report.binarized == ["3"]
    assert network(torch.randn(2, 3, 9)).shape[:2] == (2, 2)
    assert type(network[2]) is type(hidden)
    return network, report.kept


class Masked(nn.Conv1d):
    def forward(self, input):
        return super().forward(input) * 2


def frozen(layer: nn.Module) -> nn.Module:
    return layer.requires_grad_(False)


def hooked(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda *_: None)
    return layer


@pytest.mark.parametrize(
    ("hidden", "why"),
    [
        (nn.Conv1d(8, 8, 3), r"kernel_size is \(3,\), expected 1"),
        (nn.Conv1d(8, 8, 1, stride=2), r"stride is \(2,\), expected 1"),
        (nn.Conv1d(8, 8, 1, padding=1), r"padding is \(1,\), expected 0"),
        (nn.Conv1d(8, 8, 1, groups=2), "groups is 2, expected 1"),
        (nn.ConvTranspose1d(8, 8, 1), "ConvTranspose1d is not a linear layer"),
        (Masked(8, 8, 1), "Masked is not a linear layer"),
        (frozen(nn.Conv1d(8, 8, 1)), "frozen"),
        (hooked(nn.Conv1d(8, 8, 1)), "hook"),
        (nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 8, 1)), "parametrization"),
        (nn.utils.parametrizations.spectral_norm(nn.Conv1d(8, 8, 1)), "parametrization"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_layers_that_cannot_be_1_bit_stay_as_they_are(hidden, why):
    _, kept = stack(hidden)
    assert list(kept) == ["0", "2", "5"]
    assert re.search(why, kept["2"])


def test_a_layer_used_twice_is_one_layer():
    shared = nn.Linear(8, 8)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), shared, nn.ReLU(), shared, nn.ReLU(), nn.Linear(8, 2))
    network, report = binarize(model)
    assert network[2] is network[4]
    assert isinstance(network[2], BinaryLinear)
    assert report.binarized == ["2"]
    assert "called 2 times" in next(row.why for row in report if row.name == "2")
    assert report.bits_before == 32 * sum(p.numel() for p in model.parameters())


def test_a_layer_that_also_reads_coordinates_stays_float():
    shared = nn.Linear(3, 3)
    model = nn.Sequential(shared, nn.ReLU(), shared, nn.ReLU(), nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    assert binarize(model)[1].binarized == ["4"]


def test_tied_weights_stay_float():
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(5)))
    model[1].weight = model[2].weight
    network, report = binarize(model)
    assert report.binarized == ["3"]
    assert "shares its weights" in report.kept["1"]
    assert network[1].weight is network[2].weight
    assert report.bits_before == 32 * sum(p.numel() for p in model.parameters())


def test_weights_that_a_forward_reads_by_itself_stay_float():
    class Tied(Reads):
        def forward(self, x):
            return F.linear(super().forward(x), self.two.weight)

    _, report = binarize(Tied())
    assert report.binarized == ["three", "four"]
    assert "reads them by itself" in report.kept["two"]
    assert "called as a function" in report.kept["linear"]


def test_layers_inside_attention_are_not_touched():
    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.attention = nn.Linear(3, 8), nn.MultiheadAttention(8, 2, batch_first=True)
            self.two, self.three = nn.Linear(8, 8), nn.Linear(8, 2)

        def forward(self, x):
            x = self.one(x)
            return self.three(torch.relu(self.two(self.attention(x, x, x)[0])))

    network, report = binarize(Attending())
    assert report.binarized == ["two"]
    assert report.kept["attention.out_proj"] == "never called as a layer"
    network(torch.randn(2, 5, 3))


def test_keep_takes_names_and_patterns():
    model = sequential_pointnet()
    assert "3.0" in binarize(model, keep="3.0")[1].kept
    assert binarize(model, keep=["0.*"])[1].binarized == ["3.0", "3.4"]
    with pytest.raises(UserError, match=r"keep='fc9' names no layer, expected one of 0\.0, 0\.3"):
        binarize(model, keep="fc9")


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nn.Sequential(nn.ReLU(), nn.Flatten()), {}, r"no layer of Sequential can become 1-bit \(it has none\)"),
        (nn.Sequential(nn.Linear(3, 4)), {}, "0: first: reads the network's input"),
        (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), {}, "2: last: no other layer reads it"),
        (nn.Linear(3, 4), {}, "no layer of Linear can become 1-bit"),
        (frozen(plain_mlp()), {}, "3: frozen"),
        (plain_mlp(), {"keep": "*"}, "3: kept by name"),
        (plain_mlp(), {"method": "lsr"}, r"method is 'lsr', expected a Method; give an object such as LSR\(\)"),
        (plain_mlp(), {"pool": "max"}, "pool is 'max', expected a pool"),
        (torch.relu, {}, "expected a torch.nn.Module"),
        (nn.DataParallel(plain_mlp()), {}, "model is a DataParallel, expected a network that is not"),
        (torch.compile(plain_mlp()), {}, "model is a OptimizedModule"),
        (nn.Sequential(nn.Linear(3, 4), nn.LazyLinear(4), nn.Linear(4, 4)), {}, "1.weight has no shape yet"),
        (pyg.MLP([-1, 8, 8, 8]), {}, "lins.0.weight has no shape yet"),
        (plain_mlp(), {"example": torch.randn(2, 7)}, "Sequential does not run on the example"),
    ],
)
def test_mistakes_are_told_in_one_sentence(model, options, message):
    with pytest.raises(UserError, match=message) as caught:
        binarize(model, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("binarize: ")


# Networks that look at their input


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
        UserError, match=r"torch.fx stops at .*test_convert.py:\d+, `if loud:`.*give a batch as example="
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
    with pytest.raises(UserError, match=r"takes another way at .*test_convert.py:\d+ than the example did"):
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


# torch_geometric, and the report


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

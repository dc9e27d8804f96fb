"""How `binarize` converts pools, in every spelling."""

import pytest
import torch
import torch.nn.functional as F
from codes import shift_by_codes
from foreign_networks import (
    FourLayers,
    PoolingNet,
)
from torch import Tensor, nn

from bipointnet import UserError, binarize
from bipointnet.convert import report_of
from bipointnet.nn import (
    BinaryLinear,
    EntropyMax,
    MaxPool,
    MeanPool,
    MeasuredMax,
    PointPool,
    calibrate,
    delta,
)


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
def test_every_pool_over_points_becomes_an_ema_pool_of_the_batchnorm_output(spelling, pool, flat, activation):
    torch.manual_seed(0)
    kind = (nn.Conv2d, nn.BatchNorm2d) if flat else (nn.Conv1d, nn.BatchNorm1d)
    model, x = PoolingNet(activation, pool, *kind).double(), torch.randn(5, 3, *((3, 4) if flat else (12,))).double()
    network = binarize(model)
    report = report_of(network)
    mean = "mean" in spelling or "vg" in spelling
    assert [row.now for row in report if row.kind == "pool"] == ["EntropyMean" if mean else "EntropyMax"]
    read = torch.tanh(network.first(x))
    normed = network.norm(network.hidden(read)).flatten(2)  # (B, 16, 12)
    pooled = normed.mean(2) if mean else normed.max(2).values - shift_by_codes(read)
    torch.testing.assert_close(network(x), network.last(F.hardtanh(network.head(pooled))))


@pytest.mark.parametrize("points", [1, 2, 7, 40])
@pytest.mark.parametrize("over", ["distinct", "points"])
def test_delta_follows_the_codes_or_points_at_run_time(points, over):
    torch.manual_seed(0)
    model, x = PoolingNet().double(), torch.randn(5, 3, points).double()
    ema, plain = binarize(model, pool=EntropyMax(over)), binarize(model, pool=MaxPool())
    pooled = []
    for network in (ema, plain):
        network.head.register_forward_pre_hook(lambda m, inputs: pooled.append(inputs[0]))
        network(x)
    shift = shift_by_codes(torch.tanh(plain.first(x))) if over == "distinct" else delta(points)
    torch.testing.assert_close(pooled[0], pooled[1] - shift)


def test_a_network_without_a_batch_dimension_counts_codes_too():
    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.hidden, self.norm = nn.Linear(3, 4), nn.Linear(4, 16), nn.BatchNorm1d(16)
            self.head, self.last = nn.Linear(16, 8), nn.Linear(8, 5)

        def forward(self, x):
            return self.last(torch.relu(self.head(self.norm(self.hidden(torch.tanh(self.first(x)))).max(0).values)))

    torch.manual_seed(0)
    network, x = binarize(Single().double()).eval(), torch.randn(40, 3).double()
    read = torch.tanh(network.first(x))
    shift = shift_by_codes(read.T.unsqueeze(0)).item()
    assert shift < delta(40)
    pooled = network.norm(network.hidden(read)).max(0).values - shift
    torch.testing.assert_close(network(x), network.last(F.hardtanh(network.head(pooled))))


def test_copies_of_points_change_no_pooled_value():
    torch.manual_seed(0)
    network, x = binarize(PoolingNet().double()).eval(), torch.randn(5, 3, 40).double()
    uneven = torch.cat([x, x[:, :, :13], x[:, :, :13], x[:, :, 5:6]], 2)
    torch.testing.assert_close(network(uneven), network(x))


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
def test_point_pool_equals_the_pool_of_pytorch(pool, built_in):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 13).double() if len(pool.window) == 1 else torch.randn(2, 3, 7, 9).double()
    torch.testing.assert_close(pool(x), built_in(x))
    pool(x).view(-1)  # networks call .view() on the result


def test_a_pool_without_batchnorm_measures_its_shift():
    torch.manual_seed(0)
    network = binarize(PoolingNet(norm=nn.Identity))
    report = report_of(network)
    assert [row.now for row in report if row.kind == "pool"] == ["MeasuredMax"]
    pooled, x = [], torch.randn(64, 3, 12)
    network.head.register_forward_pre_hook(lambda m, inputs: pooled.append(inputs[0]))
    calibrate(network, x)
    network(x)
    assert pooled[-1].median() == 0
    (pool,) = [m for m in network.modules() if isinstance(m, MeasuredMax)]
    assert pool.shift != 0


def values_and_indices(x: Tensor) -> Tensor:
    values, indices = x.max(1)
    return values + indices


def test_the_indices_of_a_maximum_stay():
    torch.manual_seed(0)
    network = binarize(FourLayers(values_and_indices))
    assert [row.now for row in report_of(network) if row.kind == "pool"] == ["MeasuredMax"]
    x = torch.randn(4, 5, 3)
    values, indices = network.two(F.hardtanh(network.one(x))).max(1)
    torch.testing.assert_close(network(x), network.four(F.hardtanh(network.three(values + indices))))


MAXIMA_OF_ANOTHER_KIND = [
    (lambda x: x.max(-1, keepdim=True)[0].expand(-1, -1, 8), "over channels"),
    (lambda x: F.adaptive_max_pool1d(x, 4)[..., [0, 1, 2, 3, 0, 1, 2, 3]], "output size"),
    (lambda x: F.max_pool1d(x, 3, 1, 1), "padding"),
]


@pytest.mark.parametrize(("between", "why"), MAXIMA_OF_ANOTHER_KIND)
def test_a_maximum_that_cannot_be_replaced_is_refused_or_accepted(between, why):
    torch.manual_seed(0)
    with pytest.raises(UserError, match=rf"takes a maximum in front of the 1-bit layer three .*{why}.*pool=\"max\""):
        binarize(FourLayers(between))
    network = binarize(FourLayers(between), pool="max")
    assert [(row.now, why in row.why) for row in report_of(network) if row.kind == "pool"] == [("kept", True)]
    x = torch.randn(4, 5, 3)
    read = between(F.hardtanh(network.two(F.hardtanh(network.one(x)))))
    torch.testing.assert_close(network(x), network.four(F.hardtanh(network.three(read))))


EXTREMES = {
    "min": lambda x: -(-x).min(1, keepdim=True)[0],
    "amin": lambda x: -torch.amin(-x, 1, keepdim=True),
    "topk": lambda x: x.topk(2, dim=1).values,
    "sort": lambda x: torch.cat([x.sort(1)[0][:, -1:], x[:, :1]], 1),
    "kthvalue": lambda x: torch.relu(x.kthvalue(5, 1, keepdim=True)[0]),
    "cummax": lambda x: x.cummax(1)[0],
    "logsumexp": lambda x: torch.logsumexp(x, 1, keepdim=True),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x.mT[..., None, None], 1).flatten(2).mT,
}


@pytest.mark.parametrize("example", [None, torch.randn(4, 5, 3)], ids=["traced", "recorded"])
@pytest.mark.parametrize("name", EXTREMES)
def test_an_extreme_in_front_of_a_1_bit_layer_is_refused_or_accepted(name, example):
    torch.manual_seed(0)
    message = rf'{name} takes an? (extreme|maximum) in front of the 1-bit layer three .*exclude="three".*pool="max"'
    with pytest.raises(UserError, match=message):
        binarize(FourLayers(EXTREMES[name]), example=example)
    assert isinstance(binarize(FourLayers(EXTREMES[name]), pool="max", example=example).three, BinaryLinear)
    assert isinstance(binarize(FourLayers(EXTREMES[name]), exclude="three", example=example).three, nn.Linear)


@pytest.mark.parametrize(
    "between",
    [
        lambda x: x.gather(1, x.sort(1)[1]),
        lambda x: x.sort(1)[0],
        lambda x: x[torch.arange(4)[:, None, None], torch.cdist(x, x).topk(2).indices].mean(2),
        lambda x: x * (torch.cdist(x, x).topk(2).values.mean(2, keepdim=True) - 1),
        lambda x: x * x.mean(2, keepdim=True).topk(5, dim=1).values,
        lambda x: x - x.amin(1, keepdim=True) - 0.3,
        lambda x: torch.min(x, -x) + 0.5,
    ],
)
def test_ranks_distances_and_weights_are_no_extremes(between):
    torch.manual_seed(0)
    assert isinstance(binarize(FourLayers(between), example=torch.randn(4, 5, 3)).three, BinaryLinear)


def test_a_layer_that_reads_deviations_stays_float():
    network = binarize(FourLayers(lambda x: x.std(1, keepdim=True)))
    assert "one sign" in report_of(network).kept["three"]


def test_a_maximum_with_batchnorm_behind_it_is_not_refused():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(5)

        def forward(self, x):
            return self.norm(F.max_pool1d(x, 3, 1, 1))

    assert [row.now for row in report_of(binarize(FourLayers(Normed()))) if row.kind == "pool"] == ["kept"]


def test_a_mean_that_is_no_pool_stays():
    torch.manual_seed(0)
    network = binarize(FourLayers(lambda x: x - x.mean(1, keepdim=True)))
    assert [(row.now, "combined with" in row.why) for row in report_of(network) if row.kind == "pool"] == [
        ("kept", True)
    ]


def test_a_maximum_over_points_behind_layer_norm_is_a_pool():
    class Mixing(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.norm, self.dim = nn.LayerNorm(8), dim

        def forward(self, x):
            return self.norm(x).amax(dim=self.dim, keepdim=True).expand(-1, 5, 8)

    network = binarize(FourLayers(Mixing(1)))
    assert [row.now for row in report_of(network) if row.kind == "pool"] == ["MeasuredMax"]
    with pytest.raises(UserError, match="over channels"):
        binarize(FourLayers(Mixing(-1)))


def test_an_argmax_of_the_output_is_not_a_pool():
    network = binarize(FourLayers(end=lambda x: x.max(-1)[1]))
    report = report_of(network)
    assert not [row for row in report if row.kind == "pool"]
    assert network(torch.randn(4, 5, 3)).dtype == torch.long

"""Counts of distinct codes: against Python's sets, and what they do to a pool."""

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from bipointnet import vanilla_pointnet
from bipointnet.models.blueprint import PointNorm
from bipointnet.nn import METHODS, BinaryConv, BinaryLinear, EntropyMax, PointPool, PooledLayer, ScatterPool, delta
from bipointnet.nn.distinct import distinct_rows, distinct_rows_of_groups, packed_rows


def random_signs(seed: int, *shape: int, patterns: int = 9) -> Tensor:
    """Rows of +-1, of which many are equal and some differ in one column only."""
    generator = torch.Generator().manual_seed(seed)
    known = torch.randint(0, 2, (patterns, shape[-1]), generator=generator) * 2.0 - 1
    rows = known[torch.randint(0, patterns, shape[:-1], generator=generator)]
    flip = torch.randint(0, 8 * shape[-1], (*shape[:-1], 1), generator=generator) == torch.arange(shape[-1])
    return torch.where(flip, -rows, rows)


def by_sets(rows: Tensor) -> int:
    return len({*map(tuple, rows.tolist())})


@given(st.integers(0, 10**6), st.integers(0, 40), st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 128, 130, 200]))
def test_distinct_rows_are_those_of_a_set(seed, points, channels):
    signs = random_signs(seed, 2, 3, points, channels)
    expected = [[by_sets(cloud) for cloud in row] for row in signs]
    assert distinct_rows(signs).tolist() == expected
    assert distinct_rows(signs.double()).tolist() == expected
    assert distinct_rows(signs > 0).tolist() == expected


@given(st.integers(0, 10**6), st.integers(0, 60), st.sampled_from([1, 64, 100]))
def test_distinct_rows_of_groups_of_any_size(seed, rows, channels):
    signs = random_signs(seed, rows, channels)
    group = torch.randint(0, 5, (rows,), generator=torch.Generator().manual_seed(seed))
    expected = [by_sets(signs[group == number]) for number in range(7)]
    assert distinct_rows_of_groups(signs, group, 7).tolist() == expected


def test_every_bit_has_its_own_place_in_the_words():
    words = packed_rows(torch.eye(130) * 2 - 1)  # row i has +1 in column i only
    assert words.shape == (130, 3)
    for i, row in enumerate(words.tolist()):
        assert [word % 2**64 for word in row] == [2 ** (i % 64) if i // 64 == w else 0 for w in range(3)]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_a_pooled_layer_counts_the_codes_of_each_cloud(method, fused):
    torch.manual_seed(0)
    layer: Any = PooledLayer(BinaryLinear(4, 8, method), PointNorm(8), None, EntropyMax()).double().eval()
    layer.fused = fused
    x = torch.randn(6, 30, 4).double()
    shift = torch.tensor([[delta(by_sets(cloud))] for cloud in layer.linear.codes(x)]).double()
    assert len(set(shift.flatten().tolist())) > 1
    assert shift.max() < delta(30)
    torch.testing.assert_close(layer(x), layer.norm(layer.linear(x)).max(1).values - shift)


def test_a_pooled_layer_counts_points_where_it_is_told_so_and_in_float():
    torch.manual_seed(0)
    x = torch.randn(6, 30, 4)
    for linear, pool in ((BinaryLinear(4, 8, "lsr"), EntropyMax("points")), (nn.Linear(4, 8), EntropyMax())):
        layer: Any = PooledLayer(linear, PointNorm(8), None, pool).eval()
        torch.testing.assert_close(layer(x), layer.norm(linear(x)).max(1).values - delta(30))


def test_a_pool_over_neighbors_counts_the_neighbors():
    torch.manual_seed(0)
    layer: Any = PooledLayer(BinaryLinear(4, 8, "lsr"), PointNorm(8), None, EntropyMax()).eval()
    x, counts = torch.randn(6, 5, 30, 4), torch.randint(1, 30, (6, 5))
    shift = torch.tensor([[delta(n) for n in row] for row in counts.tolist()]).unsqueeze(-1)
    torch.testing.assert_close(layer(x, counts), layer.norm(layer.linear(x)).max(2).values - shift)


@pytest.mark.parametrize("method", METHODS)
def test_copies_of_points_change_no_logit(method):
    torch.manual_seed(0)
    network = vanilla_pointnet(5, linear=method, pool="ema-max").double().eval()
    x = torch.randn(3, 50, 3).double()
    uneven = torch.cat([x, x[:, :20].repeat(1, 7, 1)], dim=1)
    torch.testing.assert_close(network(uneven).logits, network(x).logits)


def test_a_scattered_pool_counts_the_codes_of_the_layer_in_front():
    torch.manual_seed(0)
    layer, pool = BinaryLinear(4, 8, "lsr"), ScatterPool("ema-max")
    pool.codes.count(layer)
    x, cloud = torch.randn(60, 4), torch.randint(0, 5, (60,))
    z = layer(x)
    arguments = (torch.zeros(5, 8), 0, cloud.unsqueeze(1).expand(60, 8), z)
    found = pool.reduce(torch.scatter_reduce, arguments, {"reduce": "amax", "include_self": False})
    shift = torch.tensor([[delta(by_sets(layer.codes(x[cloud == c])))] for c in range(5)])
    maxima = torch.stack([z[cloud == c].max(0).values for c in range(5)])
    torch.testing.assert_close(found, maxima - shift)


def test_the_layer_in_front_is_copied_and_pickled_with_the_network():
    layer, pool = BinaryLinear(4, 8, "lsr"), ScatterPool("ema-max")
    pool.codes.count(layer)
    layer(torch.randn(3, 4))
    for network in (nn.ModuleList([layer, pool]), copy.deepcopy(nn.ModuleList([layer, pool]))):
        same: Any = pickle.loads(pickle.dumps(network))
        assert same[1].codes.last_input is same[0].last_input is not layer.last_input
        assert same[0].last_input.x is None
        assert [*same.state_dict()] == ["0.weight", "0.alpha"]


class CountingNet(nn.Module):
    """A layer, and two pools over points that count its codes."""

    def __init__(self, between: Callable[[], Any] = lambda: None):
        super().__init__()
        self.layer, self.pools = BinaryConv(4, 8, "abc-net", 1), nn.ModuleList(PointPool("ema-max", (2,)) for _ in "ab")
        pool: Any
        for pool in self.pools:
            pool.codes.count(self.layer)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        z = self.layer(x)
        self.between()
        return torch.stack([pool(z) for pool in self.pools])

    def expected(self, x: Tensor) -> Tensor:
        shift = torch.tensor([[delta(by_sets(cloud))] for cloud in self.layer.codes(x)])
        return (self.layer(x).amax(2) - shift).expand(2, -1, -1)


def test_every_pool_of_one_layer_counts_its_codes():
    torch.manual_seed(0)
    network, x = CountingNet(), torch.randn(3, 4, 40)
    torch.testing.assert_close(network(x), network.expected(x))
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(2 * x), network.expected(2 * x))


def test_replicas_that_run_at_once_count_their_own_codes():
    """The replicas of nn.DataParallel are shallow copies whose children are replicas; each runs in a thread."""
    torch.manual_seed(0)
    network = CountingNet(threading.Barrier(3).wait)
    replicas = []
    for _ in range(3):
        parts = {module: module._replicate_for_data_parallel() for module in network.modules()}
        for module, part in parts.items():
            part._modules = {name: parts[child] for name, child in module.named_children()}
            for name, parameter in module.named_parameters(recurse=False):
                setattr(part, name, parameter.clone())
        replicas.append(parts[network])
    replicas[2].layer.offset += 0.3
    inputs = [torch.randn(2, 4, 40), torch.randn(2, 4, 40).round(), torch.randn(2, 4, 40)]
    with ThreadPoolExecutor(3) as threads:
        found = [*threads.map(lambda replica, x: replica(x), replicas, inputs)]
    for replica, x, y in zip(replicas, inputs, found, strict=True):
        torch.testing.assert_close(y, CountingNet.expected(replica, x))

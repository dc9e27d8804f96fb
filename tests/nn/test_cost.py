"""Multiply-adds against counts by hand, and against the table of the documentation."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from bipointnet.models import MODELS
from bipointnet.nn import LSR, BinaryLinear, EntropyMax, deployed_bytes, operations

LINEAR = BinaryLinear.of(LSR())
PAGE = Path(__file__).parents[2] / "docs" / "backbones.md"


def one_bit(name: str) -> nn.Module:
    return MODELS[name](num_classes=40, linear=LINEAR, pool=EntropyMax())


def test_vanilla_pointnet_by_hand():
    counted = operations(one_bit("pointnet-vanilla"), 100, 3)
    assert counted.one_bit == 100 * (64 * 128 + 128 * 1024) + 1024 * 512 + 512 * 256
    assert counted.float == 100 * 3 * 64 + 256 * 40
    assert counted.distances == 0
    assert counted.layers["pooled.linear"] == 100 * 128 * 1024


def test_transforms_are_float_products_too():
    with_tnets, layers = operations(one_bit("pointnet"), 100, 3), MODELS["pointnet"](num_classes=40, linear=LINEAR)
    floats = sum(n for name, n in with_tnets.layers.items() if isinstance(layers.get_submodule(name), nn.Linear))
    assert with_tnets.float == floats + 100 * (3 * 3 + 64 * 64)


def test_dgcnn_by_hand():
    counted = operations(one_bit("dgcnn"), 100, 3)
    head = 1024 * 512 + 512 * 256
    assert counted.one_bit == 100 * 20 * (2 * 64 * 64 + 128 * 128) + 100 * 192 * 1024 + head
    assert counted.float == 100 * 20 * 6 * 64 + 256 * 40
    assert counted.distances == 100 * 100 * (3 + 64)


def test_x_convolutions_by_hand():
    counted = operations(one_bit("pointcnn"), 1024, 3)
    assert counted.layers["convs.0.order.2.0"] == 1024 * 8 * 8 * 8  # 8 groups of 8 x 8
    assert counted.layers["convs.3.depthwise.0"] == 128 * (192 + 256) * 16
    sizes = ((1024, 8, 32), (384, 12, 112), (128, 16, 224), (128, 16, 448))
    model = one_bit("pointcnn")
    floats = sum(n for name, n in counted.layers.items() if isinstance(model.get_submodule(name), nn.Linear))
    assert counted.float == floats + sum(points * k * k * channels for points, k, channels in sizes)


@pytest.mark.parametrize("name", MODELS)
def test_the_float_network_has_the_same_count_in_floats_and_is_not_modified(name):
    model = MODELS[name](num_classes=40)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    counted, binary = operations(model, 64, 3), operations(one_bit(name), 64, 3)
    assert counted.one_bit == 0
    assert counted.float == binary.one_bit + binary.float
    assert counted.layers == binary.layers
    assert model.training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_the_table_of_the_documentation_has_the_counted_numbers():
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.M)
    shown = {name: [cell.strip() for cell in cells.split("|")][:5] for name, cells in rows}
    for name in MODELS:
        model = one_bit(name)
        counted = operations(model, 1024, 3)
        weights = sum(m.weight.numel() for m in model.modules() if isinstance(m, (nn.Linear, BinaryLinear)))
        millions = [f"{n / 1e6:,.1f}" for n in (counted.one_bit, counted.float, counted.distances)]
        assert shown[name] == [f"{weights:,}", f"{deployed_bytes(model) / 1000:,.0f}", *millions]

"""Every backbone, method, pool and variant: the program has the bits, floats and logits of the network."""

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from conftest import VARIANTS
from packed_comparison import compare
from packed_networks import CLASSES, network, shaken, with_layer
from torch import nn

from bipointnet import binarize, calibrate, export, load
from bipointnet.models import (
    DGCNN,
    MODELS,
    DGCNNSegmenter,
    LocalNet,
    PartPointNet,
    PointCNN,
    PointConvNet,
    PointNet,
    PointNet2,
    PointNet2Segmenter,
    ScenePointNet,
    vanilla_pointnet,
)
from bipointnet.models.pointnet2 import ROOMS, SetAbstraction
from bipointnet.nn import METHODS, POOLS, BinaryLinear
from bipointnet.packing.sizes import SizeRule

OPTIONS: dict[str, dict[str, Any]] = VARIANTS | {"six": {"in_channels": 6}}
CASES = [
    *product("b", POOLS, METHODS),
    *product("f", ("ema-max", "avg"), METHODS),
    *product(("c", "d", "e", "six"), ("ema-max",), METHODS),
]


@pytest.mark.parametrize(("variant", "pool", "method"), CASES)
def test_every_method_pool_and_variant(method, pool, variant):
    compare(network(method, pool, **OPTIONS[variant]), len(CLASSES))


TRANSFORMED = [
    ("b", "ema-max", "lsr"),
    ("b", "avg", "bnn"),
    ("b", "ema-max", "xnor"),
    ("d", "ema-max", "abc-net"),
    ("f", "ema-max", "bnn"),
    ("six", "ema-max", "bnn"),
]


@pytest.mark.parametrize(("variant", "pool", "method"), TRANSFORMED)
def test_transforms(method, pool, variant):
    compare(network(method, pool, tnets=True, **OPTIONS[variant]), len(CLASSES))


def backbone(kind: Any, method: str, pool: str = "ema-max", **options: Any) -> nn.Module:
    linear = nn.Linear if method == "fp" else BinaryLinear.of(METHODS[method])
    torch.manual_seed(0)
    category_input = [torch.arange(8) % options["categories"]] if options.get("categories") else []
    model = kind(len(CLASSES), linear=linear, pool=POOLS[pool](), **options)
    return shaken(model, options.get("in_channels", 3), 0, *category_input)


BACKBONES = [PointNet2, DGCNN, PointConvNet, PointCNN, LocalNet]
SOME = [
    ("lsr", "ema-max"),
    ("xnor", "max"),
    pytest.param("abc-net", "avg", marks=pytest.mark.long),
    pytest.param("fp", "max", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("method", "pool"), SOME)
@pytest.mark.parametrize("kind", BACKBONES)
def test_backbones_with_neighbors(kind, method, pool):
    compare(backbone(kind, method, pool), len(CLASSES), (1, 2, 63, 150))


@pytest.mark.parametrize("kind", BACKBONES)
def test_backbones_with_normals(kind):
    compare(backbone(kind, "lsr", in_channels=6), len(CLASSES), (40, 150))


@pytest.mark.parametrize("kind", [kind for kind in BACKBONES if kind is not PointConvNet])
def test_backbones_with_binary_first_and_last_layers(kind):
    compare(backbone(kind, "lsr", binary_first=True, binary_last=True), len(CLASSES), (100,))


@pytest.mark.parametrize("name", ["pointnet2", "local-tiny", "local-small", "local-base"])
def test_balls_hold_as_many_neighbors_as_in_the_network(name, tmp_path):
    """For every number of points, not only for those that were recorded: ceil(n / 64) was packed as ceil(n / 59)."""
    network = MODELS[name](len(CLASSES), linear="lsr", pool="ema-max").eval()
    export(network, tmp_path / "a.bpn", classes=CLASSES)
    program = load(tmp_path / "a.bpn").manifest["program"]
    counts = {op["radius"]: op["count"] for op in program if op["op"] == "ball"}
    levels = [module for module in network.modules() if isinstance(module, SetAbstraction)]
    assert len(counts) == len(levels)
    for level in levels:
        rule = SizeRule(**counts[level.radius])
        for total in range(1, 3000):
            assert rule(total) == math.ceil(level.limit * min(1.0, total / level.usual)), total


def test_pointconv_with_binary_first_and_last_layers(tmp_path):
    """With the random BatchNorm of `backbone`, its sigmoid is below the smallest float32, so this one has real ones."""
    torch.manual_seed(1)
    model = PointConvNet(len(CLASSES), linear="lsr", binary_first=True, binary_last=True)
    clouds = nn.functional.normalize(torch.randn(20, 100, 3), dim=-1)
    calibrate(model, clouds[:8])
    for _ in range(3):
        model.train()(clouds[:8])
    export(model.eval(), tmp_path / "a.bpn", example=clouds[:1], classes=CLASSES, last="f32")
    packed = load(tmp_path / "a.bpn")
    with torch.no_grad():
        expected = model.double()(clouds[8:].double()).logits.numpy()
    found = np.stack([packed.logits(cloud.numpy(), normalize=False) for cloud in clouds[8:]])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "method", "options"),
    [
        (PartPointNet, "lsr", {"tnets": True, "categories": 2}),
        (PartPointNet, "xnor", {"tnets": False}),
        (PartPointNet, "abc-net", {"tnets": False, "categories": 3}),
        (PartPointNet, "fp", {"tnets": False}),
        (ScenePointNet, "lsr", {"tnets": True, "in_channels": 9}),
        (ScenePointNet, "abc-net", {"tnets": False}),
        (ScenePointNet, "xnor", {"tnets": False, "in_channels": 9}),
        (PointNet2Segmenter, "lsr", {"categories": 2}),
        (partial(PointNet2Segmenter, levels=ROOMS), "lsr", {"in_channels": 9}),
        (PointNet2Segmenter, "xnor", {}),
        (DGCNNSegmenter, "lsr", {"in_channels": 9}),
        (DGCNNSegmenter, "lsr", {"categories": 3}),
    ],
    ids=str,
)
def test_networks_that_label_points(kind, method, options):
    categories = options.get("categories", 0)
    options = {"in_channels": 3, **options}
    category = 1 if categories else None
    compare(backbone(kind, method, **options), len(CLASSES), (1, 70), categories=categories, category=category)


@pytest.mark.parametrize("kind", [PartPointNet, ScenePointNet])
def test_a_layer_that_is_pooled_and_read_at_every_point_is_one_operation(kind):
    program = compare(backbone(kind, "lsr", tnets=False, in_channels=3), len(CLASSES), (70,))
    pooled = [op for op in program if op["op"] == "bilinear_pool"]
    assert [len(op["out"]) for op in pooled] == [2 if kind is PartPointNet else 1]


@pytest.mark.parametrize("tnets", [False, True])
def test_a_converted_float_network_is_packed_like_any_other(tnets):
    torch.manual_seed(0)
    compare(shaken(binarize(PointNet(len(CLASSES), tnets=tnets))), len(CLASSES))


MIXED = {
    "a float layer after the pool": ("head.0.0", lambda: nn.Linear(1024, 512)),
    "a float layer before the pool": ("pooled.linear", lambda: nn.Linear(128, 1024)),
    "a scale per point in the middle": ("points.0.0", lambda: BinaryLinear(64, 128, METHODS["xnor"])),
    "a scale per point before the pool": ("pooled.linear", lambda: BinaryLinear(128, 1024, METHODS["xnor"])),
    "a different threshold after the pool": ("head.0.0", lambda: BinaryLinear(1024, 512, METHODS["abc-net"])),
    "ReLU before the pool": ("pooled.activation", nn.ReLU),
    "Hardtanh before the pool": ("pooled.activation", nn.Hardtanh),
    "tanh": ("head.0.2", nn.Tanh),
    "a wide Hardtanh": ("head.1.2", lambda: nn.Hardtanh(-2, 2)),
    "LayerNorm": ("head.0.1", lambda: nn.LayerNorm(512)),
}


@pytest.mark.parametrize("case", MIXED)
@pytest.mark.parametrize("pool", ["ema-max", "avg"])
def test_one_network_may_mix_kinds_of_layers(case, pool):
    name, layer = MIXED[case]
    torch.manual_seed(1)
    model = with_layer(name, layer(), pool)
    compare(model if "." in name and name.endswith("activation") else shaken(model), len(CLASSES))


@pytest.mark.parametrize("offset", [-0.7, -0.5, 0.5, 1.4, 1.6])
def test_a_threshold_beyond_hardtanh_makes_constant_bits(offset):
    """If 1/2 - v > 1, no clipped number reaches the threshold; if it is -1 or less, all do."""
    model = network("abc-net")
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, BinaryLinear):
                layer.offset.fill_(offset)
    compare(model, len(CLASSES))


@pytest.mark.parametrize("layer", ["points.0.0", "pooled.linear", "head.0.0", "head.1.0"])
def test_a_scale_of_zero_makes_constant_channels(layer):
    model = network()
    with torch.no_grad():
        model.get_parameter(f"{layer}.alpha").zero_()
    compare(model, len(CLASSES))


@pytest.mark.parametrize(("method", "pool"), [*product(("bnn", "lsr", "ir-net"), ("max", "ema-max"))])
def test_a_new_network_with_all_its_ties(method, pool):
    """New BatchNorm leaves integers, which are often 0. (A mean of them rounds, so PyTorch is no oracle for means.)"""
    torch.manual_seed(0)
    linear = BinaryLinear.of(METHODS[method])
    compare(vanilla_pointnet(len(CLASSES), linear=linear, pool=POOLS[pool]()), len(CLASSES))


@pytest.mark.parametrize("options", [{}, {"tnets": True}, {"norm": False}], ids=str)
@pytest.mark.parametrize("pool", ["max", "avg", "ema-max"])
def test_full_precision(options, pool):
    compare(network("fp", pool, **options), len(CLASSES))

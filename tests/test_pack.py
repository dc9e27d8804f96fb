"""A packed network takes the bits and gives the logits of the network it was made from."""

import copy
import json
from dataclasses import dataclass
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import VARIANTS
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bipointnet import checkpoint, pack, reference
from bipointnet.clouds import normalize
from bipointnet.config import Config
from bipointnet.errors import UserError
from bipointnet.models import PointNet, vanilla_pointnet
from bipointnet.nn import (
    LSR,
    METHODS,
    POOLS,
    BinaryLinear,
    EntropyMax,
    MeanPool,
    PooledLayer,
    binarize,
    calibrate,
    delta,
)
from bipointnet.nn.methods import Method
from bipointnet.nn.sign import sign
from bipointnet.verify import readers

CLASSES = ("ball", "stick", "plate", "cône", "tube")
POINTS = (1, 2, 63, 200)


def cloud(points: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    numbers = np.random.default_rng((seed, points)).normal(size=(points, channels))
    return normalize(numbers.astype(np.float32))


def shaken(model: nn.Module, channels: int = 3, seed: int = 0) -> nn.Module:
    """The network with everything random that training would set: rising, falling and flat channels, scales < 0."""
    rng = torch.Generator().manual_seed(seed)

    def normal(like):
        return torch.randn(like.shape, generator=rng)

    batch = torch.from_numpy(np.stack([cloud(64, channels, i) for i in range(8)]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("alpha", "beta")):
                parameter.mul_(normal(parameter).sign() * 2)
            elif name.endswith("offset"):
                parameter.add_(normal(parameter) * 0.3)
            elif name.endswith("bias"):
                parameter.copy_(normal(parameter))
        norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
        for norm in norms:
            norm.momentum = 1.0
        calibrate_pools(model, batch)
        model.train()(batch)
        for norm in norms:
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean += normal(norm.running_mean) * norm.running_var.sqrt()
            norm.running_var *= torch.rand(norm.running_var.shape, generator=rng) + 0.5
            norm.weight.copy_(normal(norm.weight))
            norm.bias.copy_(normal(norm.bias))
            flat = torch.rand(norm.weight.shape, generator=rng) < 0.1
            norm.weight[flat] = 0
            norm.bias[flat] *= 3
    return model.eval()


def calibrate_pools(model: nn.Module, batch: torch.Tensor) -> None:
    """Measured shifts, without new scales."""
    alphas = {name: p.clone() for name, p in model.named_parameters() if name.endswith("alpha")}
    calibrate(model, batch)
    for name, parameter in model.named_parameters():
        if name in alphas:
            parameter.copy_(alphas[name])


def network(method: str = "lsr", pool: str = "ema-max", tnets: bool = False, seed: int = 0, **options) -> PointNet:
    linear = nn.Linear if method == "fp" else BinaryLinear.of(METHODS[method])
    torch.manual_seed(seed)
    model = PointNet(len(CLASSES), linear=linear, pool=POOLS[pool](), tnets=tnets, **options)
    return shaken(model, options.get("channels", 3), seed)  # pyright: ignore[reportReturnType]


def packed(model: nn.Module, tmp_path: Path, last: str = "f32") -> reference.Packed:
    pack.export(model, tmp_path / "model.bpn", classes=CLASSES, last=last)
    return reference.read(tmp_path / "model.bpn")


class Watched:
    """A network in float64, whose bi-linear layers tell what they take the sign of."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.seen = copy.deepcopy(model).double().eval(), []
        for module in self.model.modules():
            if isinstance(module, PooledLayer):
                module.fused = False
            if isinstance(module, BinaryLinear):
                module.register_forward_pre_hook(self._keep)

    def _keep(self, layer: Any, given: tuple[Any, ...]) -> None:
        x = given[0][0]
        bits = layer.method.binarize_input(x, layer) > 0
        self.seen.append((bits.numpy(), (x - layer.method.input_threshold(layer)).numpy()))

    @torch.no_grad()
    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Logits of one cloud, and the bits and floats less threshold in front of each bi-linear layer, in order."""
        self.seen.clear()
        logits = self.model(torch.from_numpy(points).double().unsqueeze(0)).logits[0].numpy()
        return logits, list(self.seen)


@dataclass
class Comparison:
    """Clouds compared bit by bit, and those where a float was too near its threshold for float32 to tell its side."""

    bits: int = 0
    undecided: int = 0

    def __call__(self, network: Watched, file: reference.Packed, points: np.ndarray) -> None:
        expected, before = network(points)
        logits, values = reference.run_program(file, points, raw=True)
        read = [values[i - 1] for i in readers(file.manifest["program"])]
        assert len(read) == len(before)
        for bits, (expected_bits, floats) in zip(read, before, strict=True):
            assert bits.shape == floats.shape
            different = bits != expected_bits
            if different.any():
                near = np.abs(floats) <= 1e-4 * np.abs(floats).max()
                assert not (different & ~near).any()
                self.undecided += 1
                return  # what follows from another bit may be anything
            self.bits += bits.size
        np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4 * max(1.0, np.abs(expected).max()))
        assert logits.argmax() == expected.argmax()


def compare(model: nn.Module, tmp_path: Path, channels: int = 3) -> None:
    """All clouds agree in every bit and logit; at most one may hang on a float at its threshold."""
    file, network, comparison = packed(model, tmp_path), Watched(model), Comparison()
    for points in POINTS:
        comparison(network, file, cloud(points, channels))
    assert comparison.undecided <= 1
    assert comparison.bits > 0


OPTIONS: dict[str, dict[str, Any]] = VARIANTS | {"six": {"channels": 6}}


CASES = [*product("bf", POOLS, METHODS), *product(("c", "d", "e", "six"), ("ema-max", "avg"), METHODS)]


@pytest.mark.parametrize(("variant", "pool", "method"), CASES)
def test_every_bit_and_logit_is_the_networks(method, pool, variant, tmp_path):
    options = OPTIONS[variant]
    compare(network(method, pool, **options), tmp_path, options.get("channels", 3))


TRANSFORMED = [
    ("b", "ema-max", "lsr"),
    ("b", "avg", "bnn"),
    ("b", "ema-max", "xnor"),
    ("b", "ema-max", "abc-net"),
    ("b", "max", "ir-net"),
    ("c", "max", "lsr"),
    ("c", "avg", "bi-real"),
    ("d", "ema-max", "lsr"),
    ("d", "ema-max", "abc-net"),
    ("e", "avg", "xnor++"),
    ("f", "ema-max", "bnn"),
    ("f", "ema-max", "xnor"),
    ("f", "avg", "lsr"),
    ("six", "ema-max", "bnn"),
]


@pytest.mark.parametrize(("variant", "pool", "method"), TRANSFORMED)
def test_every_bit_and_logit_is_the_networks_with_transforms(method, pool, variant, tmp_path):
    options = OPTIONS[variant]
    compare(network(method, pool, tnets=True, **options), tmp_path, options.get("channels", 3))


@pytest.mark.parametrize("tnets", [False, True])
def test_a_converted_float_network_is_packed_like_any_other(tnets, tmp_path):
    torch.manual_seed(0)
    model, _ = binarize(PointNet(len(CLASSES), tnets=tnets))
    compare(shaken(model), tmp_path)


MIXED = {
    "a float layer behind the pool": ("head.0.0", lambda: nn.Linear(1024, 512)),
    "a float layer in front of the pool": ("pooled.linear", lambda: nn.Linear(128, 1024)),
    "a scale a point in the middle": ("points.0.0", lambda: BinaryLinear(64, 128, METHODS["xnor"])),
    "a scale a point in front of the pool": ("pooled.linear", lambda: BinaryLinear(128, 1024, METHODS["xnor"])),
    "another threshold behind the pool": ("head.0.0", lambda: BinaryLinear(1024, 512, METHODS["abc-net"])),
}


@pytest.mark.parametrize("case", MIXED)
@pytest.mark.parametrize("pool", ["ema-max", "avg"])
def test_layers_of_several_kinds_stand_in_one_network(case, pool, tmp_path):
    name, layer = MIXED[case]
    torch.manual_seed(1)
    compare(shaken(with_layer(name, layer(), pool)), tmp_path)


@pytest.mark.parametrize("offset", [-0.7, -0.5, 0.5, 1.4, 1.6])
def test_a_threshold_beyond_hardtanh_makes_constant_bits(offset, tmp_path):
    """From 1/2 - v > 1 on no clipped number reaches it, and at -1 or below all do."""
    model = network("abc-net")
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, BinaryLinear):
                layer.offset.fill_(offset)
    compare(model, tmp_path)


@pytest.mark.parametrize("layer", ["points.0.0", "pooled.linear", "head.0.0", "head.1.0"])
def test_a_scale_of_zero_makes_constant_channels(layer, tmp_path):
    model = network()
    with torch.no_grad():
        model.get_parameter(f"{layer}.alpha").zero_()
    compare(model, tmp_path)


def test_the_network_as_it_is_first_built_with_all_its_ties(tmp_path):
    """Fresh BatchNorm leaves integers, which are often 0. (A mean of them rounds, so there PyTorch is no judge.)"""
    for method, pool in product(METHODS, ("max", "ema-max")):
        torch.manual_seed(0)
        model = vanilla_pointnet(len(CLASSES), linear=BinaryLinear.of(METHODS[method]), pool=POOLS[pool]())
        compare(model, tmp_path)


@pytest.mark.parametrize("options", [{}, {"tnets": True}, {"channels": 6, "tnets": True}, {"norm": False}], ids=str)
@pytest.mark.parametrize("pool", ["max", "avg", "ema-avg"])
def test_full_precision_logits_are_the_networks(options, pool, tmp_path):
    model = network("fp", pool, **options)
    file, exact = packed(model, tmp_path), Watched(model)
    for points in (1, 2, 63, 130):
        given = cloud(points, options.get("channels", 3))
        expected, _ = exact(given)
        logits, _ = reference.run_program(file, given, raw=True)
        np.testing.assert_allclose(logits, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


def test_a_cloud_is_normalised_unless_it_is_raw(tmp_path):
    file = packed(network(), tmp_path)
    given = cloud(50)
    moved = given * 3 + np.array([4, -2, 1], np.float32)
    expected, _ = reference.run_program(file, given, raw=True)
    assert np.array_equal(reference.run_program(file, moved)[0], expected)
    assert not np.array_equal(reference.run_program(file, moved, raw=True)[0], expected)
    assert np.array_equal(reference.run_program(file, normalize(moved), raw=True)[0], expected)


def test_a_last_layer_in_half_precision_is_its_weights_rounded(tmp_path):
    model = network()
    half = packed(model, tmp_path, last="f16")
    with torch.no_grad():
        model.last.weight.copy_(model.last.weight.half().float())  # pyright: ignore
    single = packed(model, tmp_path, last="f32")
    assert [t.dtype for n, t in half.tensors.items() if n == "7.weight"] == [np.float16]
    one, other = (reference.run_program(file, cloud(63))[0] for file in (half, single))
    assert np.array_equal(one, other)


# The file


def test_the_file_is_the_format(tmp_path):
    path = tmp_path / "model.bpn"
    size = pack.export(network(), path, classes=CLASSES, training={"data": "shapes", "test_oa": None})
    content = path.read_bytes()
    assert len(content) == size
    start = 8 + int.from_bytes(content[:8], "little")
    assert start % 8 == 0
    header = json.loads(content[8:start])
    assert set(header["__metadata__"]) == {"bipointnet"}
    manifest = json.loads(header.pop("__metadata__")["bipointnet"])
    assert list(manifest) == ["format", "model", "classes", "channels", "normalize", "program", "golden", "training"]
    assert manifest["classes"] == list(CLASSES)
    assert manifest["training"] == {"data": "shapes", "test_oa": None}
    assert (manifest["format"], manifest["model"], manifest["channels"]) == (1, "pointnet-vanilla", 3)
    offsets = sorted(entry["data_offsets"] for entry in header.values())
    assert offsets[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(offsets))
    assert start + offsets[-1][1] == size
    used = {f"{i}.{name}" for i, op in enumerate(manifest["program"]) for name in TENSORS.get(op["op"], ())}
    assert set(header) == used | {"golden"}


TENSORS = {
    "dense": ("weight", "bias"),
    "bilinear": ("weight", "threshold"),
    "bilinear_pool": ("weight", "line"),
    "bilinear_float": ("weight", "line"),
    "bilinear_scaled": ("weight", "line"),
}


def test_transforms_take_three_passes(tmp_path):
    program = [op["op"] for op in packed(network(tnets=True), tmp_path).manifest["program"]]
    tnet = ["bilinear", "bilinear_pool", "bilinear", "bilinear", "bilinear_float", "matrix"]
    last = ["bilinear", "bilinear_pool", "bilinear", "bilinear_float", "dense"]
    passes = [
        ["points", "dense", "sign", *tnet],
        ["points", "transform", "dense", "sign", "bilinear", *tnet],
        ["points", "transform", "dense", "transform", "sign", *last],
    ]
    assert program == list(chain(*passes))


@pytest.mark.parametrize(("last", "most"), [("f16", 137_000), ("f32", 157_500)])
def test_the_vanilla_network_of_forty_classes_is_small(last, most, tmp_path):
    torch.manual_seed(0)
    model = shaken(vanilla_pointnet(40, linear=BinaryLinear.of(LSR()), pool=EntropyMax()))
    names = [f"class number {i}" for i in range(40)]
    size = pack.export(model, tmp_path / "model.bpn", classes=names, last=last)
    print(f"vanilla, 40 classes, last layer {last}: {size} bytes")
    assert size < most


def test_exporting_twice_gives_the_same_bytes_and_leaves_the_network(tmp_path):
    model = network(tnets=True).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name in ("one", "two"):
        pack.export(model, tmp_path / name, classes=CLASSES)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert model.training
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == before[name].dtype
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize("tnets", [False, True])
def test_the_golden_vector_is_the_answer_to_its_cloud_and_clear_of_rounding(tnets, tmp_path):
    model = network(tnets=tnets)
    file = packed(model, tmp_path)
    golden = file.manifest["golden"]
    assert np.array_equal(reference.golden_logits(file), file.tensors["golden"])
    given = reference.golden_cloud(golden["seed"], golden["points"], 3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        rounded = given * (1 + rng.uniform(-1e-7, 1e-7, given.shape)).astype(np.float32)
        logits, _ = reference.run_program(file, rounded)
        assert np.abs(logits - file.tensors["golden"]).max() <= golden["tolerance"]
    expected, _ = Watched(model)(normalize(given))
    assert np.abs(expected - file.tensors["golden"]).max() <= golden["tolerance"]


def test_the_golden_cloud_is_splitmix64():
    # The first numbers of SplitMix64 with state 0, as published with the generator.
    words = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    expected = [(word >> 40) * 2.0**-23 - 1 for word in words]
    assert reference.golden_cloud(0, 1, 4).tolist() == [expected]
    assert reference.golden_cloud(0, 2, 2).tolist() == [expected[:2], expected[2:]]


@given(st.integers(1, 5), st.integers(1, 140), st.integers(0, 2**32))
def test_bits_are_packed_as_the_core_packs_them(rows, columns, seed):
    from bipointnet._core import pack_signs

    bits = np.random.default_rng(seed).random((rows, columns)) < 0.5
    words = reference.pack_bits(bits)
    assert np.array_equal(words, pack_signs(np.where(bits, 1, -1).astype(np.float32)))
    assert np.array_equal(reference.unpack_bits(words, columns), bits)


def test_delta_is_that_of_training():
    assert all(reference.delta(n) == delta(n) for n in range(1, 5000))


def test_a_run_is_packed_with_its_facts(tmp_path):
    config = Config(epochs=3, seed=7, points=48)
    torch.manual_seed(0)
    model = shaken(checkpoint.build(config, len(CLASSES), 3))
    facts = {
        "config": config.__dict__,
        "data": "shapes",
        "classes": list(CLASSES),
        "channels": 3,
        "version": "0.1.0",
        "epoch": 3,
        "test_oa": 81.5,
    }
    checkpoint.save(tmp_path / "run" / "last.safetensors", model.state_dict(), facts)
    pack.export_run(tmp_path / "run", tmp_path / "run.bpn")
    pack.export_run(tmp_path / "run" / "last.safetensors", tmp_path / "file.bpn", last="f32")
    manifest = reference.read(tmp_path / "run.bpn").manifest
    assert manifest["classes"] == list(CLASSES)
    assert manifest["training"] == {
        "data": "shapes",
        "method": "lsr",
        "pool": "ema-max",
        "model": "pointnet-vanilla",
        "points": 48,
        "epochs": 3,
        "seed": 7,
        "test_oa": 81.5,
        "version": "0.1.0",
    }
    comparison = Comparison()
    comparison(Watched(model), reference.read(tmp_path / "file.bpn"), cloud(63))
    assert comparison.bits > 0


# Refusals


class Shifted(Method):
    """Bits of x - 0.5."""

    def binarize_input(self, x, layer):
        return sign(x - 0.5)


class ScaledPoints(BinaryLinear):
    """A scale a point, as XNOR has."""

    def forward(self, x):
        return super().forward(x) * x.abs().mean(dim=-1, keepdim=True)


class Doubled(PointNet):
    def forward(self, x):
        return super().forward(x)._replace(logits=2 * super().forward(x).logits)


def with_layer(name: str, layer: nn.Module, pool: str = "ema-max") -> PointNet:
    model = network(pool=pool)
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)
    return model


def with_value(name: str, value: float) -> PointNet:
    model = network()
    with torch.no_grad():
        model.state_dict()[name].view(-1)[0] = value
    return model


REFUSED = {
    "a network of another kind": (lambda: nn.Linear(3, 5), "the network is a Linear; expected a PointNet"),
    "an odd forward": (
        lambda: shaken(Doubled(len(CLASSES), linear=BinaryLinear.of(LSR()), tnets=False)),
        "the network is a Doubled",
    ),
    "a method with shifted bits": (
        lambda: with_layer("head.0.0", BinaryLinear(1024, 512, Shifted())),
        "head.0.0: the method Shifted is not a product of signs with scales",
    ),
    "a scale a point that the method does not tell of": (
        lambda: with_layer("head.1.0", ScaledPoints(512, 256, LSR())),
        "head.1.0: the method LSR is not a product of signs with scales",
    ),
    "an unknown layer": (
        lambda: with_layer("points.0.0", nn.Bilinear(64, 64, 128)),
        "points.0.0: a Bilinear; expected",
    ),
    "an unknown activation": (lambda: with_layer("head.0.2", nn.Tanh()), "head.0.0: Tanh as activation"),
    "a wide hardtanh": (lambda: with_layer("head.1.2", nn.Hardtanh(-2, 2)), "head.1.0: Hardtanh from -2"),
    "an unknown norm": (lambda: with_layer("pooled.norm", nn.LayerNorm(1024)), "pooled: a LayerNorm as norm"),
    "an unknown step": (lambda: with_layer("head.0.1", nn.LayerNorm(512)), "head.0: a Sequential of BinaryLinear, Lay"),
    "an unknown pool": (lambda: with_layer("pooled.pool", nn.Identity()), "pooled: Identity as a pool"),
    "an activation before the pool": (lambda: with_layer("pooled.activation", nn.ReLU()), "pooled: ReLU between"),
    "a float layer with a measured shift": (
        lambda: network("fp", "ema-max", norm=False),
        "pooled: MeasuredMax over a float layer",
    ),
    "a layer too wide": (lambda: with_layer("first.0", nn.Linear(40000, 64)), "first.0: 40000 inputs"),
    "a layer that does not fit": (lambda: with_layer("head.0.0", BinaryLinear(1000, 512, LSR())), "expected 1024"),
    "a number that is none": (lambda: with_value("head.0.0.weight", np.nan), "head.0.0.weight: holds numbers that are"),
    "a variance below zero": (lambda: with_value("head.0.1.running_var", -1.0), "head.0.0: its outputs are not finite"),
    "a number too large for half": (
        lambda: with_value("last.weight", 1e5),
        "last: a number of size 1e[+]05 .*last='f32",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_run_exactly_is_refused_and_nothing_is_written(case, tmp_path):
    make, message = REFUSED[case]
    path = tmp_path / "model.bpn"
    path.write_bytes(b"before")
    with pytest.raises(UserError, match=message):
        pack.export(make(), path, classes=CLASSES)
    assert [p.name for p in tmp_path.iterdir()] == ["model.bpn"]
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": CLASSES[:3]}, "classes has 3 names; expected 5"),
        ({"classes": (1, 2, 3, 4, 5)}, "expected strings"),
        ({"last": "f8"}, "last is 'f8'"),
        ({"normalize": "cube"}, "normalize is 'cube'"),
        ({"golden_points": 0}, "golden_points is 0"),
        ({"training": {"test_oa": float("nan")}}, "cannot be written as JSON"),
        ({"training": {"model": object}}, "cannot be written as JSON"),
    ],
    ids=str,
)
def test_wrong_options_are_told(options, message, tmp_path):
    with pytest.raises(UserError, match=message):
        pack.export(network(), tmp_path / "model.bpn", **{"classes": CLASSES, **options})
    assert not list(tmp_path.iterdir())


def test_a_mean_pool_over_floats_is_summed_in_groups():
    x = np.random.default_rng(0).normal(size=(130, 3)).astype(np.float32)
    sums = [0.0, 0.0, 0.0]
    for start in (0, 64, 128):
        group = [0.0, 0.0, 0.0]
        for row in x[start : start + 64]:
            group = [g + float(v) for g, v in zip(group, row, strict=True)]
        sums = [s + g for s, g in zip(sums, group, strict=True)]
    assert reference.mean(x).tolist() == [float(np.float32(s / 130)) for s in sums]
    assert MeanPool()(torch.from_numpy(x)).allclose(torch.from_numpy(reference.mean(x)))


@pytest.mark.parametrize(("options", "classes"), [({"channels": 2}, "abc"), ({"channels": 300}, "abc"), ({}, "ab\0")])
def test_what_the_core_would_refuse_is_not_written(tmp_path, options, classes):
    model = PointNet(3, linear=BinaryLinear.of(LSR()), pool=EntropyMax(), tnets=False, **options)
    with pytest.raises(UserError, match="cannot be packed"):
        pack.export(model, tmp_path / "x.bpn", classes=tuple(classes))
    assert not list(tmp_path.iterdir())

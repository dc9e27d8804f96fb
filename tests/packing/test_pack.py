"""A packed network has the bits and logits of the network it was exported from."""

import copy
import json
import zlib
from dataclasses import dataclass
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from conftest import VARIANTS
from hypothesis import given
from hypothesis import strategies as st
from packed_networks import CLASSES, cloud, network, shaken, with_layer
from torch import nn

from bipointnet import load
from bipointnet.config import Config
from bipointnet.convert import binarize
from bipointnet.data.normalize import normalize
from bipointnet.evaluation.verify_torch import one_bit_layers
from bipointnet.models import PointNet, build, checkpoint, vanilla_pointnet
from bipointnet.nn import (
    LSR,
    METHODS,
    POOLS,
    BinaryLinear,
    EntropyMax,
    PooledLayer,
)
from bipointnet.packing import pack
from bipointnet.packing.bits import pack_bits
from bipointnet.runtime import reference

POINTS = (1, 2, 63, 200)


def packed(model: nn.Module, tmp_path: Path, last: str = "f32") -> reference.Packed:
    pack.export(model, tmp_path / "model.bpn", classes=CLASSES, last=last)
    return reference.read(tmp_path / "model.bpn")


class Recorded:
    """A network in float64 that records the inputs of its 1-bit layers."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.inputs = copy.deepcopy(model).double().eval(), []
        for module in self.model.modules():
            if isinstance(module, PooledLayer):
                module.fused = False
            if isinstance(module, BinaryLinear):
                module.register_forward_pre_hook(self._record)

    def _record(self, layer: Any, inputs: tuple[Any, ...]) -> None:
        x = inputs[0][0]
        bits = layer.method.binarize_input(x, layer) > 0
        self.inputs.append((bits.numpy(), (x - layer.method.input_threshold(layer)).numpy()))

    @torch.no_grad()
    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Logits of one cloud, and per 1-bit layer in order the bits and the floats minus threshold that it reads."""
        self.inputs.clear()
        logits = self.model(torch.from_numpy(points).double().unsqueeze(0)).logits[0].numpy()
        return logits, list(self.inputs)


@dataclass
class Comparison:
    """Bits compared, and clouds in which a float was too close to its threshold for float32 to decide its bit."""

    bits: int = 0
    undecided: int = 0

    def __call__(self, network: Recorded, file: reference.Packed, points: np.ndarray) -> None:
        expected, before = network(points)
        logits, values = reference.run_program(file, points, raw=True)
        read = [values[i - 1] for i in one_bit_layers(file.manifest["program"])]
        assert len(read) == len(before)
        for bits, (expected_bits, floats) in zip(read, before, strict=True):
            assert bits.shape == floats.shape
            different = bits != expected_bits
            if different.any():
                near = np.abs(floats) <= 1e-4 * np.abs(floats).max()
                assert not (different & ~near).any()
                self.undecided += 1
                return  # values that depend on a different bit may be anything
            self.bits += bits.size
        np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4 * max(1.0, np.abs(expected).max()))
        assert logits.argmax() == expected.argmax()


def compare(model: nn.Module, tmp_path: Path, channels: int = 3) -> None:
    """All clouds agree in every bit and logit; at most one may have a float at its threshold."""
    file, network, comparison = packed(model, tmp_path), Recorded(model), Comparison()
    for points in POINTS:
        comparison(network, file, cloud(points, channels))
    assert comparison.undecided <= 1
    assert comparison.bits > 0


OPTIONS: dict[str, dict[str, Any]] = VARIANTS | {"six": {"in_channels": 6}}


CASES = [*product("bf", POOLS, METHODS), *product(("c", "d", "e", "six"), ("ema-max", "avg"), METHODS)]


@pytest.mark.parametrize(("variant", "pool", "method"), CASES)
def test_every_bit_and_logit_equals_the_network(method, pool, variant, tmp_path):
    options = OPTIONS[variant]
    compare(network(method, pool, **options), tmp_path, options.get("in_channels", 3))


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
def test_every_bit_and_logit_equals_the_network_with_transforms(method, pool, variant, tmp_path):
    options = OPTIONS[variant]
    compare(network(method, pool, tnets=True, **options), tmp_path, options.get("in_channels", 3))


@pytest.mark.parametrize("tnets", [False, True])
def test_a_converted_float_network_is_packed_like_any_other(tnets, tmp_path):
    torch.manual_seed(0)
    model, _ = binarize(PointNet(len(CLASSES), tnets=tnets))
    compare(shaken(model), tmp_path)


MIXED = {
    "a float layer after the pool": ("head.0.0", lambda: nn.Linear(1024, 512)),
    "a float layer before the pool": ("pooled.linear", lambda: nn.Linear(128, 1024)),
    "a scale per point in the middle": ("points.0.0", lambda: BinaryLinear(64, 128, METHODS["xnor"])),
    "a scale per point before the pool": ("pooled.linear", lambda: BinaryLinear(128, 1024, METHODS["xnor"])),
    "a different threshold after the pool": ("head.0.0", lambda: BinaryLinear(1024, 512, METHODS["abc-net"])),
}


@pytest.mark.parametrize("case", MIXED)
@pytest.mark.parametrize("pool", ["ema-max", "avg"])
def test_one_network_may_mix_kinds_of_layers(case, pool, tmp_path):
    name, layer = MIXED[case]
    torch.manual_seed(1)
    compare(shaken(with_layer(name, layer(), pool)), tmp_path)


@pytest.mark.parametrize("offset", [-0.7, -0.5, 0.5, 1.4, 1.6])
def test_a_threshold_beyond_hardtanh_makes_constant_bits(offset, tmp_path):
    """If 1/2 - v > 1, no clipped number reaches the threshold; if it is -1 or less, all do."""
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


def test_a_new_network_with_all_its_ties(tmp_path):
    """New BatchNorm leaves integers, which are often 0. (A mean of them rounds, so PyTorch is no oracle for means.)"""
    for method, pool in product(METHODS, ("max", "ema-max")):
        torch.manual_seed(0)
        model = vanilla_pointnet(len(CLASSES), linear=BinaryLinear.of(METHODS[method]), pool=POOLS[pool]())
        compare(model, tmp_path)


@pytest.mark.parametrize("options", [{}, {"tnets": True}, {"in_channels": 6, "tnets": True}, {"norm": False}], ids=str)
@pytest.mark.parametrize("pool", ["max", "avg", "ema-avg"])
def test_full_precision_logits_equal_the_network(options, pool, tmp_path):
    model = network("fp", pool, **options)
    file, exact = packed(model, tmp_path), Recorded(model)
    for points in (1, 2, 63, 130):
        x = cloud(points, options.get("in_channels", 3))
        expected, _ = exact(x)
        logits, _ = reference.run_program(file, x, raw=True)
        np.testing.assert_allclose(logits, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


def test_a_cloud_is_normalized_unless_raw(tmp_path):
    file = packed(network(), tmp_path)
    x = cloud(50)
    moved = x * 3 + np.array([4, -2, 1], np.float32)
    expected, _ = reference.run_program(file, x, raw=True)
    assert np.array_equal(reference.run_program(file, moved)[0], expected)
    assert not np.array_equal(reference.run_program(file, moved, raw=True)[0], expected)
    assert np.array_equal(reference.run_program(file, normalize(moved), raw=True)[0], expected)


def test_a_last_layer_in_half_precision_has_rounded_weights(tmp_path):
    model = network()
    half = packed(model, tmp_path, last="f16")
    with torch.no_grad():
        model.last.weight.copy_(model.last.weight.half().float())  # pyright: ignore
    single = packed(model, tmp_path, last="f32")
    assert [t.dtype for n, t in half.tensors.items() if n == "7.weight"] == [np.float16]
    one, other = (reference.run_program(file, cloud(63))[0] for file in (half, single))
    assert np.array_equal(one, other)


# The file


def test_the_file_has_the_documented_format(tmp_path):
    path = tmp_path / "model.bpn"
    size = pack.export(network(), path, classes=CLASSES, training={"data": "shapes", "test_oa": None})
    content = path.read_bytes()
    assert len(content) == size
    start = 8 + int.from_bytes(content[:8], "little")
    assert start % 8 == 0
    header = json.loads(content[8:start])
    assert set(header["__metadata__"]) == {"bipointnet"}
    manifest = json.loads(header.pop("__metadata__")["bipointnet"])
    assert list(manifest) == [
        *("format", "model", "task", "classes", "channels"),
        *("normalize", "program", "golden", "training"),
    ]
    assert manifest["classes"] == list(CLASSES)
    assert manifest["training"] == {"data": "shapes", "test_oa": None}
    assert (manifest["format"], manifest["model"], manifest["channels"]) == (1, "pointnet-vanilla", 3)
    offsets = sorted(entry["data_offsets"] for entry in header.values())
    assert offsets[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(offsets))
    assert start + offsets[-1][1] == size
    used = {f"{i}.{name}" for i, op in enumerate(manifest["program"]) for name in TENSORS.get(op["op"], ())}
    assert set(header) == used | {"golden", "checksum"}
    assert header["checksum"] == {"dtype": "U64", "shape": [1], "data_offsets": [size - start - 8, size - start]}
    assert int.from_bytes(content[-8:], "little") == zlib.crc32(content[:-8])


def test_any_safetensors_reader_shows_the_tensors(tmp_path):
    path = tmp_path / "model.bpn"
    pack.export(network(), path, classes=CLASSES)
    tensors = safetensors.numpy.load_file(path)
    checksum = tensors.pop("checksum")
    assert checksum.tolist() == [zlib.crc32(path.read_bytes()[:-8])]
    expected = reference.read(path).tensors
    assert set(tensors) == set(expected)
    assert all(np.array_equal(tensors[name], expected[name]) for name in expected)


@pytest.mark.parametrize("variant", [{}, {"tnets": True}, {"method": "xnor"}, {"method": "fp", "pool": "max"}], ids=str)
def test_the_golden_vector_has_the_bits_of_the_core(variant, tmp_path):
    golden_vector = packed(network(**variant), tmp_path).tensors["golden"]
    golden = load(tmp_path / "model.bpn").manifest["golden"]
    logits = load(tmp_path / "model.bpn").logits(reference.golden_cloud(golden["seed"], golden["points"], 3))
    assert np.array_equal(logits.view(np.uint32), golden_vector.view(np.uint32))


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


def test_export_is_deterministic_and_does_not_change_the_network(tmp_path):
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
def test_the_golden_vector_is_exact_and_robust_to_rounding(tnets, tmp_path):
    model = network(tnets=tnets)
    file = packed(model, tmp_path)
    golden = file.manifest["golden"]
    assert np.array_equal(reference.golden_logits(file), file.tensors["golden"])
    x = reference.golden_cloud(golden["seed"], golden["points"], 3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        rounded = x * (1 + rng.uniform(-1e-7, 1e-7, x.shape)).astype(np.float32)
        logits, _ = reference.run_program(file, rounded)
        assert np.abs(logits - file.tensors["golden"]).max() <= golden["tolerance"]
    expected, _ = Recorded(model)(normalize(x))
    assert np.abs(expected - file.tensors["golden"]).max() <= golden["tolerance"]


def test_the_golden_cloud_is_splitmix64():
    # The first numbers of SplitMix64 with state 0, as published with the generator.
    words = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    expected = [(word >> 40) * 2.0**-23 - 1 for word in words]
    assert reference.golden_cloud(0, 1, 4).tolist() == [expected]
    assert reference.golden_cloud(0, 2, 2).tolist() == [expected[:2], expected[2:]]


@given(st.integers(1, 5), st.integers(1, 140), st.integers(0, 2**32))
def test_the_core_the_packer_and_the_reference_agree_on_packed_bits(rows, columns, seed):
    from bipointnet._core import pack_signs

    bits = np.random.default_rng(seed).random((rows, columns)) < 0.5
    words = pack_bits(bits)
    assert np.array_equal(words, pack_signs(np.where(bits, 1, -1).astype(np.float32)))
    assert np.array_equal(reference.unpack_bits(words, columns), bits)


def test_a_packed_run_keeps_its_facts(tmp_path):
    config = Config(epochs=3, seed=7, points=48)
    torch.manual_seed(0)
    model = shaken(build(config, len(CLASSES), 3))
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
        "gradient": None,
        "pool": "ema-max",
        "model": "pointnet-vanilla",
        "points": 48,
        "epoch": 3,
        "epochs": 3,
        "seed": 7,
        "test_oa": 81.5,
        "version": "0.1.0",
    }
    comparison = Comparison()
    comparison(Recorded(model), reference.read(tmp_path / "file.bpn"), cloud(63))
    assert comparison.bits > 0

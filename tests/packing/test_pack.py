"""The packed file of a network: its format, its golden vector, its facts, its size."""

import json
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import given
from hypothesis import strategies as st
from packed_comparison import logits_of
from packed_networks import CLASSES, cloud, network, shaken
from torch import nn

from bipointnet import _core, load
from bipointnet.config import Config
from bipointnet.data.normalize import normalize
from bipointnet.models import DGCNN, LocalNet, PointCNN, PointConvNet, PointNet2, build, checkpoint, vanilla_pointnet
from bipointnet.nn import LSR, BinaryLinear, EntropyMax
from bipointnet.packing import pack
from bipointnet.packing.bits import pack_bits
from bipointnet.runtime import reference, reference_ops


def packed(model: nn.Module, tmp_path: Path, last: str = "f32") -> reference.Packed:
    pack.export(model, tmp_path / "model.bpn", classes=CLASSES, last=last)
    return reference.read(tmp_path / "model.bpn")


@pytest.mark.parametrize("kind", [PointNet2, DGCNN, PointConvNet, PointCNN, LocalNet])
def test_the_core_gives_the_logits_of_the_reference_and_the_labels_of_pytorch(kind, tmp_path):
    torch.manual_seed(0)
    model = shaken(kind(len(CLASSES), linear="lsr", pool="ema-max"))
    file = packed(model, tmp_path)
    for points in (1, 2, 77, 300):
        x = cloud(points)
        expected = logits_of(model, (torch.from_numpy(x)[None],))
        found, _ = reference.run_program(file, x, raw=True)
        assert found.argmax() == expected.argmax()
        for isa in _core.isas():
            core = load(tmp_path / "model.bpn", isa).logits(x, normalize=False)
            assert np.array_equal(core.view(np.uint32), found.view(np.uint32)), (isa, points)


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
    assert half.tensors["last.weight"].dtype == np.float16
    one, other = (reference.run_program(file, cloud(63))[0] for file in (half, single))
    assert np.array_equal(one, other)


# The file


def test_the_file_has_the_documented_format(tmp_path):
    path = tmp_path / "model.bpn"
    size = pack.export(network(), path, classes=CLASSES, training={"data": "shapes", "test_oa": None}).bytes
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
    assert (manifest["format"], manifest["model"], manifest["channels"]) == (2, "pointnet-vanilla", 3)
    offsets = sorted(entry["data_offsets"] for entry in header.values())
    assert offsets[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(offsets))
    assert start + offsets[-1][1] == size
    used = {f"{op['out'][0]}.{name}" for op in manifest["program"] for name in TENSORS.get(op["op"], ())}
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
}


def test_everything_in_front_of_a_sign_becomes_thresholds(tmp_path):
    """No BatchNorm, activation or float exists between the first layer and the head."""
    program = packed(network(tnets=True), tmp_path).manifest["program"]
    ops = [op["op"] for op in program]
    tnet = ["bilinear", "bilinear_pool", "bilinear", "bilinear", "bilinear_float", "transform"]
    last = ["bilinear", "bilinear_pool", "bilinear", "bilinear_float", "dense"]
    middle = ["dense", "sign", "bilinear", *tnet, "sign"]
    assert ops == ["points", "dense", "sign", *tnet, *middle, *last]
    assert [op["out"][0] for op in program][:4] == [
        "points",
        "input_transform.points.0.0",
        "input_transform.points.0.0.sign",
        "input_transform.points.1.0",
    ]


def test_what_was_exported_is_told(tmp_path):
    exported = pack.export(network(), tmp_path / "model.bpn", classes=CLASSES)
    assert exported.bytes == (tmp_path / "model.bpn").stat().st_size
    assert exported.bit_multiply_adds == 1024 * (64 * 128 + 128 * 1024) + 1024 * 512 + 512 * 256
    assert exported.float_multiply_adds == 1024 * 3 * 64 + 256 * len(CLASSES)
    assert exported.output == "logits"
    first, second, *rows = str(exported).splitlines()
    assert f"{exported.bytes:,} bytes, 8 operations" in first
    assert "143,261,696 multiply-adds of bits" in second
    assert "pooled.linear" in rows[0]


@pytest.mark.parametrize(("last", "most"), [("f16", 137_000), ("f32", 157_500)])
def test_the_vanilla_network_of_forty_classes_is_small(last, most, tmp_path):
    torch.manual_seed(0)
    model = shaken(vanilla_pointnet(40, linear=BinaryLinear.of(LSR()), pool=EntropyMax()))
    names = [f"class number {i}" for i in range(40)]
    size = pack.export(model, tmp_path / "model.bpn", classes=names, last=last).bytes
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
    expected = logits_of(model, (torch.from_numpy(normalize(x))[None],))
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
    assert np.array_equal(reference_ops.unpack_bits(words, columns), bits)


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
    x = cloud(63)
    found, _ = reference.run_program(reference.read(tmp_path / "file.bpn"), x, raw=True)
    np.testing.assert_allclose(found, logits_of(model, (torch.from_numpy(x)[None],)), atol=1e-3)

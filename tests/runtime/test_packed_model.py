"""Packed models: one answer whatever the batch, the threads, the order or the type; a sentence for mistakes."""

import dataclasses
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from bipointnet import _core, load
from bipointnet.config import Config
from bipointnet.data.normalize import normalize
from bipointnet.errors import UserError
from bipointnet.models import build, checkpoint
from bipointnet.nn import calibrate
from bipointnet.packing import pack
from bipointnet.runtime import reference
from bipointnet.runtime.model import Model, is_packed
from bipointnet.runtime.verify import Tally, rounding, verify

CLASSES = ["ball", "stick", "plate", "[cone]", "cube"]


def network(config: Config, channels: int = 3, seed: int = 0) -> nn.Module:
    """A network with statistics of its own, and slopes of both signs."""
    torch.manual_seed(seed)
    model = build(config, len(CLASSES), channels)
    for name, parameter in model.named_parameters():
        if name.endswith("offset"):
            nn.init.normal_(parameter, 0.5, 0.2)
    clouds = torch.randn(4, 32, channels) / 2
    calibrate(model, clouds)
    with torch.no_grad():
        model.train()(clouds)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias, std=0.3)
    return model.eval()


def run_of(folder: Path, config: Config, seed: int = 0) -> Path:
    """A run folder with an untrained network, as far as export reads it."""
    facts = {"config": dataclasses.asdict(config), "classes": CLASSES, "channels": 3, "data": "none", "epoch": 0}
    checkpoint.save(folder / "last.safetensors", dict(network(config, seed=seed).state_dict()), facts)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and packed models of a few networks."""
    root = tmp_path_factory.mktemp("packed")
    for name, config in {
        "plain": Config(points=100),
        "mean": Config(pool="ema-avg"),
        "turned": Config(model="pointnet"),
        "float": Config(method="fp"),
        "scaled": Config(method="xnor", model="pointnet"),
        "compared": Config(method="abc-net", model="pointnet"),
        "first": Config(model="pointnet", binary_first=True),
    }.items():
        pack.export_run(run_of(root / name, config), root / f"{name}.bpn")
    pack.export(network(Config(), channels=6), root / "colored.bpn", classes=CLASSES, golden_points=8)
    pack.export(network(Config()), root / "raw.bpn", classes=CLASSES, normalize="none", golden_points=8)
    return root


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load(folder / "plain.bpn")


def batch(clouds: int, points: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, points)).normal(size=(clouds, points, channels)).astype(np.float32)


def test_a_prediction_is_the_softmax_of_the_logits(model):
    clouds = batch(6, 90)
    labels, names, probabilities = model.predict(clouds)
    exact = np.exp(model.logits(clouds).astype(np.float64))
    assert np.allclose(probabilities, exact / exact.sum(axis=1, keepdims=True), rtol=1e-5)
    assert probabilities.dtype == np.float32
    assert labels.tolist() == probabilities.argmax(axis=1).tolist()
    assert names == [CLASSES[label] for label in labels]
    one = model.predict(clouds[0])
    assert (type(one.labels), type(one.names)) == (int, str)
    assert one.names == model.classes[one.labels] == names[0]


@pytest.mark.parametrize("name", ["plain", "mean", "turned", "float", "scaled"])
@pytest.mark.parametrize("points", [1, 65, 700])
def test_batch_and_threads_do_not_change_a_bit(folder, name, points):
    model, clouds = load(folder / f"{name}.bpn"), batch(5, points)
    alone = [model.predict(cloud) for cloud in clouds]
    for threads in (1, 2, 3, 8):
        together = model.predict(clouds, threads=threads)
        assert together.labels.tolist() == [one.labels for one in alone]
        assert together.probabilities.tobytes() == b"".join(one.probabilities.tobytes() for one in alone)
        assert model.logits(clouds[0], threads=threads).tobytes() == model.logits(clouds[0]).tobytes()


@pytest.mark.parametrize("name", ["plain", "mean", "turned", "raw"])
def test_the_order_of_points_does_not_change_a_bit(folder, name):
    model, cloud = load(folder / f"{name}.bpn"), batch(1, 300)[0]
    shuffled = np.random.default_rng(1).permutation(cloud)
    assert np.array_equal(model.logits(shuffled, normalize=False), model.logits(cloud, normalize=False))


def test_many_python_threads_at_once_get_the_same_answers(model):
    clouds = [batch(1, 20 + 37 * i, seed=i)[0] for i in range(16)]
    alone = [model.logits(cloud) for cloud in clouds]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for found, expected in zip(pool.map(model.logits, clouds), alone, strict=True):
                assert np.array_equal(found, expected)


def test_every_instruction_set_gives_the_same_bits(folder, monkeypatch):
    clouds = batch(3, 200)
    models = [load(folder / "turned.bpn", isa) for isa in _core.isas()]
    assert [m.isa for m in models] == _core.isas()
    assert len({m.logits(clouds).tobytes() for m in models}) == 1
    monkeypatch.setenv("BIPOINTNET_ISA", "portable")
    assert load(folder / "turned.bpn").isa == "portable"
    monkeypatch.setenv("BIPOINTNET_ISA", "mmx")
    with pytest.raises(UserError, match="mmx"):
        load(folder / "turned.bpn")


def test_normalize_does_what_the_manifest_says(folder, model):
    cloud = 7 * batch(1, 150)[0] + 3
    raw = load(folder / "raw.bpn")
    assert np.allclose(model.trace(cloud)[0], normalize(cloud), atol=1e-6)
    assert np.array_equal(model.trace(cloud, normalize=False)[0], cloud)
    assert np.array_equal(raw.trace(cloud)[0], cloud)
    assert np.array_equal(model.logits(cloud, normalize=False), model.trace(cloud, normalize=False)[-1])
    assert np.array_equal(raw.logits(cloud), raw.logits(cloud, normalize=False))


@pytest.mark.parametrize("kind", ["float16", "float64", ">f4", "int8", "int64", "list", "strided", "fortran", "frozen"])
def test_any_real_array_is_taken(model, kind):
    cloud = np.random.default_rng(0).integers(-100, 100, (50, 3)).astype(np.float32)
    frozen = cloud.copy()
    frozen.flags.writeable = False
    forms = {
        "list": cloud.tolist(),
        "strided": np.repeat(cloud, 2, axis=0)[::2],
        "fortran": np.asfortranarray(cloud),
        "frozen": frozen,
    }
    given = forms[kind] if kind in forms else cloud.astype(kind)
    for normalized in (True, False):
        found = model.logits(given, normalize=normalized)
        assert np.array_equal(found, model.logits(cloud, normalize=normalized))


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_a_scan_far_from_the_origin_keeps_its_shape(model, dtype):
    """UTM coordinates: float32 steps by half a unit there."""
    shape = np.random.default_rng(0).integers(0, 60, (2, 120, 3)).astype(dtype)
    far = shape + np.array([691_000_017, 5_334_000_003, 500], dtype)
    near = (shape - shape[:, :1]).astype(np.float32)
    assert np.array_equal(model.logits(far), model.logits(near))
    same = np.full((9, 3), 691_000.123)
    assert np.array_equal(model.logits(same), model.logits(np.zeros((9, 3), np.float32)))


NAN = np.array([[0, 0, 0], [1, np.nan, 0]], np.float32)
WRONG = {
    "one number": (np.float32(1), {}, ["shape ()", "(points, 3)"]),
    "one row": (np.zeros(3), {}, ["shape (3,)", "reshape"]),
    "four dimensions": (np.zeros((1, 1, 2, 3)), {}, ["shape (1, 1, 2, 3)"]),
    "two channels": (np.zeros((5, 2)), {}, ["2 numbers a point", "reads 3"]),
    "six channels": (np.zeros((1, 5, 6)), {}, ["6 numbers a point", "reads 3"]),
    "complex": (np.zeros((5, 3), complex), {}, ["complex128", "float32"]),
    "objects": (np.full((5, 3), None), {}, ["object"]),
    "truth": (np.zeros((5, 3), bool), {}, ["bool"]),
    "text": ([["a", "b", "c"]], {}, ["<U1"]),
    "ragged": ([np.zeros((5, 3)), np.zeros((4, 3))], {}, ["one by one"]),
    "NaN": (NAN, {}, ["1 of 2 points", "point 1 ", "remove"]),
    "NaN in float64, raw": (NAN.astype(float), {"normalize": False}, ["1 of 2 points"]),
    "infinite in a batch": (np.array([[[0.0, 0, 0]], [[0, 0, np.inf]]]), {}, ["1 of 2 points", "point 0 of cloud 1"]),
    "too large": (np.full((4, 3), 1e300) * [[1], [2], [3], [4]], {"normalize": False}, ["too large", "scale"]),
    "no points": (np.zeros((0, 3), np.float32), {}, ["no points"]),
    "no points in a batch": (np.zeros((4, 0, 3)), {}, ["no points"]),
    "no clouds": (np.zeros((0, 9, 3), np.float32), {}, ["no clouds"]),
    "no threads": (np.zeros((5, 3)), {"threads": 0}, ["threads is 0", "1 to"]),
    "negative threads": (np.zeros((5, 3)), {"threads": -2}, ["threads is -2"]),
    "half a thread": (np.zeros((5, 3)), {"threads": 1.5}, ["threads is 1.5"]),
    "a million threads": (np.zeros((5, 3)), {"threads": 10**6}, ["threads is 1000000"]),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_input_is_told_in_a_sentence(model, mistake):
    points, options, words = WRONG[mistake]
    with pytest.raises(UserError) as told:
        model.predict(points, **options)
    assert all(word in str(told.value) for word in words), told.value
    assert "\n" not in str(told.value)


def test_a_file_that_is_no_packed_model_is_told(folder, tmp_path):
    whole = (folder / "plain.bpn").read_bytes()
    (tmp_path / "cut.bpn").write_bytes(whole[:-1])
    (tmp_path / "empty.bpn").write_bytes(b"")
    (tmp_path / "text.bpn").write_text("not a model, but long enough to hold the length of a header")
    changed = bytearray(whole)
    changed[-200:] = bytes(200)
    (tmp_path / "changed.bpn").write_bytes(changed)
    for path, words in {
        tmp_path / "none.bpn": ["no such file"],
        tmp_path: ["a folder", "name the file"],
        folder / "plain": ["a run folder", "bipointnet export"],
        folder / "plain" / "last.safetensors": ["a checkpoint", "bipointnet export"],
        **{tmp_path / f"{name}.bpn": ["not a packed model"] for name in ("cut", "empty", "text", "changed")},
    }.items():
        with pytest.raises(UserError) as told:
            load(path)
        assert str(path) in str(told.value)
        assert all(word in str(told.value) for word in words), told.value
    assert is_packed(folder / "plain.bpn")
    assert not is_packed(folder / "plain" / "last.safetensors")


def test_facts(folder, model):
    assert model.classes == CLASSES
    assert (model.channels, model.points, model.isa) == (3, 100, _core.default_isa())
    assert model.manifest["training"]["method"] == "lsr"
    assert model.bytes == (folder / "plain.bpn").stat().st_size
    colored = load(folder / "colored.bpn")
    assert (colored.channels, colored.points) == (6, 1024)
    assert colored.predict(batch(2, 30, channels=6)).probabilities.shape == (2, len(CLASSES))
    operations = model.operations()
    assert sum(o.multiply_adds for o in operations if o.on_points) == 3 * 64 + 64 * 128 + 128 * 1024
    assert sum(o.multiply_adds for o in operations if not o.on_points) == 1024 * 512 + 512 * 256 + 256 * len(CLASSES)
    assert sum(o.bytes for o in operations) + 4 * len(CLASSES) == sum(t.bytes for t in model.tensors.values())
    turned = load(folder / "turned.bpn").operations()
    assert [o.multiply_adds for o in turned if o.op == "transform"] == [9, 9, 64 * 64]


def test_a_trace_ends_with_the_logits(model):
    cloud = batch(1, 40)[0]
    values = model.trace(cloud)
    assert len(values) == len(model.operations())
    assert np.array_equal(values[-1], model.logits(cloud))
    assert [v.shape[-1] for v in values] == [o.outputs for o in model.operations()]
    with pytest.raises(UserError, match="one cloud"):
        model.trace(cloud[None])


def test_importing_the_runtime_is_quick_and_takes_no_torch():
    code = (
        "import sys, numpy, time; t = time.perf_counter(); import bipointnet; bipointnet.load;"
        "print(time.perf_counter() - t, any(m in sys.modules for m in ('torch', 'safetensors', 'rich')))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    seconds, heavy = zip(*(run.stdout.split() for run in runs), strict=True)
    assert min(map(float, seconds)) < 0.1
    assert set(heavy) == {"False"}


@pytest.mark.parametrize("name", ["plain", "mean", "turned", "scaled", "compared", "first"])
def test_verify_finds_nothing_wrong(folder, name, monkeypatch):
    monkeypatch.setattr("bipointnet.runtime.verify.SIZES", (1, 2, 65))
    report = verify(folder / f"{name}.bpn", run=folder / name, data=batch(3, 70))
    assert report["ok"], report
    assert report["clouds"] == 6
    assert report["torch"]["bits"] > 0
    assert set(report["isas"]) | {"portable"} == set(_core.isas())


def test_verify_tells_another_network(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("bipointnet.runtime.verify.SIZES", (9,))
    report = verify(folder / "plain.bpn", run=run_of(tmp_path, Config(), seed=1))
    assert not report["ok"]
    assert report["torch"]["unexplained"] > 0
    assert "operation" in report["torch"]["places"][0]
    with pytest.raises(UserError, match="exported from"):
        verify(folder / "plain.bpn", run=folder / "turned")
    with pytest.raises(UserError, match="run folder"):
        verify(folder / "plain.bpn", run=folder / "plain.bpn")


def test_a_tally_counts_bits_not_values():
    tally = Tally()
    tally.compare("a", np.array([0.0, 1.0], np.float32), np.array([-0.0, 1.0], np.float32))
    tally.compare("b", np.array([1, 0], np.uint8), np.array([1, 0], np.uint8))
    tally.compare("c", np.zeros(3, np.uint8), np.zeros((1, 3), np.uint8))
    assert (tally.values, tally.different) == (7, 4)
    assert [place[0] for place in tally.places] == ["a", "c"]


@pytest.mark.parametrize("name", ["plain", "turned", "float", "scaled", "first"])
def test_rounding_bounds_what_float32_does(folder, name):
    """Against the same program in float64, given the same bits."""
    packed = reference.read(folder / f"{name}.bpn")
    cloud = normalize(batch(1, 50)[0])
    values = load(folder / f"{name}.bpn").trace(cloud, normalize=False)
    errors = rounding(packed, values)
    machine = reference.Machine(cloud.astype(np.float64))
    for i, (op, value, error) in enumerate(zip(packed.manifest["program"], values, errors, strict=True)):
        tensors = {n.split(".")[1]: t.astype(np.float64) for n, t in packed.tensors.items() if n.startswith(f"{i}.")}
        if value.dtype == np.uint8:
            machine.scale = np.abs(machine.value).mean(axis=-1)
            machine.value = value.astype(bool)
            continue
        if op["op"].startswith("bilinear"):
            tensors["weight"] = packed.tensors[f"{i}.weight"]
        machine.value = reference.OPERATIONS[op["op"]](machine, op, tensors)
        assert (np.abs(machine.value - value) <= error).all()
    assert 0 < errors[-1].max() < 0.2

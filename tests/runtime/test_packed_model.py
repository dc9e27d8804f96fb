"""Packed models: results do not depend on batch, threads, order or type; mistakes get one sentence."""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from packed_networks import RUN_CLASSES as CLASSES
from packed_networks import run_network, save_run

from bipointnet import _core, load
from bipointnet.config import Config
from bipointnet.data.normalize import normalize
from bipointnet.errors import UserError
from bipointnet.packing import pack
from bipointnet.runtime.header import peek
from bipointnet.runtime.model import Model

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and packed models of a few networks."""
    root = tmp_path_factory.mktemp("packed")
    for name, config in {
        "plain": Config(points=100),
        "mean": Config(pool="ema-avg"),
        "transformed": Config(model="pointnet"),
        "float": Config(method="fp"),
        "scaled": Config(method="xnor", model="pointnet"),
    }.items():
        pack.export_run(save_run(root / name, config), root / f"{name}.bpn")
    shutil.copy(GOLDEN / "neighbors.bpn", root)
    pack.export(run_network(Config(), channels=6), root / "colored.bpn", classes=CLASSES, golden_points=8)
    pack.export(run_network(Config()), root / "raw.bpn", classes=CLASSES, normalize="none", golden_points=8)
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


@pytest.mark.parametrize("name", ["plain", "mean", "transformed", "float", "scaled", "neighbors"])
@pytest.mark.parametrize("points", [1, 65, 700])
def test_batch_and_threads_do_not_change_a_bit(folder, name, points):
    model, clouds = load(folder / f"{name}.bpn"), batch(5, points)
    alone = [model.predict(cloud) for cloud in clouds]
    for threads in (1, 2, 3, 8):
        together = model.predict(clouds, threads=threads)
        assert together.labels.tolist() == [one.labels for one in alone]
        assert together.probabilities.tobytes() == b"".join(one.probabilities.tobytes() for one in alone)
        assert model.logits(clouds[0], threads=threads).tobytes() == model.logits(clouds[0]).tobytes()


@pytest.mark.parametrize("name", ["plain", "mean", "transformed", "raw"])
def test_the_order_of_points_does_not_change_a_bit(folder, name):
    model, cloud = load(folder / f"{name}.bpn"), batch(1, 300)[0]
    shuffled = np.random.default_rng(1).permutation(cloud)
    assert np.array_equal(model.logits(shuffled, normalize=False), model.logits(cloud, normalize=False))


def test_many_python_threads_at_once_get_the_same_logits(model):
    clouds = [batch(1, 20 + 37 * i, seed=i)[0] for i in range(16)]
    alone = [model.logits(cloud) for cloud in clouds]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for found, expected in zip(pool.map(model.logits, clouds), alone, strict=True):
                assert np.array_equal(found, expected)


def test_every_instruction_set_gives_the_same_bits(folder, monkeypatch):
    clouds = batch(3, 200)
    for name in ("transformed", "neighbors"):
        models = [load(folder / f"{name}.bpn", isa) for isa in _core.isas()]
        assert [m.isa for m in models] == _core.isas()
        assert len({m.logits(clouds).tobytes() for m in models}) == 1
    monkeypatch.setenv("BIPOINTNET_ISA", "portable")
    assert load(folder / "transformed.bpn").isa == "portable"
    monkeypatch.setenv("BIPOINTNET_ISA", "mmx")
    with pytest.raises(UserError, match="mmx"):
        load(folder / "transformed.bpn")


def test_normalize_does_what_the_manifest_says(folder, model):
    cloud = 7 * batch(1, 150)[0] + 3
    raw = load(folder / "raw.bpn")
    operations = model.operations()
    points, logits = operations[0].name, operations[-1].name
    assert np.allclose(model.trace(cloud)[points], normalize(cloud), atol=1e-6)
    assert np.array_equal(model.trace(cloud, normalize=False)[points], cloud)
    assert np.array_equal(raw.trace(cloud)[raw.operations()[0].name], cloud)
    assert np.array_equal(model.logits(cloud, normalize=False), model.trace(cloud, normalize=False)[logits])
    assert np.array_equal(raw.logits(cloud), raw.logits(cloud, normalize=False))


@pytest.mark.parametrize("kind", ["float16", "float64", ">f4", "int8", "int64", "list", "strided", "fortran", "frozen"])
def test_any_real_array_is_accepted(model, kind):
    cloud = np.random.default_rng(0).integers(-100, 100, (50, 3)).astype(np.float32)
    frozen = cloud.copy()
    frozen.flags.writeable = False
    forms = {
        "list": cloud.tolist(),
        "strided": np.repeat(cloud, 2, axis=0)[::2],
        "fortran": np.asfortranarray(cloud),
        "frozen": frozen,
    }
    points = forms[kind] if kind in forms else cloud.astype(kind)
    for normalized in (True, False):
        found = model.logits(points, normalize=normalized)
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
    "two channels": (np.zeros((5, 2)), {}, ["2 channels per point", "expected 3"]),
    "six channels": (np.zeros((1, 5, 6)), {}, ["6 channels per point", "expected 3"]),
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
def test_wrong_input_gets_one_sentence(model, mistake):
    points, options, words = WRONG[mistake]
    with pytest.raises(UserError) as raised:
        model.predict(points, **options)
    assert all(word in str(raised.value) for word in words), raised.value
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_a_packed_model_gets_one_sentence(folder, tmp_path):
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
        folder / "plain": ["a run folder", "bipointnet.load_run", "bipointnet export"],
        folder / "plain" / "last.safetensors": ["a checkpoint", "bipointnet.load_run", "bipointnet export"],
        **{tmp_path / f"{name}.bpn": ["not a packed model"] for name in ("cut", "empty", "text", "changed")},
    }.items():
        with pytest.raises(UserError) as raised:
            load(path)
        assert str(path) in str(raised.value)
        assert all(word in str(raised.value) for word in words), raised.value


def test_peek_reads_the_description_of_models_and_of_no_other_file(folder, tmp_path):
    assert "program" in (peek(folder / "plain.bpn") or {})
    checkpoint = peek(folder / "plain" / "last.safetensors") or {}
    assert "config" in checkpoint
    assert "program" not in checkpoint
    whole = (folder / "plain.bpn").read_bytes()
    (tmp_path / "long").write_bytes((2**62).to_bytes(8, "little") + whole[8:])
    (tmp_path / "list").write_bytes((2).to_bytes(8, "little") + b"[]")
    (tmp_path / "text").write_bytes((36).to_bytes(8, "little") + b'{"__metadata__": {"bipointnet": "7"}}')
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "cut").write_bytes(whole[:100])
    for name in ("long", "list", "text", "empty", "cut"):
        assert peek(tmp_path / name) is None


def test_attributes_and_operations(folder, model):
    assert model.classes == CLASSES
    assert repr(model) == f"<Model pointnet-vanilla: 5 classes, {model.bytes:,} bytes, {model.isa}>"
    assert (model.channels, model.points, model.isa) == (3, 100, _core.default_isa())
    assert model.manifest["training"]["method"] == "lsr"
    assert model.bytes == (folder / "plain.bpn").stat().st_size
    colored = load(folder / "colored.bpn")
    assert (colored.channels, colored.points) == (6, 1024)
    assert colored.predict(batch(2, 30, channels=6)).probabilities.shape == (2, len(CLASSES))
    operations = model.operations(70)
    assert sum(o.bit_multiply_adds for o in operations) == 70 * (64 * 128 + 128 * 1024) + 1024 * 512 + 512 * 256
    dense = [o for o in operations if o.op == "dense"]
    assert [o.float_multiply_adds for o in dense] == [70 * 3 * 64, 256 * len(CLASSES)]
    assert [(o.domain, o.elements) for o in dense] == [("points", 70), ("cloud", 1)]
    golden, checksum = 4 * len(CLASSES), 8
    assert sum(o.bytes for o in operations) + golden + checksum == sum(t.bytes for t in model.tensors.values())
    transformed = load(folder / "transformed.bpn").operations(10)
    assert [o.float_multiply_adds for o in transformed if o.op == "transform"] == [10 * 9, 10 * 64 * 64]
    assert [o.elements for o in model.operations()] == [o.elements for o in model.operations(100)], "as in training"
    for points in (0, -1, 2**30):
        with pytest.raises(UserError, match=f"points is {points}"):
            model.operations(points)


def test_a_trace_has_every_value_by_name(folder):
    for name in ("plain", "neighbors"):
        model, cloud = load(folder / f"{name}.bpn"), batch(1, 40)[0]
        values, operations = model.trace(cloud), model.operations(40)
        assert list(values) == [result for o in operations for result in o.results]
        assert np.array_equal(values[operations[-1].name], model.logits(cloud))
        for o in operations:
            result = values[o.name]
            assert result.dtype == np.int64 or result.shape[-1] == o.outputs, o
            runs_over = values[o.operands[0]] if o.op in ("pool", "bilinear_pool", "outer", "flatten") else result
            channels = 1 if runs_over.dtype == np.int64 else runs_over.shape[-1]
            assert runs_over.size == o.elements * channels, o
    with pytest.raises(UserError, match="one cloud"):
        model.trace(cloud[None])


def test_importing_the_runtime_is_fast_and_imports_no_torch():
    code = (
        "import sys, numpy, time; t = time.perf_counter(); import bipointnet; bipointnet.load;"
        "print(time.perf_counter() - t, any(m in sys.modules for m in ('torch', 'safetensors', 'rich')))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    seconds, heavy = zip(*(run.stdout.split() for run in runs), strict=True)
    assert min(map(float, seconds)) < 0.1
    assert set(heavy) == {"False"}

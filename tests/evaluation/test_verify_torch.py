"""verify with PyTorch: bits equal those of the exported network in float64, up to the rounding of float32."""

from pathlib import Path

import numpy as np
import pytest
from packed_networks import save_run

from bipointnet import load
from bipointnet.config import Config
from bipointnet.data.normalize import normalize
from bipointnet.errors import UserError
from bipointnet.evaluation.verify_torch import TorchComparison, rounding_errors, verify_against_run
from bipointnet.models import checkpoint
from bipointnet.packing import pack
from bipointnet.runtime import reference
from bipointnet.runtime.verify import failures

CONFIGS = {
    "plain": Config(points=100),
    "mean": Config(pool="ema-avg"),
    "transformed": Config(model="pointnet"),
    "float": Config(method="fp"),
    "scaled": Config(method="xnor", model="pointnet"),
    "compared": Config(method="abc-net", model="pointnet"),
    "first": Config(model="pointnet", binary_first=True),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and packed models of a few networks."""
    root = tmp_path_factory.mktemp("verified")
    for name, config in CONFIGS.items():
        pack.export_run(save_run(root / name, config), root / f"{name}.bpn")
    return root


def batch(clouds: int, points: int) -> np.ndarray:
    return np.random.default_rng((0, points)).normal(size=(clouds, points, 3)).astype(np.float32)


@pytest.mark.parametrize("name", ["plain", "mean", "transformed", "scaled", "compared", "first"])
def test_a_packed_model_has_the_bits_of_its_network(folder, name, monkeypatch):
    monkeypatch.setattr("bipointnet.runtime.verify.SIZES", (1, 2, 65))
    seen = []
    report = verify_against_run(
        folder / f"{name}.bpn",
        folder / name,
        data=batch(3, 70),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert report["ok"], report
    assert seen == [(i + 1, 12) for i in range(12)]
    torch = report["torch"]
    assert report["clouds"] == torch["clouds"] == torch["labels_compared"] == 6
    assert torch["bits_compared"] > 0
    assert torch["bits_different"] == torch["bits_within_rounding"] + torch["bits_that_follow"]


def test_a_different_network_is_found(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("bipointnet.runtime.verify.SIZES", (9,))
    report = verify_against_run(folder / "plain.bpn", save_run(tmp_path, Config(), seed=1))
    assert not report["ok"]
    assert report["reference"]["values_different"] == 0
    assert report["torch"]["bits_unexplained"] > 0
    assert "operation" in failures(report)[0]
    with pytest.raises(UserError, match=r"model pointnet; expected model pointnet-vanilla, .* exported from"):
        verify_against_run(folder / "plain.bpn", folder / "transformed")
    tensors, facts = checkpoint.load(tmp_path / "last.safetensors")
    checkpoint.save(tmp_path / "last.safetensors", tensors, facts | {"epoch": 7})
    with pytest.raises(UserError, match=r"epoch 7; expected epoch \d+, as the packed model records"):
        verify_against_run(folder / "plain.bpn", tmp_path)
    with pytest.raises(UserError, match=r"a packed model where a run folder .* is expected"):
        verify_against_run(folder / "plain.bpn", folder / "plain.bpn")


@pytest.mark.parametrize("rounded", [False, True])
def test_a_different_bit_is_explained_by_rounding_or_by_an_earlier_bit(folder, rounded, monkeypatch):
    """Bits of the core's trace are flipped: after a sign, then in the next layer at the same and at another point."""
    if rounded:
        monkeypatch.setattr(
            "bipointnet.evaluation.verify_torch.rounding_errors",
            lambda packed, values: [np.full(value.shape, np.inf) for value in values],
        )
    model, packed = load(folder / "plain.bpn"), reference.read(folder / "plain.bpn")
    assert [op["op"] for op in packed.manifest["program"][1:5]] == ["dense", "sign", "bilinear", "bilinear_pool"]
    cloud = np.ascontiguousarray(normalize(batch(1, 50)[0]))
    values = model.trace(cloud, normalize=False)
    floats = np.abs(values[1])
    point, channel = np.unravel_index(floats.argmax(), floats.shape)
    comparison = TorchComparison(folder / "plain", model, packed)
    comparison.compare("unchanged", cloud, None, values)
    assert comparison.facts()["bits_different"] == 0
    values[2][point, channel] ^= 1  # behind the float farthest from zero
    values[3][point, 5] ^= 1  # depends on the bit above
    comparison.compare("flipped", cloud, None, values)
    facts = comparison.facts()
    assert (facts["bits_different"], facts["bits_that_follow"]) == (2, 1)
    assert (facts["bits_within_rounding"], facts["bits_unexplained"]) == ((1, 0) if rounded else (0, 1))
    assert facts["first_unexplained"] == (
        [] if rounded else ["flipped, operation 2 (sign): 1 bit differs by more than rounding"]
    )
    values[2][point, channel] ^= 1
    values[3][point, 5] ^= 1
    values[3][(point + 1) % 50, 5] ^= 1  # a sum of bits is exact: no rounding explains it
    comparison.compare("integer", cloud, None, values)
    assert comparison.facts()["bits_unexplained"] == facts["bits_unexplained"] + 1


@pytest.mark.parametrize("name", ["plain", "transformed", "float", "scaled", "first"])
def test_rounding_errors_bound_the_errors_of_float32(folder, name):
    """Compared with the same program in float64, given the same bits."""
    packed = reference.read(folder / f"{name}.bpn")
    cloud = normalize(batch(1, 50)[0])
    values = load(folder / f"{name}.bpn").trace(cloud, normalize=False)
    errors = rounding_errors(packed, values)
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

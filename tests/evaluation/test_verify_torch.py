"""verify with PyTorch: bits equal those of the exported network in float64, up to the rounding of float32."""

from pathlib import Path

import numpy as np
import pytest
from packed_networks import save_run

from bipointnet import load
from bipointnet.config import Config
from bipointnet.data.normalize import normalize
from bipointnet.errors import UserError
from bipointnet.evaluation.verify_torch import rounding_errors, verify_against_run
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
    with pytest.raises(UserError, match=r"other layers .* exported from"):
        verify_against_run(folder / "plain.bpn", folder / "transformed")
    with pytest.raises(UserError, match=r"a packed model where a run folder .* is expected"):
        verify_against_run(folder / "plain.bpn", folder / "plain.bpn")


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

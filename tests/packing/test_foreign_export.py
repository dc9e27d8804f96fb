"""Networks in the manner of well-known repositories: exported, they give PyTorch's labels in the runtime."""

from pathlib import Path

import foreign_networks_export as foreign
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bipointnet import _core, load
from bipointnet.evaluation.verify_torch import TorchComparison
from bipointnet.packing import pack
from bipointnet.packing.values import TorchValues
from bipointnet.runtime import reference

POINTS = 128  # of the example
SIZES = (64, 100, 151)  # of the clouds that are compared
CATEGORIES = [f"category {i}" for i in range(foreign.CATEGORIES)]


def float64(inputs: tuple[Tensor, ...]) -> list[Tensor]:
    return [x.double() if x.is_floating_point() else x for x in inputs]


def cloud_of(inputs: tuple[Tensor, ...], channels: int) -> np.ndarray:
    """The cloud (N, C) among the inputs of a network."""
    x = inputs[0].numpy().reshape(inputs[0].shape[-2:])
    return np.ascontiguousarray(x if x.shape[1] == channels else x.T, np.float32)


def exported(name: str, path: Path) -> nn.Module:
    """A 1-bit network, written to `path`."""
    network, example = foreign.one_bit(name), foreign.NETWORKS[name][1]
    with torch.no_grad():
        classes = foreign.logits(network(*example(points=POINTS))).shape[-1]
    pack.export(
        network,
        path,
        classes=[f"class {i}" for i in range(classes)],
        example=example(points=POINTS),
        categories=CATEGORIES if name == "pointnet-parts" else [],
        normalize="none",
        last="f32",
    )
    return network.double()


@pytest.mark.parametrize("name", foreign.NETWORKS)
def test_an_exported_network_has_the_labels_and_the_bits_of_pytorch(name, tmp_path):
    """The reference and the core agree with each other, and with PyTorch up to the rounding of every operation."""
    path = tmp_path / "foreign.bpn"
    network, example = exported(name, path), foreign.NETWORKS[name][1]
    model, packed = load(path), reference.read(path)
    cores = [load(path, isa) for isa in _core.isas()]
    values = TorchValues(network, len(model.classes), example(points=POINTS), len(model.categories))
    comparison = TorchComparison(packed, lambda cloud, category: values(cloud, category or 0))
    for seed, points in enumerate(SIZES):
        inputs = example(points=points, seed=seed + 1)
        category = (seed + 1) % foreign.CATEGORIES if model.categories else None
        cloud = cloud_of(inputs, model.channels)
        with torch.no_grad():
            expected = foreign.logits(network(*float64(inputs))).numpy().reshape(-1, len(model.classes))
        trace = model.trace(cloud, category=category, normalize=False)
        found, _ = reference.run_program(packed, cloud, raw=True, category=category)
        np.testing.assert_array_equal(trace[packed.manifest["program"][-1]["out"][0]], found)
        for core in cores:
            logits = core.logits(cloud, category=category, normalize=False)
            np.testing.assert_array_equal(logits.reshape(found.shape), found, core.isa)
        comparison.compare(f"cloud of {points}", cloud, category, trace)
        assert_same_labels(found.reshape(expected.shape), expected)
    facts = comparison.facts()
    assert not facts["first_unexplained"]
    assert facts["bits_compared"] > 0
    assert facts["bits_different"] <= 1e-3 * facts["bits_compared"]


def assert_same_labels(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal labels, but where two logits of PyTorch are equal within rounding."""
    wrong = found.argmax(axis=1) != expected.argmax(axis=1)
    best = np.sort(expected[wrong], axis=1)
    assert (best[:, -1] - best[:, -2] < 1e-3 * np.abs(expected).max()).all()

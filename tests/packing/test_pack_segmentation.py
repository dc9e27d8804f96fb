"""Packed networks that label points equal the exported network: in numpy, in the core and in PyTorch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from packed_networks import cloud, shaken
from torch import nn

from bipointnet import _core, binarize
from bipointnet.errors import UserError
from bipointnet.models import PartPointNet, ScenePointNet
from bipointnet.nn import METHODS, POOLS, BinaryLinear
from bipointnet.packing import pack
from bipointnet.runtime import model as runtime
from bipointnet.runtime import reference
from bipointnet.runtime.float_twin import float_twin, numpy_twin, random_weights
from bipointnet.runtime.operations import float_bytes

CLASSES = ("seat", "back", "leg")


def network(kind: Any, method: str = "lsr", pool: str = "ema-max", seed: int = 0, **options: Any) -> nn.Module:
    linear = nn.Linear if method == "fp" else BinaryLinear.of(METHODS[method])
    torch.manual_seed(seed)
    channels = options.setdefault("in_channels", 3)
    options.setdefault("tnets", False)
    category_input = [torch.arange(8) % options["categories"]] if options.get("categories") else []
    return shaken(kind(len(CLASSES), linear=linear, pool=POOLS[pool](), **options), channels, seed, *category_input)


def export(model: nn.Module, path: Path, **options: Any) -> runtime.Model:
    pack.export(model, path, classes=CLASSES, last="f32", **options)
    return runtime.load(path, "portable")


@pytest.mark.parametrize("kind", [PartPointNet, ScenePointNet])
def test_a_converted_float_network_is_packed_like_any_other(kind, tmp_path):
    torch.manual_seed(0)
    model = binarize(kind(len(CLASSES), in_channels=9, tnets=False))
    assert isinstance(model.get_submodule("concat.0.linear"), BinaryLinear)
    export(shaken(model, 9, 0), tmp_path / "a.bpn")
    assert_same_logits(model, tmp_path / "a.bpn", 40, 9)


def assert_same_logits(
    model: nn.Module, path: Path, points: int, channels: int = 3, category: int | None = None
) -> None:
    """PyTorch in float64, numpy and every instruction set: equal logits, up to rounding in the last float layer."""
    x = cloud(points, channels)
    with torch.no_grad():
        category_input = [] if category is None else [torch.tensor([category])]
        expected = model.double()(torch.from_numpy(x)[None].double(), *category_input).logits[0].numpy()
        model.float()
    oracle, _ = reference.run_program(reference.read(path), x, raw=True, category=category)
    np.testing.assert_allclose(oracle, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    for isa in _core.isas():
        core = runtime.load(path, isa)
        for threads in (1, 3):
            found = core.logits(x, category=category, normalize=False, threads=threads)
            assert np.array_equal(found.view(np.uint32), oracle.view(np.uint32)), (isa, threads)
        assert np.array_equal(core.segment(x, category=category, normalize=False), oracle.argmax(axis=1))


@pytest.mark.parametrize("points", [1, 64, 700])
def test_with_transforms_and_categories(points, tmp_path):
    model = network(PartPointNet, tnets=True, categories=2)
    export(model, tmp_path / "a.bpn", categories=("chair", "table"))
    assert_same_logits(model, tmp_path / "a.bpn", points, category=1)
    scene = network(ScenePointNet, tnets=True, in_channels=9)
    export(scene, tmp_path / "b.bpn", normalize="none")
    assert_same_logits(scene, tmp_path / "b.bpn", points, channels=9)


def test_equal_points_get_equal_labels(tmp_path):
    """The core computes once per distinct code; the result reaches every point that has this code."""
    export(network(PartPointNet), tmp_path / "a.bpn")
    few = cloud(30)
    chosen = np.random.default_rng(0).integers(30, size=3000)
    model = runtime.load(tmp_path / "a.bpn")
    found = model.logits(few[chosen], normalize=False)
    oracle, _ = reference.run_program(reference.read(tmp_path / "a.bpn"), few[chosen], raw=True)
    assert np.array_equal(found.view(np.uint32), oracle.view(np.uint32))
    for point in range(30):
        assert len(np.unique(found[chosen == point], axis=0)) == 1


def test_labels_are_accepted_classes_of_the_category(tmp_path):
    model = export(
        network(PartPointNet, categories=2),
        tmp_path / "a.bpn",
        categories=("chair", "stool"),
        parts=[[0, 1, 2], [1, 2]],
    )
    assert model.categories == ["chair", "stool"]
    assert model.segments
    x = cloud(500)
    assert 0 in model.logits(x, category="stool").argmax(axis=-1)
    assert set(model.segment(x, category="stool")) <= {1, 2}
    assert np.array_equal(model.segment(x, category="stool"), model.segment(x, category=1))
    batch = np.stack([x, x[::-1]])
    assert np.array_equal(
        model.segment(batch, category="chair", threads=2)[1][::-1], model.segment(x, category="chair")
    )
    for wrong in (None, "sofa", 2, -1):
        with pytest.raises(UserError, match=f"category is {wrong!r}; expected one of: chair, stool"):
            model.segment(x, category=wrong)
    with pytest.raises(UserError, match=r"labels points .* use segment instead of predict"):
        model.predict(x)


def test_a_model_without_category_input_rejects_a_category(tmp_path):
    model = export(network(PartPointNet), tmp_path / "a.bpn")
    with pytest.raises(UserError, match="category is 'chair'; the model has no category input; leave it out"):
        model.segment(cloud(10), category="chair")


@pytest.mark.parametrize(
    ("options", "names", "sentence"),
    [
        ({"categories": 2}, {"categories": ("chair",)}, "categories has 1 names; expected 2"),
        ({}, {"categories": ("chair",)}, "categories has 1 names; expected 0"),
        ({}, {"task": "classify"}, "task is 'classify', but the network has logits of every point; expected part"),
    ],
)
def test_wrong_names_are_rejected(options, names, sentence, tmp_path):
    with pytest.raises(UserError, match=sentence):
        export(network(PartPointNet, **options), tmp_path / "a.bpn", **names)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("kind", "channels"), [(PartPointNet, 3), (ScenePointNet, 9)])
def test_the_float_twin_has_the_layers_of_the_float_network(kind, channels, tmp_path):
    """The shapes of all weights, and their bytes, are those of the network in PyTorch."""
    torch.manual_seed(0)
    float_network = kind(len(CLASSES), in_channels=channels, tnets=True)
    packed = export(network(kind, tnets=True, in_channels=channels), tmp_path / "a.bpn")
    steps = float_twin(packed)
    assert steps is not None
    shapes = [weights[0].shape for weights in random_weights(steps) if weights is not None]
    linears = [m for m in float_network.modules() if isinstance(m, nn.Linear)]
    assert sorted(shapes) == sorted(tuple(m.weight.T.shape) for m in linears)
    assert float_bytes(packed.operations()) == sum(4 * p.numel() for m in linears for p in m.parameters())
    assert numpy_twin(steps, random_weights(steps), cloud(20, channels)).shape == (20, len(CLASSES))

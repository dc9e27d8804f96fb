"""`export` rejects a network that cannot run exactly: one sentence, and no file is written."""

import numpy as np
import pytest
import torch
from packed_networks import CLASSES, network, shaken, with_layer
from torch import nn

from bipointnet.errors import UserError
from bipointnet.models import PointNet
from bipointnet.nn import (
    LSR,
    BinaryLinear,
    EntropyMax,
    MeanPool,
)
from bipointnet.nn.methods import Method
from bipointnet.nn.sign import sign
from bipointnet.packing import pack
from bipointnet.runtime import reference


class Shifted(Method):
    """Bits of x - 0.5."""

    def binarize_input(self, x, layer):
        return sign(x - 0.5)


class ScaledPoints(BinaryLinear):
    """One scale per point, as in XNOR."""

    def forward(self, x):
        return super().forward(x) * x.abs().mean(dim=-1, keepdim=True)


class Doubled(PointNet):
    def forward(self, x):
        return super().forward(x)._replace(logits=2 * super().forward(x).logits)


def with_value(name: str, value: float) -> PointNet:
    model = network()
    with torch.no_grad():
        model.state_dict()[name].view(-1)[0] = value
    return model


REJECTED = {
    "a network of an unknown kind": (
        lambda: nn.Linear(3, 5),
        "the network is a Linear; expected one of: PointNet, PartPointNet, ScenePointNet",
    ),
    "a different forward": (
        lambda: shaken(Doubled(len(CLASSES), linear=BinaryLinear.of(LSR()), tnets=False)),
        "the network is a Doubled",
    ),
    "a method with shifted bits": (
        lambda: with_layer("head.0.0", BinaryLinear(1024, 512, Shifted())),
        "head.0.0: the method Shifted is not a product of signs with scales",
    ),
    "a scale per point that the method does not declare": (
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
    "a layer with a wrong number of inputs": (
        lambda: with_layer("head.0.0", BinaryLinear(1000, 512, LSR())),
        "expected 1024",
    ),
    "a weight that is NaN": (
        lambda: with_value("head.0.0.weight", np.nan),
        "head.0.0.weight: holds NaN or infinite values",
    ),
    "a negative variance": (lambda: with_value("head.0.1.running_var", -1.0), "head.0.0: its outputs are not finite"),
    "a weight too large for half precision": (
        lambda: with_value("last.weight", 1e5),
        "last: a value of size 1e[+]05 .*last='f32",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_a_network_that_cannot_run_exactly_is_rejected(case, tmp_path):
    make, message = REJECTED[case]
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
def test_wrong_options_are_rejected(options, message, tmp_path):
    with pytest.raises(UserError, match=message):
        pack.export(network(), tmp_path / "model.bpn", **{"classes": CLASSES, **options})
    assert not list(tmp_path.iterdir())


def test_the_reference_sums_a_mean_of_floats_in_groups():
    x = np.random.default_rng(0).normal(size=(130, 3)).astype(np.float32)
    sums = [0.0, 0.0, 0.0]
    for start in (0, 64, 128):
        group = [0.0, 0.0, 0.0]
        for row in x[start : start + 64]:
            group = [g + float(v) for g, v in zip(group, row, strict=True)]
        sums = [s + g for s, g in zip(sums, group, strict=True)]
    assert reference.mean(x).tolist() == [float(np.float32(s / 130)) for s in sums]
    assert MeanPool()(torch.from_numpy(x)).allclose(torch.from_numpy(reference.mean(x)))


@pytest.mark.parametrize(
    ("options", "classes"), [({"in_channels": 2}, "abc"), ({"in_channels": 300}, "abc"), ({}, "ab\0")]
)
def test_a_model_that_the_core_would_reject_is_not_written(tmp_path, options, classes):
    model = PointNet(3, linear=BinaryLinear.of(LSR()), pool=EntropyMax(), tnets=False, **options)
    with pytest.raises(UserError, match="cannot be packed"):
        pack.export(model, tmp_path / "x.bpn", classes=tuple(classes))
    assert not list(tmp_path.iterdir())

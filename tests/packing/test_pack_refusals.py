"""`export` rejects a network that cannot run exactly: one sentence, and no file is written."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from packed_networks import CLASSES, network, with_layer
from torch import nn

from bipointnet.errors import UserError
from bipointnet.models import PointNet
from bipointnet.nn import (
    LSR,
    BinaryLinear,
    EntropyMax,
)
from bipointnet.nn.geometry import farthest_points, gather
from bipointnet.nn.methods import Method
from bipointnet.nn.sign import sign
from bipointnet.packing import pack


class Shifted(Method):
    """Bits of x - 0.5."""

    def binarize_input(self, x, layer):
        return sign(x - 0.5)


class ScaledPoints(BinaryLinear):
    """One scale per point, as in XNOR."""

    def forward(self, x):
        return super().forward(x) * x.abs().mean(dim=-1, keepdim=True)


class Own(nn.Module):
    """A layer, any function, and a last layer."""

    def __init__(self, function, width=16):
        super().__init__()
        self.first, self.last = nn.Linear(3, 16), nn.Linear(width, len(CLASSES))
        self.function = function

    def forward(self, x):
        x = self.function(self.first(x))
        return self.last(x.amax(dim=1) if x.dim() == 3 else x)


def random_start(x):
    """Point 0 and the point farthest from a random one."""
    start = torch.randint(0, x.shape[1], (1,))
    farthest = (x - x[:, start]).square().sum(dim=-1).argmax(dim=1)
    return x[:, torch.cat([start, farthest])]


def random_start_of_many(x):
    """20 farthest points from a random one: the start is many passes of a loop before the last."""
    chosen = [torch.randint(0, x.shape[1], (1,))]
    distance = torch.full(x.shape[:2], 1e10)
    for _ in range(19):
        distance = torch.minimum(distance, (x - x[:, chosen[-1]]).square().sum(dim=-1))
        chosen.append(distance.argmax(dim=1))
    return x[:, torch.cat(chosen)]


def by_size(x):
    return x * 2 if x.shape[1] > 1000 else x + 1


def attention(x):
    return torch.softmax(x @ x.transpose(1, 2), dim=-1) @ x


def in_place(x):
    y = torch.zeros_like(x)
    y[:, :, :8] = x[:, :, :8]
    return y


class ReadsInPlaceNumber(nn.Module):
    """A 1-bit layer reads a tensor that was changed through a view."""

    def __init__(self):
        super().__init__()
        self.layer = BinaryLinear(16, 16, LSR())

    def forward(self, x):
        y = x.clone()
        y[..., :4] = 0.1
        return self.layer(y)


def odd_and_even(x):
    return x * (1 if x.shape[1] % 2 else -1)


def rolled_by_size(x):
    return x * torch.arange(16.0).roll(x.shape[1] % 4)


def shares_of_odd_sizes(x):
    return gather(x, farthest_points(x, max(1, (x.shape[1] - 1) // 2)))


def share_and_one(x):
    return gather(x, farthest_points(x, int(0.3 * x.shape[1]) + 1))


def pairs_of_channels(x):
    return (x.unsqueeze(-1) * x.unsqueeze(-2)).sum(-1)


def with_value(name: str, value: float) -> PointNet:
    model = network()
    with torch.no_grad():
        model.state_dict()[name].view(-1)[0] = value
    return model


REJECTED = {
    "a network that runs on no cloud": (
        lambda: nn.Linear(70, 5),
        "Linear does not run on clouds .1, N, C.; expected .* give its inputs for one cloud as example=",
    ),
    "a method with shifted bits": (
        lambda: with_layer("head.0.0", BinaryLinear(1024, 512, Shifted())),
        "head.0.0: the method Shifted is not a product of signs with scales",
    ),
    "a scale per point that the method does not declare": (
        lambda: with_layer("head.1.0", ScaledPoints(512, 256, LSR())),
        "head.1.0: the method LSR is not a product of signs with scales",
    ),
    "ReLU in front of a sign": (
        lambda: with_layer("head.0.2", nn.ReLU()),
        "head.0.2 .*ReLU in front of a sign makes every bit 1; expected Hardtanh",
    ),
    "a function without a counterpart": (
        lambda: Own(torch.erf),
        "test_pack_refusals.py:.*`x = self.function.self.first.x..`.: erf has no counterpart",
    ),
    "a maximum over channels": (lambda: Own(lambda x: x.amax(dim=2, keepdim=True), 1), "a maximum over channels"),
    "points by their place": (lambda: Own(lambda x: x[:, :7]), "some points are chosen by their place"),
    "a random start": (lambda: Own(random_start), "`start = torch.randint.*points are chosen with random numbers"),
    "a random start of many points": (
        lambda: Own(random_start_of_many),
        "`chosen = .torch.randint.*points are chosen with random numbers",
    ),
    "random numbers": (lambda: Own(lambda x: x + torch.randn(1, 1, 16)), "random numbers are used"),
    "a division that rounds": (
        lambda: Own(lambda x: torch.div(x, 0.3, rounding_mode="floor")),
        "a division that rounds",
    ),
    "a window over some points": (
        lambda: Own(lambda x: F.max_pool1d(x.mT, x.shape[1] // 2 + 1)[..., 0]),
        "a pool over windows",
    ),
    "a window over some points, as a mean": (
        lambda: Own(lambda x: F.avg_pool1d(x.mT, x.shape[1] // 2 + 1)[..., 0]),
        "a pool over windows",
    ),
    "a variance of a varying number": (
        lambda: Own(lambda x: x.var(dim=1)),
        "a variance whose divisor depends on the number of points; expected unbiased=False",
    ),
    "a branch on the size": (
        lambda: Own(by_size),
        "`return x [*] 2 if .*clouds of 131 and of 2503 points take different branches",
    ),
    "attention over all points": (lambda: Own(attention), "a product of all points with all points"),
    "a change through a view": (lambda: Own(in_place), "`y.:, :, :8. = .*a tensor is changed through a view of it"),
    "a number written through a view": (
        lambda: Own(ReadsInPlaceNumber()),
        "`y...., :4. = 0.1`.: a tensor is changed through a view of it",
    ),
    "a number that depends on the last bit of the size": (
        lambda: Own(odd_and_even),
        "a number that depends on the cloud or its size",
    ),
    "an order that depends on the size": (lambda: Own(rolled_by_size), "a number that depends on the number of points"),
    "a share that holds for odd sizes only": (lambda: Own(shares_of_odd_sizes), "expected such a rule"),
    "a share that holds for no multiple of ten": (lambda: Own(share_and_one), "expected such a rule"),
    "pairs of channels": (lambda: Own(pairs_of_channels), "combined with itself over pairs of its channels"),
    "LeakyReLU without a slope in front of a sign": (
        lambda: with_layer("head.0.2", nn.LeakyReLU(0.0)),
        "head.0.2 .*ReLU in front of a sign makes every bit 1; expected Hardtanh",
    ),
    "LeakyReLU with a negative slope": (
        lambda: with_layer("head.0.2", nn.LeakyReLU(-0.5)),
        "head.0.2 .*negative slope of -0.5; expected a slope of 0 or more",
    ),
    "BatchNorm over points": (
        lambda: Own(lambda x: torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False)),
        "BatchNorm computes statistics of its input",
    ),
    "a number that depends on the size": (
        lambda: Own(lambda x: x * (1 + x.shape[1] / 1000)),
        "a number that depends on the cloud or its size",
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
        ({"task": "part"}, "task is 'part', but the network has logits of the cloud; expected classify"),
        ({"replace": {len: "sort"}}, "expected a function: farthest, nearest or ball"),
        ({"example": torch.zeros(2, 7, 5)}, "runs on no cloud of another size than the example's"),
        ({"example": "cloud"}, "example is not a tensor or a tuple of tensors"),
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


@pytest.mark.parametrize(("channels", "classes"), [(2, "abc"), (300, "abc"), (3, "ab\0")])
def test_a_model_that_the_core_would_reject_is_not_written(tmp_path, channels, classes):
    model = PointNet(3, in_channels=channels, linear=BinaryLinear.of(LSR()), pool=EntropyMax(), tnets=False)
    with pytest.raises(UserError, match="cannot be packed"):
        pack.export(model, tmp_path / "x.bpn", classes=tuple(classes), example=torch.rand(1, 50, channels))
    assert not list(tmp_path.iterdir())

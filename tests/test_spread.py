"""Shifts that start apart: what the first bits of a fresh network tell, and what a run with --spread is."""

import pytest
import torch

from bipointnet.config import Config
from bipointnet.errors import UserError
from bipointnet.models import MODELS, SEGMENTERS
from bipointnet.models.pointnet import PointNet, vanilla_pointnet
from bipointnet.nn import LSR, BinaryLinear, EntropyMax, spread_shifts


def fresh() -> PointNet:
    torch.manual_seed(3)
    return vanilla_pointnet(classes=5, linear=BinaryLinear.of(LSR()), pool=EntropyMax()).train()


def codes(network: PointNet, points: torch.Tensor) -> int:
    """How many of the points the first bits tell apart."""
    return len((network.first(points) >= 0).reshape(-1, 64).unique(dim=0))


def test_planes_through_the_mean_see_directions_only():
    radius = torch.linspace(0.1, 3, 30).reshape(1, -1, 1)
    ray = torch.cat([radius, -radius], dim=1) * torch.tensor([0.3, -0.8, 0.5])  # (1, 60, 3), its mean at 0
    network = fresh()
    assert codes(network, ray) == 2
    spread_shifts(network, 1.0)
    assert codes(network, ray) > 20


def test_shifts_have_the_asked_width_and_nothing_else_changes():
    network, plain = fresh(), fresh().state_dict()
    spread_shifts(network, 0.5)
    moved = {name for name, value in network.state_dict().items() if not torch.equal(value, plain[name])}
    norms = {"first.1.bias", "points.0.1.bias", "head.0.1.bias", "head.1.1.bias"}  # all but the pool's
    assert moved == norms
    shifts = torch.cat([network.state_dict()[name] for name in norms])
    assert shifts.std() == pytest.approx(0.5, rel=0.05)
    assert shifts.mean() == pytest.approx(0, abs=0.05)


def test_every_backbone_has_shifts_to_spread_and_none_in_front_of_its_pools():
    for make in (*MODELS.values(), *(make for networks in SEGMENTERS.values() for make in networks.values())):
        network = make(classes=3, channels=3, linear=BinaryLinear.of(LSR()), pool=EntropyMax())
        spread_shifts(network, 1.0)
        norms = {name: m for name, m in network.named_modules() if isinstance(m, torch.nn.BatchNorm1d)}
        spread = {name for name, norm in norms.items() if norm.bias.any()}
        assert len(spread) > 3
        assert not any("pooled" in name for name in spread)
        assert "fifth.1" not in spread


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "fp"}, "spread need a 1-bit method; found method 'fp'"),
        ({"norm": False}, "spread is 1.0 without BatchNorm; expected 0"),
    ],
)
def test_where_there_is_nothing_to_spread(options, sentence):
    with pytest.raises(UserError, match=sentence):
        Config(spread=1.0, **options)


def test_a_run_that_spreads_is_not_the_papers():
    assert Config().recipe == "paper"
    assert Config(spread=1.0).recipe == "custom"

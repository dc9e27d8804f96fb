"""Networks in many styles of PyTorch: what they compute is exported, not how it is written."""

from typing import Any

import foreign_networks as foreign
import pytest
import torch
import torch.nn.functional as F
from packed_comparison import compare
from torch import Tensor, nn

from bipointnet import binarize
from bipointnet.nn import BinaryLinear, geometry
from bipointnet.packing import pack
from bipointnet.packing.values import TorchValues
from bipointnet.runtime import reference

CLASSES = 5


class Net(nn.Module):
    """A 1-bit layer on what `function` makes of points (B, N, 16), then a pool and the logits."""

    def __init__(self, function: Any, width: int = 16) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(3, 16), nn.BatchNorm1d(16)
        self.function = function
        self.hidden, self.last = BinaryLinear(width, 24, "lsr"), nn.Linear(24, CLASSES)
        self.matrix = nn.Parameter(torch.randn(16, 16))
        self.wide = nn.Parameter(torch.randn(16, 256))
        self.scale = nn.Parameter(torch.rand(16) + 0.5)

    def forward(self, x: Tensor) -> Any:
        x = self.norm(self.first(x).transpose(1, 2)).transpose(1, 2)
        x = self.hidden(self.function(self, x))
        while x.dim() > 2:
            x = x.amax(dim=-2)
        return self.last(x)


def knn(x: Tensor, k: int) -> Tensor:
    return torch.cdist(x, x).topk(k, largest=False).indices


def edges(net: Net, x: Tensor) -> Tensor:
    index = knn(x, 4)
    others = x[torch.arange(len(x))[:, None, None], index]
    return others - x[:, :, None]


def edges_by_gather(net: Net, x: Tensor) -> Tensor:
    index = knn(x, 4)
    flat = index.flatten(1).unsqueeze(-1).expand(-1, -1, x.shape[-1])
    return x.gather(1, flat).view(*index.shape, -1) - x.unsqueeze(2)


def edges_by_take_along_dim(net: Net, x: Tensor) -> Tensor:
    index = knn(x, 4)
    wide = x.unsqueeze(1).expand(-1, x.shape[1], -1, -1)
    return torch.take_along_dim(wide, index.unsqueeze(-1), dim=2) - x.unsqueeze(2)


def edges_of_geometry(net: Net, x: Tensor) -> Tensor:
    around = geometry.nearest(x, x, 4)
    return geometry.gather(x, around.indices) - x.unsqueeze(2)


def attention_over_neighbors(net: Net, x: Tensor) -> Tensor:
    others = edges(net, x)
    return (torch.softmax(others, dim=2) * others).sum(dim=2)


def sampled(net: Net, x: Tensor) -> Tensor:
    """Farthest points from point 0, half of them."""
    chosen = [torch.zeros(len(x), dtype=torch.long)]
    distance = torch.full(x.shape[:2], 1e10, dtype=x.dtype)
    for _ in range(max(1, x.shape[1] // 2) - 1):
        last = x[torch.arange(len(x)), chosen[-1]].unsqueeze(1)
        distance = torch.minimum(distance, (x - last).square().sum(-1))
        chosen.append(distance.argmax(dim=1))
    return x[torch.arange(len(x))[:, None], torch.stack(chosen, dim=1)]


def sampled_by_masks(net: Net, x: Tensor) -> Tensor:
    """The same with float32 buffers and a mask, as in well-known repositories."""
    chosen = torch.zeros(len(x), max(1, x.shape[1] // 2), dtype=torch.long)
    distance, last = torch.ones(x.shape[:2]) * 1e10, torch.zeros(len(x), dtype=torch.long)
    for i in range(chosen.shape[1]):
        chosen[:, i] = last
        square = (x - x[torch.arange(len(x)), last].unsqueeze(1)).square().sum(-1)
        closer = square < distance
        distance[closer] = square[closer]
        last = distance.max(-1)[1]
    return x[torch.arange(len(x))[:, None], chosen]


def distances(net: Net, x: Tensor) -> Tensor:
    """Of the nearest points, by torch.gather."""
    around = torch.cdist(x, x).topk(4, largest=False)
    wide = around.indices.flatten(1).unsqueeze(-1).expand(-1, -1, x.shape[-1])
    others = x.gather(1, wide).view(*around.indices.shape, -1)
    return others * around.values.unsqueeze(-1)


STYLES: dict[str, Any] = {
    "einsum": lambda net, x: torch.einsum("bnc,cd->bnd", x, net.matrix),
    "functional linear": lambda net, x: F.linear(x, net.matrix, net.scale),
    "matmul of one matrix": lambda net, x: x @ net.matrix,
    "channels first": lambda net, x: torch.matmul(net.matrix, x.transpose(1, 2)).mT.contiguous(),
    "flattened rows": lambda net, x: (x.reshape(-1, 16) @ net.matrix).view(x.shape),
    "two axes of channels": lambda net, x: x.view(*x.shape[:2], 4, 4).transpose(2, 3).flatten(2),
    "chunks": lambda net, x: torch.cat(x.chunk(4, dim=-1)[::-1], dim=-1),
    "split and stack": lambda net, x: torch.stack(x.split(4, dim=-1), dim=-1).flatten(-2),
    "unbind": lambda net, x: torch.stack(x.unbind(-1)[::-1], -1),
    "indexed channels": lambda net, x: x[..., torch.arange(15, -1, -1)],
    "arithmetic": lambda net, x: 2 - (x * net.scale - 0.5) / 3 + -x.abs(),
    "residual": lambda net, x: x + F.leaky_relu(x @ net.matrix, 0.2),
    "in place": lambda net, x: (x @ net.matrix).relu_().add_(x).mul_(net.scale),
    "clamped": lambda net, x: x.clamp(-0.5, 1.5) + x.clamp(min=0.1).sqrt(),
    "functions": lambda net, x: x.tanh() + F.silu(x) - x.sigmoid() * torch.exp(-x.square()),
    "normalized": lambda net, x: F.normalize(x, dim=-1) + F.layer_norm(x, (16,)),
    "mean of channels": lambda net, x: x - x.mean(dim=-1, keepdim=True),
    "relative to the cloud": lambda net, x: (x - x.mean(dim=1, keepdim=True)) / x.amax(dim=1, keepdim=True).abs(),
    "repeated": lambda net, x: x - x.mean(dim=1).unsqueeze(1).repeat(1, x.shape[1], 1),
    "expanded": lambda net, x: x * x.amin(dim=1, keepdim=True).expand_as(x),
    "a matrix of the cloud": lambda net, x: torch.bmm(x, (x.mean(dim=1) @ net.wide).view(-1, 16, 16)),
    "a transposed matrix": lambda net, x: ((x.mean(dim=1) @ net.wide).view(-1, 16, 16) @ x.mT).mT,
    "the covariance": lambda net, x: torch.bmm(x, torch.bmm(x.transpose(1, 2), x) / 100),
    "edges": edges,
    "edges by gather": edges_by_gather,
    "edges by take_along_dim": edges_by_take_along_dim,
    "edges of geometry": edges_of_geometry,
    "attention over neighbors": attention_over_neighbors,
    "sampled": sampled,
    "sampled by masks": sampled_by_masks,
    "distances of neighbors": distances,
    "numbers of float32": lambda net, x: x.float() @ torch.eye(16) + torch.ones(16) * torch.tensor([0.5]),
    "minimum": lambda net, x: torch.minimum(x, x @ net.matrix),
    "deviation of channels": lambda net, x: x / x.std(dim=-1, keepdim=True),
    "deviation of neighbors": lambda net, x: edges(net, x).var(dim=2, unbiased=False),
    "deviation of points": lambda net, x: x / (x.std(dim=1, keepdim=True, correction=0) + 1e-5),
    "a window over neighbors": lambda net, x: F.max_pool2d(edges(net, x).movedim(-1, 1), [1, 4])[..., 0].mT,
    "a mean over neighbors": lambda net, x: F.avg_pool2d(edges(net, x).movedim(-1, 1), (1, 4)).squeeze(-1).mT,
    "a kernel over the channels": lambda net, x: F.conv2d(x[:, None], net.matrix[:, None, None])[..., 0].mT,
}


def trained(network: nn.Module) -> nn.Module:
    """With random statistics, as after a training."""
    return foreign.with_random_norms(network).eval()


@pytest.mark.parametrize("style", STYLES)
def test_every_style(style):
    torch.manual_seed(0)
    compare(trained(Net(STYLES[style])), CLASSES, (60, 143), example=torch.rand(2, 100, 3))


def test_an_example_may_have_few_points():
    """For more than 25 points torch.cdist computes differently."""
    torch.manual_seed(0)
    compare(trained(Net(edges)), CLASSES, (24, 143), example=torch.rand(2, 24, 3))


@pytest.mark.parametrize("name", ["classic", "sequential", "grouping"])
def test_converted_networks(name):
    torch.manual_seed(0)
    make, inputs, _, _ = foreign.NETWORKS[name]
    example = torch.cat([x.float() for x in inputs()] * 4, dim=1 if name == "grouping" else 2)
    network = trained(binarize(make(), example=example))
    compare(network, CLASSES, (40, 143), example=example)


class Outputs(Net):
    def __init__(self, kind: str) -> None:
        super().__init__(lambda net, x: x)
        self.kind = kind

    def forward(self, x: Tensor) -> Any:
        logits = super().forward(x)
        pooled = x.mean(dim=1)
        return {
            "tuple": (pooled, logits),
            "dict": {"features": pooled, "scores": logits},
            "log_softmax": F.log_softmax(logits, dim=1),
            "softmax": (logits.softmax(dim=-1), pooled),
        }[self.kind]


@pytest.mark.parametrize(
    ("kind", "chosen"), [("tuple", "output 1"), ("dict", "scores"), ("log_softmax", "output"), ("softmax", "output 0")]
)
def test_logits_are_found_among_the_outputs_and_a_last_softmax_is_dropped(kind, chosen, tmp_path):
    torch.manual_seed(0)
    network = trained(Outputs(kind))
    exported = pack.export(network, tmp_path / "a.bpn", classes=list("abcde"), normalize="none", last="f32")
    assert exported.output == chosen
    x = torch.rand(70, 3)
    with torch.no_grad():
        expected = Net.forward(network, x[None])[0]  # pyright: ignore[reportArgumentType]
    found, _ = reference.run_program(reference.read(tmp_path / "a.bpn"), x.numpy(), raw=True)
    assert torch.allclose(torch.from_numpy(found), expected, atol=1e-4)


def by_voxels(x: Tensor) -> Tensor:
    """Not farthest points, but in the middle of the recorded clouds it may look like them."""
    return x[..., 0].argsort(dim=1)[:, :: max(1, x.shape[1] // 8)][:, :8]


def test_indices_that_no_search_gives_are_refused_with_what_was_tried(tmp_path):
    network = trained(Net(lambda net, x: x[torch.arange(len(x))[:, None], by_voxels(x)]))
    with pytest.raises(
        pack.UserError, match=r"by_voxels.*indices of points that no search of the runtime gives: .*replace="
    ):
        pack.export(network, tmp_path / "a.bpn", classes=list("abcde"))


def test_a_named_function_is_searched_only_among_that_operation():
    torch.manual_seed(0)
    network = trained(Net(edges))
    values = TorchValues(network, CLASSES, replace={knn: "nearest"})
    assert [op["op"] for op in values.program.ops if op["op"] in ("nearest", "ball")] == ["nearest"]
    with pytest.raises(pack.UserError, match="indices of points that no search of the runtime gives"):
        TorchValues(network, CLASSES, replace={knn: "farthest"})

"""A converted network is the user's network: its class, methods, branches, copies, pickles, compiled versions."""

import copy
import pickle
import types

import pytest
import torch
import torch.nn.functional as F
from foreign_networks import ClassicPointNet, GroupingNet, SetNet, graph, points_first
from published_networks import (
    DictionaryNet,
    EdgePartNet,
    GraphPointNet2,
    PointPartNet,
    clouds,
    graph_of_clouds,
    one_hot,
)
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from bipointnet import LSR, XNOR, UserError, binarize, calibrate
from bipointnet.convert import report_of
from bipointnet.nn import BinaryLinear, EntropyMax

NETWORKS = {
    "functions": (ClassicPointNet, lambda: (clouds(),)),
    "grouping": (GroupingNet, lambda: tuple(x.float() for x in points_first())),
    "dictionary": (DictionaryNet, lambda: (clouds(),)),
    "parts": (PointPartNet, lambda: (clouds(), one_hot(torch.arange(6)))),
    "edges": (EdgePartNet, lambda: (clouds(), one_hot(torch.arange(6)))),
    "pyg": (lambda: GraphPointNet2(plain_last=False), graph_of_clouds),
    "pyg-sets": (SetNet, lambda: tuple(x.float() if x.is_floating_point() else x for x in graph())),
}
every_network = pytest.mark.parametrize("name", NETWORKS)


def converted(name: str) -> tuple[nn.Module, nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    make, inputs = NETWORKS[name]
    model, given = make(), inputs()
    network = binarize(model, example=given)
    calibrate(network, given)
    return model, network.eval(), given


def tensors(output) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]


def assert_same(a, b) -> None:
    assert len(tensors(a)) == len(tensors(b)) > 0
    assert all(torch.equal(x, y) for x, y in zip(tensors(a), tensors(b), strict=True))


@every_network
def test_the_result_is_an_instance_of_the_class_and_can_be_copied_and_pickled(name):
    model, network, given = converted(name)
    assert isinstance(network, type(model))
    assert type(network).__name__ == type(model).__name__
    expected = network(*given)
    for other in (pickle.loads(pickle.dumps(network)), copy.deepcopy(network)):
        assert isinstance(other, type(model))
        assert str(report_of(other)) == str(report_of(network))
        assert_same(other(*given), expected)
        calibrate(other, given)
        other.load_state_dict(network.state_dict())
        assert_same(other.eval()(*given), expected)


@every_network
def test_the_network_learns_in_place_of_the_float_network(name):
    """Gradients reach every parameter that had one in the float network."""
    model, network, given = converted(name)
    for each in (model, network):
        sum(t.square().sum() for t in tensors(each.train()(*given))).backward()  # pyright: ignore
    reached = {n for n, p in model.named_parameters() if p.grad is not None}
    assert [n for n, p in network.named_parameters() if n in reached and p.grad is None] == []


def test_methods_and_attributes_stay():
    model, network, (x,) = converted("dictionary")
    assert isinstance(network, DictionaryNet)
    assert torch.equal(network.classify(x), network(x)["logits"].argmax(1))
    assert_same(network({"pos": x}), network(x))
    with pytest.raises(UserError, match="has no report"):
        report_of(model)


def test_a_network_is_not_binarized_again():
    _, network, given = converted("functions")
    for example in (None, given):
        with pytest.raises(UserError, match=r"ClassicPointNet was made by binarize, .* binarize the float network"):
            binarize(network, example=example)
        with pytest.raises(UserError, match="0 was made by binarize"):
            binarize(nn.Sequential(network, nn.Linear(40, 4)), example=example)


def test_a_module_of_the_network_can_run_alone():
    torch.manual_seed(0)
    network = binarize(ClassicPointNet()).eval()
    found = []
    transformer = network.get_submodule("stn")
    transformer.register_forward_hook(lambda module, given, output: found.append((given[0], output)))
    network(clouds())
    assert torch.equal(transformer(found[0][0]), found[0][1])


def test_one_module_may_change_at_some_of_its_calls():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu, self.first, self.wide = nn.ReLU(), nn.Linear(3, 16), nn.Linear(16, 16)
            self.hidden, self.norm, self.head = nn.Linear(16, 16), nn.BatchNorm1d(5), nn.Linear(16, 16)
            self.last = nn.Linear(16, 4)

        def forward(self, x):
            x = self.relu(self.wide(self.relu(self.first(x))))
            x = self.relu(self.norm(self.hidden(x))).max(1)[0]
            return self.last(self.relu(self.head(x)))

    torch.manual_seed(0)
    network, x = binarize(Shared(), exclude="wide").eval(), torch.randn(4, 5, 3)
    now = [row.now for row in report_of(network) if row.name == "relu"]
    assert now == ["kept", "Hardtanh", "removed", "Hardtanh"]
    read = F.hardtanh(network.wide(F.relu(network.first(x))))
    pooled = EntropyMax()(network.norm(network.hidden(read)))
    torch.testing.assert_close(network(x), network.last(F.hardtanh(network.head(pooled))))


def test_other_code_than_was_binarized_is_refused():
    torch.manual_seed(0)
    network = binarize(DictionaryNet())
    code = DictionaryNet.forward.__code__
    try:
        DictionaryNet.forward.__code__ = code.replace(co_varnames=(*code.co_varnames[:-1], "other"))
        with pytest.raises(UserError, match=r"the code of DictionaryNet.forward is not the code that was binarized"):
            network(clouds())
    finally:
        DictionaryNet.forward.__code__ = code
    network(clouds())


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.norm, self.wide = nn.Linear(16, 16), nn.BatchNorm1d(5), nn.Linear(16, 16)

    def forward(self, x):
        return F.relu(self.wide(F.relu(self.norm(self.hidden(x))))).max(1)[0]


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool | None, module: bool):
        super().__init__()
        self.first, self.encoder = nn.Linear(3, 16), Encoder()
        self.head, self.last = nn.Linear(16, 16), nn.Linear(16, 4)
        self.reentrant, self.module = reentrant, module

    def encode(self, x):
        return F.relu(self.head(self.encoder(x)))

    def forward(self, x):
        x = F.relu(self.first(x))
        if self.reentrant is None:
            return self.last(self.encode(x))
        if self.module:
            return self.last(F.relu(self.head(checkpoint(self.encoder, x, use_reentrant=self.reentrant))))
        return self.last(checkpoint(self.encode, x, use_reentrant=self.reentrant))


@pytest.mark.parametrize("example", [None, torch.randn(4, 5, 3)], ids=["traced", "recorded"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_module_has_the_same_gradients_and_a_function_is_refused(reentrant, example):
    torch.manual_seed(0)
    gradients, x, state = [], torch.randn(4, 5, 3), Checkpointed(None, True).state_dict()
    for kind in (None, reentrant):
        model = Checkpointed(kind, True)
        model.load_state_dict(state)
        network = binarize(model, example=example)
        network(x).square().sum().backward()
        gradients.append({name: p.grad for name, p in network.named_parameters()})
    assert "encoder.wide.weight" in gradients[0]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=0)
    with pytest.raises(UserError, match=r"calls relu in a function that torch\.utils\.checkpoint runs"):
        binarize(Checkpointed(reentrant, False), example=example)(x)


def test_a_forward_on_the_instance_is_refused():
    model = DictionaryNet()
    model.forward = types.MethodType(DictionaryNet.forward, model)
    with pytest.raises(UserError, match="was replaced on the instance"):
        binarize(model)


def test_a_compiled_network_computes_the_same():
    _, network, given = converted("parts")
    torch.testing.assert_close(torch.compile(network, backend="eager")(*given), network(*given))


def test_methods_by_pattern():
    torch.manual_seed(0)
    options = {"stn.*": XNOR(), "conv2": "fp", "fc*": "bnn", "*": LSR()}
    network = binarize(ClassicPointNet(), method=options)
    found = {n: repr(m.method) for n, m in network.named_modules() if isinstance(m, BinaryLinear)}
    assert set(found.values()) == {"XNOR()", "BNN()", "LSR()"}
    assert all(method == "XNOR()" for name, method in found.items() if name.startswith("stn."))
    assert (found["fc1"], found["conv3"], found["fstn.fc1"]) == ("BNN()", "LSR()", "LSR()")
    assert report_of(network).kept["conv2"] == "method is \"fp\" for 'conv2'"
    rest = report_of(binarize(ClassicPointNet(), method={"stn.*": "lsr"})).kept
    assert rest["fc1"] == "no pattern of method matches it"


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"encoder.*": "lsr"}, r"method has the pattern 'encoder.\*', which names no layer, expected one of stn.conv1"),
        ({"*": "lsr", "stn.*": "bnn"}, r"pattern 'stn.\*', but earlier patterns match all of its layers"),
        ({"*": "lrs"}, r"binarize: method\['\*'\]: method is 'lrs', expected .* did you mean 'lsr'"),
        ({"*": "fp"}, "no layer of ClassicPointNet can become 1-bit"),
    ],
)
def test_a_wrong_pattern_is_one_sentence(method, message):
    with pytest.raises(UserError, match=message):
        binarize(ClassicPointNet(), method=method)


@pytest.mark.parametrize("name", ["parts", "pyg", "edges"])
def test_bfloat16_autocast_on_a_cpu(name):
    _, network, given = converted(name)
    with torch.autocast("cpu", torch.bfloat16):
        output = network.train()(*given)
        output.float().square().sum().backward()
    assert output.isfinite().all()
    assert all(p.grad.isfinite().all() for p in network.parameters() if p.grad is not None)

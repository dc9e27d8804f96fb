"""`analyze` on networks that are not of this library."""

import math

import pytest
import torch
from published_networks import DictionaryNet, GraphPointNet2, PointPartNet, clouds, graph_of_clouds, one_hot
from torch import nn

from bipointnet import UserError, analyze, binarize, calibrate
from bipointnet.evaluation.metrics import bit_entropy
from bipointnet.evaluation.probe import bilinear_layers
from bipointnet.nn import hard_sign
from bipointnet.nn.hooks import hooked


class Pair(DictionaryNet):
    def forward(self, x):  # pyright: ignore[reportIncompatibleMethodOverride]
        found = super().forward(x)
        return found["logits"], found["features"]


class Plain(DictionaryNet):
    def forward(self, x):
        return super().forward(x)["logits"]


@pytest.mark.parametrize("kind", [DictionaryNet, Pair, Plain])
def test_outputs_may_be_dictionaries_tuples_and_tensors(kind):
    torch.manual_seed(0)
    x, labels = clouds(40), torch.arange(40) % 5
    network = binarize(kind(), example=x)
    calibrate(network, x)
    found = analyze(network, x, labels)
    assert [layer.name for layer in found.layers] == list(bilinear_layers(network)) == ["hidden", "head"]
    read = {}
    layers = {"head": network.head, "hidden": network.hidden, "last": network.last}
    with hooked(layers, lambda name, module, x, output: read.update({name: (x, output)})), torch.no_grad():
        network.eval()(x)
    accuracy = (read["last"][1].argmax(1) == labels).double().mean().item()
    assert found.accuracy == pytest.approx(100 * accuracy)
    signs = (read["head"][0] >= 0).numpy()
    assert (found.pooled == signs).all()
    assert found.entropy == pytest.approx(bit_entropy(signs))
    hidden, weight = found.layers[0], network.hidden.weight.detach()
    product = read["hidden"][0].movedim(1, -1) @ (weight - weight.mean()).T
    assert hidden.scale == pytest.approx(read["hidden"][1].std(unbiased=False).item(), rel=1e-4)
    assert hidden.float_scale == pytest.approx(product.std(unbiased=False).item(), rel=1e-4)
    assert hidden.rows == x.shape[2]
    codes = [len({*map(tuple, hard_sign(cloud.T).tolist())}) for cloud in read["hidden"][0]]
    assert hidden.codes == pytest.approx(sum(codes) / len(codes))


def test_graphs_and_several_inputs_without_labels():
    torch.manual_seed(0)
    for model, given in (
        (GraphPointNet2(plain_last=False), graph_of_clouds()),
        (PointPartNet(), (clouds(), one_hot(torch.arange(6)))),
    ):
        network = binarize(model, example=given)
        calibrate(network, given)
        modes = [module.training for module in network.modules()]
        found = analyze(network, given)
        assert [module.training for module in network.modules()] == modes
        assert found.accuracy is None
        assert found.layers
        assert all(math.isfinite(value) for layer in found.layers for value in layer[1:])


def test_a_network_without_floats_in_its_output_is_refused():
    class Counting(nn.Module):
        def forward(self, x):
            return x.long()

    with pytest.raises(UserError, match="the output of the network is Tensor without a float tensor"):
        analyze(Counting(), clouds())

"""The study of trained networks: values by hand in numpy, no effect on the network, every method and model."""

import csv
import dataclasses
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import blobs, write_clouds
from torch import nn
from torch.overrides import TorchFunctionMode

import bipointnet
from bipointnet.analysis import study as analysis
from bipointnet.analysis.doubling import degrees, double_scales
from bipointnet.cli import common, main
from bipointnet.config import Config
from bipointnet.data import open_dataset
from bipointnet.data.normalize import normalize
from bipointnet.evaluation import metrics
from bipointnet.evaluation.networks import classify
from bipointnet.evaluation.probe import bilinear_layers, evenly_spaced, probe
from bipointnet.models import MODELS, Output, PointNet, checkpoint
from bipointnet.models.blueprint import PointNorm
from bipointnet.models.pointnet import TNet, orthogonality
from bipointnet.nn import BNN, LSR, METHODS, BinaryLinear, EntropyMax, MaxPool, PooledLayer, calibrate
from bipointnet.training.loop import train

QUICK = Config(points=24, epochs=2, batch=16, lr=3e-3, device="cpu")


class Small(nn.Module):
    """Hardtanh -> bi-linear -> bi-linear, pooled -> bi-linear logits: (B, N, 3) -> Output."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide = BinaryLinear(3, 4, LSR())
        self.pooled = PooledLayer(BinaryLinear(4, 5, BNN()), PointNorm(5), None, MaxPool())
        self.last = BinaryLinear(5, 3, LSR())

    def forward(self, x: torch.Tensor) -> Output:
        pooled = self.pooled(self.wide(torch.nn.functional.hardtanh(x * 1.5)))
        return Output(self.last(pooled), pooled, None)


@pytest.fixture
def small() -> tuple[Small, np.ndarray, np.ndarray]:
    """The network, 20 clouds of 6 points (one full batch and a smaller one), and labels."""
    model = Small()
    clouds = blobs(3, 20, 6)
    calibrate(model, normalize(torch.from_numpy(clouds.points)))
    return model.eval(), clouds.points, clouds.labels


def signs(x: np.ndarray) -> np.ndarray:
    return np.where(x >= 0, 1.0, -1.0)


def by_hand(model: Small, clouds: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Input and output of each bi-linear layer in numpy, and the pooled feature as the input of the last."""
    w = {name: p.detach().double().numpy() for name, p in model.state_dict().items()}
    x = np.clip(1.5 * normalize(torch.from_numpy(clouds)).double().numpy(), -1, 1)
    wide = w["wide.alpha"] * (signs(x) @ signs(w["wide.weight"] - w["wide.weight"].mean()).T)
    z = signs(wide) @ signs(w["pooled.linear.weight"]).T + w["pooled.linear.bias"]
    pooled = (z / math.sqrt(1 + 1e-5)).max(axis=1)
    last = w["last.alpha"] * (signs(pooled) @ signs(w["last.weight"] - w["last.weight"].mean()).T)
    return {"wide": (x, wide), "pooled.linear": (wide, z), "last": (pooled, last)}


class StrictDevices(TorchFunctionMode):
    """Refuses what a GPU refuses: tensors that were not copied to the CPU as arrays, labels that were not moved."""

    def __init__(self) -> None:
        super().__init__()
        self.moved: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        read = {"numpy": args[:1], "cross_entropy": args[1:2]}.get(name, ())
        assert all(any(x is moved for moved in self.moved) for x in read), name
        output = func(*args, **(kwargs or {}))
        self.moved += [output] if name in ("cpu", "to") else []
        return output


def test_a_network_on_another_device_is_analyzed():
    torch.manual_seed(0)
    network = PointNet(num_classes=4, linear="lsr", pool="ema-max").eval()
    with StrictDevices():
        found = bipointnet.analyze(network, torch.rand(8, 16, 3), labels=torch.arange(8) % 4)
    assert [transform.size for transform in found.transforms] == [3, 64]


def test_a_network_by_hand(small):
    model, clouds, labels = small
    found = analysis.study(model, clouds, labels, points=6)
    expected = by_hand(model, clouds)
    assert [layer.name for layer in found.layers] == list(expected)
    for layer in found.layers:
        a, z = expected[layer.name]
        weight = model.get_submodule(layer.name).weight.detach().double().numpy()
        assert layer.scale == pytest.approx(z.std(), rel=1e-5)
        assert layer.float_scale == pytest.approx((a @ (weight - weight.mean()).T).std(), rel=1e-5)
        assert layer.zero_gradient == pytest.approx(100 * (np.abs(a) >= 1).mean(), abs=1e-4)
        if a.ndim == 3:
            assert layer.codes == pytest.approx(np.mean([len({*map(tuple, signs(cloud))}) for cloud in a]))
            assert layer.rows == 6
        else:
            assert layer.codes == len({*map(tuple, signs(a))})
            assert layer.rows == 20
    p = (expected["last"][0] >= 0).mean(axis=0)
    entropy = [-sum(q * math.log2(q) for q in (c, 1 - c) if q > 0) for c in p]
    np.testing.assert_allclose(found.entropy, entropy, atol=1e-9)
    assert found.accuracy == pytest.approx(100 * (expected["last"][1].argmax(axis=1) == labels).mean())
    assert found.zero_gradient == pytest.approx(np.mean([layer.zero_gradient for layer in found.layers]))
    assert found.clouds == 20
    assert found.regularizer is None


def test_zero_gradients_are_those_of_autograd(small):
    """For a layer after Hardtanh: the percentage of inputs of Hardtanh with zero gradient, by autograd."""
    model, clouds, labels = small
    layer, x = model.wide, normalize(torch.from_numpy(clouds)) * 1.5
    x.requires_grad_()
    (layer(torch.nn.functional.hardtanh(x)) * torch.randn(4)).sum().backward()
    assert x.grad is not None
    share = 100 * (x.grad == 0).float().mean().item()
    assert 0 < share < 100
    assert analysis.study(model, clouds, labels, points=6).layers[0].zero_gradient == pytest.approx(share, abs=1e-3)


def test_a_study_does_not_change_the_network(small):
    model, clouds, labels = small
    model.pooled.fused = True
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    analysis.study(model, clouds, labels, points=6)
    probe(model, normalize(torch.from_numpy(clouds)[:, :6]))
    assert model.training
    assert model.pooled.fused
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_study_that_fails_does_not_change_the_network(small):
    model, clouds, labels = small
    model.pooled.fused = True
    with pytest.raises(RuntimeError):
        analysis.study(model, clouds[:, :, :2], labels, points=6)
    assert model.pooled.fused
    assert not any(module._forward_hooks for module in model.modules())


def set_random_biases(model: nn.Module) -> None:
    """Biases as after training: no value is on a threshold, where rounding would decide its sign."""
    for module in model.modules():
        if isinstance(module, PointNorm):
            nn.init.normal_(module.bias, std=0.1)


def test_the_scale_of_a_layer_cancels_if_and_only_if_batchnorm_follows():
    """Doubling the output of a layer has no effect before BatchNorm, and an effect in the last layer of a T-Net."""
    torch.manual_seed(0)
    clouds = blobs(0, 16, 32)
    model = PointNet(3, linear=BinaryLinear.of(LSR()), pool=EntropyMax(), binary_last=True)
    set_random_biases(model)
    for module in model.modules():
        if isinstance(module, PointNorm):
            module.eps = 1e-12  # so that the scale cancels up to rounding
    points = normalize(torch.from_numpy(clouds.points)).double()
    calibrate(model.double(), points)
    found = double_scales(model, (points,), torch.from_numpy(clouds.labels))
    # No BatchNorm follows the last layer of a T-Net or of the network.
    bare = {f"{name}.last" for name, module in model.named_modules() if isinstance(module, TNet)} | {"last"}
    assert bare < found.keys()
    for name, (moved, turned) in found.items():
        if name in bare:
            assert moved > 1
        else:
            assert moved < 1e-6
            assert turned < 1e-6
    assert found["last"][0] == pytest.approx(100, rel=1e-4), "twice the logits"


def test_without_batchnorm_a_scale_turns_gradients_but_changes_no_hidden_bit():
    torch.manual_seed(0)
    clouds = blobs(0, 16, 32)
    model = MODELS["pointnet-vanilla"](3, linear=BinaryLinear.of(LSR()), pool=MaxPool(), norm=False)
    calibrate(model, normalize(torch.from_numpy(clouds.points)))
    for layer in bilinear_layers(model).values():
        layer.alpha.data *= 5  # outputs of about 1, so that Hardtanh clamps more of them when they double
    found = double_scales(model, (normalize(torch.from_numpy(clouds.points)),), torch.from_numpy(clouds.labels))
    hidden = [name for name in found if name != list(found)[-1]]
    assert all(found[name][0] == 0 for name in hidden), "sign(Hardtanh(2 z)) is sign(Hardtanh(z))"
    assert all(found[name][1] > 1 for name in found)


def test_evenly_spaced_indices_are_different_and_cover_the_range():
    assert evenly_spaced(4, 20).tolist() == [0, 5, 10, 15]
    assert evenly_spaced(9, 4).tolist() == [0, 1, 2, 3]
    assert len(set(evenly_spaced(32, 33).tolist())) == 32


@pytest.mark.parametrize("angle", [0, 1e-4, 30, 90, 180])
def test_angle_between_gradients(angle):
    t = math.radians(angle)
    a, b = torch.tensor([3.0, 0.0]), torch.tensor([math.cos(t), math.sin(t)], dtype=torch.float64)
    assert degrees(a, b) == pytest.approx(angle, abs=1e-9)
    assert degrees(a, torch.zeros(2)) == 90
    assert degrees(torch.zeros(2), torch.zeros(2)) == 0


@pytest.mark.parametrize(
    ("method", "model", "norm"),
    [(method, model, True) for method in METHODS if method != "lsr" for model in ("pointnet-vanilla", "pointnet")]
    + [pytest.param("lsr", model, True, marks=[pytest.mark.long] * (model == "pointconv")) for model in MODELS]
    + [("lsr", model, False) for model in ("pointnet-vanilla", "pointnet")],
)
def test_every_method_and_model_can_be_studied(method, model, norm):
    torch.manual_seed(0)
    linear = BinaryLinear.of(METHODS[method])
    network = MODELS[model](num_classes=3, linear=linear, pool=EntropyMax(), norm=norm)
    clouds = blobs(0, 4, 32)
    calibrate(network, normalize(torch.from_numpy(clouds.points)))
    steps = []
    found = analysis.study(network, clouds.points, clouds.labels, 32, lambda done, total: steps.append((done, total)))
    assert [layer.name for layer in found.layers] == list(bilinear_layers(network))
    assert found.layers
    assert all(math.isfinite(value) for layer in found.layers for value in layer[1:])
    assert all(0 <= layer.zero_gradient <= 100 and 1 <= layer.codes <= layer.rows for layer in found.layers)
    assert steps[-1][0] == steps[-1][1] == len(steps)
    probed = probe(network, normalize(torch.from_numpy(clouds.points)[:, :32]))
    assert probed["zero_gradient"] == pytest.approx(found.zero_gradient, abs=0.01)
    assert probed["regularizer"] == (found.regularizer and pytest.approx(found.regularizer, rel=1e-4))


def test_transforms_are_measured(tiny):
    torch.manual_seed(0)
    network = PointNet(3).eval()
    found = analysis.study(network, tiny.test.points, tiny.test.labels, 48)
    output = network(normalize(torch.from_numpy(tiny.test.points)))
    largest = max(found.transforms, key=lambda t: t.size)
    assert found.regularizer == largest.regularizer == pytest.approx(orthogonality(output.transform).item(), rel=1e-4)
    singular = np.linalg.svd(output.transform.detach().numpy(), compute_uv=False)
    assert largest.spectral_norm == pytest.approx(singular.max(axis=1).mean(), rel=1e-4)
    assert {t.size: t.matrices.shape for t in found.transforms} == {3: (48, 3, 3), 64: (48, 64, 64)}
    assert found.layers == []
    assert found.zero_gradient is None, "a float network has no bi-linear layer"


def rows_of(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "metrics.csv").open()))


def test_training_logs_the_probe_of_every_evaluated_epoch(tiny, tmp_path):
    """The regularizer and the percentage of zero gradients are those of the saved network."""
    figures = train(dataclasses.replace(QUICK, model="pointnet"), tiny, tmp_path)
    rows = rows_of(tmp_path)
    assert all(float(row["regularizer"]) > 0 and 0 < float(row["zero_gradient"]) < 100 for row in rows)
    network, _ = checkpoint.load_run(tmp_path)
    seen = probe(network, normalize(torch.from_numpy(tiny.test.points)[:, : QUICK.points]))
    assert seen == pytest.approx({name: float(rows[-1][name]) for name in seen}, rel=1e-5)
    assert seen == pytest.approx({name: figures[name] for name in seen}, rel=1e-5)


def test_a_float_network_logs_blanks(tiny, tmp_path):
    train(dataclasses.replace(QUICK, method="fp", epochs=1), tiny, tmp_path)
    assert [rows_of(tmp_path)[0][name] for name in ("regularizer", "zero_gradient")] == ["", ""]


@pytest.fixture
def analyze(monkeypatch, capsys):
    """`bipointnet analyze ...` run in a folder: exit code, stdout, stderr."""

    def call(*arguments: str | Path, cwd: Path) -> tuple[int, str, str]:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["bipointnet", "analyze", *map(str, arguments)])
        monkeypatch.setattr(common.out, "width", 200)
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, runs of several networks on it, and things that are not runs."""
    root = tmp_path_factory.mktemp("place")
    write_clouds(root / "data", blobs(0, 64, 32), blobs(1, 30, 32))
    shutil.copytree(root / "data", root / "others")
    for split in ("train", "test"):
        (root / "others" / split / "ball").rename(root / "others" / split / "sphere")
    data = open_dataset(str(root / "data"), 24)
    configs = {
        "lsr": dataclasses.replace(QUICK, model="pointnet"),
        "bnn": dataclasses.replace(QUICK, method="bnn", pool="max"),
        "float": dataclasses.replace(QUICK, method="fp", model="pointnet"),
    }
    for name, config in configs.items():
        train(config, data, root / name)
    header = json.dumps({"__metadata__": {"bipointnet": json.dumps({"format": 1, "program": []})}}).encode()
    (root / "packed.bpn").write_bytes(len(header).to_bytes(8, "little") + header)
    (root / "empty").mkdir()
    return root


def test_the_theory_on_the_command_line(analyze, tmp_path):
    code, shown, complaint = analyze("-o", "pictures", cwd=tmp_path)
    assert code == 0, complaint
    assert all(text in shown for text in ("3.2044", "EMA-avg", "0.189", "32.00", "Pictures: pictures/"))
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert pictures == {"pooling.png", "theory.png"}
    assert all((tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    survey = json.loads(analyze("--json", cwd=tmp_path)[1])
    assert [row["bits_lost"] for row in survey["wrong_n"] if row["ratio"] == 1] == [0]
    assert [path.name for path in tmp_path.iterdir()] == ["pictures"], "nothing is written without -o"


def test_runs_are_compared_on_the_command_line(analyze, place, tmp_path):
    names = ["lsr", "bnn", "float"]
    code, shown, complaint = analyze(*names, "--data", "data", "-o", tmp_path / "pictures", cwd=place)
    assert code == 0, complaint
    assert all(name in shown for name in (*names, "pooled.linear", "T-Net regularizer", "0.0°"))
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert pictures == {"pooled.png", "scale.png", "training.png", "transform.png"}


def test_runs_as_json(analyze, place):
    runs = ["lsr", "bnn", "float", "bnn/best.safetensors"]
    found = json.loads(analyze(*runs, "--data", "data", "--clouds", "9", "--json", cwd=place)[1])
    assert [row["run"] for row in found] == runs
    assert [len(row["layers"]) for row in found] == [15, 4, 0, 4]
    assert [len(row["transforms"]) for row in found] == [2, 0, 2, 0]
    assert [row["clouds"] for row in found] == [9] * 4
    assert found[2]["entropy"] is None, "the signs of a float network's pool carry nothing to speak of"
    clouds = open_dataset(str(place / "data"), 24).test.points
    few = torch.from_numpy(clouds[evenly_spaced(9, len(clouds))])
    for row in found[:2]:
        _, bits = classify(checkpoint.load_run(place / row["run"])[0], few, 24)
        assert row["entropy"] == pytest.approx(metrics.bit_entropy(bits.numpy()).mean(), abs=1e-9)


def test_the_command_as_a_program(bipointnet, place):
    shown = subprocess.run(
        [*bipointnet, "analyze", "bnn", "--data", "data", "--clouds", "4"],
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pooled.linear" in shown.stdout


MISTAKES = {
    "no such run": (["nowhere"], ["nowhere", "does not exist", "run folder"]),
    "no run in it": (["empty", "--data", "data"], ["empty", "last.safetensors"]),
    "a packed model": (["packed.bpn", "--data", "data"], ["packed.bpn", "packed model", "run it was exported from"]),
    "a float network": (["float", "--data", "data"], ["float", "1-bit method", "T-Nets"]),
    "other classes": (["lsr", "--data", "others"], ["others", "3 classes", "same class names"]),
    "data not named": (["lsr"], ["lsr", "trained on", "--data"]),
    "no such data": (["lsr", "--data", "gone"], ["gone", "no such folder"]),
    "data without a run": (["--data", "data"], ["--data data", "without a run"]),
    "pictures into a file": (["-o", "packed.bpn"], ["packed.bpn", "a file", "-o"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_code_2(analyze, place, mistake):
    arguments, words = MISTAKES[mistake]
    code, shown, complaint = analyze(*arguments, cwd=place)
    assert code == 2, shown + complaint
    lines = complaint.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert all(word in lines[0] for word in words)

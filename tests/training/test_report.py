"""The page about a run: what it shows is what evaluation and analysis measure."""

import base64
import csv
import dataclasses
import html
import json
import re
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
import torch
from labeled_data import parts
from test_tasks import PART, blocks

from bipointnet.analysis.study import study
from bipointnet.cli.train import _picked
from bipointnet.config import Config
from bipointnet.data.dataset import PointClouds
from bipointnet.evaluation.evaluate import evaluate_classifier, evaluate_segmenter
from bipointnet.evaluation.predictor import open_model
from bipointnet.evaluation.probe import evenly_spaced, read_bits
from bipointnet.models import checkpoint
from bipointnet.training.loop import train
from bipointnet.training.repeat import command, given_options
from bipointnet.training.report import EXAMPLES

QUICK = Config(points=24, epochs=13, batch=48, lr=1e-5, device="cpu")  # learns little, so there are mistakes


def written(config: Config, data: PointClouds, folder: Path) -> str:
    train(config, data, folder)
    return (folder / "report.html").read_text(encoding="utf-8")


def confusion_of(page: str) -> list[list[int]]:
    """The counts in the titles of the cells."""
    table = re.search(r'<table class="confusion.*?</table>', page, re.DOTALL)
    assert table
    rows = re.findall(r'<tr><th scope="row">.*?</th>(.*?)</tr>', table[0])
    cells = [re.findall(r"<td.*?</td>", row) for row in rows]
    counts = [[re.search(r": ([\d,]+) (?:clouds|points), ", cell) for cell in row] for row in cells]
    return [[int(found[1].replace(",", "")) if found else 0 for found in row] for row in counts]


def cards_of(page: str) -> list[list[str]]:
    """The lines of each example, and its name at the end."""
    found = re.search(r'<ul class="cards">.*?</ul>', page, re.DOTALL)
    assert found
    cards = re.findall(r"<li>(.*?)</li>", found[0])
    return [[html.unescape(line) for line in re.findall(r"<(?:span|small)>(.*?)</", card)] for card in cards]


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def numbers(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<u2").astype(np.int64)


def curves_of(page: str) -> dict[tuple[str, str], list[list[float]]]:
    """(title, name) -> points."""
    figures = re.findall(r"<figure.*?<strong>(.*?)</strong>.*?</figure>", page, re.DOTALL)
    bodies = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    return {
        (title, name): json.loads(html.unescape(points))
        for title, body in zip(figures, bodies, strict=True)
        for name, points in re.findall(r'data-name="(.*?)" data-points="(.*?)"', body)
    }


def test_the_page_shows_the_confusion_and_the_worst_mistakes_of_evaluation(tiny, tmp_path):
    page = written(QUICK, tiny, tmp_path / "run")
    found = evaluate_classifier(open_model(tmp_path / "run"), tiny)
    assert confusion_of(page) == found.confusion.tolist()
    worst = sorted(found.mistakes, key=lambda mistake: -mistake.probability)[:EXAMPLES]
    assert len(worst) > 3
    assert [card[:2] + card[3:] for card in cards_of(page)] == [
        [m.truth, f"predicted {m.prediction}", m.file] for m in worst
    ]
    probabilities = [float(card[2].removesuffix(" %")) for card in cards_of(page)]
    assert probabilities == pytest.approx([100 * m.probability for m in worst], abs=0.051)
    figures = json.loads((tmp_path / "run" / "result.json").read_text())
    assert f"<b>{figures['last_oa']:.2f} %</b>test accuracy, last epoch" in page
    for example, mistake in zip(data_of(page)["examples"], worst, strict=True):
        cloud = tiny.test.points[int(mistake.file.split()[-1]), : QUICK.points]
        steps = numbers(example["steps"]).reshape(-1, 3) / 65535 * example["sides"]
        np.testing.assert_allclose(steps, cloud - cloud.min(axis=0), atol=1e-4)


def test_curves_have_one_point_per_row_of_metrics_csv(tiny, tmp_path):
    curves = curves_of(written(QUICK, tiny, tmp_path))
    with (tmp_path / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = {
        ("Loss in training", "loss"): "loss",
        ("Accuracy", "training"): "train_oa",
        ("Accuracy", "test"): "test_oa",
        ("Entropy of pooled bits", "test"): "entropy",
        ("Learning rate", "at the start of an epoch"): "lr",
    }
    assert curves.keys() == expected.keys()
    for key, column in expected.items():
        points = [(int(row["epoch"]), float(row[column])) for row in rows if row[column]]
        np.testing.assert_allclose(curves[key], points, rtol=1e-5)
    assert len(curves["Loss in training", "loss"]) == QUICK.epochs > len(curves["Accuracy", "test"])


@pytest.mark.parametrize(("model", "method"), [("pointnet", "lsr"), ("pointnet-vanilla", "ir-net"), ("dgcnn", "xnor")])
def test_the_entropy_of_a_layer_is_that_of_analysis(tiny, tmp_path, model, method):
    config = dataclasses.replace(QUICK, model=model, method=method, pool=None, epochs=1)
    page = written(config, tiny, tmp_path)
    network, _ = checkpoint.load_run(tmp_path)
    chosen = evenly_spaced(32, len(tiny.test))
    found = study(network, tiny.test.points[chosen], tiny.test.labels[chosen], config.points).layers
    section = page.partition('id="entropy-per-layer"')[2].partition("</section>")[0]
    bars = re.findall(r"<li><span>(.*?)</span>.*?<b>(.*?) bits</b>", section)
    assert bars == [(layer.name, f"{layer.entropy:.2f}") for layer in found]
    assert all(0 <= layer.entropy <= 1 for layer in found)
    assert len({layer.entropy for layer in found}) > 1


def test_the_entropy_of_a_layer_is_that_of_the_share_of_ones(tiny):
    torch.manual_seed(0)
    from bipointnet.models import PointNet

    model = PointNet(num_classes=3, tnets=False, linear="bnn", pool="max").eval()
    clouds = torch.from_numpy(tiny.test.points)
    hidden: list[torch.Tensor] = []
    model.get_submodule("points.0.0").register_forward_pre_hook(lambda module, inputs: hidden.append(inputs[0]))
    first = read_bits(model, clouds)[0]
    share = (hidden[0] >= 0).double().mean(dim=(0, 1)).numpy()
    inside = (share > 0) & (share < 1)
    p = share[inside]
    assert first.entropy == pytest.approx((-p * np.log2(p) - (1 - p) * np.log2(1 - p)).sum() / len(share), abs=1e-9)
    assert first.constant == int((~inside).sum())


def test_a_float_network_has_no_bits_to_show(tiny, tmp_path):
    page = written(dataclasses.replace(QUICK, method="fp", pool=None, epochs=1), tiny, tmp_path)
    assert "Entropy" not in page


def segmentation_report(config: Config, data: PointClouds, folder: Path) -> tuple[str, list[int]]:
    """The page and the places of its clouds in the test split, after a comparison with the evaluation."""
    page = written(config, data, folder)
    confusion = evaluate_segmenter(open_model(folder), data).confusion
    if len(data.point_classes) <= 64:
        assert confusion_of(page) == confusion.tolist()
    shown = [int(card[-1].split()[-1]) for card in cards_of(page)]
    ious = [float(re.search(r"IoU ([\d.]+) %", card[0])[1]) for card in cards_of(page)]  # pyright: ignore[reportOptionalSubscript]
    assert ious == sorted(ious)
    assert data.test.point_labels is not None
    for place, example, card in zip(shown, data_of(page)["examples"], cards_of(page), strict=True):
        truth, predicted = numbers(example["truth"]), numbers(example["predicted"])
        assert truth.tolist() == data.test.point_labels[place, : config.points].tolist()
        assert card[1] == f"{100 * (truth != predicted).mean():.1f} % of the points wrong"
        assert (truth != predicted).any()
    return page, shown


def test_parts_of_all_categories_of_one_and_blocks_of_rooms_have_reports(tmp_path):
    data, config = parts(), dataclasses.replace(PART, epochs=1)
    page, shown = segmentation_report(config, data, tmp_path / "parts")
    assert len(shown) == EXAMPLES
    assert "mIoU" in page
    one = data.only("Chair")
    segmentation_report(dataclasses.replace(config, category="Chair"), one, tmp_path / "chair")
    rng = np.random.default_rng(0)
    rooms = blocks(rng.integers(0, 4, (6, 64)))
    split = dataclasses.replace(rooms.test, points=rng.normal(size=(6, 64, 9)).astype(np.float32))
    rooms = dataclasses.replace(rooms, train=split, test=split)
    semantic = Config(task="semantic", model="pointnet-vanilla", points=32, epochs=1, batch=2, device="cpu")
    page, shown = segmentation_report(semantic, rooms, tmp_path / "rooms")
    assert sorted(shown) == list(range(6))


HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{script}}&amp;\udcff\n'")


def test_hostile_names_are_text(tiny, tmp_path):
    files = tuple(f"{HOSTILE[i % 3]}/{i}.ply" for i in range(len(tiny.test)))
    data = dataclasses.replace(tiny, classes=HOSTILE, test=dataclasses.replace(tiny.test, names=files))
    train(dataclasses.replace(QUICK, epochs=1), data, tmp_path, data_path=f"data/{HOSTILE[1]}")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<script") == 3, "the data, the viewer and the script of the page"
    assert "<img" not in page
    assert "{{script}}&amp;amp;" in page
    assert data_of(page)["classes"][:2] == list(HOSTILE[:2])


def test_the_page_requests_nothing(tiny, tmp_path):
    page = written(dataclasses.replace(QUICK, epochs=1), tiny, tmp_path)
    assert not re.search(r"https?:|\bsrc=|url\(|@import|fetch\(|import\(", page)
    assert re.findall(r'<link[^>]*href="(.*?)"', page) == ["data:,"]


CONFIGS = [
    Config(
        recipe="auto", batch=16, epochs=20, lr=0.01, warmup=1.0, clip=1.0, label_smoothing=0.1, scale=1.25, shift=0.2
    ),
    Config(recipe="auto"),
    Config(),
    Config(method="fp", epochs=7, seed=3),
    Config(recipe="paper", model="dgcnn", method="bnn", pool="max", norm=False, capture=False),
    Config(model="pointconv", binary_first=True, up="y", rotate=180.0),
    Config(model="pointcnn", method="xnor++", gradient="polynomial"),
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", ["shapes", "modelnet40", "folder"])
def test_the_command_repeats_the_configuration(tiny, config, name):
    data = dataclasses.replace(tiny, name=name)
    given = given_options(config, data)
    assert _picked("options", given, data)[0] == config
    for left_out in given:
        fewer = {key: value for key, value in given.items() if key != left_out}
        assert _picked("options", fewer, data)[0] != config, f"{left_out} is not needed"


def test_the_command_quotes_paths_and_names_the_first_weights(tiny):
    line = command(Config(), dataclasses.replace(tiny, name="folder"), "my scans", "runs/first")
    assert line == "bipointnet train 'my scans' --recipe tuned --init runs/first"


def test_a_resumed_run_has_the_report_of_an_uninterrupted_one(tiny, tmp_path):
    config = dataclasses.replace(QUICK, epochs=2)
    train(config, tiny, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    (tmp_path / "report.html").unlink()
    train(config, tiny, tmp_path, resume=True)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page


def test_train_prints_where_the_report_is_and_what_keeps_it_from_being_written(folder_of_clouds, tmp_path):
    line = ["train", folder_of_clouds, "--points", "16", "--epochs", "1", "--device", "cpu", "-o"]
    run = tmp_path / "run"
    assert f"Report: {run}/report.html" in commands.succeed(*line, run).splitlines()
    (run / "report.html").unlink()
    (run / "report.html").mkdir()
    done = commands.run(*line, run, "--resume")
    assert done.returncode == 2
    assert "report.html: cannot be written (Is a directory)" in done.stderr.splitlines()[-1]

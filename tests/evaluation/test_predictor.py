"""One predictor for runs, checkpoints and packed models: all give the network's own answers."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bipointnet
from bipointnet.config import Config
from bipointnet.data.clouds import Cloud
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.normalize import normalize
from bipointnet.data.reading import fingerprint
from bipointnet.errors import UserError
from bipointnet.evaluation import evaluate, from_file, inspection, metrics
from bipointnet.evaluation.from_file import FileError, FilePrediction
from bipointnet.evaluation.inputs import Input
from bipointnet.evaluation.model_file import identify
from bipointnet.evaluation.predictor import PackedPredictor, Predictor, RunPredictor, open_model, open_run
from bipointnet.models import build, checkpoint
from bipointnet.packing import pack

PARTS = [[0, 1, 2], [3, 4]]
GOLDEN = Path(__file__).parents[1] / "golden"


def save_run(folder: Path, config: Config, **facts: object) -> Path:
    """A run folder with an untrained network, whose BatchNorm has seen some clouds."""
    described = {
        "config": {"task": config.task, "model": config.model, "method": config.method, "points": config.points},
        "classes": ["a", "b", "c"],
        "channels": 3,
        "data": "mine",
        "epoch": 7,
        "up": "y",
        **facts,
    }
    torch.manual_seed(0)
    network = build(config, len(described["classes"]), described["channels"], len(described.get("categories", ())))  # pyright: ignore[reportArgumentType]
    category = [torch.arange(8) % len(PARTS)] if "categories" in described else []
    with torch.no_grad():
        for _ in range(20):
            network.train()(normalize(torch.randn(8, config.points, described["channels"])), *category)  # pyright: ignore[reportArgumentType]
    checkpoint.save(folder / "last.safetensors", network.state_dict(), described)
    return folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(tmp_path_factory.mktemp("classifier"), Config(points=32, model="pointnet-vanilla"))


@pytest.fixture(scope="module")
def segmenter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = Config(task="part", points=32, model="pointnet-vanilla")
    facts = {"classes": list("uvwxy"), "categories": ["Mug", "Lamp"], "parts": PARTS}
    return save_run(tmp_path_factory.mktemp("segmenter"), config, **facts)


def clouds(count: int, points: int = 32) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(count, points, 3)).astype(np.float32)


def test_a_run_answers_as_its_network_does(classifier):
    predictor = open_model(classifier)
    assert isinstance(predictor, RunPredictor)
    assert (predictor.task, predictor.classes, predictor.categories) == ("classify", ["a", "b", "c"], [])
    assert (predictor.channels, predictor.points, predictor.up, predictor.data) == (3, 32, "y", "mine")
    assert predictor.facts == {"epoch": 7}
    network, _ = checkpoint.load_run(classifier)
    x = clouds(5)
    with torch.no_grad():
        expected = network(normalize(torch.from_numpy(x)))
    answer = predictor.run(x)
    np.testing.assert_allclose(answer.logits, expected.logits.numpy(), rtol=1e-4, atol=1e-4)
    assert answer.pooled is not None
    assert answer.pooled.shape == (5, 1024)
    np.testing.assert_allclose(predictor.predict(x), expected.logits.softmax(dim=1).numpy(), rtol=1e-3, atol=1e-4)
    assert predictor.accepted().tolist() == [0, 1, 2]


def test_a_checkpoint_is_the_network_in_that_file(classifier, tmp_path):
    tensors, facts = checkpoint.load(classifier / "last.safetensors")
    checkpoint.save(tmp_path / "other.safetensors", tensors, {**facts, "epoch": 2})
    other = open_model(tmp_path / "other.safetensors")
    assert other.facts == {"epoch": 2}
    x = clouds(3)
    np.testing.assert_array_equal(other.logits(x), open_model(classifier).logits(x))


def test_a_packed_model_answers_as_the_runtime_does(classifier, tmp_path):
    pack.export_run(classifier, tmp_path / "m.bpn", "f32")
    predictor, model = open_model(tmp_path / "m.bpn"), bipointnet.load(tmp_path / "m.bpn")
    assert isinstance(predictor, PackedPredictor)
    assert (predictor.task, predictor.classes, predictor.points) == ("classify", ["a", "b", "c"], 32)
    assert predictor.up == "y", "as the run records it"
    assert predictor.facts["isa"] == model.isa
    x = clouds(5)
    np.testing.assert_array_equal(predictor.logits(x), model.logits(x))
    np.testing.assert_array_equal(predictor.predict(x), model.predict(x).probabilities)
    assert predictor.run(x).pooled is None


def test_only_parts_of_the_category_are_predicted(segmenter, tmp_path):
    pack.export_run(segmenter, tmp_path / "m.bpn", "f32")
    x = clouds(4)
    for path in (segmenter, tmp_path / "m.bpn"):
        predictor = open_model(path)
        assert predictor.categories == ["Mug", "Lamp"]
        for category, parts in enumerate(PARTS):
            assert predictor.category_index(predictor.categories[category]) == category
            assert predictor.accepted(category).tolist() == parts
            logits = predictor.logits(x, category)
            labels = predictor.label(x, category)
            assert labels.shape == (4, 32)
            np.testing.assert_array_equal(labels, metrics.argmax_among(logits, np.array(parts)))


def test_a_model_is_loaded_once(classifier, monkeypatch):
    calls = []
    load = checkpoint.load_run
    monkeypatch.setattr(checkpoint, "load_run", lambda path: calls.append(path) or load(path))
    predictor = open_model(classifier)
    assert calls == [], "the description is enough until the first prediction"
    predictor.predict(clouds(2))
    predictor.predict(clouds(3))
    assert len(calls) == 1


@pytest.mark.parametrize("missing", ["classes", "channels", "data", "epoch"])
def test_an_incomplete_description_is_a_user_error(classifier, tmp_path, missing):
    tensors, facts = checkpoint.load(classifier / "last.safetensors")
    del facts[missing]
    checkpoint.save(tmp_path / "last.safetensors", tensors, facts)
    with pytest.raises(UserError, match=f"incomplete description.*{missing}"):
        open_model(tmp_path)


def test_what_is_no_model_is_named(tmp_path, classifier):
    with pytest.raises(UserError, match="gone: does not exist; expected a packed model, a run folder or a checkpoint"):
        identify(tmp_path / "gone")
    with pytest.raises(UserError, match=r"a folder without last\.safetensors"):
        identify(tmp_path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UserError, match="neither a packed model nor a checkpoint"):
        identify(tmp_path / "text")
    with pytest.raises(UserError, match="a packed model; expected the run folder or checkpoint"):
        open_run(GOLDEN / "shapes.bpn")
    assert identify(GOLDEN / "shapes.bpn").packed
    assert not identify(classifier).packed


def test_a_category_is_asked_for_only_where_there_is_one(classifier, segmenter):
    with pytest.raises(UserError, match="has no category input; found --category Mug"):
        open_model(classifier).category_index("Mug")
    with pytest.raises(UserError, match="found no --category; expected one of: Mug, Lamp"):
        open_model(segmenter).category_index(None)
    with pytest.raises(UserError, match="found --category Cup"):
        open_model(segmenter).category_index("Cup")
    open_model(classifier).require_classifier()
    open_model(segmenter).require_segmenter()
    with pytest.raises(UserError, match="bipointnet segment"):
        open_model(segmenter).require_classifier()
    with pytest.raises(UserError, match="bipointnet predict"):
        open_model(classifier).require_segmenter()


def data_for(predictor: Predictor, count: int) -> PointClouds:
    """Random clouds with random labels, of the classes of a network."""
    rng = np.random.default_rng(5)
    split = Split(clouds(count, 40), rng.integers(0, 3, count).astype(np.int64))
    return PointClouds("random", tuple(predictor.classes), split, split)


def test_evaluation_counts_every_cloud_once_whatever_the_batches(classifier, monkeypatch):
    predictor = open_model(classifier)
    data = data_for(predictor, 23)
    predictions = predictor.logits(data.test.points[:, :32]).argmax(axis=1)
    seen: list[tuple[int, int]] = []
    for points in (32, 5 * 32, 2**15):
        monkeypatch.setattr(evaluate, "POINTS_PER_BATCH", points)
        found = evaluate.evaluate_classifier(predictor, data, lambda done, total: seen.append((done, total)))
        assert found.clouds == 23
        np.testing.assert_array_equal(found.confusion.sum(axis=1), np.bincount(data.test.labels, minlength=3))
        # Batches of other sizes may round a near tie the other way.
        assert np.abs(found.confusion.sum(axis=0) - np.bincount(predictions, minlength=3)).sum() <= 2
        assert seen[-1] == (23, 23)
        assert found.entropy is not None
        assert 0 < found.entropy <= 1


def test_a_classification_by_hand():
    confusion = np.array([[3, 1, 2], [0, 4, 0], [0, 0, 0]])
    found = evaluate.Classification(confusion, "random", ("a", "b", "c"), None)
    assert (found.most_confused(0), found.most_confused(1)) == (("c", 2), None)
    report = found.as_json()
    assert report["oa"] == pytest.approx(70)
    assert report["macc"] == pytest.approx(75)
    assert report["class_accuracy"] == {"a": 50, "b": 100}, "a class without clouds is left out"
    assert "entropy" not in report
    assert json.loads(json.dumps(report))["confusion"] == confusion.tolist()


def test_segmentation_scores_are_those_of_the_labels(segmenter):
    predictor = open_model(segmenter)
    rng = np.random.default_rng(6)
    categories = rng.integers(0, 2, 11)
    points = clouds(11)
    truth = np.stack([rng.choice(PARTS[category], 32) for category in categories])
    split = Split(points, categories.astype(np.int64), truth)
    data = PointClouds("random", ("Mug", "Lamp"), split, split, tuple("uvwxy"), parts=((0, 1, 2), (3, 4)))
    scores = evaluate.evaluate_segmenter(predictor, data)
    labels = np.concatenate([predictor.label(x[None], int(c)) for x, c in zip(points, categories, strict=True)])
    expected = metrics.confusion_matrix(truth.ravel(), labels.ravel(), 5)
    assert np.abs(scores.confusion - expected).sum() <= 4, "up to near ties"
    one = from_file.compare_with_truth(predictor, labels[0], truth[0], int(categories[0]))
    iou = metrics.shape_ious(truth[:1], labels[:1], categories[:1], PARTS)
    assert one.figures["miou"] == pytest.approx(iou[0])
    counts = from_file.count_classes(predictor, labels[0])
    assert sum(counts.values()) == 32
    assert 0 not in counts.values()


def test_data_that_do_not_match_are_refused(classifier):
    predictor = open_model(classifier)
    data = data_for(predictor, 4)
    evaluate.require_matching_data("d", data, predictor)
    for names, found in (
        (("a", "b", "x"), r"d: its 3 classes are not the 3 of mine that .* was trained on: it lacks c and adds x;"),
        (("a", "b"), "it lacks c; expected the same class names"),
        (("a", "c", "b"), "it has them in another order"),
        (tuple("abc") + tuple("defghijklmnop"), "it adds d, e, f, g, h, i, j, k, l, m and 3 more"),
    ):
        other = PointClouds("d", names, data.train, data.test)
        with pytest.raises(UserError, match=found):
            evaluate.require_matching_data("d", other, predictor)
    wide = Split(np.zeros((4, 40, 6), np.float32), data.test.labels)
    with pytest.raises(UserError, match="d: 6 channels per point; expected the 3"):
        evaluate.require_matching_data("d", PointClouds("d", data.classes, wide, wide), predictor)


def test_a_file_is_classified_by_a_limited_number_of_points(classifier, tmp_path):
    predictor = open_model(classifier)
    x = clouds(1, 300)[0]
    np.save(tmp_path / "large.npy", x)
    np.save(tmp_path / "small.npy", x[:10])
    (tmp_path / "mesh.off").write_text("OFF\n4 2 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n")
    files = [Input(str(tmp_path / name)) for name in ("large.npy", "small.npy", "mesh.off")]
    rows = [row for row in from_file.classify_files(predictor, files, top=2) if isinstance(row, FilePrediction)]
    assert [row.points for row in rows] == [128, 10, 128], "four times as many as in training; a mesh is always sampled"
    probabilities = predictor.predict(x[None, :10])[0]
    order = np.argsort(-probabilities)
    assert [label for label, _ in rows[1].top] == [predictor.classes[i] for i in order[:2]]
    assert rows[1].top[0][1] == pytest.approx(float(probabilities.max()), rel=1e-3)
    assert rows[1].file == str(tmp_path / "small.npy")


def test_a_bad_file_does_not_keep_the_others_from_being_classified(classifier, tmp_path):
    np.save(tmp_path / "good.npy", clouds(1)[0])
    (tmp_path / "bad.ply").write_text("hello")
    names = [
        Input("nowhere", "an argument without files"),
        *(Input(str(tmp_path / n)) for n in ("bad.ply", "good.npy")),
    ]
    first, bad, good = from_file.classify_files(open_model(classifier), names, top=1)
    assert first.as_json() == {"file": "nowhere", "error": "an argument without files"}
    assert isinstance(bad, FileError)
    assert str(tmp_path / "bad.ply") in bad.error
    assert isinstance(good, FilePrediction)


def test_a_damaged_network_is_not_blamed_on_the_files(classifier, tmp_path):
    tensors, facts = checkpoint.load(classifier / "last.safetensors")
    tensors.popitem()
    checkpoint.save(tmp_path / "last.safetensors", tensors, facts)
    np.save(tmp_path / "good.npy", clouds(1)[0])
    with pytest.raises(UserError, match="the tensors do not fit"):
        list(from_file.classify_files(open_model(tmp_path), [Input(str(tmp_path / "good.npy"))], top=1))


def test_a_run_says_which_shapes_it_can_compute(classifier):
    predictor = open_model(classifier)
    for shape in ((32, 3), (1, 32, 4), (0, 32, 3), (2, 0, 3)):
        with pytest.raises(UserError, match=r"points: an array of shape .*; expected \(clouds, points, 3\)"):
            predictor.run(np.zeros(shape, np.float32))

    def fail(*_: object) -> None:
        raise RuntimeError("selected index k out of range\nwith a second line")

    vars(predictor)["network"] = fail
    with pytest.raises(UserError) as caught:
        predictor.predict(clouds(1, 5))
    assert str(caught.value) == (
        f"points: 1 clouds of 5 points, for which {classifier} cannot be computed (selected index k out of range); "
        "expected 32 points as in training"
    )


def test_inspection_counts_what_a_vanilla_pointnet_has(classifier, tmp_path):
    pack.export_run(classifier, tmp_path / "m.bpn")
    run, packed = inspection.inspect_model(classifier), inspection.inspect_model(tmp_path / "m.bpn")
    one_bit = 32 * (64 * 128 + 128 * 1024) + 1024 * 512 + 512 * 256
    assert run["multiply_adds"]["one_bit"] == packed["multiply_adds"]["one_bit"] == one_bit
    assert run["multiply_adds"]["points"] == packed["multiply_adds"]["points"] == 32
    assert run["training"]["epoch"] == 7
    assert {layer["kind"] for layer in run["layers"]} == {"1 bit", "float", "norm"}
    assert [o["op"] for o in packed["operations"]][:3] == ["points", "dense", "sign"]
    assert packed["operations"][-1]["weights"] == "float16"
    assert "fields" not in packed["operations"][0]
    size = (tmp_path / "m.bpn").stat().st_size
    assert packed["bytes"]["header"] + packed["bytes"]["tensors"] == packed["bytes"]["file"] == size
    sizes = inspection.packed_sizes(bipointnet.load(tmp_path / "m.bpn"))
    assert sizes["bytes"] == size
    assert sizes["ratio"] == pytest.approx(sizes["fp32"] / size, abs=0.01)


@pytest.mark.parametrize(("allowed", "expected"), [(1, 1), (5, 5), (5000, 1024)])
def test_predictions_use_the_cores_that_the_process_may_use(monkeypatch, allowed, expected):
    """Not all of the machine, and no more threads than the core accepts."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(allowed)))
    predictor = open_model(GOLDEN / "shapes.bpn")
    assert isinstance(predictor, PackedPredictor)
    assert predictor.threads == expected


def test_files_are_read_ahead_on_the_cores_that_the_process_may_use(monkeypatch):
    """And reduced there to the points that the network reads."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    rng, names, threads = np.random.default_rng(0), [], set()
    prepare = from_file.prepare

    def read(name: str) -> Cloud:
        names.append(name)
        return Cloud(rng.normal(size=(300, 3)).astype(np.float32))

    def prepared(*arguments: Any) -> from_file.Prepared:
        threads.add(threading.current_thread())
        return prepare(*arguments)

    monkeypatch.setattr(from_file, "prepare", prepared)
    predictor = open_model(GOLDEN / "shapes.bpn")
    rows = from_file.classify_files(predictor, [Input(str(i)) for i in range(20)], 1, read)
    assert next(rows).file == "0"
    assert len(names) <= 3
    assert [row.file for row in rows] == [str(i) for i in range(1, 20)]
    assert len(threads) == 1
    assert threading.current_thread() not in threads


def test_a_run_is_evaluated_on_the_files_it_held_out(classifier, tmp_path):
    """The split of a folder of one's own files is the recorded one, whatever files were added since."""
    rng = np.random.default_rng(0)
    for name in "abc":
        (tmp_path / "data" / name).mkdir(parents=True)
        for i in range(6):
            np.save(tmp_path / "data" / name / f"{i}.npy", rng.normal(size=(40, 3)).astype(np.float32))
    held_out = ["a/5.npy", "b/0.npy", "c/3.npy"]
    tensors, facts = checkpoint.load(classifier / "last.safetensors")
    files = {f"{name}/{i}.npy": tmp_path / "data" / name / f"{i}.npy" for name in "abc" for i in range(6)}
    trained_on = [(name, fingerprint(file).hex()) for name, file in files.items() if name not in held_out]
    recorded = {"held_out": held_out, "trained_on": trained_on}
    checkpoint.save(tmp_path / "last.safetensors", tensors, {**facts, **recorded})
    predictor = open_model(tmp_path)
    assert predictor.held_out == tuple(held_out)
    data = evaluate.open_test_data(predictor, str(tmp_path / "data"))
    assert sorted(data.held_out) == held_out
    assert len(data.test) == 3

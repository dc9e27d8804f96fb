"""bipointnet-run answers as `bipointnet predict` does, for every good file; a bad one gets one sentence."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from commands import succeed
from packed_networks import CLASSES, network
from tool_runs import GOLDEN, answers, call, complaint, write_xyz

import bipointnet
from bipointnet.evaluation.unlike import warnings
from bipointnet.packing import pack

SHAPES = GOLDEN / "shapes.bpn"
TRAINED_WITH = 128  # points


def cloud(points: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng((points, seed))
    return (rng.normal(size=(points, 3)) * rng.uniform(0.2, 1, 3)).astype(np.float32)


@pytest.mark.parametrize("points", [1, 3, 100, 1024, 3000, 20_000])
def test_clouds_of_any_size_get_the_prediction_of_python(points: int, run_tool: Path, tmp_path: Path):
    files = [write_xyz(tmp_path / f"{seed}.xyz", cloud(points, seed)) for seed in range(4)]
    require_predictions_of_python(run_tool, files, min(points, TRAINED_WITH))


def test_a_mesh_gets_the_prediction_of_python(run_tool: Path, tmp_path: Path):
    """Both draw the same points of the surface; with other points the probabilities would differ."""
    rng, files = np.random.default_rng(0), []
    for seed in range(4):
        corners = rng.normal(size=(40, 3)).astype(np.float32)
        faces = np.array([rng.permutation(40)[:3] for _ in range(60)])
        lines = ["OFF", "40 60 0", *(" ".join(f"{x:.9g}" for x in row) for row in corners)]
        lines += [f"3 {a} {b} {c}" for a, b, c in faces]
        file = tmp_path / f"{seed}.off"
        file.write_text("\n".join(lines) + "\n")
        files.append(file)
    require_predictions_of_python(run_tool, files, TRAINED_WITH)


def require_predictions_of_python(run_tool: Path, files: list[Path], points: int) -> None:
    """The same rows as `bipointnet predict --json`; the probabilities up to rounding, as Python has them in float32."""
    expected = json.loads(succeed("predict", *files, "--model", SHAPES, "--json"))
    for threads, (file, row) in enumerate(zip(files, expected, strict=True), start=1):
        (found,) = answers(run_tool, SHAPES, file, "--threads", threads)
        assert found["file"] == row["file"] == str(file)
        assert found["label"] == row["label"]
        assert found["points"] == row["points"] == points
        assert found["probability"] == pytest.approx(row["probability"], abs=2e-6)


def test_top_lists_the_most_probable_classes(run_tool: Path, tmp_path: Path):
    file = write_xyz(tmp_path / "a.xyz", cloud(500))
    classes = bipointnet.load(SHAPES).classes
    (found,) = answers(run_tool, SHAPES, file, "--top", len(classes) + 5)
    probabilities = [guess["probability"] for guess in found["top"]]
    assert sorted(guess["label"] for guess in found["top"]) == sorted(classes)
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1)
    assert found["top"][0] == {"label": found["label"], "probability": found["probability"]}
    lines = call(run_tool, SHAPES, file, "--top", "3").stdout.splitlines()
    assert lines == [f"{file}  {g['label']}  {100 * g['probability']:.1f} %" for g in found["top"][:3]]


def test_a_folder_stands_for_its_clouds(run_tool: Path, tmp_path: Path):
    for name in ("b.xyz", "A.TXT", "sub/c.csv", "notes.md", ".hidden/d.xyz", ".e.xyz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_xyz(tmp_path / name, cloud(20))
    (tmp_path / "sub" / "loop").symlink_to(tmp_path, target_is_directory=True)
    found = answers(run_tool, SHAPES, tmp_path)
    assert [row["file"] for row in found] == [str(tmp_path / name) for name in ("A.TXT", "b.xyz", "sub/c.csv")]


def test_text_from_standard_input(run_tool: Path, tmp_path: Path):
    file = write_xyz(tmp_path / "a.xyz", cloud(50))
    (one,), (other,) = answers(run_tool, SHAPES, file), answers(run_tool, SHAPES, "-", text=file.read_text())
    assert other == one | {"file": "-"}


def test_bad_files_get_one_sentence_each_and_do_not_stop_the_others(run_tool: Path, tmp_path: Path):
    good = [write_xyz(tmp_path / f"{i}.xyz", cloud(100, i)) for i in range(2)]
    (tmp_path / "bad.xyz").write_text("0 0\n1 1\n")
    (tmp_path / "none").mkdir()
    names = [good[0], tmp_path / "bad.xyz", tmp_path / "missing.xyz", tmp_path / "none", tmp_path / "a.doc", good[1]]
    done = call(run_tool, SHAPES, *names)
    assert done.returncode == 2
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == list(map(str, good))
    errors = done.stderr.splitlines()
    assert [line.split(":")[1].strip() for line in errors] == [str(name) for name in names[1:5]]
    assert "No such file" in errors[1]
    assert "a folder without clouds" in errors[2]
    assert "expected one of .ply" in errors[3]
    done = call(run_tool, SHAPES, *names, "--json")
    rows = json.loads(done.stdout)
    assert done.returncode == 2
    assert [row["file"] for row in rows] == list(map(str, names))
    assert ["error" in row for row in rows] == [False, True, True, True, True, False]
    assert [f"error: {row['error']}" for row in rows if "error" in row] == errors == done.stderr.splitlines()


def test_nan_points_are_dropped_with_a_warning_or_refused(run_tool: Path, tmp_path: Path):
    points = cloud(50)
    whole = write_xyz(tmp_path / "whole.xyz", points)
    broken = write_xyz(tmp_path / "broken.xyz", np.insert(points, 9, np.nan, axis=0))
    (expected,), (found,) = answers(run_tool, SHAPES, whole), answers(run_tool, SHAPES, broken)
    warning = "1 of 51 points have no finite coordinates and were left out"
    assert found == expected | {"file": str(broken), "warnings": [warning]}
    assert call(run_tool, SHAPES, broken).stderr == f"warning: {broken}: {warning}\n"
    assert "point 9 (counted from 0), expected none because of --strict" in complaint(
        run_tool, SHAPES, broken, "--strict"
    )


def test_a_cloud_unlike_the_training_data_gets_a_warning(run_tool: Path, tmp_path: Path):
    training = {"points": 400, "extent": [0.5, 2.0], "confidence": 1.0}
    pack.export(network(), tmp_path / "a.bpn", classes=CLASSES, training=training)
    points = np.random.default_rng(0).uniform(0, 1, (101, 3))
    points[:2] = [[0, 0, 0], [1, 1, 1]]
    usual = write_xyz(tmp_path / "usual.xyz", points)
    odd = write_xyz(tmp_path / "odd.xyz", points[:100] * 1234.5)
    common, (found,) = answers(run_tool, tmp_path / "a.bpn", usual), answers(run_tool, tmp_path / "a.bpn", odd)
    assert found["warnings"] == warnings(training, 1234.5, 100, found["probability"])
    assert len(found["warnings"]) == 3
    (flat,) = answers(run_tool, tmp_path / "a.bpn", write_xyz(tmp_path / "flat.xyz", np.ones((200, 3))))
    assert flat["warnings"] == warnings(training, 0.0, 200, flat["probability"])
    assert [warning.split(" ")[0] for warning in common[0]["warnings"]] == ["probability"]
    assert call(run_tool, tmp_path / "a.bpn", odd).stderr == f"warning: {odd}: {'; '.join(found['warnings'])}\n"


def test_columns_are_named_by_the_user(run_tool: Path, tmp_path: Path):
    points = cloud(50)
    np.savetxt(tmp_path / "plain.xyz", points, fmt="%.9g")
    np.savetxt(tmp_path / "other.txt", np.hstack([np.arange(50)[:, None], points[:, ::-1]]), fmt="%.9g")
    expected = call(run_tool, "--dump", tmp_path / "plain.xyz").stdout
    assert call(run_tool, "--dump", tmp_path / "other.txt", "--columns", "-,z,y,x").stdout == expected
    assert "--columns is 'x,,z', expected names" in complaint(run_tool, "--dump", "a.txt", "--columns", "x,,z")


def test_dump_prints_every_point_exactly(run_tool: Path, tmp_path: Path):
    points, colors = cloud(200), np.random.default_rng(0).uniform(size=(200, 3)).astype(np.float32)
    for rgb in (None, colors):
        done = call(run_tool, "--dump", write_xyz(tmp_path / "a.xyz", points, rgb))
        found = np.array([line.split(" ") for line in done.stdout.splitlines()], np.float64).astype(np.float32)
        assert np.array_equal(found, points if rgb is None else np.hstack([points, colors]))
    empty = (
        "ply\nformat ascii 1.0\nelement vertex 0\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
    )
    (tmp_path / "none.ply").write_text(empty)
    assert "0 points, expected at least 1" in complaint(run_tool, "--dump", tmp_path / "none.ply")
    (tmp_path / "empty.ply").touch()
    assert complaint(run_tool, "--dump", tmp_path / "empty.ply").startswith(f"{tmp_path / 'empty.ply'}: an empty file")


def test_wrong_models_get_one_sentence(run_tool: Path, tmp_path: Path):
    file = write_xyz(tmp_path / "a.xyz", cloud(5))
    run = tmp_path / "run"
    run.mkdir()
    assert complaint(run_tool, run, file) == f"{run}: a folder, expected a packed model; name the file"
    (run / "last.safetensors").touch()
    assert complaint(run_tool, run, file) == (
        f"{run}: a run folder, expected a packed model; export it first: bipointnet export {run} -o FILE.bpn"
    )
    assert "No such file or directory" in complaint(run_tool, tmp_path / "no.bpn", file)
    (run / "last.safetensors").write_bytes(b"\x21\0\0\0\0\0\0\0" + b'{"__metadata__":{"config":"{}"}}  ')
    assert complaint(run_tool, run / "last.safetensors", file).endswith(
        f"; if it is a checkpoint, export it first: bipointnet export {run / 'last.safetensors'} -o FILE.bpn"
    )
    (tmp_path / "cut.bpn").write_bytes(SHAPES.read_bytes()[:1000])
    assert complaint(run_tool, tmp_path / "cut.bpn", file).startswith(f"{tmp_path / 'cut.bpn'}: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no MODEL and no FILE, expected bipointnet-run MODEL FILE..."),
        (["a.bpn"], "no FILE after the MODEL 'a.bpn'"),
        (["--dump"], "no FILE, expected"),
        (["a.bpn", "b.xyz", "--top", "0"], "--top is '0', expected an integer from 1 to"),
        (["a.bpn", "b.xyz", "--threads=x"], "--threads is 'x', expected an integer from 1 to 1024"),
        (["a.bpn", "b.xyz", "--top"], "--top has no value"),
        (["a.bpn", "b.xyz", "--category="], "--category is empty"),
        (["a.bpn", "b.xyz", "--raw"], "unknown option '--raw', expected one of those in bipointnet-run --help"),
        (["a.bpn", "b.xyz", "--json=1"], "unknown option '--json=1'"),
    ],
)
def test_wrong_options_get_one_sentence(run_tool: Path, arguments: list[str], sentence: str):
    assert complaint(run_tool, *arguments).startswith(sentence)


def test_help_and_version(run_tool: Path):
    done = call(run_tool, "--help")
    assert done.returncode == 0
    for option in ("category", "labels", "top", "columns", "strict", "threads", "json", "dump", "help", "version"):
        assert f"  --{option}" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 84
    assert call(run_tool, "--version").stdout.startswith(f"bipointnet-run {bipointnet.__version__} (")


def test_names_with_any_bytes_give_valid_output(run_tool: Path, tmp_path: Path):
    file = write_xyz(tmp_path / 'a"\n\x1b[31m\x7f\x9b32m\xa0é.xyz', cloud(5))
    (found,) = answers(run_tool, SHAPES, file)
    assert found["file"] == str(file)
    assert call(run_tool, SHAPES, file).stdout.startswith(str(tmp_path / 'a"??[31m??32m\xa0é.xyz  '))
    assert call(run_tool, SHAPES, file).stdout.count("\n") == 1
    assert not set("\x1b\x7f\x9b") & set(call(run_tool, SHAPES, file, "--json").stdout)
    assert "a?b.xyz: cannot open the file" in complaint(run_tool, SHAPES, tmp_path / "a\x85b.xyz")


def test_a_closed_output_is_reported(run_tool: Path, tmp_path: Path):
    file = write_xyz(tmp_path / "a.xyz", cloud(100))
    with open("/dev/full", "w") as full:
        done = subprocess.run([run_tool, SHAPES, file], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write to standard output (No space left on device)")

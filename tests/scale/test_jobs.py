"""Jobs over many files: every file has one row in the end, whatever is stopped, killed or damaged."""

import json
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import complaint, run, succeed
from job_files import MODEL, Dying, children, is_worker, rows_of, run_with_kills, write_clouds

import bipointnet
from bipointnet import scale
from bipointnet.cli.common import run_job
from bipointnet.data.shapes import held_out
from bipointnet.errors import UserError
from bipointnet.evaluation.predictor import PackedPredictor
from bipointnet.scale import jobs, local
from bipointnet.scale import work as work_module
from bipointnet.scale.work import Classify, Row, Work


@pytest.fixture(scope="module")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_clouds(tmp_path_factory.mktemp("clouds"), 150)


@pytest.fixture(scope="module")
def undisturbed(clouds: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a job that nothing disturbed."""
    out = tmp_path_factory.mktemp("undisturbed") / "results"
    outcome = scale.predict(clouds, MODEL, out, workers=2)
    assert (outcome.done, outcome.skipped, outcome.errors) == (150, 0, [])
    return out


def test_rows_are_the_predictions_of_the_runtime(clouds: list[Path], undisturbed: Path):
    model, rows = bipointnet.load(MODEL), rows_of(undisturbed)
    assert sorted(rows) == sorted(map(str, clouds))
    for file in clouds[::10]:
        found = model.predict(np.load(file))
        row = rows[str(file)]
        assert row["label"] == found.names
        assert np.array_equal(np.float32(row["probabilities"]), found.probabilities)
        assert row["probability"] == pytest.approx(float(found.probabilities.max()))
        assert row["error"] is None
        assert row["size"] == file.stat().st_size


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_no_row(clouds: list[Path], undisturbed: Path, workers: int, tmp_path: Path):
    scale.predict(clouds, MODEL, tmp_path / "out", workers=workers)
    assert rows_of(tmp_path / "out") == rows_of(undisturbed)


def test_a_finished_job_does_nothing_again(clouds: list[Path], tmp_path: Path):
    out = tmp_path / "out"
    scale.predict(clouds[:40], MODEL, out, workers=1)
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    outcome = scale.predict(clouds[:40], MODEL, out, workers=1)
    assert (outcome.done, outcome.skipped) == (40, 40)
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before
    outcome = scale.predict(clouds[:60], MODEL, out, workers=1)
    assert (outcome.done, outcome.skipped) == (60, 40)
    assert len(rows_of(out)) == 60


def test_only_changed_content_is_done_again(tmp_path: Path):
    files = write_clouds(tmp_path / "clouds", 12)
    out = tmp_path / "out"
    scale.predict(files, MODEL, out, workers=1)
    first = rows_of(out)
    os.utime(files[0])  # another time, the same content
    np.save(files[1], np.load(files[2]))
    outcome = scale.predict(files, MODEL, out, workers=1)
    assert (outcome.done, outcome.skipped) == (12, 11)
    second = rows_of(out)
    assert second[str(files[1])]["probabilities"] == first[str(files[2])]["probabilities"]
    assert {path: row for path, row in first.items() if path != str(files[1])} == {
        path: row for path, row in second.items() if path != str(files[1])
    }


def test_rows_of_files_that_are_out_of_reach_stay(tmp_path: Path):
    """A disk that is not mounted when a job is started again must not cost its rows."""
    files = write_clouds(tmp_path / "clouds", 12)
    out = tmp_path / "out"
    scale.predict(files, MODEL, out, workers=1)
    before = rows_of(out)
    (tmp_path / "clouds").rename(tmp_path / "away")
    outcome = scale.predict(files, MODEL, out, workers=1)
    assert (outcome.done, outcome.skipped, outcome.errors) == (12, 12, [])
    assert rows_of(out) == before


def test_spellings_of_a_path_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_clouds(tmp_path / "clouds", 2)
    monkeypatch.chdir(tmp_path)
    assert scale.predict(["clouds/0000.npy", "./clouds/0000.npy"], MODEL, "out", workers=1).done == 1
    outcome = scale.predict(["clouds//0000.npy", "clouds/../clouds/0001.npy"], MODEL, "out", workers=1)
    assert (outcome.done, outcome.skipped) == (2, 1)


def test_two_jobs_do_not_write_to_one_folder(clouds: list[Path], tmp_path: Path):
    def second(done: int, total: int) -> None:
        with pytest.raises(UserError, match="another job writes its results there"):
            scale.predict(clouds[4:6], MODEL, tmp_path / "out", workers=1)

    assert scale.predict(clouds[:4], MODEL, tmp_path / "out", workers=1, progress=second).done == 4
    assert scale.predict(clouds[4:6], MODEL, tmp_path / "out", workers=1).done == 2
    assert len(rows_of(tmp_path / "out")) == 6


def test_a_folder_of_another_job_is_refused(clouds: list[Path], tmp_path: Path):
    out = tmp_path / "out"
    scale.predict(clouds[:2], MODEL, out, workers=1)
    foreign = [out / "part-of-a-report.parquet", out / "errors-2024.parquet"]
    for file in foreign:
        file.write_bytes(b"not ours")
    assert scale.predict(clouds[:2], MODEL, out, workers=1).skipped == 2
    assert all(file.read_bytes() == b"not ours" for file in foreign)
    written = json.loads((out / "_job.json").read_text())
    for content, sentence in (
        (b"", "_job.json: is damaged"),
        (b"[]", "_job.json: is damaged"),
        (json.dumps(written | {"model": "x"}).encode(), "results of another model; expected those of this job"),
        (json.dumps(written | {"version": "0.0"}).encode(), "results of another version of bipointnet, 0.0;"),
    ):
        (out / "_job.json").write_bytes(content)
        with pytest.raises(UserError, match=re.escape(sentence)):
            scale.predict(clouds[:2], MODEL, out, workers=1)
    (out / "_job.json").write_text(json.dumps(written))
    assert scale.predict(clouds[:2], MODEL, out, workers=1).skipped == 2
    for name in ("part-00000.parquet", "errors-00000.parquet"):
        (tmp_path / name / name).mkdir(parents=True)
        with pytest.raises(UserError, match=f"holds {name} but no _job.json; expected an empty folder"):
            scale.predict(clouds[:2], MODEL, tmp_path / name, workers=1)


def test_all_workers_have_files_if_there_are_few(clouds: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Chunks are so small that no worker waits while another one has most of the files."""
    given: list[list[str]] = []
    run_local = jobs.run_local
    monkeypatch.setattr(
        jobs, "run_local", lambda work, chunks, workers: (given.extend(chunks), run_local(work, chunks, workers))[1]
    )
    scale.predict(clouds[:24], MODEL, tmp_path / "out", workers=2)
    assert [len(chunk) for chunk in given] == [3] * 8


class Replacing(Classify):
    """Replaces the file once it has read it."""

    def use(self, file: Path) -> Row:
        found = super().use(file)
        other = file.with_suffix(".new")
        other.write_bytes(file.read_bytes())
        other.rename(file)
        return found


def test_a_file_that_changes_while_it_is_read_becomes_an_error(tmp_path: Path):
    (file,) = write_clouds(tmp_path, 1)
    (expected,) = Classify(MODEL.read_bytes()).rows([str(file)])
    (row,) = Replacing(MODEL.read_bytes()).rows([str(file)])
    assert set(row) == set(expected)
    assert row["error"] == f"{file}: changed while it was read; expected a finished file; start the job again"
    assert row["label"] is None


def test_bad_files_become_rows_and_are_tried_again(tmp_path: Path):
    """5 % of the files are damaged; the others are classified. The next job classifies repaired ones."""
    files = write_clouds(tmp_path / "clouds", 100)
    content = files[7].read_bytes()
    for number in (7, 27, 47, 67):
        files[number].write_bytes(content[:90])
    files[87].unlink()
    out = tmp_path / "out"
    outcome = scale.predict(files, MODEL, out, workers=2)
    assert outcome.done == 95
    assert sorted(path for path, _ in outcome.errors) == sorted(str(files[number]) for number in (7, 27, 47, 67, 87))
    rows = rows_of(out)
    assert len(rows) == 100
    assert {path for path, row in rows.items() if row["error"]} == {path for path, _ in outcome.errors}
    assert all("\n" not in error for _, error in outcome.errors)
    files[7].write_bytes(content)
    outcome = scale.predict(files, MODEL, out, workers=2)
    assert (outcome.done, outcome.skipped, len(outcome.errors)) == (96, 95, 4)
    assert len(rows_of(out)) == 100


def test_a_name_that_is_not_utf_8_becomes_an_error(clouds: list[Path], tmp_path: Path):
    odd = tmp_path / os.fsdecode(b"caf\xe9.npy")
    odd.write_bytes(clouds[0].read_bytes())
    outcome = scale.predict([odd, clouds[0]], MODEL, tmp_path / "out", workers=1)
    readable = f"{tmp_path}/caf\\xe9.npy"
    expected = f"{readable}: its name is not UTF-8; expected UTF-8, as in Parquet; rename the file"
    assert (outcome.done, outcome.errors) == (1, [(readable, expected)])


def test_a_job_without_any_file_leaves_no_folder(tmp_path: Path):
    with pytest.raises(UserError, match=r"nowhere: no such file or folder; check the path"):
        scale.predict([tmp_path / "nowhere"], MODEL, tmp_path / "out", workers=1)
    assert list(tmp_path.iterdir()) == []


def test_rows_do_not_depend_on_the_files_beside_them(
    clouds: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Clouds are classified together if they have as many points, and not too many of them at once."""
    files = [*clouds[:9], *(tmp_path / f"{points}.npy" for points in (1, 60, 128, 5000))]
    for file in files[9:]:
        np.save(file, held_out(3, int(file.stem))[0].astype(np.float32))
    files.insert(5, tmp_path / "missing.npy")
    work = Classify(MODEL.read_bytes())

    def comparable(paths: list[Path]) -> list[Row]:
        rows = work.rows([str(path) for path in paths])
        for row in rows:
            row["seconds"] = 0
            if row["error"] is None:
                row["probabilities"] = row["probabilities"].tobytes()
        return rows

    alone = [row for file in files for row in comparable([file])]
    assert [row["error"] is None for row in alone] == [file.exists() for file in files]
    assert comparable(files) == alone
    monkeypatch.setattr(work_module, "_HELD", 300)
    assert comparable(files) == alone


def test_a_cloud_that_cannot_be_classified_does_not_affect_others(clouds: list[Path], monkeypatch: pytest.MonkeyPatch):
    predict, bad = PackedPredictor.predict, np.load(clouds[4])

    def refuse(self: PackedPredictor, given: np.ndarray) -> np.ndarray:
        if (given == bad).all(axis=(1, 2)).any():
            raise UserError("the bad one")
        return predict(self, given)

    paths = [str(path) for path in clouds[:9]]
    expected = Classify(MODEL.read_bytes()).rows(paths)
    monkeypatch.setattr(PackedPredictor, "predict", refuse)
    found = Classify(MODEL.read_bytes()).rows(paths)
    assert [row["label"] for row in found] == [None if i == 4 else row["label"] for i, row in enumerate(expected)]
    assert [row["error"] for row in found] == [None] * 4 + ["the bad one"] + [None] * 4
    assert all(set(row) == set(expected[0]) for row in found)


def chunks_of(files: list[Path], size: int) -> list[list[str]]:
    return [[str(file) for file in files[start : start + size]] for start in range(0, len(files), size)]


def run_dying(files: list[Path], tmp_path: Path, deaths: int) -> dict[str, Row]:
    """`Dying` is pickled by its module, which a worker must find."""
    flags = tmp_path / "flags"
    flags.mkdir()
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, (Path(__file__).parent, Path(__file__).parents[1])), before])
    try:
        work = Dying(MODEL.read_bytes(), str(flags), deaths)
        pickle.dumps(work)
        found = [row for rows in local.run_local(work, chunks_of(files, 16), 2) for row in rows]
    finally:
        os.environ["PYTHONPATH"] = before
    rows = {row["path"]: row for row in found}
    assert len(rows) == len(found) == len(files)
    return rows


def test_a_worker_that_dies_loses_nothing(clouds: list[Path], undisturbed: Path, tmp_path: Path):
    rows = run_dying(clouds[:60], tmp_path, deaths=1)
    expected = rows_of(undisturbed)
    for path, row in rows.items():
        assert row["error"] is None
        assert np.array_equal(np.float32(row["probabilities"]), np.float32(expected[path]["probabilities"]))


def test_a_file_that_always_kills_its_worker_becomes_an_error(clouds: list[Path], tmp_path: Path):
    rows = run_dying(clouds[:20], tmp_path, deaths=99)
    bad = {path for path, row in rows.items() if row["error"]}
    assert bad == {str(clouds[3]), str(clouds[13])}
    assert (
        "5 worker processes ended while they read it (the last one was ended by signal 9)"
        in rows[str(clouds[3])]["error"]
    )


class FailingStarts(Classify):
    """Ends its process when a worker receives it, `failures` times; a file on disk counts them."""

    def __init__(self, model: bytes, counter: str, failures: int) -> None:
        super().__init__(model)
        self._counter, self._failures = counter, failures

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        with open(self._counter, "a+") as file:
            file.write("x")
            file.seek(0)
            if len(file.read()) <= self._failures:
                file.flush()
                os._exit(3)


def run_failing(files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int) -> list[Row]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parents[1]))))
    work = FailingStarts(MODEL.read_bytes(), str(tmp_path / "starts"), failures)
    return [row for rows in local.run_local(work, chunks_of(files, 4), 1) for row in rows]


def test_no_file_is_blamed_for_workers_that_do_not_start(
    clouds: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rows = run_failing(clouds[:8], tmp_path, monkeypatch, failures=7)
    assert sorted(row["path"] for row in rows) == sorted(map(str, clouds[:8]))
    assert [row["error"] for row in rows] == [None] * 8
    assert (tmp_path / "starts").read_text() == "x" * 8


def test_a_job_ends_with_one_sentence_if_no_worker_starts(
    clouds: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    expected = "10 worker processes ended before they could read a file (the last one ended with code 3); expected one"
    with pytest.raises(UserError, match=re.escape(expected)):
        run_failing(clouds[:8], tmp_path, monkeypatch, failures=99)


JOB = """
import sys
from pathlib import Path
from typing import Any
from bipointnet import scale
files = sorted(Path(sys.argv[1]).glob("*.npy"))
scale.predict(files, sys.argv[2], sys.argv[3], workers=2, save_seconds=0.2)
"""


@pytest.mark.long
def test_random_kills_of_workers_and_drivers_change_no_row(tmp_path: Path):
    """2,000 clouds, 20 kills at random moments: of workers, and of the process that started the job."""
    files = write_clouds(tmp_path / "clouds", 2000, points=512)
    scale.predict(files, MODEL, tmp_path / "calm", workers=2)
    command = [sys.executable, "-c", JOB, str(tmp_path / "clouds"), str(MODEL)]
    for stormy in run_with_kills(command, tmp_path / "stormy", 20):
        assert rows_of(stormy) == rows_of(tmp_path / "calm")
        assert not list(stormy.glob(".bipointnet-*")), "no half-written file is left"


def test_files_in_the_current_folder_are_not_imported(clouds: list[Path], tmp_path: Path):
    """Workers are Python programs, which would prefer them to the standard library."""
    (tmp_path / "queue.py").write_text("print('not the standard library')")
    assert "2 files done" in succeed("predict", *clouds[:2], "-m", MODEL, "-o", "out", cwd=tmp_path)


def test_workers_end_with_the_process_that_started_them(clouds: list[Path], tmp_path: Path):
    command = [sys.executable, "-c", JOB, str(clouds[0].parent), str(MODEL), str(tmp_path / "out")]
    driver = subprocess.Popen(command)
    workers: list[int] = []
    while not workers and driver.poll() is None:
        workers = [pid for pid in children(driver.pid) if is_worker(pid)]
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    deadline = time.monotonic() + 20
    while any(is_worker(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_worker(pid) for pid in workers)


def test_threads_may_run_jobs_at_once(clouds: list[Path], undisturbed: Path, tmp_path: Path):
    outs = [tmp_path / str(number) for number in range(3)]
    threads = [
        threading.Thread(target=scale.predict, args=(clouds[:50], MODEL, out), kwargs={"workers": 1}) for out in outs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {path: row for path, row in rows_of(undisturbed).items() if Path(path) in clouds[:50]}
    assert all(rows_of(out) == expected for out in outs)


def test_batches_of_clouds_in_memory_are_classified(clouds: list[Path]):
    """As a data set of Ray gives them to `map_batches`."""
    model = bipointnet.load(MODEL)
    points = np.stack([np.load(file) for file in clouds[:20]])
    found = Classify(MODEL.read_bytes())({"points": points, "id": np.arange(20)})
    expected = model.predict(points)
    assert found["label"] == expected.names
    assert np.array_equal(np.float32(found["probabilities"]), expected.probabilities)
    assert found["id"].tolist() == list(range(20))


# The command line


def test_predict_with_a_folder_for_results_is_a_job(clouds: list[Path], undisturbed: Path, tmp_path: Path):
    shown = succeed("predict", clouds[0].parent, "-m", MODEL, "-o", tmp_path / "out", "--workers", "1")
    assert "150 files done. Results: " in shown
    assert rows_of(tmp_path / "out") == rows_of(undisturbed)
    (tmp_path / "list.txt").write_text("# the first two\n" + "\n".join(map(str, clouds[:2])) + "\n\n")
    found = json.loads(
        succeed("predict", "-m", MODEL, "-o", tmp_path / "two", "--files-from", tmp_path / "list.txt", "--json")
    )
    assert (found["done"], found["skipped"], found["errors"]) == (2, 0, [])


def test_a_job_with_bad_files_ends_with_code_2(clouds: list[Path], tmp_path: Path):
    (tmp_path / "bad").mkdir()
    for number in range(7):
        (tmp_path / "bad" / f"{number}.npy").write_bytes(b"x")
    done = run("predict", clouds[0], tmp_path / "bad", "-m", MODEL, "-o", tmp_path / "out", "--workers", "1")
    assert done.returncode == 2
    assert done.stderr.count("error: ") == 6
    assert "2 more files; the column `error` of the results has all" in done.stderr
    assert "1 files done; 7 cannot be used" in done.stdout


def test_mistakes_get_one_sentence(clouds: list[Path], undisturbed: Path, tmp_path: Path):
    job = ["predict", clouds[0], "-m", MODEL]
    assert "--workers are for jobs; expected -o FOLDER" in complaint(*job, "--workers", "2")
    assert "engine is 'spark'; expected one of local, ray" in complaint(*job, "-o", tmp_path / "o", "--engine", "spark")
    assert "holds results of other options; expected those of this job" in complaint(
        *job, "-o", undisturbed, "--strict"
    )
    assert "expected the engine ray" in complaint(*job, "-o", tmp_path / "o", "--address", "auto")
    assert "standard input cannot be part of a job" in complaint("predict", "-", "-m", MODEL, "-o", tmp_path / "o")
    (tmp_path / "file").write_text("")
    assert "a file; expected a folder for the results" in complaint(*job, "-o", tmp_path / "file")
    assert "no files were named" in complaint("predict", "-m", MODEL)
    assert "no such file" in complaint("predict", "-m", MODEL, "--files-from", tmp_path / "none.txt")
    with pytest.raises(UserError, match="workers is 0; expected at least 1"):
        scale.predict(clouds[:1], MODEL, tmp_path / "o", workers=0)
    with pytest.raises(UserError, match=r"files is '.*', one path; expected a list of files"):
        scale.predict(clouds[0], MODEL, tmp_path / "o")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="labels points; expected a model that classifies clouds"):
        scale.predict(clouds[:1], MODEL.with_name("rooms-semantic.bpn"), tmp_path / "o")
    with pytest.raises(UserError, match="has the task classify; expected semantic"):
        scale.segment(clouds[:1], MODEL, tmp_path / "o")


def test_ctrl_c_says_how_to_continue(capsys: pytest.CaptureFixture[str]):
    class Stopped:
        def run(self, *_: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(Stopped(), [], False)  # pyright: ignore[reportArgumentType]
    assert "The same command continues this job." in capsys.readouterr().err


def test_work_is_abstract():
    with pytest.raises(TypeError):
        Work(b"")  # pyright: ignore[reportAbstractUsage]

"""A user's own files: which are held out, and which a trained network is evaluated on."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from own_files import write_classes, write_cloud

from bipointnet.data import open_dataset
from bipointnet.data.dataset import PointClouds, TrainedOn
from bipointnet.data.own import hold_out
from bipointnet.errors import UserError

NAMES = st.sets(st.text("abcdefgh0123456789_", min_size=1, max_size=3), min_size=2, max_size=40)


@settings(deadline=None)
@given(NAMES, st.text("xyz", min_size=1, max_size=9), st.integers(0, 1000))
def test_a_new_file_moves_at_most_one_other(names: set[str], new: str, seed: int) -> None:
    before, after = hold_out(names, seed), hold_out(names | {new}, seed)
    assert len((before ^ after) - {new}) <= 1


@settings(deadline=None)
@given(NAMES, st.integers(0, 1000))
def test_a_fifth_of_a_class_is_held_out(names: set[str], seed: int) -> None:
    tested = hold_out(names, seed)
    assert tested < names
    assert len(tested) == max(1, int(len(names) / 5 + 0.5))
    assert hold_out(sorted(names, reverse=True), seed) == tested, "the order of the files is irrelevant"


def test_every_file_is_held_out_by_some_seed() -> None:
    names = {f"cup/{k}.ply" for k in range(10)}
    times = [sum(name in hold_out(names, seed) for seed in range(400)) for name in names]
    assert sum(times) == 800
    assert min(times) > 80 - 5 * np.sqrt(400 * 0.2 * 0.8)  # 5 standard deviations of a binomial count


def test_the_hash_is_the_same_on_every_machine() -> None:
    assert hold_out([f"cup/cup{k}.npy" for k in range(10)]) == {"cup/cup1.npy", "cup/cup8.npy"}


def test_every_class_has_the_same_share(tmp_path: Path) -> None:
    """FINDINGS: 10 files per class gave 2, 1, 3 and 1 test files."""
    data = open_dataset(str(write_classes(tmp_path, cup=10, bowl=10, vase=10, jug=10)), 16)
    assert np.bincount(data.test.labels).tolist() == [2, 2, 2, 2]
    assert data.summary is not None
    assert data.summary.held_out == data.held_out
    values = {f"{f.parent.name}/{f.name}": np.load(f)[0, 1] for f in tmp_path.glob("*/*.npy")}
    assert data.test.points[:, 0, 1].tolist() == [values[name] for name in data.held_out]
    assert data.train.points[:, 0, 1].tolist() == [values[name] for name, _ in data.trained_on]
    assert values.keys() == {*data.held_out, *(name for name, _ in data.trained_on)}


def test_split_depends_on_the_seed(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=20)
    assert len({open_dataset(str(tmp_path), 16, seed).held_out for seed in range(4)}) == 4


def test_points_without_a_return_are_counted(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=5, vase=5)
    for name, count in (("cup/cup0", 3), ("vase/vase4", 8)):
        cloud = np.load(tmp_path / f"{name}.npy")
        cloud[:count, 2] = np.nan
        np.save(tmp_path / f"{name}.npy", cloud)
    for _ in range(2):  # read, and from the cache
        summary = open_dataset(str(tmp_path), 16).summary
        assert summary is not None
        assert summary.notes == ("11 points without finite coordinates were left out, in 2 files",)


def test_copies_of_training_files_are_named(tmp_path: Path) -> None:
    write_classes(tmp_path / "train", cup=3, bowl=3)
    write_classes(tmp_path / "test", cup=1, bowl=1)
    data = open_dataset(str(tmp_path), 16)
    assert data.summary is not None
    assert data.summary.notes == ("the test has copies of training files: test/bowl/bowl0.npy, test/cup/cup0.npy",)


# Evaluation


def trained(data: PointClouds) -> TrainedOn:
    return TrainedOn(data.classes, data.trained_on, data.held_out)


def files_tested(root: Path, run: TrainedOn) -> list[str]:
    """The names of the files that a run is tested on, checked against their points."""
    data = open_dataset(str(root), 16, trained=run)
    assert (len(data.train), data.channels) == (0, 3)
    values = {np.load(f)[0, 1]: f.relative_to(root).as_posix() for f in root.rglob("*.npy")}
    names = [values[cloud[0, 1]] for cloud in data.test.points]
    assert [data.classes[label] for label in data.test.labels] == [
        part for name in names for part in Path(name).parts if part in data.classes
    ]
    return names


def notes(root: Path, run: TrainedOn) -> tuple[str, ...]:
    found = open_dataset(str(root), 16, trained=run).summary
    assert found is not None
    return found.notes


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return write_classes(tmp_path / "old", bowl=10, cup=10)


def test_a_run_is_tested_on_what_it_held_out(old: Path) -> None:
    data = open_dataset(str(old), 16)
    assert files_tested(old, trained(data)) == list(data.held_out)
    assert notes(old, trained(data)) == ("tested: 4 that the run held out; left out: 16 of its training files",)


def test_new_files_in_the_old_folder_are_tested_too(old: Path) -> None:
    data = open_dataset(str(old), 16)
    for k in range(30):
        write_cloud(old / "cup" / f"new{k}.npy", value=1000 + k)
    names = files_tested(old, trained(data))
    assert set(names) == {*data.held_out, *(f"cup/new{k}.npy" for k in range(30))}
    assert notes(old, trained(data)) == (
        "tested: 4 that the run held out and 30 that are new to it; left out: 16 of its training files",
    )


def test_a_folder_of_new_files_is_tested_whole(old: Path, tmp_path: Path) -> None:
    """Also if the files have the names of training files, and if not all classes are there."""
    run = trained(open_dataset(str(old), 16))
    new = tmp_path / "new"
    for k in range(3):
        write_cloud(new / "cup" / f"cup{k}.npy", value=1000 + k)
    assert files_tested(new, run) == ["cup/cup0.npy", "cup/cup1.npy", "cup/cup2.npy"]
    assert open_dataset(str(new), 16, trained=run).test.labels.tolist() == [1, 1, 1], "numbered as in training"
    assert notes(new, run) == ("tested: 3 that are new to it",)


def test_a_training_file_is_recognized_under_another_name(old: Path, tmp_path: Path) -> None:
    data = open_dataset(str(old), 16)
    new = write_cloud(tmp_path / "new" / "cup" / "a.npy", value=1000).parent
    shutil.copy(old / data.trained_on[-1][0], new / "b.npy")
    assert files_tested(new.parent, trained(data)) == ["cup/a.npy"]


def test_a_folder_in_which_every_training_file_was_edited_is_noted(old: Path) -> None:
    data = open_dataset(str(old), 16)
    for k, (name, _) in enumerate(data.trained_on):
        write_cloud(old / name, value=3000 + k)
    for name in data.held_out:
        write_cloud(old / name, value=4000)
    (note,) = notes(old, trained(data))
    assert note.endswith("; all its training files have namesakes here with other contents: are these edited copies?")


def test_an_edited_training_file_is_not_tested(old: Path) -> None:
    data = open_dataset(str(old), 16)
    write_cloud(old / data.trained_on[0][0], value=2000)
    assert files_tested(old, trained(data)) == list(data.held_out)


def test_training_files_alone_are_no_test(old: Path) -> None:
    data = open_dataset(str(old), 16)
    for name in data.held_out:
        (old / name).unlink()
    with pytest.raises(UserError, match="all 16 files were used to train the network; expected files that it has not"):
        open_dataset(str(old), 16, trained=trained(data))


def test_a_test_split_is_tested_without_training_files(old: Path, tmp_path: Path) -> None:
    data = open_dataset(str(old), 16)
    test = write_cloud(tmp_path / "new" / "test" / "cup" / "a.npy", value=1000).parent
    shutil.copy(old / data.trained_on[-1][0], test / "b.npy")
    assert files_tested(tmp_path / "new", trained(data)) == ["test/cup/a.npy"], "a training split is not needed"


def test_a_network_trained_on_other_data_has_seen_none(old: Path) -> None:
    assert len(files_tested(old, TrainedOn(("bowl", "cup"), files=()))) == 20


def test_a_packed_model_is_tested_on_a_fifth(old: Path) -> None:
    data = open_dataset(str(old), 16)
    assert files_tested(old, TrainedOn(("bowl", "cup"))) == list(data.held_out)
    assert "the model does not record its training files" in notes(old, TrainedOn(("bowl", "cup")))[0]


def test_every_file_is_tested_on_request(old: Path) -> None:
    everything = TrainedOn(("bowl", "cup"), every=True)
    data = open_dataset(str(old), 16)
    assert len(files_tested(old, everything)) == len(data.train) + len(data.test)
    assert notes(old, everything)[0].startswith(f"tested: all {len(data.train) + len(data.test)} files, also")


def test_unknown_classes_are_left_out_and_named(old: Path) -> None:
    run = trained(open_dataset(str(old), 16))
    write_classes(old, vase=2, jug=3)
    found = open_dataset(str(old), 16, trained=run)
    assert (found.classes, len(found.test)) == (("bowl", "cup"), 4)
    assert found.summary is not None
    assert [str(skipped) for skipped in found.summary.skipped] == [
        "jug (a class that the network does not know)",
        "vase (a class that the network does not know)",
    ]
    for name in ("bowl", "cup"):
        shutil.rmtree(old / name)
    with pytest.raises(UserError) as caught:
        open_dataset(str(old), 16, trained=run)
    assert str(caught.value) == (
        f"{old}: the network knows none of the classes jug, vase; expected some of bowl, cup; choose one with these"
        " classes"
    )


def test_bad_test_files_are_left_out_on_request(old: Path) -> None:
    data = open_dataset(str(old), 16)
    for name in data.held_out[1:]:
        (old / name).write_bytes(b"garbage")
    with pytest.raises(UserError, match="3 of 4 files cannot be used"):
        open_dataset(str(old), 16, trained=trained(data))
    tested = open_dataset(str(old), 16, trained=trained(data), skip_bad=True)
    assert len(tested.test) == 1
    assert tested.summary is not None
    assert tested.summary.notes[0].startswith("tested: 1 that the run held out")
    (old / data.held_out[0]).write_bytes(b"garbage")
    with pytest.raises(UserError, match="no test file can be used"):
        open_dataset(str(old), 16, trained=trained(data), skip_bad=True)


def test_data_with_a_split_of_their_own_hold_out_no_files(tmp_path: Path) -> None:
    write_classes(tmp_path / "train", cup=3)
    write_cloud(tmp_path / "test" / "cup" / "a.npy", value=1000)
    data = open_dataset(str(tmp_path), 16)
    assert (data.held_out, [name for name, _ in data.trained_on]) == ((), [f"train/cup/cup{k}.npy" for k in range(3)])
    assert files_tested(tmp_path, trained(data)) == ["test/cup/a.npy"]

"""Many files: results that do not depend on threads, a cache per file that survives damage, and its bound."""

import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from own_files import write_classes, write_cloud

from bipointnet.data import cache, clouds, open_dataset, reading
from bipointnet.data.dataset import PointClouds


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for every test."""
    monkeypatch.setenv("BIPOINTNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_classes(tmp_path / "data", cup=10, bowl=10)


@pytest.fixture
def read_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read, not taken from the cache."""
    names: list[str] = []
    read = clouds.read

    def recorded(path: Path, strict: bool) -> clouds.Cloud:
        names.append(path.name)
        return read(path, strict=strict)

    monkeypatch.setattr(clouds, "read", recorded)
    return names


def same(one: PointClouds, other: PointClouds) -> bool:
    return np.array_equal(one.train.points, other.train.points) and np.array_equal(one.test.points, other.test.points)


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "clouds").rglob("*") if path.is_file())


# Threads


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_do_not_depend_on_threads_or_their_order(
    data: Path, workers: int, monkeypatch: pytest.MonkeyPatch, own_folder: Path
) -> None:
    files = sorted(data.glob("*/*.npy"))
    jobs = [reading.cloud_job(file.name, file, 16, 0) for file in files]
    expected = [clouds.sample(clouds.read(f), 32, reading.rng_of(f.name, 0), f) for f in files]
    read = clouds.read

    def slow_at_first(path: Path, strict: bool) -> clouds.Cloud:
        time.sleep(0.02 * (files.index(path) % 5 == 0))
        return read(path, strict=strict)

    monkeypatch.setattr(clouds, "read", slow_at_first)
    for _ in range(2):
        found = reading.read_all(jobs, data, workers=workers)
        for entry, points in zip(found.entries, expected, strict=True):
            assert entry is not None
            np.testing.assert_array_equal(entry.rows, points)
            assert entry.points == 40
    assert len(entries(own_folder)) == len(files)


def test_files_are_read_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=30)
    assert list(reading.in_order(lambda item: (both.wait(), item)[1], [3, 4], workers=2)) == [3, 4]


def test_look_ahead_is_bounded() -> None:
    """10,000 clouds are not in memory before the first is used."""
    done = []
    results = reading.in_order(lambda item: done.append(item) or item, range(1000), workers=3)
    assert next(results) == 0
    time.sleep(0.05)
    assert len(done) <= 4 * 3 + 1


def test_an_error_that_is_no_mistake_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(reading.in_order(lambda item: 1 // item, [1, 0, 1], workers=2))


# The cache


def test_only_a_changed_file_is_read_again(data: Path, read_files: list[str]) -> None:
    first = open_dataset(str(data), 16)
    assert len(read_files) == 20
    read_files.clear()
    assert same(first, open_dataset(str(data), 16))
    assert read_files == []
    write_cloud(data / "cup" / "cup3.npy", value=77)
    write_cloud(data / "cup" / "new.npy", value=78)
    changed = open_dataset(str(data), 16)
    assert sorted(read_files) == ["cup3.npy", "new.npy"]
    values = {cloud[0, 1] for split in (changed.train, changed.test) for cloud in split.points}
    assert {77, 78} < values
    assert 3 not in values


def test_another_seed_or_size_is_another_entry(data: Path, read_files: list[str]) -> None:
    open_dataset(str(data), 16)
    assert not same(open_dataset(str(data), 16, seed=1), open_dataset(str(data), 16))
    assert open_dataset(str(data), 8).train.points.shape[1] == 16
    assert len(read_files) == 60


@pytest.mark.parametrize("damage", ["cut", "empty", "flip", "head", "folder"])
def test_a_damaged_entry_is_read_again(data: Path, damage: str, read_files: list[str], own_folder: Path) -> None:
    first = open_dataset(str(data), 16)
    read_files.clear()
    for path in entries(own_folder)[:3]:
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[-7] ^= 1
        path.write_bytes({"cut": content[:-5], "empty": b"", "flip": content, "head": content[:20]}.get(damage, b""))
        if damage == "folder":
            path.unlink()
            path.mkdir()
    assert same(first, open_dataset(str(data), 16))
    assert len(read_files) == 3
    assert same(first, open_dataset(str(data), 16))
    assert len(read_files) == (6 if damage == "folder" else 3), "the entry was replaced"


def test_every_flipped_bit_of_an_entry_is_noticed(own_folder: Path) -> None:
    cache.save_entry("key", cache.Entry(np.ones((1, 3), np.float32), 1, b"12345678"))
    (path,) = entries(own_folder)
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert cache.load_entry("key") is None
    path.write_bytes(content)
    entry = cache.load_entry("key")
    assert entry is not None
    assert (entry.rows.tolist(), entry.points, entry.fingerprint) == ([[1, 1, 1]], 1, b"12345678")


def test_every_changed_byte_of_arrays_is_noticed(own_folder: Path) -> None:
    def read(value: int) -> list[float]:
        found = cache.cached("some", "key", lambda: {"x": np.full(3, value), "y": np.ones(1)})
        assert found.keys() == {"x", "y"}
        return found["x"].tolist()

    assert read(1) == read(2) == [1, 1, 1]
    (path,) = own_folder.glob("some-*.npz")
    content = path.read_bytes()
    assert np.load(path)["x"].tolist() == [1, 1, 1], "NumPy reads it, too"
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        assert read(3) == [3, 3, 3], place
    for cut in (b"", content[:8], content[:-1], content[:-16], content + b"x"):
        path.write_bytes(cut)
        assert read(4) == [4, 4, 4]


def test_without_a_home_the_cache_is_in_the_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("BIPOINTNET_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", fail)
    assert cache.cache_folder() == Path(tempfile.gettempdir()) / f"bipointnet-{os.getuid()}"


def test_a_cache_that_cannot_be_written_is_no_error(data: Path, own_folder: Path) -> None:
    own_folder.write_text("a file where the folder should be")
    assert same(open_dataset(str(data), 16), open_dataset(str(data), 16))


def test_two_readers_at_once(data: Path, own_folder: Path) -> None:
    expected = open_dataset(str(data), 16)
    for path in entries(own_folder):
        path.unlink()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: open_dataset(str(data), 16), range(8)))
    assert all(same(expected, one) for one in found)
    assert len(entries(own_folder)) == 20, "no temporary file is left"


def test_the_entries_used_longest_ago_are_removed(
    data: Path, monkeypatch: pytest.MonkeyPatch, own_folder: Path
) -> None:
    open_dataset(str(data), 16)
    size = entries(own_folder)[0].stat().st_size
    monkeypatch.setattr(cache, "ENTRY_BYTES", 25 * size)
    old = entries(own_folder)
    for age, path in enumerate(old):
        os.utime(path, (1e9 - age, 1e9 - age))
    open_dataset(str(data), 16, seed=1)
    assert len(entries(own_folder)) == 25
    assert set(old[:5]) < set(entries(own_folder))
    monkeypatch.setattr(cache, "ENTRY_BYTES", size)
    write_cloud(data / "cup" / "cup0.npy", value=5)
    for path in entries(own_folder):
        os.utime(path, (1e9, 1e9))
    open_dataset(str(data), 16, seed=1)
    assert len(entries(own_folder)) == 20, "a data set does not remove its own entries"


def test_leftovers_of_killed_processes_are_removed(data: Path, own_folder: Path) -> None:
    open_dataset(str(data), 16)
    folder = entries(own_folder)[0].parent
    (folder / ".old.1-2.part").write_bytes(b"x")
    os.utime(folder / ".old.1-2.part", (1e9, 1e9))
    (folder / ".new.1-2.part").write_bytes(b"x")
    cache.prune(time.time())
    assert [path.name for path in folder.glob(".*.part")] == [".new.1-2.part"]


def test_good_files_are_in_the_cache_after_an_error(data: Path, read_files: list[str]) -> None:
    (data / "cup" / "bad.npy").write_bytes(b"garbage")
    with pytest.raises(ValueError, match=r"bad\.npy"):
        open_dataset(str(data), 16)
    read_files.clear()
    (data / "cup" / "bad.npy").unlink()
    open_dataset(str(data), 16)
    assert read_files == []


# Fingerprints


@pytest.mark.parametrize("size", [0, 1, 1000, 16 << 10, (16 << 10) + 1, 32 << 10, 50_000])
def test_a_fingerprint_covers_size_and_both_ends(tmp_path: Path, size: int) -> None:
    file = tmp_path / "a"
    seen = set()
    for content in [
        bytes(size),
        bytes(size + 1),
        *(bytes(k) + b"x" + bytes(size - k - 1) for k in {0, size - 1} if size),
    ]:
        file.write_bytes(content)
        seen.add(reading.fingerprint(file))
    assert len(seen) == 2 + min(size, 2)
    assert all(len(found) == 8 for found in seen)

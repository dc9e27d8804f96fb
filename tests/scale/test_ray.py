"""Jobs on a real Ray cluster of this machine: the rows of the local engine, also if actors and drivers are killed."""

import fcntl
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from job_files import MODEL, rows_of, write_clouds
from ray.cluster_utils import Cluster

from bipointnet import scale

pytestmark = pytest.mark.long
RAY = Path(sys.executable).with_name("ray")

JOB = """
import sys
from pathlib import Path
from bipointnet import scale
files = sorted(Path(sys.argv[1]).glob("*.npy"))
scale.predict(files, sys.argv[2], sys.argv[3], engine="ray", address=sys.argv[4], workers=2, save_seconds=0.2)
"""


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Tests run in several processes, but these one after the other: `ray stop` ends all clusters of a machine."""
    with open(Path(tempfile.gettempdir()) / "bipointnet-test-ray.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def cluster(alone: None) -> Iterator[None]:
    """A cluster with two CPUs, as `ray start` makes it."""
    start = [RAY, "start", "--head", "--num-cpus=2", "--port=0", "--include-dashboard=false", "--disable-usage-stats"]
    subprocess.run(start, check=True, stdout=subprocess.DEVNULL)
    yield
    subprocess.run([RAY, "stop", "--force"], check=True, stdout=subprocess.DEVNULL)


def job(clouds: Path, out: Path, address: str = "auto") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", JOB, str(clouds), str(MODEL), str(out), address])


def actors() -> list[int]:
    """The processes of the actors that map batches."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"MapWorker" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return found


def test_ray_gives_the_rows_of_the_local_engine(cluster: None, tmp_path: Path):
    files = write_clouds(tmp_path / "clouds", 200)
    files[5].write_bytes(b"damaged")
    scale.predict(files, MODEL, tmp_path / "local", workers=2)
    assert job(tmp_path / "clouds", tmp_path / "ray").wait() == 0
    assert rows_of(tmp_path / "ray") == rows_of(tmp_path / "local")


def test_kills_of_actors_and_drivers_change_no_row(cluster: None, tmp_path: Path):
    files = write_clouds(tmp_path / "clouds", 1500, points=1024)
    scale.predict(files, MODEL, tmp_path / "calm", workers=2)
    rng, kills = random.Random(1), {"actor": 0, "driver": 0}
    while True:
        driver = job(tmp_path / "clouds", tmp_path / "stormy")
        deadline = time.monotonic() + 120
        while driver.poll() is None and time.monotonic() < deadline:
            time.sleep(rng.uniform(0.1, 0.5))
            victims = actors()
            if victims and kills["actor"] < 6:
                os.kill(rng.choice(victims), signal.SIGKILL)
                kills["actor"] += 1
            elif victims and kills["driver"] < 2 and rng.random() < 0.5:
                driver.kill()
                kills["driver"] += 1
        if driver.wait() == 0:
            break
    assert kills["actor"] >= 3
    assert rows_of(tmp_path / "stormy") == rows_of(tmp_path / "calm")


def test_a_lost_node_changes_no_row(tmp_path: Path):
    """A cluster of two nodes with one actor each: the second node is killed while its actor works."""
    files = write_clouds(tmp_path / "clouds", 6000, points=1024)
    scale.predict(files, MODEL, tmp_path / "calm", workers=2)
    two = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        second = two.add_node(num_cpus=1)
        driver = job(tmp_path / "clouds", tmp_path / "stormy", str(two.address))
        while driver.poll() is None and (len(actors()) < 2 or not list((tmp_path / "stormy").glob("part-*.parquet"))):
            time.sleep(0.05)
        assert driver.poll() is None, "the job is still running"
        two.remove_node(second, allow_graceful=False)
        assert driver.wait(timeout=240) == 0
    finally:
        two.shutdown()
    assert rows_of(tmp_path / "stormy") == rows_of(tmp_path / "calm")

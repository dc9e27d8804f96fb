"""Jobs on a real Ray cluster of this machine: the rows of the local engine, also if actors and drivers are killed."""

import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from job_files import MODEL, rows_of, write_clouds
from ray.cluster_utils import Cluster

from bipointnet import scale
from bipointnet.errors import UserError

pytestmark = pytest.mark.long
RAY = Path(sys.executable).with_name("ray")

# A job that is slow enough to be disturbed on any machine.
JOB = """
import sys, time
from dataclasses import replace
from pathlib import Path
from bipointnet.evaluation.inputs import Input
from bipointnet.scale.jobs import classify_job
from bipointnet.scale.work import Classify

class Slow(Classify):
    def use(self, file):
        time.sleep(0.005)
        return super().use(file)

clouds, model, out, address = sys.argv[1:]
job = classify_job(model, out, {}, engine="ray", address=address, workers=2, save_seconds=0.2)
job = replace(job, work=Slow(Path(model).read_bytes(), model))
job.run([Input(str(file)) for file in sorted(Path(clouds).glob("*.npy"))])
"""


# A job with files that kill the processes that read them.
DEADLY = f"""
import sys
from dataclasses import replace
from pathlib import Path

sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]}
from job_files import Dying
from bipointnet.evaluation.inputs import Input
from bipointnet.scale.jobs import classify_job
import ray.cloudpickle, job_files

ray.cloudpickle.register_pickle_by_value(job_files)  # which the machines of a cluster do not have
clouds, model, out, address, flags = sys.argv[1:]
job = classify_job(model, out, {{}}, engine="ray", address=address, workers=2)
job = replace(job, work=Dying(Path(model).read_bytes(), flags, 99))
job.run([Input(str(file)) for file in sorted(Path(clouds).glob("*.npy"))])
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


def job(
    clouds: Path,
    out: Path,
    address: str = "auto",
    script: str = JOB,
    flags: Path | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", script, str(clouds), str(MODEL), str(out), address]
    return subprocess.Popen([*command, *([str(flags)] if flags else [])], cwd=cwd)


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
    """Also with relative paths, which begin in another folder than that of the cluster."""
    files = write_clouds(tmp_path / "clouds", 200)
    files[5].write_bytes(b"damaged")
    scale.predict(files, MODEL, tmp_path / "local", workers=2)
    assert job(tmp_path / "clouds", tmp_path / "ray").wait() == 0
    assert rows_of(tmp_path / "ray") == rows_of(tmp_path / "local")
    assert job(Path("clouds"), Path("relative"), cwd=tmp_path).wait() == 0
    labels = [row["label"] for _, row in sorted(rows_of(tmp_path / "relative").items())]
    assert labels == [row["label"] for _, row in sorted(rows_of(tmp_path / "local").items())]


@pytest.mark.parametrize("address", ["host.invalid:6379", "127.0.0.1:1", "127.0.0.1:port", "[::1]:1"])
def test_an_address_without_a_cluster_is_refused_soon(tmp_path: Path, address: str):
    files = write_clouds(tmp_path / "clouds", 2)
    begun = time.monotonic()
    with pytest.raises(UserError, match=r"no Ray cluster answers .*; start one with `ray start --head`"):
        scale.predict(files, MODEL, tmp_path / "out", engine="ray", address=address)
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\0\0"])
def test_another_program_at_the_address_is_refused_soon(tmp_path: Path, answer: bytes):
    """A web server, such as the dashboard of Ray, and programs that hang up."""
    files = write_clouds(tmp_path / "clouds", 2)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UserError, match=r"no Ray cluster answers \(.*; start one with `ray start --head`"):
            scale.predict(files, MODEL, tmp_path / "out", engine="ray", address=address)
        serving.join()


def test_without_an_address_a_new_instance_starts(tmp_path: Path):
    """Whatever cluster the environment names."""
    files = write_clouds(tmp_path / "clouds", 3)
    call = f"scale.predict({list(map(str, files))}, {str(MODEL)!r}, 'out', engine='ray', workers=1)"
    command = [sys.executable, "-c", f"from bipointnet import scale; assert {call}.done == 3"]
    environment = os.environ | {"RAY_ADDRESS": "127.0.0.1:1"}
    subprocess.run(command, check=True, cwd=tmp_path, env=environment, timeout=240)


def test_a_file_that_always_kills_its_process_becomes_an_error(cluster: None, tmp_path: Path):
    files = write_clouds(tmp_path / "clouds", 20)
    (tmp_path / "flags").mkdir()
    driver = job(tmp_path / "clouds", tmp_path / "out", script=DEADLY, flags=tmp_path / "flags")
    assert driver.wait(timeout=240) == 0
    rows = rows_of(tmp_path / "out")
    bad = {path for path, row in rows.items() if row["error"]}
    assert bad == {str(files[3]), str(files[13])}
    assert len(rows) == 20
    assert "5 worker processes ended while they read it" in rows[str(files[3])]["error"]


def test_kills_of_actors_and_drivers_change_no_row(cluster: None, tmp_path: Path):
    """If the job is done before all kills, the same follows with another folder for its results."""
    files = write_clouds(tmp_path / "clouds", 1500)
    scale.predict(files, MODEL, tmp_path / "calm", workers=2)
    rng, kills = random.Random(1), ["driver", "actor", "actor", "actor"] * 2
    outs: list[Path] = []
    while kills:
        outs.append(tmp_path / f"stormy-{len(outs)}")
        code = None
        while code != 0:
            driver = job(tmp_path / "clouds", outs[-1])
            while driver.poll() is None and kills:
                time.sleep(rng.uniform(0.1, 0.5))
                found = actors()
                if found:
                    with suppress(ProcessLookupError):
                        os.kill(driver.pid if kills[-1] == "driver" else rng.choice(found), signal.SIGKILL)
                        kills.pop()
            code = driver.wait(timeout=240)
            assert code in (0, -signal.SIGKILL), f"the job ended with code {code}"
    for out in outs:
        assert rows_of(out) == rows_of(tmp_path / "calm")


def test_a_lost_node_changes_no_row(tmp_path: Path):
    """A cluster of two nodes with one actor each: the second node is killed while its actor works."""
    files = write_clouds(tmp_path / "clouds", 3000)
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

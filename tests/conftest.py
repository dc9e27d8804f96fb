import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import settings

from bipointnet.data.dataset import PointClouds, Split

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Matrices this small are done before a second thread has started, and the other cores run other tests. The same holds
# for the programs that tests start.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"
# torch.compile caches its kernels, and those for one instruction set crash or give wrong gradients under another. So
# there is one cache per instruction set.
_CAPABILITY = os.environ.get("ATEN_CPU_CAPABILITY", "best")
os.environ.setdefault(
    "TORCHINDUCTOR_CACHE_DIR", f"{tempfile.gettempdir()}/bipointnet-inductor-{os.getuid()}-{_CAPABILITY}"
)
# Without a GPU, Triton interprets its kernels. It reads this when it is imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
# A shell starts a job in the background with Ctrl-C ignored, and programs that tests start would inherit that.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

# The paper's deployment variants of a 1-bit network.
VARIANTS = {
    "b": {},
    "c": {"binary_last": True},
    "d": {"binary_first": True},
    "e": {"binary_first": True, "binary_last": True},
    "f": {"norm": False},
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests away from the user's cache."""
    monkeypatch.setenv("BIPOINTNET_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def own_seed(request: pytest.FixtureRequest) -> None:
    """The random numbers of a test do not depend on the tests that ran before it in the same process."""
    torch.manual_seed(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(scope="session")
def cmake() -> str:
    """The program cmake."""
    found = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert found is not None, "the tests of the C++ tool and library need cmake"
    return found


@pytest.fixture(scope="session")
def run_tool(cmake: str) -> Path:
    """The C++ tool bipointnet-run. It is built in build/tool, where ccache knows most files from build/core."""
    source = Path(__file__).parents[1]
    build = source / "build" / "tool"
    build.mkdir(parents=True, exist_ok=True)
    with open(build / "lock", "w") as lock:  # the processes of pytest-xdist share it
        fcntl.flock(lock, fcntl.LOCK_EX)
        for step in (["-S", source, "-B", build], ["--build", build, "-j", "2"]):
            done = subprocess.run([cmake, *step], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return build / "bipointnet-run"


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Chromium, with WebGL although there is no GPU."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=options)
        yield browser
        browser.close()


@pytest.fixture
def bipointnet() -> list[str]:
    """The command line, as a separate process."""
    return [sys.executable, "-m", "bipointnet"]


def blobs(seed: int, clouds: int, points: int) -> Split:
    """Balls, sticks and plates: three classes that a network learns in seconds."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, clouds)
    stretch = np.array([[1, 1, 1], [0.2, 0.2, 1], [1, 1, 0.2]], np.float32)[labels]
    return Split(rng.normal(size=(clouds, points, 3)).astype(np.float32) * stretch[:, None], labels.astype(np.int64))


@pytest.fixture
def tiny() -> PointClouds:
    return PointClouds("tiny", ("ball", "stick", "plate"), blobs(0, 96, 48), blobs(1, 48, 48))


def write_clouds(root: Path, train: Split, test: Split) -> Path:
    """Write balls, sticks and plates as .npy files, one subfolder per class."""
    for name, part in (("train", train), ("test", test)):
        for i, (points, label) in enumerate(zip(part.points, part.labels, strict=True)):
            path = root / name / ("ball", "stick", "plate")[label] / f"{i}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, points)
    return root


@pytest.fixture
def folder_of_clouds(tmp_path: Path, tiny: PointClouds) -> Path:
    return write_clouds(tmp_path / "data", tiny.train, tiny.test)

"""Optional packages: whether they are installed, and how to install them. Nothing is imported to find out."""

import importlib
import importlib.util
import signal
import threading

from bipointnet.errors import UserError

_EXTRAS = {
    "torch": "train",
    "safetensors": "train",
    "h5py": "train",
    "matplotlib": "plot",
    "tensorboard": "tensorboard",
    "laspy": "laz",
    "lazrs": "laz",
    "pye57": "e57",
    "pyarrow": "parquet",
    "ray": "ray",
    "onnx": "bench",
    "onnxruntime": "bench",
    "openvino": "openvino",
}
_NAMES = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def installed(package: str) -> bool:
    """Whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


def install_hint(*packages: str) -> str:
    """How to install packages: a command that works from a clone and from a wheel, and the extra that has them.

    >>> install_hint("matplotlib")
    "pip install matplotlib (extra 'plot')"
    """
    extras = dict.fromkeys(_EXTRAS[package] for package in packages)
    return f"pip install {' '.join(packages)} (extra {', '.join(repr(extra) for extra in extras)})"


def require(purpose: str, *packages: str) -> None:
    """Raise UserError if one of the packages is missing; `purpose` is the subject of the sentence."""
    missing = [package for package in packages if not installed(package)]
    if missing:
        names = " and ".join(_NAMES.get(package, package) for package in missing)
        is_are, it_them = ("is", "it") if len(missing) == 1 else ("are", "them")
        raise UserError(
            f"{purpose} needs {names}, which {is_are} not installed; install {it_them} with: {install_hint(*missing)}"
        )


def import_whole(module: str) -> None:
    """Import a module of C++ code. Ctrl-C acts when it is imported: inside that code it would abort the process."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        importlib.import_module(module)
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        importlib.import_module(module)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    if pressed:
        signal.raise_signal(signal.SIGINT)

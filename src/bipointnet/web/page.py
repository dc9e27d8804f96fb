"""The page as one HTML file: the WebAssembly module, models and samples are inside, compressed."""

import base64
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet import shipped
from bipointnet.data import library_files
from bipointnet.data.blocks import COLORS
from bipointnet.data.clouds import Cloud, read, sample
from bipointnet.data.rooms import make_room
from bipointnet.data.shapes import CLASSES, held_out
from bipointnet.errors import UserError
from bipointnet.files import write_beside
from bipointnet.runtime.header import peek
from bipointnet.viz.palette import colors
from bipointnet.viz.viewer import viewer_script

_FOLDER = Path(__file__).parent
_TITLE = b"<title>BiPointNet: classify point clouds</title>"  # of every page that is written here
_COLORS = 64  # more classes repeat them
SAMPLE_POINTS = 2048
SURFACE_POINTS = 20_000  # of a mesh, as in worker.js
SAMPLES = (
    7,
    11,
    17,
    21,
    30,
    13,
)  # built-in shapes that models for ModelNet40 name correctly
ROOM_POINTS, ROOM_SEED = 16_000, 0


def write_page(path: Path, models: Sequence[str | Path], samples: Sequence[Path] = ()) -> None:
    """Write the page; the arguments are those of `page_bytes`. UserError if it would replace another page."""
    if path.exists() and _TITLE not in path.read_bytes()[:1000]:
        raise UserError(f"{path}: is there already, and is another page; expected a new name; choose another folder")
    content = page_bytes(models, samples)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_beside(path, content)


def page_bytes(models: Sequence[str | Path], samples: Sequence[Path] = ()) -> bytes:
    """The page with packed models, the first of which is used at first.

    Args:
        models: packed models, or names of shipped ones.
        samples: clouds to choose from; without any, built-in shapes, and a room if a model labels rooms.
    """
    paths = [shipped.locate(Path(model)) for model in models]
    data = {
        "worker": _worker_script(),
        "wasm": _packed((_FOLDER / "package" / "bipointnet.wasm").read_bytes()),
        "models": _models(paths),
        "samples": list(map(_file_sample, samples)) or _built_in_samples(paths),
        "colors": [f"#{bytes(color).hex()}" for color in colors(_COLORS)],
    }
    page = _read("page.html")
    # The data comes last, so that no text in it is taken for a name in braces. Without <, none can end its script.
    for name, content in (
        ("style", _read("page.css")),
        ("viewer", viewer_script()),
        ("script", _read("page.js")),
        ("data", json.dumps(data).replace("<", "\\u003c")),
    ):
        page = page.replace(f"{{{{{name}}}}}", content)
    return page.encode()


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _worker_script() -> str:
    """The package and worker.js as one plain script: a page from a file cannot start a worker with a module."""
    package = re.sub(r"^export ", "", _read("package/index.js"), flags=re.MULTILINE).replace(
        "import.meta.url", "location.href"
    )
    return package + _read("worker.js")


def _models(paths: list[Path]) -> dict[str, str]:
    """The content of packed models by the name that the page shows."""
    found: dict[str, str] = {}
    for path in paths:
        name = path.stem if path.parent == shipped.FOLDER else path.name
        if name in found:
            raise UserError(
                f"{path}: a second model with the name {name}; expected different names; rename one of them"
            )
        found[name] = _packed(path.read_bytes())
    return found


def _packed(content: bytes) -> str:
    """Compressed, as text."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def _built_in_samples(models: list[Path]) -> list[dict[str, Any]]:
    return [*map(_built_in_sample, SAMPLES), *([_room_sample()] if any(map(_labels_rooms, models)) else [])]


def _labels_rooms(path: Path) -> bool:
    facts = peek(path)
    return facts is not None and facts["task"] == "semantic"


def _sample(name: str, content: bytes, up: str | None, room: bool | None = None) -> dict[str, Any]:
    """A sample for models that label rooms (room), for the others (not room), or for all (None)."""
    return {"name": name, "up": up, "room": room, "content": _packed(content)}


def _file_sample(path: Path) -> dict[str, Any]:
    """A file as it is, or its points, if the package cannot read it. UserError for a file that Python cannot read."""
    cloud = read(path)
    if path.suffix.lower() not in library_files.SUFFIXES:
        return _sample(path.name, path.read_bytes(), None)
    if cloud.faces is not None:
        cloud = Cloud(sample(cloud, SURFACE_POINTS, np.random.default_rng(0), path))
    return _sample(f"{path.name}.ply", _ply(cloud), None)


def _ply(cloud: Cloud) -> bytes:
    """A binary PLY with the points, colors and further columns of a cloud."""
    columns = dict(zip("xyz", cloud.points.T, strict=True))
    if cloud.colors is not None:
        columns |= dict(zip(COLORS, cloud.colors.T, strict=True))
    columns |= {name: values for name, values in cloud.fields.items() if name.isidentifier()}
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(cloud.points)}"]
    header += [*(f"property float {name}" for name in columns), "end_header\n"]
    return "\n".join(header).encode() + np.stack(list(columns.values()), axis=1).astype("<f4").tobytes()


def _room_sample() -> dict[str, Any]:
    room, _ = make_room(np.random.default_rng(ROOM_SEED), ROOM_POINTS)
    cloud = Cloud(np.round(room[:, :3], 2), colors=np.round(room[:, 3:], 2))
    return _sample("generated room.ply", _ply(cloud), "z", room=True)


def _built_in_sample(number: int) -> dict[str, Any]:
    cloud, label = held_out(number, SAMPLE_POINTS)
    return _sample(f"{CLASSES[label]}.f32", np.round(cloud, 3).astype("<f4").tobytes(), "z", room=False)

"""Files that are never half-written: bytes go beside the target and are renamed over it."""

import os
from pathlib import Path


def write_beside(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one step; a kill at any moment leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)

"""Files that are never half-written: the bytes go to a temporary file beside the target, which then replaces it."""

import os
from pathlib import Path


def write_beside(path: Path, content: bytes) -> None:
    """Replace `path` with `content` atomically: if the process is killed, the old file or the new one remains."""
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

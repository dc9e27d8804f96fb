"""Clouds and folders for tests of a user's own files."""

from pathlib import Path

import numpy as np


def write_cloud(path: Path, points: int = 40, value: float = 0.0) -> Path:
    """A cloud whose points all have y = `value`, so that a test recognizes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.stack([np.arange(points), np.full(points, value), np.zeros(points)], axis=1))
    return path


def write_classes(root: Path, **counts: int) -> Path:
    """Folders CLASS/ with so many files each; every file has a content of its own."""
    for label, (name, count) in enumerate(counts.items()):
        for index in range(count):
            write_cloud(root / name / f"{name}{index}.npy", value=100 * label + index)
    return root

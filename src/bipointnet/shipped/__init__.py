"""Models that come with the package: NAME.bpn, a packed model, and NAME.json, its card. Imports no NumPy.

To add a model, add these two files; see docs/models.md for the fields of a card.

May import: nothing of the package but errors.
"""

import difflib
import json
import os
from pathlib import Path
from typing import Any

from bipointnet.errors import UserError

FOLDER = Path(__file__).parent
DEFAULT_CLASSIFIER = "local-small-modelnet40"  # of `bipointnet predict` without --model
DEFAULT_SEGMENTER = "pointnet2-s3dis"  # of `bipointnet segment` without --model


def names() -> list[str]:
    """The names of all shipped models, in alphabetical order.

    >>> DEFAULT_CLASSIFIER in names()
    True
    """
    return sorted(file.stem for file in FOLDER.glob("*.bpn"))


def locate(path: Path) -> Path:
    """The file that a user's path or name stands for: an existing path is itself, a name its packed model.

    Anything else is returned as it is, so that the reader of the file says what is wrong with it.

    >>> locate(Path("pointnet-vanilla-shapes")).name
    'pointnet-vanilla-shapes.bpn'
    """
    if os.path.exists(path) or str(path) not in names():
        return path
    return FOLDER / f"{path}.bpn"


def card(name: str) -> dict[str, Any]:
    """The card of a shipped model: what it is, what it was trained on, how accurate it is, and its limits.

    >>> card("pointnet-vanilla-shapes")["classes"]
    20
    """
    if name not in names():
        raise UserError(f"{name}: not a shipped model{hint(Path(name))}")
    return json.loads((FOLDER / f"{name}.json").read_text())


def hint(path: Path) -> str:
    """The end of a sentence about a path that does not exist, if it may be meant as the name of a shipped model.

    >>> hint(Path("pointnet-vanilla-shape"))  # doctest: +ELLIPSIS
    "; `bipointnet models` lists the shipped models; did you mean 'pointnet-vanilla-shapes'..."
    >>> hint(Path("runs/mine.bpn"))
    ''
    """
    if path.name != str(path):
        return ""
    if str(path) in names():
        return "; this is the name of a shipped packed model, which has no run"
    close = difflib.get_close_matches(path.name.lower(), names())
    meant = " or ".join(repr(name) for name in close)
    return "; `bipointnet models` lists the shipped models" + (f"; did you mean {meant}?" if close else "")

"""The script of the viewer that all pages share."""

from pathlib import Path


def viewer_script() -> str:
    """The content of viewer.js, which defines the class Viewer.

    >>> "class Viewer {" in viewer_script()
    True
    """
    return Path(__file__).with_name("viewer.js").read_text(encoding="utf-8")

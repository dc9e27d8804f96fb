"""The error of a data set that cannot be opened."""

from pathlib import Path

import pytest

from bipointnet.data import open_dataset
from bipointnet.errors import UserError


def error_of(folder: Path, points: int = 16) -> str:
    """The sentence with which open_dataset() refuses a folder."""
    with pytest.raises(UserError) as caught:
        open_dataset(str(folder), points)
    assert "\n" not in str(caught.value)
    return str(caught.value)

"""Figures of matplotlib as PNG, and the files they are written to."""

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bipointnet.errors import UserError
from bipointnet.extras import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# For a text that holds names: those with $ would be formulas.
PLAIN: dict[str, Any] = {"parse_math": False}


def png_of(figure: "Figure", dpi: float) -> bytes:
    """The figure as PNG."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # letters missing in the font are drawn as boxes
        figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def check_file(option: str, path: Path, suffix: str, model: Path) -> None:
    """Raise UserError for a file that cannot be written, before minutes are spent on what it will show."""
    if path.suffix.lower() != suffix:
        raise UserError(f"{option} is '{path}'; expected a file that ends in {suffix}; choose such a name")
    if path.is_dir():
        raise UserError(f"{path}: a folder where {option} should write a file; choose another name")
    if path.exists() and path.samefile(model):
        raise UserError(f"{path}: the packed model, which {option} would overwrite; choose another name")
    if suffix == ".png":
        require(option, "matplotlib")

"""What a path holds: a packed model, a run folder or a checkpoint. Imports neither PyTorch nor NumPy."""

from pathlib import Path
from typing import Any, NamedTuple

from bipointnet import shipped
from bipointnet.errors import UserError
from bipointnet.runtime.header import peek

CHECKPOINT = "last.safetensors"  # in a run folder: the last epoch that was saved


class ModelFile(NamedTuple):
    """A model as it was found on disk.

    path: as the user named it. file: the checkpoint or packed model that `path` stands for. packed: which of the two.
    facts: the description in the file, not checked yet.
    """

    path: Path
    file: Path
    packed: bool
    facts: dict[str, Any]


def identify(path: Path) -> ModelFile:
    """Find out what a path holds, by its content; UserError if it is neither a packed model nor a run."""
    if not path.exists():
        raise UserError(
            f"{path}: does not exist; expected a packed model, a run folder or a checkpoint{shipped.hint(path)}"
        )
    file = path / CHECKPOINT if path.is_dir() else path
    if not file.exists():
        raise UserError(
            f"{path}: a folder without {CHECKPOINT}; expected a run folder, as `bipointnet train` writes it"
        )
    open(file, "rb").close()  # raises OSError with the reason if it cannot be read
    facts = peek(file)
    if facts is None or not ("program" in facts or "config" in facts):
        raise UserError(
            f"{file}: neither a packed model nor a checkpoint, or damaged; expected a file written by "
            "`bipointnet export` or `bipointnet train`"
        )
    return ModelFile(path, file, "program" in facts, facts)

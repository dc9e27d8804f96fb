"""Checkpoints: safetensors files with the facts of the run (configuration, classes, epoch) as JSON metadata."""

import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor, nn

from bipointnet.config import from_mapping
from bipointnet.errors import UserError
from bipointnet.files import write_beside
from bipointnet.models import build

FORMAT = 1


def save(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and facts atomically: a killed process leaves the previous file."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_beside(
        path, safetensors.torch.save(tensors, metadata={"bipointnet": json.dumps({"format": FORMAT, **facts})})
    )


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of a checkpoint file."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})["bipointnet"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError, KeyError, ValueError) as error:
        reason = f"found {error}" if path.exists() else "it is not there"
        raise UserError(
            f"{path}: not a checkpoint of bipointnet ({reason}), expected a file written by `bipointnet train`"
        ) from error
    if "program" in facts:
        raise UserError(
            f"{path}: a packed model where a run folder or a checkpoint is expected; load it with bipointnet.load, or "
            "name the run folder it was exported from"
        )
    if facts.get("format") != FORMAT:
        raise UserError(f"{path}: checkpoint format is {facts.get('format')!r}, expected {FORMAT}; train again")
    return tensors, facts


def checkpoint_path(run: Path) -> Path:
    """The checkpoint file of a run folder (its last epoch), or the checkpoint file itself."""
    return run / "last.safetensors" if run.is_dir() else run


def load_run(run: str | Path) -> tuple[nn.Module, dict[str, Any]]:
    """The trained network of a run folder (its last epoch) or checkpoint file, in eval mode, and the facts of its run.

    `bipointnet.load` loads packed models.

    Examples:
        >>> network, facts = bipointnet.load_run("runs/chairs")  # doctest: +SKIP
        >>> index = network(torch.rand(1, 1024, 3)).logits.argmax().item()  # doctest: +SKIP
        >>> facts["classes"][index]  # doctest: +SKIP
        'chair'
    """
    path = checkpoint_path(Path(run))
    tensors, facts = load(path)
    try:
        config = from_mapping(str(path), facts["config"])
        model = build(config, len(facts["classes"]), facts["channels"], len(facts.get("categories", ())))
        model.load_state_dict(tensors)
    except (KeyError, TypeError, RuntimeError) as error:
        raise UserError(
            f"{path}: the tensors do not fit the network of the configuration ({error}), expected a checkpoint as "
            "`bipointnet train` wrote it"
        ) from error
    return model.eval(), facts

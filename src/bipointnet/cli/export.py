"""The command export."""

from pathlib import Path

import typer

from bipointnet import shipped
from bipointnet.cli.common import AS_JSON, err, plain, print_json, print_line, require_packed, warn
from bipointnet.errors import UserError
from bipointnet.evaluation.model_file import identify
from bipointnet.extras import import_whole, require
from bipointnet.runtime.header import peek

LAST = ("f16", "f32")
CHECKPOINTS = ("best.safetensors", "last.safetensors", "resume.safetensors")  # of a run


def export(
    run: Path = typer.Argument(
        metavar="RUN",
        help="Run folder (its last epoch) or checkpoint; with --c-array, a packed model or the name of a shipped one.",
    ),
    path: Path = typer.Option(
        ..., "-o", "--out", help="Packed model to write, for example chairs.bpn; with --c-array, a C header."
    ),
    last: str | None = typer.Option(None, "--last", help="Data type of a float last layer: f16 (default) or f32."),
    max_points: int | None = typer.Option(
        None,
        "--max-points",
        min=0,
        help="Largest number of points of a cloud that a prediction uses; 0: all (default: as in training; PointNets "
        "with the pool ema-max: 4 times as many, but no more than 1024 unless training had more).",
        metavar="N",
    ),
    c_array: bool = typer.Option(
        False,
        "--c-array",
        metavar="",
        help="Write a packed model as an array in a C header, for a program without files.",
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Pack a trained network into one small file that runs without PyTorch.

    Example: bipointnet export runs/chairs -o chairs.bpn

    For a microcontroller: bipointnet export chairs.bpn --c-array -o chairs.h
    """
    if path.is_dir():
        raise UserError(f"{path}: a folder; expected the name of the file to write")
    if c_array:
        for name, value in (("--last", last), ("--max-points", max_points)):
            if value is not None:
                raise UserError(
                    f"{name} with --c-array; expected it in the command that packs the run; leave it out here"
                )
        export_c_array(shipped.locate(run), path, as_json)
        return
    last = LAST[0] if last is None else last
    if last not in LAST:
        raise UserError(f"--last is {last!r}; expected one of {', '.join(LAST)}")
    source = identify(run)
    if source.packed:
        raise UserError(f"{run}: a packed model already; expected a run folder or a checkpoint, or --c-array")
    _require_other(path, [source.file.with_name(name) for name in (source.file.name, *CHECKPOINTS)])
    require("this command", "torch", "safetensors")
    epoch, epochs = source.facts.get("epoch"), source.facts["config"].get("epochs")
    unfinished = isinstance(epoch, int) and isinstance(epochs, int) and epoch < epochs
    if unfinished:
        warn(f"{run}: an unfinished run, at epoch {epoch} of {epochs}; to finish it, repeat its training with --resume")
    import_whole("torch")
    from bipointnet.evaluation.inspection import packed_sizes
    from bipointnet.packing import pack
    from bipointnet.runtime import model as runtime

    with err.status("packing"):
        exported = pack.export_run(run, path, last, max_points)
        sizes = packed_sizes(runtime.load(path))
    if as_json:
        costs = {
            "operations": len(exported.operations),
            "bit_multiply_adds": exported.bit_multiply_adds,
            "float_multiply_adds": exported.float_multiply_adds,
            "estimated_us": round(exported.microseconds, 1),
        }
        print_json({"file": str(path), **sizes, **costs, "epoch": epoch, "epochs": epochs})
        return
    print_line(
        f"{plain(path)}: {sizes['bytes']:,} bytes, {sizes['fp32'] / sizes['bytes']:.1f} times smaller than the same "
        f"network in float32 ({sizes['fp32']:,} bytes)"
    )
    for line in str(exported).splitlines()[1:]:
        print_line(plain(line))


def _require_other(path: Path, inputs: list[Path]) -> None:
    """UserError if a file of the network would be overwritten, or one that was not exported."""
    if any(path.exists() and file.exists() and path.samefile(file) for file in inputs):
        raise UserError(f"{path}: an input file, which would be overwritten; choose another name with -o")
    if path.is_file() and path.suffix != ".h" and "program" not in (peek(path) or {}):
        raise UserError(f"{path}: is there already, and is no packed model; choose another name with -o")


def export_c_array(file: Path, path: Path, as_json: bool) -> None:
    """Write a packed model as an array in a C header."""
    require_packed(file)
    _require_other(path, [file])
    from bipointnet.runtime.c_array import write_c_array
    from bipointnet.runtime.model import load

    name = write_c_array(load(file), file.read_bytes(), path)
    if as_json:
        print_json({"file": str(path), "array": name, "bytes": file.stat().st_size})
    else:
        print_line(f"{plain(path)}: {file.stat().st_size:,} bytes as the array {name}")

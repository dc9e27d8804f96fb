"""The command demo."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bipointnet import shipped
from bipointnet.cli.bench import print_benchmark
from bipointnet.cli.common import (
    AS_JSON,
    counting_bar,
    empty_table,
    epoch_bar,
    epoch_progress,
    out,
    plain,
    print_json,
    print_line,
)
from bipointnet.cli.verify import print_verification
from bipointnet.errors import UserError
from bipointnet.extras import import_whole, require

if TYPE_CHECKING:
    from bipointnet.runtime.samples import Sample


def demo(
    folder: Path = typer.Option(Path("demo"), "-o", "--out", help="Folder for runs, packed model and picture."),
    as_json: bool = AS_JSON,
) -> None:
    """Classify objects with a shipped model, then train a 1-bit PointNet.

    The objects are built in. The first part takes seconds and needs no PyTorch.
    The second part takes minutes: it also trains the same network in float32 and
    a naive 1-bit network, packs the first one, verifies and benchmarks it, and
    draws a picture.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: a file; expected a folder for the demo; choose another with -o")
    from bipointnet.runtime.samples import MODEL, predict_samples

    samples = predict_samples()
    if not as_json:
        _print_samples(MODEL, samples)
    require("the demo", "torch", "safetensors", "matplotlib")
    import_whole("torch")
    from bipointnet.demo import NETWORKS, deploy
    from bipointnet.demo import demo as run_demo

    with epoch_bar() as bars:
        callbacks = {name: epoch_progress(bars, name, config.epochs) for name, config in NETWORKS.items()}
        data, networks = run_demo(folder, lambda name, moment: callbacks[name](moment))
    with counting_bar("packing") as progress:
        deployed = deploy(folder, data, networks[0], progress)
    if as_json:
        figures = [{"name": network.name, "bytes": network.bytes, **network.figures} for network in networks]
        seen = {"model": MODEL, "predictions": [sample._asdict() for sample in samples]}
        print_json({"samples": seen, "networks": figures, "packed": deployed})
        return
    right = dict.fromkeys(("accuracy", "mean class", "entropy", "size", "time"), "right")
    table = empty_table("Held-out shapes, last epoch", {"network": "left"} | right)
    for network in networks:
        table.add_row(
            network.name,
            f"{network.evaluation.overall:.1f} %",
            f"{network.evaluation.mean_class:.1f} %",
            "-" if network.figures["method"] == "fp" else f"{network.evaluation.entropy:.2f}",
            f"{network.bytes / 1000:,.0f} kB",
            f"{network.figures['seconds']:.0f} s",
        )
    out.print(table)
    one_bit, float_network, naive = networks
    out.print(
        f"The 1-bit network is {float_network.bytes / one_bit.bytes:.1f} times smaller than the same network in "
        f"float32 and {float_network.evaluation.overall - one_bit.evaluation.overall:.1f} points less accurate. Plain "
        f"max pooling leaves the naive network {naive.evaluation.entropy:.2f} bits of entropy per pooled feature.\n"
    )
    print_line(f"Packed model: {plain(folder / 'demo.bpn')}, {deployed['bench']['bytes']['packed']:,} bytes")
    print_verification(deployed["verify"])
    out.print(
        f"Its predictions equal those of PyTorch for {deployed['as_torch']} of {deployed['clouds']} held-out shapes; "
        f"{deployed['accuracy']:.1f} % are right. Example: class {deployed['truth']}, prediction {deployed['name']} "
        f"({100 * deployed['probability']:.1f} %)."
    )
    print_benchmark(deployed["bench"])
    print_line(f"Picture: {plain(folder / 'demo.png')}   Runs: {plain(folder)}/")


def _print_samples(model: str, samples: "list[Sample]") -> None:
    card = shipped.card(model)
    right = sum(sample.prediction == sample.object for sample in samples)
    print_line(
        f"{model}, a shipped 1-bit network of {card['bytes'] / 1000:.0f} kB, classifies {len(samples)} built-in "
        f"objects. It was trained on {card['trained_on']}, not on such objects; of the shipped models it does best on "
        "them."
    )
    table = empty_table("", {"object": "left", "prediction": "left", "probability": "right", "time": "right"})
    for sample in samples:
        shown = sample.prediction if sample.prediction == sample.object else f"[red]{sample.prediction}, wrong[/]"
        table.add_row(sample.object, shown, f"{100 * sample.probability:.0f} %", f"{sample.microseconds:.0f} us")
    out.print(table)
    print_line(
        f"{right} of {len(samples)} are right, with {card['classes']} classes to choose from; on test clouds of "
        f"{card['trained_on']}, {card['accuracy']['file']} % are.\n"
    )

"""Write docs/models.md from the cards of the shipped models.

python benchmarks/model_cards.py             # after a model or a card was added or changed
python benchmarks/model_cards.py --check     # exit code 1 if docs/models.md is not up to date
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from bipointnet import shipped
from bipointnet.files import write_beside

PAGE = Path(__file__).parents[1] / "docs" / "models.md"

INTRODUCTION = """\
# Shipped models

These packed models come with the package. They need no PyTorch. Every command that reads a packed model accepts their
names, and so does `bipointnet.load`; a file of the same name has precedence. This page is written from their cards by
`benchmarks/model_cards.py`.

The time on a card is the median of single calls of `predict` or `segment` in Python. It includes normalization and
the choice of points. The speed tables of README and of [backbones](backbones.md) time the network alone, from
normalized coordinates to logits, so their times are shorter.

```
bipointnet models                                    # the list
bipointnet models {default}        # one card
bipointnet predict scan.ply                          # uses {default}
bipointnet predict scan.ply --model local-base-modelnet40
bipointnet segment scan.ply                          # uses {segmenter}
bipointnet segment chair.ply --model pointnet2-shapenet-part --category chair
```

```python
import bipointnet

model = bipointnet.load("{default}")
print(model.predict(points).names)  # points: (N, 3), y up
```

"""

ADDITION = """\
## Add a model

1. Put `NAME.bpn`, as `bipointnet export` writes it, and a card `NAME.json` with the fields of the other cards into
   `src/bipointnet/shipped`. All files together must stay below 3 MB. No code is needed.
2. `python benchmarks/model_limits.py NAME --data DATA` measures it and writes bytes, time, accuracy and limits into its
   card.
3. `python benchmarks/model_cards.py` writes this page. `tests/runtime/test_shipped.py` checks every model and its card.
"""


def table_of(cards: list[dict[str, Any]]) -> str:
    """One row per model."""
    lines = ["| name | task | classes | bytes | accuracy | trained on |", "|---|---|---|---|---|---|"]
    lines += [
        f"| [`{card['name']}`](#{card['name']}) | {card['task']} | {card['classes']} | {card['bytes']:,} | "
        f"{card['accuracy']['file']:.2f} %{'' if card['task'] == 'classify' else ' mIoU'} | {card['trained_on']} |"
        for card in cards
    ]
    return "\n".join(lines)


def section(card: dict[str, Any]) -> str:
    """The whole card of a model."""
    accuracy, latency = card["accuracy"], card["latency"]
    trainings = "; ".join(
        f"{each['last_epoch']:.2f} % (seed {each['seed']}; {each['note']})" for each in accuracy["trainings"]
    )
    limits = "\n".join(f"| {limit['clouds']} | {limit['accuracy']:.2f} % |" for limit in card["limits"])
    notes = "\n".join(f"- {note}" for note in card["notes"])
    return f"""\
## {card["name"]}

{card["title"]}.

- Task: {card["task"]}, {card["classes"]} classes. Size: {card["bytes"]:,} bytes.
- Time of a prediction: {latency["microseconds"]} us for {latency["points"]} points ({latency["machine"]}).
- Data: {card["data"]}.
- License: {card["license"]}.
- Points per cloud in training: {card["points"]}. Up axis: {card["up"]}.
- Recipe: `{card["recipe"]}`
- Accuracy of this file: {accuracy["file"]:.2f} % ({accuracy["metric"]}, {accuracy["test_clouds"]:,} test clouds).
- Last epoch in PyTorch: {trainings}.
{notes}

| test clouds | {accuracy["metric"]} |
|---|---|
| as they are | {accuracy["file"]:.2f} % |
{limits}
"""


def page() -> str:
    """The text of docs/models.md."""
    cards = [shipped.card(name) for name in shipped.names()]
    introduction = INTRODUCTION.format(default=shipped.DEFAULT_CLASSIFIER, segmenter=shipped.DEFAULT_SEGMENTER)
    return "\n".join([introduction + table_of(cards) + "\n", *(section(card) for card in cards), ADDITION])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page would change")
    if not parser.parse_args().check:
        write_beside(PAGE, page().encode())
    elif not PAGE.is_file() or PAGE.read_text() != page():
        sys.exit("docs/models.md is not up to date; run: python benchmarks/model_cards.py")


if __name__ == "__main__":
    main()

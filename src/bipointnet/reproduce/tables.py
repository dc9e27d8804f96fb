"""The tables: for each row the configuration to train, and the figures of the paper.

A row is one configuration; tables that share a configuration share its runs. `paper` rows use the paper's recipe,
`ours` a recipe of our own (OURS, OURS_PARTS, OURS_ROOMS) with the pool over distinct codes. Figures are those of the
last epoch.
(BiPointNet, Qin et al. 2021, arXiv:2010.05501: tables 1 to 3, and the table of deployed variants in its appendix.)
"""

from dataclasses import dataclass, field, replace
from typing import Any

from bipointnet.config import OWN_POOLS, POINTNETS

MODELNET, PARTS, ROOMS = "modelnet", "shapenet-part", "s3dis"  # layouts of data sets, as in bipointnet.data

# The entries of result.json that a table shows.
FIGURES = {
    MODELNET: {"OA": "last_oa"},
    PARTS: {"mIoU": "paper_miou"},
    ROOMS: {"mIoU": "miou", "OA": "oa"},
}
CORRUPTED = {"OA": "last_oa", "corrupted OA": "corrupted_oa"}  # `jobs` adds the second one
TASKS: dict[str, dict[str, Any]] = {
    MODELNET: {"task": "classify"},
    PARTS: {"task": "part", "category": "each"},
    ROOMS: {"task": "semantic", "fold": "each"},
}
OURS: dict[str, Any] = {
    "recipe": "tuned",
    "batch": 128,
    "lr": 2e-3,
    "label_smoothing": 0.1,
    "scale": 1.25,
    "shift": 0.1,
}
OURS_POINTNET = OURS | {"gradient": "polynomial"}  # which gained nothing in PointNet++
# Networks that label points. Rooms are rotated about the up axis; objects of ShapeNet Part all face the same way.
OURS_PARTS: dict[str, Any] = {"recipe": "tuned", "epochs": 80, "batch": 64, "lr": 2e-3, "scale": 1.25, "shift": 0.1}
OURS_ROOMS: dict[str, Any] = {
    "recipe": "tuned",
    "epochs": 100,
    "batch": 16,
    "lr": 2e-3,
    "rotate": 180.0,
    "scale": 1.1,
    "shift": 0.05,
}
NAMES = {
    "fp": "float32",
    "bnn": "BNN",
    "ir-net": "IR-Net",
    "bi-real": "Bi-Real Net",
    "abc-net": "ABC-Net",
    "xnor++": "XNOR-Net++",
    "xnor": "XNOR-Net",
    "lsr": "LSR",
    "max": "max",
    "avg": "mean",
    "ema-avg": "EMA-avg",
    "ema-max-points": "EMA-max",
}
BACKBONES = {
    "pointnet-vanilla": "PointNet vanilla",
    "pointnet": "PointNet",
    "pointnet2": "PointNet++",
    "pointcnn": "PointCNN",
    "dgcnn": "DGCNN",
    "pointconv": "PointConv",
    "local-tiny": "LocalNet tiny",
    "local-small": "LocalNet small",
    "local-base": "LocalNet base",
}


@dataclass(frozen=True)
class Row:
    """One configuration of a table.

    name: of its result files, with the seed added. label: its name in the table. data: the layout of its data.
    options: of `Config`. paper: the figures of the paper by their names in `figures`. seeds: how many are trained.
    corrupted: whether the network is also evaluated on corrupted clouds (`eval --corruptions`).
    """

    name: str
    label: str
    data: str
    options: dict[str, Any]
    paper: dict[str, float] = field(default_factory=dict)
    seeds: int = 1
    corrupted: bool = False

    @property
    def figures(self) -> dict[str, str]:
        """The figures of the table by name, each with its entry in the result."""
        return CORRUPTED if self.corrupted else FIGURES[self.data]


@dataclass(frozen=True)
class Table:
    """Rows, and what is different from the paper."""

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def paper_row(data: str, model: str, method: str, pool: str | None, **figures: float) -> Row:
    """A row with the paper's recipe."""
    options = TASKS[data] | {"recipe": "paper", "model": model, "method": method}
    pooled = [] if pool is None else [pool]
    options |= {"pool": pool} if pooled else {}
    place = {MODELNET: "", PARTS: "parts: ", ROOMS: "rooms: "}[data]
    label = f"{place}{BACKBONES[model]}, {' + '.join(NAMES[part] for part in (method, *pooled))}"
    return Row("-".join([data, model, method, *pooled, "paper"]), label, data, options, figures)


def our_row(model: str, seeds: int = 3) -> Row:
    """LSR with our recipe on ModelNet40; the pool is the default of the backbone."""
    recipe = OURS_POINTNET if model in POINTNETS else OURS
    options = TASKS[MODELNET] | recipe | {"model": model, "method": "lsr"}
    return Row(f"{MODELNET}-{model}-lsr-ours", f"{BACKBONES[model]}, LSR, our recipe", MODELNET, options, seeds=seeds)


def our_float_row(model: str) -> Row:
    """The float twin of `our_row`, one seed."""
    ours = our_row(model)
    options = {name: value for name, value in ours.options.items() if name != "gradient"} | {"method": "fp"}
    return Row(ours.name.replace("lsr", "fp"), ours.label.replace("LSR", "float32"), MODELNET, options)


def our_points_rows(data: str, model: str) -> tuple[Row, Row]:
    """One network for all categories, or one per fold, with our recipe: float32 with one seed, LSR with three."""
    place, task, own = {
        PARTS: ("parts", {"task": "part"}, OURS_PARTS),
        ROOMS: ("rooms", TASKS[ROOMS], OURS_ROOMS),
    }[data]
    options = task | own | {"model": model}

    def row(method: str, seeds: int) -> Row:
        label = f"{place}: {BACKBONES[model]}, {NAMES[method]}, our recipe"
        return Row(f"{data}-{model}-{method}-ours", label, data, options | {"method": method}, seeds=seeds)

    return row("fp", 1), row("lsr", 3)


def _ablation() -> Table:
    oa = (88.2, 86.5, 7.1, 4.1, 11.3, 16.2, 82.5, 86.4)
    parts = (84.3, 84.0, 54.0, 58.7, 53.0, 47.3, 80.3, 80.6)
    rooms = ((54.4, 83.5), (51.5, 81.5), (9.5, 45.0), (2.0, 25.4), (9.9, 46.8), (8.5, 47.2), (40.9, 74.9), (44.3, 76.7))
    kinds = (
        ("fp", "max"),
        ("fp", "avg"),
        ("bnn", "max"),
        ("lsr", "max"),
        ("bnn", "ema-avg"),
        ("bnn", "ema-max-points"),
        ("lsr", "ema-avg"),
        ("lsr", "ema-max-points"),
    )
    rows = []
    for kind, figure in zip(kinds, oa, strict=True):
        rows.append(paper_row(MODELNET, "pointnet", *kind, OA=figure))
    for kind, figure in zip(kinds, parts, strict=True):
        rows.append(paper_row(PARTS, "pointnet", *kind, mIoU=figure))
    for kind, (miou, figure) in zip(kinds, rooms, strict=True):
        rows.append(paper_row(ROOMS, "pointnet", *kind, mIoU=miou, OA=figure))
    return Table(
        "Ablation of EMA and LSR on three tasks",
        tuple(rows),
        (
            "Parts: our input is xyz, the paper adds normals. One network per category; mIoU weighted as in the paper.",
            "S3DIS: the paper tests on six areas. Ours are the 37 rooms of Area 6 in four folds, each tested once: the "
            "figures are not comparable with the paper's.",
        ),
    )


def _methods() -> Table:
    figures = {
        "bnn": (7.1, 11.3, 16.2),
        "ir-net": (7.3, 22.0, 63.5),
        "bi-real": (4.0, 77.0, 77.5),
        "abc-net": (4.1, 68.9, 77.8),
        "xnor++": (4.1, 73.8, 78.4),
        "xnor": (64.9, 78.2, 81.9),
        "lsr": (4.1, 82.5, 86.4),
    }
    pools = ("max", "ema-avg", "ema-max-points")
    rows = [
        paper_row(MODELNET, "pointnet", "fp", "max", OA=88.2),
        paper_row(MODELNET, "pointnet", "fp", "avg", OA=86.5),
    ]
    for method, values in figures.items():
        rows += [paper_row(MODELNET, "pointnet", method, pool, OA=oa) for pool, oa in zip(pools, values, strict=True)]
    return Table("Binarization methods with three pools, PointNet on ModelNet40", tuple(rows))


def _backbones() -> Table:
    figures = {
        "pointnet-vanilla": (86.8, 61.0, 85.6),
        "pointnet": (88.2, 64.9, 86.4),
        "pointnet2": (90.0, 63.1, 87.8),
        "pointcnn": (90.0, 83.0, 83.8),
        "dgcnn": (89.2, 51.5, 83.4),
        "pointconv": (90.8, 83.1, 87.9),
    }
    rows = []
    for model, (full, xnor, ours) in figures.items():
        plain, entropy = OWN_POOLS.get(model, ("max", "ema-max-points"))
        rows += [
            paper_row(MODELNET, model, "fp", plain, OA=full),
            paper_row(MODELNET, model, "xnor", plain, OA=xnor),
            paper_row(MODELNET, model, "lsr", entropy, OA=ours),
            our_row(model),
        ]
    for model in ("local-tiny", "local-small", "local-base"):
        rows += [our_float_row(model), our_row(model)]
    return Table("Backbones on ModelNet40: float32, XNOR-Net, and LSR with EMA", tuple(rows))


def _parts(ablation: Table) -> Table:
    rows = [row for row in ablation.rows if row.data == PARTS]
    for model in ("pointnet", "pointnet2"):
        rows += our_points_rows(PARTS, model)
    notes = (*ablation.notes[:1], "Our recipe: one network for all categories, which takes the category as an input.")
    return Table("Part segmentation on ShapeNet Part", tuple(rows), notes)


def _rooms(ablation: Table) -> Table:
    rows = [row for row in ablation.rows if row.data == ROOMS]
    for model in ("pointnet", "pointnet2"):
        rows += our_points_rows(ROOMS, model)
    return Table("Semantic segmentation on S3DIS, one network per fold", tuple(rows), ablation.notes[1:])


def _deploy() -> Table:
    float32 = paper_row(MODELNET, "pointnet-vanilla", "fp", "max", OA=86.8)
    one_bit = paper_row(MODELNET, "pointnet-vanilla", "lsr", "ema-max-points", OA=85.62)
    rows = [
        replace(float32, label="(a) float32"),
        replace(one_bit, label="(b) 1 bit, first and last layer float32"),
    ]
    variants: dict[str, tuple[str, dict[str, Any], float]] = {
        "c": ("1 bit, first layer float32", {"binary_last": True}, 84.60),
        "d": ("1 bit, last layer float32", {"binary_first": True}, 5.31),
        "e": ("1 bit, first and last layer too", {"binary_first": True, "binary_last": True}, 4.86),
        "f": ("as (b) without BatchNorm", {"norm": False}, 85.13),
    }
    for letter, (label, options, oa) in variants.items():
        name = f"{MODELNET}-variant-{letter}-paper"
        rows.append(Row(name, f"({letter}) {label}", MODELNET, one_bit.options | options, {"OA": oa}))
    return Table("Variants for deployment, PointNet vanilla on ModelNet40", tuple(rows))


AUGMENTED: dict[str, Any] = {"jitter": 0.02, "drop": 0.5, "rotate": 15.0}


def _changed(row: Row, what: str, options: dict[str, Any]) -> Row:
    """A row with other options, one seed."""
    named = {"name": f"{row.name}-{what}", "label": f"{row.label}, {what}"}
    return replace(row, **named, options=row.options | options, seeds=1)


def _robustness() -> Table:
    rows = []
    for model in ("pointnet-vanilla", "local-small", "pointnet2"):
        ours = replace(our_row(model), corrupted=True)
        rows += [replace(our_float_row(model), corrupted=True), ours, _changed(ours, "augmented", AUGMENTED)]
        rows += [_changed(ours, "rotated", AUGMENTED | {"rotate": 180.0})] if model == "local-small" else []
    notes = (
        "Corrupted OA: the mean over the seven corruptions of ModelNet-C (Ren, Pan and Liu 2022, arXiv:2202.03377) and "
        "five severities, generated here.",
        "Augmented: jitter 0.02, up to half of the points dropped, rotations about the up axis of up to 15 degrees.",
        "Rotated: the same with any rotation about the up axis.",
    )
    return Table("Robustness on ModelNet40", tuple(rows), notes)


_ABLATION = _ablation()
TABLES = {
    "ablation": _ABLATION,
    "methods": _methods(),
    "backbones": _backbones(),
    "parts": _parts(_ABLATION),
    "rooms": _rooms(_ABLATION),
    "deploy": _deploy(),
    "robustness": _robustness(),
}

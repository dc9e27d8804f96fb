"""From format 1 to format 2: the same program over named values, with the same logits.

Format 1 had one current value. Its operations `matrix`, `keep` and `join` stored and read other values by number, and
scaled bits carried a scale with them.
"""

from typing import Any

import numpy as np

Tensors = dict[str, np.ndarray]


class Migration:
    """A program of format 2 that grows by one operation of format 1 at a time."""

    def __init__(self, channels: int, categories: int, tensors: Tensors) -> None:
        self.old, self.tensors = tensors, {"golden": tensors["golden"]}
        self.program: list[dict[str, Any]] = [{"op": "points", "in": [], "out": ["points"]}]
        self.widths = {"points": channels, "category": categories}
        self.per_point = {"points"}
        self.current, self.scale = "points", ""
        self.matrices: list[str] = []
        self.kept: list[str] = []

    def add(self, op: str, operands: list[str], out: list[str], width: int, **fields: Any) -> str:
        """Append an operation, unless an equal one without tensors exists; returns the name of its first result."""
        for earlier in self.program:
            own = any(f"{earlier['out'][0]}.{name}" in self.tensors for name in ("weight", "line"))
            if not own and {**earlier, "out": out} == {"op": op, "in": operands, "out": out, **fields}:
                return earlier["out"][0]
        self.program.append({"op": op, "in": operands, "out": out, **fields})
        self.widths |= dict.fromkeys(out, width)
        if any(name in self.per_point for name in operands):
            self.per_point.update(out)
        return out[0]

    def layer(self, i: int, op: str, operands: list[str], **fields: Any) -> str:
        """Append an operation with the tensors of operation i."""
        own = {name.partition(".")[2]: tensor for name, tensor in self.old.items() if name.startswith(f"{i}.")}
        name = f"{op}{i}"
        self.tensors |= {f"{name}.{tensor}": numbers for tensor, numbers in own.items()}
        second = [f"{name}.each"] if op == "bilinear_pool" and "threshold" in own else []
        self.add(op, operands, [name, *second], fields["outputs"], **fields)
        if op == "bilinear_pool":
            self.per_point.discard(name)
            self.kept += second
        return name

    def step(self, i: int, op: str, fields: dict[str, Any]) -> None:
        """Translate operation i."""
        value, width = self.current, self.widths[self.current]
        if op == "points":
            self.current = "points"
        elif op == "category":
            self.current = self.add("category", [], ["category"], width=self.widths["category"])
        elif op == "transform":
            self.current = self.transform(i, self.matrices[fields["matrix"]])
        elif op in ("sign", "compare"):
            self.current = self.add("sign", [value], [f"sign{i}"], width, at=fields.get("at", 0.0))
        elif op == "sign_scaled":
            self.scale = self.add("mean_abs", [value], [f"scale{i}"], 1, groups=1)
            self.current = self.add("sign", [value], [f"sign{i}"], width, at=0.0)
        elif op == "bilinear_scaled":
            self.current = self.layer(i, "bilinear_float", [value, self.scale], **fields, groups=1)
        elif op == "bilinear_pool":
            self.current = self.layer(i, op, [value], **fields, over="points")
        elif op in ("dense", "bilinear", "bilinear_float"):
            self.current = self.layer(i, op, [value], **fields, groups=1)
        elif op == "pool":
            self.current = self.add("pool", [value], [f"pool{i}"], width, **fields, over="points", shift="none")
            self.per_point.discard(self.current)
        elif op == "shift":
            self.program[-1]["shift"] = "delta"  # it follows a pool
        elif op == "matrix":
            self.matrices.append(self.matrix(i, fields["size"]))
        elif op == "keep":
            bits = any(self.made_by(value) == name for name in ("sign", "bilinear", "bilinear_pool", "category"))
            self.kept.append(value if bits else self.add("sign", [value], [f"sign{i}"], width, at=0.0))
        else:
            assert op == "join", op
            self.current = self.join(i, [self.kept[number] for number in fields["kept"]])

    def made_by(self, value: str) -> str:
        return next(op["op"] for op in self.program if value in op["out"])

    def transform(self, i: int, matrix: str) -> str:
        """The first D channels times the matrix, and the other channels as they are."""
        value, width = self.current, self.widths[self.current]
        size = round(self.widths[matrix] ** 0.5)
        if size == width:
            return self.add("transform", [value, matrix], [f"transform{i}"], size, outputs=size)
        first = self.add("slice", [value], [f"first{i}"], size, **{"from": 0, "to": size})
        rest = self.add("slice", [value], [f"rest{i}"], width - size, **{"from": size, "to": width})
        moved = self.add("transform", [first, matrix], [f"transform{i}"], size, outputs=size)
        return self.add("concat", [moved, rest], [f"concat{i}"], width)

    def matrix(self, i: int, size: int) -> str:
        """Plus 1 on the diagonal."""
        self.tensors[f"matrix{i}.line"] = np.stack([np.ones(size * size), np.eye(size).ravel()], axis=1).astype("<f4")
        return self.add("affine", [self.current], [f"matrix{i}"], size * size, activation="none")

    def join(self, i: int, parts: list[str]) -> str:
        """Kept values side by side, those of the cloud at every point."""
        at_points = [
            part
            if part in self.per_point
            else self.add("broadcast", [part, "points"], [f"{part}.all"], self.widths[part])
            for part in parts
        ]
        return self.add("concat", at_points, [f"concat{i}"], sum(self.widths[part] for part in parts))


def migrated(manifest: dict[str, Any], tensors: Tensors) -> tuple[dict[str, Any], Tensors]:
    """The manifest and the tensors of a file of format 1 in format 2; those of format 2 as they are."""
    if manifest["format"] == 2:
        return manifest, tensors
    migration = Migration(manifest["channels"], len(manifest.get("categories", [])), tensors)
    for i, fields in enumerate(manifest["program"]):
        migration.step(i, fields["op"], {name: value for name, value in fields.items() if name != "op"})
    return {**manifest, "format": 2, "program": migration.program}, migration.tensors

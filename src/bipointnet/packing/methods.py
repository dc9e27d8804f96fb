"""What a 1-bit layer reads and computes, by its method; and a check that it computes nothing else."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bipointnet.errors import UserError
from bipointnet.nn import hard_sign
from bipointnet.packing.graph import Node


@dataclass(frozen=True)
class Threshold:
    """Inputs of a 1-bit layer become +1 if they are at least `value`. layer: computes them by its own arithmetic."""

    value: float
    layer: Any

    @classmethod
    def of(cls, node: Node) -> "Threshold":
        layer: Any = node.fields["module"]
        center = getattr(layer, "center", None)
        with torch.no_grad():
            at = layer.method.input_threshold(layer)
        return cls(float(at if center is None else (at - center).reshape(-1)[0]), layer)

    def bits(self, x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return (self.layer.method.binarize_input(torch.from_numpy(np.ascontiguousarray(x)), self.layer) > 0).numpy()


@torch.no_grad()
def require_signs(node: Node) -> None:
    """Raise UserError unless a layer is a product of +-1 with a bias and scales per layer, per output or per point.

    The layer's output for random inputs, of sizes from 0.01 to 100, must equal the formula.
    """
    layer: Any = node.fields["module"]
    method, scale = layer.method, layer.method.scale(layer)
    plain = scale.shape in ((), (layer.out_features,))
    if plain:
        random = torch.Generator().manual_seed(0)
        groups = getattr(layer, "groups", None)
        shape = (16, layer.in_features) if groups is None else (16, groups, layer.in_features)
        x = torch.randn(shape, generator=random, dtype=torch.float64)
        x *= torch.logspace(-2, 2, 16, dtype=torch.float64).reshape(16, *[1] * (x.dim() - 1))
        center = getattr(layer, "center", None)
        moved = x if center is None else x - center
        at = method.input_threshold(layer) if center is None else method.input_threshold(layer) - center
        z = layer.product(hard_sign(moved - at), method.binarize_weight(layer)) * scale
        if method.scales_points:
            points = moved.abs().mean(dim=-1, keepdim=True)
            width = layer.out_features // (groups or 1)
            z = z * (points if groups is None else points.repeat_interleave(width, -2).squeeze(-1))
        places = getattr(layer, "places", 0)
        given = x.reshape(*x.shape, *[1] * places)
        found = layer(given).reshape(z.shape)
        plain = torch.allclose(found, z if layer.bias is None else z + layer.bias, rtol=1e-9, atol=1e-12)
    if not plain:
        raise UserError(
            f"export: {node.name}: the method {type(method).__name__} is not a product of signs with scales; expected "
            "a layer that computes what the methods of bipointnet.nn.METHODS compute"
        )

"""Check that the point operations give the same results on a GPU as on a CPU. It needs a GPU, so it is not a test.

python benchmarks/geometry_gpu.py
"""

import torch
from torch import Tensor

from bipointnet.nn.geometry import ball, density, farthest_points, gather, interpolate, nearest, three_nearest


def selected_points(x: Tensor, features: Tensor) -> list[Tensor]:
    """Points selected by exact distances: equal bit for bit."""
    picked = gather(x, farthest_points(x, x.shape[1] // 2))
    return [picked, *nearest(features, features, 5, dilation=2), *ball(picked, x, 0.8, 16)]


def sums(x: Tensor, features: Tensor) -> list[Tensor]:
    """Sums in float32: equal up to rounding."""
    picked = gather(x, farthest_points(x, x.shape[1] // 2))
    return [interpolate(features[:, : picked.shape[1]], *three_nearest(x, picked)), density(x, 0.2)]


def main() -> None:
    for step in (0.0, 0.25):
        x, features = torch.randn(4, 700, 3), torch.randn(4, 700, 64)
        if step:  # many equal distances
            x, features = (x / step).round() * step, features.sign()
        for here, there in zip(selected_points(x, features), selected_points(x.cuda(), features.cuda()), strict=True):
            assert here.equal(there.cpu())
        for here, there in zip(sums(x, features), sums(x.cuda(), features.cuda()), strict=True):
            torch.testing.assert_close(here, there.cpu(), rtol=1e-6, atol=1e-6)
    print("same results on", torch.cuda.get_device_name())


if __name__ == "__main__":
    main()

"""Whether the point operations give the same answer on a GPU as on a CPU; needs a GPU, so it is no test.

python benchmarks/geometry_gpu.py
"""

import torch
from torch import Tensor

from bipointnet.nn.geometry import ball, density, farthest_points, gather, interpolate, nearest, three_nearest


def chosen(x: Tensor, features: Tensor) -> list[Tensor]:
    """What is picked by exact distances: it must be the same to the last bit."""
    picked = gather(x, farthest_points(x, x.shape[1] // 2))
    return [picked, *nearest(features, features, 5, dilation=2), *ball(picked, x, 0.8, 16)]


def summed(x: Tensor, features: Tensor) -> list[Tensor]:
    """What is summed in float32: it may differ by rounding."""
    picked = gather(x, farthest_points(x, x.shape[1] // 2))
    return [interpolate(features[:, : picked.shape[1]], *three_nearest(x, picked)), density(x, 0.2)]


def main() -> None:
    for step in (0.0, 0.25):
        x, features = torch.randn(4, 700, 3), torch.randn(4, 700, 64)
        if step:  # with equal distances
            x, features = (x / step).round() * step, features.sign()
        for here, there in zip(chosen(x, features), chosen(x.cuda(), features.cuda()), strict=True):
            assert here.equal(there.cpu())
        for here, there in zip(summed(x, features), summed(x.cuda(), features.cuda()), strict=True):
            torch.testing.assert_close(here, there.cpu(), rtol=1e-6, atol=1e-6)
    print("the same on", torch.cuda.get_device_name())


if __name__ == "__main__":
    main()

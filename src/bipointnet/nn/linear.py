"""The bi-linear layer: a linear layer of 1-bit weights and 1-bit inputs."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bipointnet.nn.methods import Method
from bipointnet.nn.product import binary_product

LinearFactory = Callable[[int, int], nn.Module]


class BinaryLinear(nn.Module):
    """Z = scale * (sign(A) . sign(W)^T) + bias, as `method` defines signs, scales, bias and the gradients.

    Args: in_features, out_features, method.
    Shapes: (..., in_features) -> (..., out_features).
    """

    alpha: Tensor
    beta: Tensor
    offset: Tensor
    narrowness: Tensor

    def __init__(self, in_features: int, out_features: int, method: Method) -> None:
        super().__init__()
        self.in_features, self.out_features, self.method = in_features, out_features, method
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.bias = nn.Parameter(torch.zeros(out_features)) if method.bias else None
        for name, scale in method.learned(self.weight).items():
            self.register_parameter(name, scale)
        for name, value in method.scheduled().items():
            self.register_buffer(name, value, persistent=False)

    @staticmethod
    def of(method: Method) -> "Binary":
        """A factory for models: `PointNet(num_classes=40, linear=BinaryLinear.of(LSR()), pool=EntropyMax())`."""
        return Binary(method)

    def factors(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs and weights of +-1, and the scale of their product."""
        return self.method.binarize_input(x, self), self.method.binarize_weight(self), self.method.scale(self)

    def product(self, a: Tensor, w: Tensor) -> Tensor:
        """A . W^T of any numbers, as this layer lays them out."""
        return a @ w.T

    def product_of_signs(self, a: Tensor, w: Tensor, scale: Tensor) -> Tensor:
        """scale * (A . W^T) of +-1, in the fastest exact way."""
        return binary_product(a, w, scale)

    def point_scale(self, x: Tensor) -> Tensor | None:
        """What the outputs at each point are multiplied by, where the method has such a scale."""
        return self.method.point_scale(x)

    def forward(self, x: Tensor) -> Tensor:
        z = self.product_of_signs(*self.factors(x))
        of_points = self.point_scale(x)
        z = z if of_points is None else z * of_points
        return z if self.bias is None else z + self.bias

    def calibrate(self, x: Tensor) -> None:
        self.method.calibrate(self, x)

    def set_progress(self, done: float) -> None:
        self.method.set_progress(self, done)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self.method}"


def set_progress(model: nn.Module, done: float) -> None:
    """Tell every bi-linear layer which share of the training is done; methods with a schedule set themselves."""
    for module in model.modules():
        if isinstance(module, BinaryLinear):
            module.set_progress(done)


@dataclass(frozen=True)
class Binary:
    """Makes bi-linear layers of one method; what a model is given in place of nn.Linear."""

    method: Method

    def __call__(self, in_features: int, out_features: int) -> BinaryLinear:
        return BinaryLinear(in_features, out_features, self.method)

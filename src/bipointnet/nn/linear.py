"""The bi-linear layer: a linear layer with 1-bit weights and 1-bit inputs."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bipointnet.errors import UserError
from bipointnet.nn.calibrate import Calibrated
from bipointnet.nn.methods import METHODS, Method
from bipointnet.nn.names import as_method, unknown
from bipointnet.nn.product import binary_product

LinearFactory = Callable[[int, int], nn.Module]


class LastInput(threading.local):
    """The last input of a layer whose codes a pool counts. The layer and the pool hold the same object.

    Each thread has its own: the replicas that nn.DataParallel makes of a network share this object and run at once.
    `layer` is the replica that ran, whose parameters are on the device of the input. A copy is empty.
    """

    layer: "BinaryLinear | None" = None
    x: Tensor | None = None

    def __reduce__(self) -> tuple[type["LastInput"], tuple[()]]:
        return LastInput, ()


class BinaryLinear(nn.Module, Calibrated):
    """Z = scale * (sign(A) . sign(W)^T) + bias, where `method` defines signs, scales, bias and gradients.

    Args:
        in_features: input channels.
        out_features: output channels.
        method: a Method, or its name in METHODS.

    Shapes: (..., in_features) -> (..., out_features).

    Examples:
        >>> layer = BinaryLinear(64, 128, "lsr")
        >>> layer(torch.randn(2, 100, 64)).shape
        torch.Size([2, 100, 128])
    """

    alpha: Tensor
    beta: Tensor
    offset: Tensor
    narrowness: Tensor
    center: Tensor | None  # (in_features,), subtracted from the inputs; `binarize` sets it where inputs are 0 or 1

    def __init__(self, in_features: int, out_features: int, method: Method | str) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.method = as_method(method, type(self).__name__)
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.bias = nn.Parameter(torch.zeros(out_features)) if self.method.bias else None
        for name, scale in self.method.learned(self.weight).items():
            self.register_parameter(name, scale)
        for name, value in self.method.scheduled().items():
            self.register_buffer(name, value, persistent=False)
        self.register_buffer("center", None)
        self.last_input: LastInput | None = None  # where a pool that counts its codes finds them

    @staticmethod
    def of(method: Method | str) -> "BinaryFactory":
        """A factory of layers with one method, for models.

        Examples:
            >>> BinaryLinear.of("lsr")
            BinaryLinear.of(LSR())
            >>> model = PointNet(num_classes=40, linear=BinaryLinear.of(LSR()), pool=EntropyMax())
        """
        return BinaryFactory(as_method(method, "BinaryLinear.of"))

    def factors(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs and weights of +-1, and the scale of their product."""
        a = self.method.binarize_input(self.centered(x), self)
        return a, self.method.binarize_weight(self), self.method.scale(self)

    def centered(self, x: Tensor) -> Tensor:
        """The inputs whose signs this layer reads."""
        return x if self.center is None else x - self.center

    def codes(self, x: Tensor) -> Tensor:
        """The row of +-1 that this layer reads at each element of its input: (..., in_features)."""
        return self.method.binarize_input(self.centered(x), self)

    def product(self, a: Tensor, w: Tensor) -> Tensor:
        """A . W^T of any numbers, in the layout of this layer."""
        return a @ w.T

    def product_of_signs(self, a: Tensor, w: Tensor, scale: Tensor) -> Tensor:
        """scale * (A . W^T) of +-1, by the fastest exact algorithm."""
        return binary_product(a, w, scale)

    def point_scale(self, x: Tensor) -> Tensor | None:
        """The factor of the outputs at each point, or None if the method has none."""
        return self.method.point_scale(self.centered(x))

    def forward(self, x: Tensor) -> Tensor:
        self.keep_input(x)
        z = self.product_of_signs(*self.factors(x))
        point_scale = self.point_scale(x)
        z = z if point_scale is None else z * point_scale
        return z if self.bias is None else z + self.bias

    def keep_input(self, x: Tensor) -> None:
        """Let the pools that count the codes of this layer read its input, until it runs again in this thread."""
        if self.last_input is not None:
            self.last_input.layer, self.last_input.x = self, x.detach() if x.requires_grad else x

    def calibrate(self, x: Tensor) -> None:
        """Set the values that depend on the first input."""
        self.method.calibrate(self, self.centered(x))

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self.method}"


def set_progress(model: nn.Module, fraction: float) -> None:
    """Tell every 1-bit layer what fraction of the training is complete.

    Methods with a schedule, such as IRNet, update themselves; the others ignore it. Call it before every epoch of your
    own training loop. (`bipointnet train` does.)

    Args:
        model: a network with bi-linear layers.
        fraction: from 0 at the start to 1 at the end.

    Examples:
        >>> model, epochs = BinaryLinear(64, 128, "ir-net"), 100
        >>> for epoch in range(epochs):
        ...     set_progress(model, epoch / epochs)  # then one pass over the training data
    """
    if not 0 <= fraction <= 1:
        raise UserError(f"set_progress: fraction is {fraction}, expected 0 to 1; give epoch / epochs")
    for module in model.modules():
        if isinstance(module, BinaryLinear):
            module.method.set_progress(module, fraction)


@dataclass(frozen=True, repr=False)
class BinaryFactory:
    """Makes bi-linear layers of one method; models take it in place of nn.Linear. See BinaryLinear.of."""

    method: Method

    def __call__(self, in_features: int, out_features: int) -> BinaryLinear:
        return BinaryLinear(in_features, out_features, self.method)

    def __repr__(self) -> str:
        return f"BinaryLinear.of({self.method})"


def as_linear(linear: LinearFactory | Method | str, caller: str) -> LinearFactory:
    """A factory of linear layers, given as such, as a method, or by name: "fp" is nn.Linear, "lsr" BinaryLinear."""
    if linear == "fp":
        return nn.Linear
    if isinstance(linear, Method) or (isinstance(linear, str) and linear in METHODS):
        return BinaryLinear.of(linear)
    if callable(linear):
        return linear
    raise unknown(caller, "linear", linear, 'nn.Linear, BinaryLinear.of("lsr")', ["fp", *METHODS])

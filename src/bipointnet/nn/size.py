"""What a network takes on disk once deployed."""

from torch import nn

from bipointnet.nn.linear import BinaryLinear


def deployed_bytes(model: nn.Module) -> int:
    """Bytes of a network with BatchNorm merged into the linear layers.

    A float layer keeps its weights and one bias an output, 4 bytes each. A bi-linear layer keeps 1 bit a weight, and
    one 4-byte threshold an output: BatchNorm, scale, bias and sign together are a comparison.
    """
    total = 0
    for module in model.modules():
        if isinstance(module, BinaryLinear):
            total += (module.weight.numel() + 7) // 8 + 4 * module.out_features
        elif isinstance(module, nn.Linear):
            total += 4 * (module.weight.numel() + module.out_features)
    return total

"""The paper's theory as functions and pictures, and the study of trained networks.

May import: nn, models, evaluation, data, delta. theory and figures never import torch.
"""

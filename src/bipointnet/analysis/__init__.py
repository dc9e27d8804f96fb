"""The paper's theory as functions and pictures, and the study of trained networks.

May import: data, evaluation, files, models, nn, runtime. theory and figures never import torch.
"""

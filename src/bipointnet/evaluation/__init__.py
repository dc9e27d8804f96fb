"""How good a network is: metrics, segmentation scores, and one predictor for runs and packed models.

May import: data, nn, models, runtime. metrics and segmentation never import torch.
"""

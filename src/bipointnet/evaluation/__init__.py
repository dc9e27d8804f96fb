"""How good a network is: metrics, segmentation scores, and one predictor for runs and packed models.

May import: config, data, extras, models, nn, runtime, shipped. PyTorch is imported only by networks and probe, and for
runs.
"""

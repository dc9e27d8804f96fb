"""Training: the loop, the tasks, augmentation, cross-validation.

May import: data, nn, models, evaluation.
"""

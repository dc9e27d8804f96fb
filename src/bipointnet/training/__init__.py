"""Training: the loop and its schedule, the tasks, augmentations, the files of a run, cross-validation.

May import: config, data, errors, evaluation, files, models, nn, viz.
"""

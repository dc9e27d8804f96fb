"""The tables of the paper, run again: what each row trains, which runs are missing, and the figures side by side.

May import: config, errors, files, training. PyTorch is used only in the trainings, which are processes of their own.
"""

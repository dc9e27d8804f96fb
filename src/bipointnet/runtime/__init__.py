"""Packed models without PyTorch: load, predict, segment, label files, verify, benchmark.

May import: data, evaluation.metrics, extras, shipped. Needs numpy and the compiled core only.
"""

"""Packed models without PyTorch: load, predict, segment, verify, bench. numpy and the compiled core only.

May import: data, evaluation.metrics.
"""

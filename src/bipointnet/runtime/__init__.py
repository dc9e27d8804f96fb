"""Packed models without PyTorch: load, predict, segment, label files, verify, benchmark, write as a C header.

May import: data, evaluation.metrics, extras, files, shipped. Needs numpy and the compiled core only.
"""

"""The examples in the docstrings of `data` and `viz` give the output that they show."""

import doctest
import importlib
import pkgutil

import pytest

from bipointnet import data, viz

MODULES = [
    name
    for package in (data, viz)
    for name in (package.__name__, *(f"{package.__name__}.{m.name}" for m in pkgutil.iter_modules(package.__path__)))
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    modules = [importlib.import_module(name) for name in MODULES]
    found = {test.name.rpartition(".")[2] for module in modules for test in finder.find(module) if test.examples}
    assert {"open_dataset", "fold_names", "PointClouds", "Split", "Cloud", "read", "sample", "normalize"} <= found

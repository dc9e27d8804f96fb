"""The examples in the docstrings of nn, models and convert run, and every public name has one."""

import doctest
import importlib
import pkgutil

import pytest
import torch

import bipointnet
from bipointnet import convert, models, nn
from bipointnet.models.blueprint import PointNorm
from bipointnet.nn import hooks

PACKAGES = ("bipointnet.nn", "bipointnet.models", "bipointnet.convert")
PUBLIC = [n for n in bipointnet.__all__ if getattr(getattr(bipointnet, n), "__module__", "").startswith(PACKAGES)]
NAMES = {name: getattr(home, name) for home in (nn, models, convert) for name in home.__all__} | {
    "Config": bipointnet.Config,
    "PointNorm": PointNorm,
    "bipointnet": bipointnet,
    "hooked": hooks.hooked,
    "torch": torch,
}
MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (nn, models, convert)
    for module in pkgutil.iter_modules(package.__path__)
    if not module.name.endswith("_gpu")  # they import triton
]


def test_public_names_are_found():
    assert {"binarize", "calibrate", "load_run", "set_progress", "Method", "BinaryConv", "PointPool"} <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name):
    assert ">>> " in (getattr(bipointnet, name).__doc__ or "")


@pytest.mark.parametrize("name", [*MODULES, "bipointnet.models"])
def test_the_examples_run(name):
    torch.manual_seed(0)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, globs=dict(NAMES)):
        runner.run(test)
    assert runner.failures == 0

"""The examples in the docstrings of the modules are true."""

import doctest
import importlib
import pkgutil

import pytest
from conftest import mostly_slow

import spdlib

MODULES = sorted(module.name.removeprefix("spdlib.")
                 for module in pkgutil.walk_packages(spdlib.__path__, "spdlib.")
                 if module.name != "spdlib._fast")  # the kernel is no module of Python's
SLOW = {"planning", "estimators.regression"}


@pytest.mark.parametrize("name", mostly_slow(MODULES, *{*MODULES} - SLOW))
def test_the_examples_of_a_module_give_what_they_show(name):
    module = importlib.import_module(f"spdlib.{name}")
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", ["spd", "spaces.ball", "estimators.mean"])
def test_the_modules_that_are_learnt_first_have_examples(name):
    module = importlib.import_module(f"spdlib.{name}")
    assert doctest.testmod(module).attempted > 0

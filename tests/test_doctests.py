"""Every example in a docstring of the package is true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import scrapy_dedup

MODULES = [module.name for module in pkgutil.walk_packages(scrapy_dedup.__path__, "scrapy_dedup.")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0

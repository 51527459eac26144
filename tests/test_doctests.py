"""Every `>>>` in a docstring of the package is a call that gives what is written below it."""

import doctest
from importlib import import_module

import pytest

from rlhf_exp.config import ROOT

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "rlhf_exp").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name):
    found = doctest.testmod(import_module(name.removesuffix(".__init__")))
    assert found.attempted and not found.failed

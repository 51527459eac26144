import re
from importlib import import_module

import pytest

from rlhf_exp.graders.gsm8k import EXPRESSION, grade

MODULES = ("graders.arithmetic", "graders.checkers", "graders.expressions", "graders.gsm8k")
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9,]+\})\+")


@pytest.mark.parametrize("module", MODULES)
def test_no_group_is_repeated_possessively(module):
    """Python below 3.11.5 takes a part of a group's last, failed repetition for a match (python/cpython#106052); an
    atomic group around a plain repetition, (?>(?:...)*), is right in all versions."""
    found = [p.pattern for p in vars(import_module(f"rlhf_exp.{module}")).values() if isinstance(p, re.Pattern)]
    assert found and [pattern for pattern in found if POSSESSIVE_GROUP.search(pattern)] == []


def test_an_unfinished_command_is_no_expression():
    assert not EXPRESSION.fullmatch(r"\sqrt") and EXPRESSION.fullmatch(r"\sqrt{4}")
    assert grade("#### 1,234, so", "1234").extracted == "1,234"

"""A sample of bench/fuzz_config.py: keys misspelt, mistyped and out of range, each refused in one line."""

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import fuzz_config  # noqa: E402

EACH = 6
fuzz_config.GROUPS = ("algo", "task", "peft")  # an option of the other groups is composed for each of its cases alone
list_cases = cache(fuzz_config.list_cases)


@pytest.mark.parametrize("kind", ["misspelt", "mistyped", "out of range"])
def test_a_wrong_key_or_value_is_one_line_that_names_it(kind):
    cases = [case for case in list_cases() if case.kind == kind][:EACH]
    assert len(cases) == EACH
    assert [(case.overrides, problem) for case in cases if (problem := fuzz_config.check(case))] == []


def test_every_argument_of_trl_and_every_group_is_among_the_cases():
    keys = {case.key for case in list_cases()}
    assert len(list_cases()) > 5_000
    assert {"algo.args.beta", "algo.args.init_kl_coef", "eval.rows", "seed", "peft.lora.r", "task.low"} <= keys

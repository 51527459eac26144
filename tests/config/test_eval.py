"""What keys of `eval` refuse."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            "eval.best=true",
            "eval.best=true: chooses among the measurements of eval.every; set that to a number of steps",
        ),
        (
            "eval.every=5 eval.best=true eval.split=validation",
            "eval.best=true: chooses on the validation rows; use eval.split=test to measure on others",
        ),
        (
            "algo=reward_model eval.every=5",
            "eval.every=5: measures completions; algo=reward_model trains no policy",
        ),
        (
            "algo=dpo task=hh_rlhf eval.every=5 eval.best=true",
            "eval.best=true: task=hh_rlhf has no grader, and reward=none no reward to choose by",
        ),
        (
            "eval.completions=4 eval.start_completions=2",
            "eval.start_completions=2: must be a multiple of eval.completions=4; nearest: 4",
        ),
        ("eval.every=0", "eval.every=0: must be a whole number >= 1, <= 10000000 or null"),
    ],
)
def test_a_mistake_is_one_line(overrides, line):
    with pytest.raises(ConfigError) as caught:
        compose_config(["device=cpu", *overrides.split()])
    assert caught.value.problems == [line]


@pytest.mark.parametrize("overrides", ["eval.every=5 eval.best=true", "algo=dpo eval.every=5 eval.best=true"])
def test_a_graded_task_can_choose(overrides):
    compose_config(["device=cpu", *overrides.split()])

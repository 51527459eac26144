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
        (
            "eval.engine=vllm peft=qlora",
            "eval.engine=vllm: vLLM would measure the base's weights as they were before they were rounded to 4 bits;"
            " use eval.engine=transformers",
        ),
        (
            "eval.engine=vllm algo=reward_model",
            "eval.engine=vllm: samples completions; algo=reward_model is measured without any",
        ),
        ("eval.engine=vlm", "eval.engine=vlm: must be one of auto, transformers, vllm; did you mean vllm?"),
        ("eval.every=0", "eval.every=0: must be a whole number >= 1, <= 10000000 or null"),
    ],
)
def test_a_mistake_is_one_line(overrides, line):
    with pytest.raises(ConfigError) as caught:
        compose_config(["device=cpu", *overrides.split()])
    assert caught.value.problems == [line]


def test_an_engine_that_is_not_installed_is_one_line(monkeypatch):
    monkeypatch.setattr("rlhf_exp.config.rules.packages.find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match="^eval.engine=vllm: vLLM is not installed; pip install .* or eval.engine=auto"
    ):
        compose_config(["device=cpu", "eval.engine=vllm"])


@pytest.mark.parametrize("overrides", ["eval.every=5 eval.best=true", "algo=dpo eval.every=5 eval.best=true"])
def test_a_graded_task_can_choose(overrides):
    compose_config(["device=cpu", *overrides.split()])

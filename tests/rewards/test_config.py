"""What is refused of the rewards' keys."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError

MODEL = (
    "use reward=model reward.path=RUN_DIR, a run of algo=reward_model,"
    " or add your own: +reward.functions.NAME=FILE.py:FUNCTION +reward.weights.NAME=1"
)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["reward=graduated", "task=gsm8k"],
            "reward.weights.graduated: not with task=gsm8k, only with task=countdown; use reward=outcome",
        ),
        (
            ["+reward.weights.process=1", "task=gsm8k"],
            "reward.weights.process: not with task=gsm8k, only with task=countdown; use reward=outcome",
        ),
        (
            ["algo=dpo", "task=hh_rlhf", "reward=graduated"],
            f"reward.weights.graduated: not with task=hh_rlhf, only with task=countdown; {MODEL}",
        ),
        (
            ["task=hh_rlhf", "reward=self_consistency"],
            f"reward.weights.self_consistency: task=hh_rlhf has no right answers to grade; {MODEL}",
        ),
        (
            ["task=hh_rlhf", "reward=length_efficiency"],
            f"reward.weights.length_efficiency: task=hh_rlhf has no right answers to grade; {MODEL}",
        ),
        (
            ["algo=ppo", "reward=self_consistency"],
            "reward.weights.self_consistency: compares the completions of one prompt, and num_generations is 1; use"
            " ++algo.args.num_generations=8",
        ),
        (
            ["reward=self_consistency", "algo.args.num_generations=null"],
            "algo.args.num_generations=null: must be a whole number >= 2",
        ),
        (["reward.overlong.cache=97"], "reward.overlong.cache=97: must be at most 96, the smallest completion budget"),
        (["reward.overlong.cache=0"], "reward.overlong.cache=0: must be a whole number >= 1, <= 1000000 or null"),
        (["reward.repetition.max_penalty=1"], "reward.repetition.max_penalty=1: must be a number >= -1000, <= 0"),
        (["reward.repetition.ngram_size=0"], "reward.repetition.ngram_size=0: must be a whole number >= 1, <= 1000"),
        (
            ["reward.length_efficiency.tokens=0"],
            "reward.length_efficiency.tokens=0: must be a whole number >= 1, <= 1000000",
        ),
        (["reward.constant.value=much"], "reward.constant.value=much: must be a number >= -1000, <= 1000"),
        (["reward.weights.outcome=much"], "reward.weights.outcome=much: must be a number >= -1000, <= 1000 or null"),
        (
            ["~reward.random", "+reward.weights.random=1"],
            "reward.weights.random: needs its keys: reward.random.seed",
        ),
        (
            ["+reward.overlong.cahe=1"],
            "reward.overlong.cahe=1: no such key; did you mean reward.overlong.cache?",
        ),
    ],
)
def test_a_mistake_is_one_line(overrides, line):
    with pytest.raises(ConfigError) as caught:
        compose_config(overrides)
    assert caught.value.problems == [line]


@pytest.mark.parametrize("reward", ["think_format", "repetition", "overlong", "random", "constant"])
def test_what_reads_no_answer_goes_with_any_task(reward):
    overrides = [f"reward={reward}"] if reward in ("random", "constant") else [f"+reward.weights.{reward}=0.1"]
    compose_config(["task=gsm8k", *overrides])


def test_keys_of_a_reward_that_is_not_used_may_be_missing():
    assert compose_config(["reward=outcome", "~reward.overlong", "~reward.random"]).reward.overlong is None

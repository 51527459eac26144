"""PPO's keys and arguments: what is passed on, and what is refused in which words."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.errors import ConfigError


def refuse(*overrides):
    with pytest.raises(ConfigError) as caught:
        build_args(compose_config(["algo=ppo", "device=cpu", *overrides]))
    return caught.value.problems


def test_our_keys_reach_the_trainers_config():
    args = build_args(compose_config(["algo=ppo", "device=cpu", "algo.critic=separate", "algo.target_kl=0.1"]))
    assert (args.critic, args.target_kl, args.num_generations, args.generation_batch_size) == ("separate", 0.1, 1, 128)


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (["algo.target_kl=0"], "algo.target_kl=0: must be a number > 0, <= 1000 or null"),
        (["algo.critic=both"], "algo.critic=both: must be one of shared, separate"),
        (
            ["algo.init_kl_coef=0", "algo.target_kl=1"],
            "algo.init_kl_coef=0: must be > 0 with algo.target_kl=1, which steers it by factors",
        ),
        (
            ["reward=none"],
            "algo=ppo: needs a reward; use reward=outcome, or reward=model reward.path=RUN_DIR, a run of"
            " algo=reward_model,"
            " or add your own: +reward.functions.NAME=FILE.py:FUNCTION +reward.weights.NAME=1",
        ),
        (
            ["+algo.args.beta=0.1"],
            "algo.args.beta=0.1: not with algo=ppo; PPO has its KL in the reward; use algo.init_kl_coef",
        ),
        (["loss_type=grpo"], "algo.args.loss_type=grpo: not with algo=ppo; PPO has one loss; leave it out"),
        (
            ["algo.args.steps_per_generation=3", "algo.args.gradient_accumulation_steps=2"],
            "algo.args.steps_per_generation=3: must be a multiple of algo.args.gradient_accumulation_steps=2, for a"
            " minibatch must not span two rollouts",
        ),
        (
            ["algo.critic_warmup_steps=320"],
            "algo.critic_warmup_steps=320: must be below algo.args.max_steps=320, or the policy learns nothing",
        ),
        (
            ["algo.critic=separate", "peft=qlora", "model=tiny_gpt2", "task=gsm8k", "task.source=generated"],
            "algo.critic=separate: is trained in full, which 4-bit weights cannot be; use algo.critic=shared",
        ),
        (["+algo.args.critic=separate"], "algo.args.critic=separate: not TRL's; use algo.critic"),
        (
            ["+algo.args.num_generations=3"],
            "algo.args: a rollout of 128 completions does not hold whole groups of num_generations=3",
        ),
    ],
)
def test_what_ppo_cannot_do_is_refused_in_one_line(overrides, problem):
    assert refuse(*overrides) == [problem]


def test_a_critic_is_refused_with_grpo():
    with pytest.raises(Exception, match="critic"):
        compose_config(["algo=grpo", "algo.critic=shared"])

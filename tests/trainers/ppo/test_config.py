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
    ("overrides", "key", "told"),
    [
        (["algo.target_kl=0"], "algo.target_kl=0", "> 0"),
        (["algo.critic=both"], "algo.critic=both", "shared, separate"),
        (["algo.init_kl_coef=0", "algo.target_kl=1"], "algo.init_kl_coef=0", "algo.target_kl=1"),
        (["reward=none"], "algo=ppo", "reward=outcome"),
        (["+algo.args.beta=0.1"], "algo.args.beta=0.1", "algo.init_kl_coef"),
        (["loss_type=grpo"], "algo.args.loss_type=grpo", "one loss"),
        (
            ["algo.args.steps_per_generation=3", "algo.args.gradient_accumulation_steps=2"],
            "algo.args.steps_per_generation=3", "algo.args.gradient_accumulation_steps=2",
        ),
        (["algo.critic_warmup_steps=320"], "algo.critic_warmup_steps=320", "algo.args.max_steps=320"),
        (
            ["algo.critic=separate", "peft=qlora", "model=tiny_gpt2", "task=gsm8k", "task.source=generated"],
            "algo.critic=separate", "algo.critic=shared",
        ),
        (["+algo.args.critic=separate"], "algo.args.critic=separate", "algo.critic"),
        (["+algo.args.num_generations=3"], "algo.args", "num_generations=3"),
    ],
)  # fmt: skip
def test_what_ppo_cannot_do_is_refused_in_one_line(overrides, key, told):
    [line] = refuse(*overrides)
    assert line.startswith(key) and told in line


def test_a_critic_is_refused_with_grpo():
    with pytest.raises(Exception, match="critic"):
        compose_config(["algo=grpo", "algo.critic=shared"])

"""Typed keys that nothing reads: refused, unless a job of the sweep reads them."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.keys import known_keys
from rlhf_exp.config.rules.unread import TABLE, find_unread


def find(*overrides):
    return find_unread(compose_config(["device=cpu", *overrides]), overrides)


@pytest.mark.parametrize(
    "typed",
    [
        "hub.private=false", "logging.group=x", "logging.entity=x logging=tensorboard", "eval.every_rows=5",
        "eval.greedy=true algo=reward_model", "monitor.every_steps=5 algo=none", "algo.kl_horizon=5 algo=ppo",
        "task.sampling.rows=5", "task.sampling.per_prompt=5 algo=sft", "task.traces.check=0.5",
        "task.traces.check=0.5 algo=sft task.samples=self", "task.hub_id=a/b", "reward.normalize=true",
        "model.learning_rate.dpo=1e-5", "model.learning_rate.separate_critic=1e-5 algo=ppo",
    ],
)  # fmt: skip
def test_a_typed_key_that_nothing_reads_is_refused(typed):
    [problem] = find(*typed.split())
    assert (f"{problem.key}={typed.split()[0].partition('=')[2]}", problem.kind) == (typed.split()[0], "idle")


@pytest.mark.parametrize(
    "typed",
    [
        "eval.every_rows=5 eval.every=5", "logging.group=x logging.report_to=[wandb]", "task.sampling.rows=5 algo=dpo",
        "task.sampling.rows=5 algo=sft task.samples=self", "task.traces.check=0.5 algo=sft", "logging.group=null",
        "algo.kl_horizon=5 algo=ppo algo.target_kl=5", "model.learning_rate.shared_critic=1e-3 algo=ppo",
        "task=brevity task.of.numbers=[3,4]", "monitor.every_steps=5 algo=reward_model",
    ],
)  # fmt: skip
def test_a_typed_key_that_is_read_passes(typed):
    assert find(*typed.split()) == []


def test_every_key_of_the_table_is_a_key():
    known = {*known_keys("grpo"), *known_keys("ppo")}
    for keys, _, _ in TABLE:
        for key in keys:
            assert key in known or key.endswith(".") and any(name.startswith(key) for name in known), key

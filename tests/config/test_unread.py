"""Typed keys that nothing reads: refused, unless a job of the sweep reads them."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.keys import known_keys
from rlhf_exp.config.rules.unread import TABLE, find_unread

NO_SAMPLES = "which does not learn from samples of the start model here"


def find(*overrides):
    return find_unread(compose_config(["device=cpu", *overrides]), overrides)


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (["hub.private=false"], "without hub.push=true"),
        (["logging.group=x"], "without logging=wandb"),
        (["logging.entity=x", "logging=tensorboard"], "without logging=wandb"),
        (["eval.every_rows=5"], "without eval.every, the steps between two measurements"),
        (["eval.greedy=true", "algo=reward_model"], "with algo=reward_model, whose model completes nothing"),
        (["monitor.every_steps=5", "algo=none"], "with algo=none, which trains nothing"),
        (["algo.kl_horizon=5", "algo=ppo"], "without algo.target_kl"),
        (["task.sampling.rows=5"], f"with algo=grpo, {NO_SAMPLES}"),
        (["task.sampling.per_prompt=5", "algo=sft"], f"with algo=sft, {NO_SAMPLES}"),
        (["task.traces.check=0.5"], "with algo=grpo, which does not learn from search traces here"),
        (
            ["task.traces.check=0.5", "algo=sft", "task.samples=self"],
            "with algo=sft, which does not learn from search traces here",
        ),
        (["task.hub_id=a/b"], "without task.source=hub"),
        (["reward.normalize=true"], "without reward=model"),
        (["model.learning_rate.dpo=1e-5"], "with algo=grpo"),
        (["model.learning_rate.separate_critic=1e-5", "algo=ppo"], "with algo=ppo"),
    ],
)
def test_a_typed_key_that_nothing_reads_is_one_line(overrides, why):
    assert find(*overrides) == [f"{overrides[0]}: has no effect {why}"]


@pytest.mark.parametrize(
    "overrides",
    [
        ["eval.every_rows=5", "eval.every=5"],
        ["logging.group=x", "logging.report_to=[wandb]"],
        ["task.sampling.rows=5", "algo=dpo"],
        ["task.sampling.rows=5", "algo=sft", "task.samples=self"],
        ["task.traces.check=0.5", "algo=sft"],
        ["algo.kl_horizon=5", "algo=ppo", "algo.target_kl=5"],
        ["model.learning_rate.shared_critic=1e-3", "algo=ppo"],
        ["task=brevity", "task.of.numbers=[3,4]"],
        ["logging.group=null"],
        ["monitor.every_steps=5", "algo=reward_model"],
    ],
)
def test_a_typed_key_that_is_read_passes(overrides):
    assert find(*overrides) == []


def test_every_key_of_the_table_is_a_key():
    known = {*known_keys("grpo"), *known_keys("ppo")}
    for keys, _, _ in TABLE:
        for key in keys:
            assert key in known or key.endswith(".") and any(name.startswith(key) for name in known), key

"""GRPO's own keys: what is refused, each in one line, before a model loads."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.errors import ConfigError


def curriculum(budgets, from_steps):
    return [f"algo.curriculum.budgets={budgets}", f"algo.curriculum.from_steps={from_steps}"]


def refuse(*overrides):
    with pytest.raises(ConfigError) as caught:
        build_args(compose_config(["device=cpu", *overrides]))
    return caught.value.problems


@pytest.mark.parametrize(
    ("overrides", "key", "told"),
    [
        (["algo.args.num_generations=1"], "algo.args.num_generations=1", ">= 2"),
        (["loss_type=hybrid", "algo.hybrid.alpha=2"], "algo.hybrid.alpha=2", "<= 1"),
        (["algo.hybrid.alpha=0.5", "loss_type=dr_grpo"], "algo.hybrid.alpha=0.5", "loss_type=hybrid"),
        (["algo.advantage_clip=0"], "algo.advantage_clip=0", "> 0"),
        (curriculum("[64,32,96]", "[0,20,40]"), "algo.curriculum.budgets=[64, 32, 96]", "[32, 64, 96]"),
        (curriculum("[32,32]", "[0,20]"), "algo.curriculum.budgets=[32, 32]", "must rise"),
        (curriculum("[32,64,96]", "[0,40,20]"), "algo.curriculum.from_steps=[0, 40, 20]", "[0, 20, 40]"),
        (curriculum("[32,64,96]", "[0,20]"), "algo.curriculum.from_steps=[0, 20]", "3"),
        (curriculum("[32,64]", "[]"), "algo.curriculum.from_steps=[]", "2"),
        (curriculum("[]", "[0]"), "algo.curriculum.from_steps=[0]", "0"),
        (curriculum("[32,64]", "[5,20]"), "algo.curriculum.from_steps=[5, 20]", "[0, 20]"),
        (curriculum("[32,128]", "[0,20]"), "algo.curriculum.budgets=[32, 128]", "max_tokens=96"),
        (curriculum("[32,64]", "[0,110]"), "algo.curriculum.from_steps=[0, 110]", "algo.args.max_steps=110"),
        (curriculum("[0,64]", "[0,20]"), "algo.curriculum.budgets", ">= 1"),
        (curriculum("[32,64]", "[0,1.5]"), "algo.curriculum.from_steps", "whole number"),
    ],
)
def test_a_mistake_is_one_line_with_its_key_and_what_is_allowed(overrides, key, told):
    [line] = refuse(*overrides)
    assert line.startswith(key) and told in line

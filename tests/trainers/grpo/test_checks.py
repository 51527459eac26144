"""GRPO's own keys: what is refused, each in one line, before a model loads."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.loading import load_tokenizer
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.prompts import check_context


def curriculum(budgets, from_steps):
    return [f"algo.curriculum.budgets={budgets}", f"algo.curriculum.from_steps={from_steps}"]


def refuse(*overrides):
    with pytest.raises(ConfigError) as caught:
        build_args(compose_config(["device=cpu", *overrides]))
    return caught.value.problems


@pytest.mark.parametrize(
    "overrides",
    [
        curriculum("[32,64,96]", "[0,20,40]"),
        ["algo.curriculum={budgets: [32, 64], from_steps: [0, 20]}"],
        ["algo.curriculum=null"],
        curriculum("[]", "[]"),
        curriculum("[32,96]", "[0,500]") + ["algo.args.max_steps=-1"],
        ["loss_type=hybrid"],
        ["loss_type=hybrid", "algo.hybrid.alpha=0"],
        ["loss_type=hybrid", "algo.args.scale_rewards=none"],
        ["algo.advantage_clip=0.5"],
    ],
)
def test_good_keys_pass(overrides):
    build_args(compose_config(["device=cpu", *overrides]))


@pytest.mark.parametrize(
    ("overrides", "lines"),
    [
        (
            ["algo.args.num_generations=1"],
            ["algo.args.num_generations=1: must be a whole number >= 2, <= 65536 or null"],
        ),
        (["loss_type=hybrid", "algo.hybrid.alpha=2"], ["algo.hybrid.alpha=2: must be a number >= 0, <= 1 or null"]),
        (
            ["algo.hybrid.alpha=0.5", "loss_type=dr_grpo"],
            [
                "algo.hybrid.alpha=0.5: only with loss_type=hybrid, not with loss_type=dr_grpo; use loss_type=hybrid,"
                " or algo.hybrid.alpha=null"
            ],
        ),
        (["algo.advantage_clip=0"], ["algo.advantage_clip=0: must be a number > 0, <= 1000 or null"]),
        (
            curriculum("[64,32,96]", "[0,20,40]"),
            [
                "algo.curriculum.budgets=[64, 32, 96]: must rise, each above the one before; nearest: [32, 64, 96]",
            ],
        ),
        (
            curriculum("[32,32]", "[0,20]"),
            ["algo.curriculum.budgets=[32, 32]: must rise, each above the one before; nearest: [32]"],
        ),
        (
            curriculum("[32,64,96]", "[0,40,20]"),
            ["algo.curriculum.from_steps=[0, 40, 20]: must rise, each above the one before; nearest: [0, 20, 40]"],
        ),
        (
            curriculum("[32,64,96]", "[0,20]"),
            ["algo.curriculum.from_steps=[0, 20]: must hold a step for each of the 3 algo.curriculum.budgets"],
        ),
        (
            curriculum("[32,64]", "[]"),
            ["algo.curriculum.from_steps=[]: must hold a step for each of the 2 algo.curriculum.budgets"],
        ),
        (
            curriculum("[]", "[0]"),
            ["algo.curriculum.from_steps=[0]: must hold a step for each of the 0 algo.curriculum.budgets"],
        ),
        (
            curriculum("[32,64]", "[5,20]"),
            ["algo.curriculum.from_steps=[5, 20]: must start at 0; nearest: [0, 20]"],
        ),
        (
            curriculum("[32,128]", "[0,20]"),
            ["algo.curriculum.budgets=[32, 128]: must be at most max_tokens=96; nearest: max_tokens=128"],
        ),
        (
            curriculum("[32,64]", "[0,110]"),
            ["algo.curriculum.from_steps=[0, 110]: must be below algo.args.max_steps=110, or a stage never begins"],
        ),
        (
            curriculum("[0,64]", "[0,20]"),
            ["algo.curriculum.budgets=[0, 64]: must be a list, each a whole number >= 1, <= 1000000"],
        ),
        (
            curriculum("[32,64]", "[0,1.5]"),
            ["algo.curriculum.from_steps=[0, 1.5]: must be a list, each a whole number >= 0, <= 10000000"],
        ),
    ],
)
def test_a_mistake_is_one_line(overrides, lines):
    assert refuse(*overrides) == lines


def test_a_curriculum_longer_than_the_context_is_refused_by_the_budget_that_it_ends_in():
    cfg = compose_config(["device=cpu", "max_tokens=600", "eval.rows=16", *curriculum("[64,600]", "[0,20]")])
    tokenizer = load_tokenizer(locate_start_model(cfg))
    with pytest.raises(ConfigError) as caught:
        check_context(cfg, tokenizer, load_task(cfg, tokenizer))
    assert caught.value.problems == [
        "max_tokens=600: the model's context is 512 tokens and the longest prompt of task=countdown has 7; allowed is"
        " at most 505"
    ]

"""What is proposed for a run that does not fit: typed, it composes, keeps its step, and needs what was said."""

import re

import pytest
from transformers import CONFIG_MAPPING

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import find_shape
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.dry_run.cost import estimate_memory
from rlhf_exp.dry_run.fitting import find_change
from rlhf_exp.dry_run.load import Lengths, build_on_meta

HH = ["model=gpt2", "task=hh_rlhf", "device=cpu", "max_tokens=64"]
ASKS = ["reward=brevity", "algo.args.num_generations=8"]
CASES = {
    "sft": ["algo=sft"],
    "reward_model": ["algo=reward_model"],
    "dpo": ["algo=dpo"],
    "kto": ["algo=kto"],
    "ppo": ["algo=ppo", "reward=brevity"],
    "grpo": ["algo=grpo", *ASKS],
    "rounds": ["algo=grpo", *ASKS, "+algo.args.steps_per_generation=4", "algo.args.per_device_train_batch_size=32"],
    "none": ["algo=none"],
}
BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps")


def estimate(overrides, find=None, layers=12):
    """The bytes at the peak of a GPT-2, and the step's rows; or what `find` finds for the run."""
    cfg = compose_config(overrides)
    args, answers = build_args(cfg), 2 if cfg.algo.name in ("reward_model", "dpo") else 1
    shape = find_shape("openai-community/gpt2", None, None, None).values
    values = {key: value for key, value in shape.items() if key != "model_type"} | {"n_layer": layers}
    shape = CONFIG_MAPPING["gpt2"](**values)
    longest = 400 + cfg.max_tokens if cfg.algo.row.online else answers * min(512, cfg.task.max_length)
    lengths = Lengths(200.0, [200.0] * answers, "", longest, 400.0)
    if find is not None:
        return find(cfg, args, shape, lengths)
    phases = estimate_memory(cfg, args, *build_on_meta(cfg, shape), lengths.longest_prompt, lengths.longest)
    peak = max(sum(parts.values()) for parts in phases.values())
    return peak, args.per_device_train_batch_size * args.gradient_accumulation_steps


@pytest.mark.parametrize("name", CASES)
def test_a_proposed_change_can_be_typed_keeps_the_step_and_needs_what_it_says(name):
    run = [*HH, *CASES[name]]
    (peak, step), found = estimate(run, layers=4), []
    for share in (0.7, 0.3, 0.1):
        text, needed = estimate(run, lambda *of, share=share: find_change(*of, free=share * peak), layers=4)
        found.append(text)
        assert (text is None) == (needed > share * peak)
        if text is not None:
            typed = [one for one in run if one.partition("=")[0] not in re.findall(r"([\w.]+)=", text)]
            assert estimate([*typed, *text.split(" ")], layers=4) == (pytest.approx(needed), step)
    assert found[0] and (found[-1] is None or "peft=" in found[-1] or name == "none")


def propose(free_gb, *overrides):
    return estimate([*HH, *overrides], lambda *of: find_change(*of, free=free_gb * 1e9))[0]


CHECKPOINTING = "algo.args.activation_checkpointing=true"


@pytest.mark.parametrize(
    ("free_gb", "overrides", "change"),
    [
        # 30 GB of which activations are 21: a smaller batch would do too, and changes the last digits.
        (10, ["algo=reward_model", "algo.args.per_device_train_batch_size=16"], CHECKPOINTING),
        (8, ["algo=reward_model", CHECKPOINTING, "algo.args.per_device_train_batch_size=32"], "batch"),
        (0.1, ["algo=reward_model"], None),
    ],
)
def test_the_smallest_change_comes_first(free_gb, overrides, change):
    found = propose(free_gb, *overrides)
    assert found == change if change != "batch" else re.fullmatch("algo.args.per_device_train_batch_size=.* .*", found)

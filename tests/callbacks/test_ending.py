"""A run whose loss cannot change any weight ends with one line; no other run does."""

import json

import pytest

from rlhf_exp.callbacks import ending
from rlhf_exp.callbacks.ending import CheckGradients
from rlhf_exp.errors import NoGradient
from tests import building

SMALL = [*building.QUIET, "max_tokens=8", "reward=outcome"]
GROUPS = ["algo.args.per_device_train_batch_size=8", "algo.args.num_generations=4"]
PROMPTS = [{"id": str(i), "prompt": f"use {i} 7 3 make 53 ."} for i in range(1, 9)]
PAIRS = [{**row, "chosen": "7 * 3", "rejected": "7 + 3"} for row in PROMPTS]
LOST = "+algo.args.max_grad_norm=1e-300"  # clipped gradients underflow to 0, which no check of the config foresees


def build(folder, *overrides, rows=PROMPTS, reward=None):
    """A trainer with the callback, and the callback."""
    trainer = building.build(folder, *SMALL, *overrides, rows=rows, reward=reward or vary)
    check = CheckGradients()
    check.watch(trainer)
    return trainer, check


def vary(completions, **columns):
    return [float(i % 2) for i in range(len(completions))]


def constant(completions, **columns):
    return [1.0] * len(completions)


def is_looking(check):
    return check._trainer is not None


@pytest.mark.slow
def test_a_run_that_cannot_learn_fails_with_one_line_and_a_readable_folder(tmp_path, command_line):
    done = command_line(
        *("algo=sft", "device=cpu", "device.threads=1", "algo.args.max_steps=30", "algo.args.save_strategy=no", LOST),
        *("algo.args.per_device_train_batch_size=2", "algo.args.logging_steps=1", "algo.args.warmup_steps=20"),
        *("max_tokens=16", "eval.rows=4", "eval.cache_dir=null", "output_dir=run"),
        cwd=tmp_path,
    )
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 1, done.stderr
    assert line.startswith("rlhf_exp: failed: NoGradient: ") and "in each of 10 steps" in line
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 9
    assert command_line("report", "run", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("algo", "said"),
    [
        (["algo=dpo", "algo.args.max_steps=2"], "each of 2"),
        (["algo=grpo", *GROUPS, "algo.args.max_steps=1"], "the only"),
    ],
)
def test_a_short_run_without_a_gradient_fails_at_its_end(tmp_path, algo, said):
    trainer, _ = build(tmp_path, *algo, LOST, rows=PAIRS)
    with pytest.raises(NoGradient, match=f"in {said} step"):
        trainer.train()


@pytest.mark.parametrize(
    "overrides",
    [
        ["algo=grpo", *GROUPS],
        ["algo=dpo", "peft=lora"],
        ["algo=ppo", "algo.args.per_device_train_batch_size=2", "algo.critic_warmup_steps=1"],
    ],
    ids=" ".join,
)
def test_a_healthy_run_is_looked_at_only_until_its_first_gradient(tmp_path, overrides):
    trainer, check = build(tmp_path, *overrides, "algo.args.max_steps=2", rows=PAIRS)
    trainer.train()
    assert not is_looking(check)
    assert "compute_loss" not in vars(trainer)


@pytest.mark.parametrize("algo", ["grpo", "rloo"])
def test_equal_rewards_end_no_run_and_a_later_difference_trains_it(tmp_path, monkeypatch, algo):
    monkeypatch.setattr(ending, "ENOUGH", 2)
    calls = []

    def differ_late(completions, **columns):
        calls.append(len(completions))
        return (vary if len(calls) > 3 else constant)(completions)

    overrides = [f"algo={algo}", *GROUPS, "algo.args.beta=0"]
    trainer, check = build(tmp_path / "control", *overrides, "algo.args.max_steps=4", reward=constant)
    trainer.train()
    assert is_looking(check)
    trainer, check = build(tmp_path / "late", *overrides, "algo.args.max_steps=4", reward=differ_late)
    trainer.train()
    assert not is_looking(check)


def test_completions_that_the_budget_cuts_off_and_masks_end_no_run(tmp_path, monkeypatch):
    monkeypatch.setattr(ending, "ENOUGH", 1)
    overrides = ["algo=grpo", *GROUPS, "algo.args.beta=0", "+algo.args.mask_truncated_completions=true"]
    trainer, check = build(tmp_path, *overrides, "max_tokens=2", "algo.args.max_steps=2")
    trainer.train()
    assert is_looking(check)


def test_the_steps_of_the_critic_alone_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(ending, "ENOUGH", 1)
    overrides = ["algo=ppo", "algo.args.per_device_train_batch_size=2", "algo.critic_warmup_steps=2"]
    trainer, check = build(tmp_path, *overrides, "algo.args.max_steps=3")
    trainer.train()
    assert not is_looking(check)


def test_a_resumed_run_is_not_looked_at(tmp_path):
    overrides = ["algo=dpo", "algo.args.max_steps=2", "algo.args.save_strategy=steps", "algo.args.save_steps=1"]
    trainer, _ = build(tmp_path, *overrides, "algo.args.save_total_limit=2", rows=PAIRS)
    trainer.train()
    trainer, check = build(tmp_path, *overrides, LOST, rows=PAIRS)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoints" / "checkpoint-1"))
    assert not is_looking(check)

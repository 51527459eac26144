"""A resumed run equals an uninterrupted one, bit for bit: weights, reference, figures, tokens; and what is refused.

Each run is a few steps of a model of 40,000 parameters with a checkpoint due after every step, on so few rows that
the second epoch begins soon.
"""

import pytest
import torch
from transformers import TrainerCallback

from rlhf_exp.callbacks.compute import ComputeMeter
from rlhf_exp.trainers import build_trainer
from tests.building import DISTILL_8, QUIET, UNTRAINED, build_experiment

PAIR = {"chosen": " 8 * 7 - 3", "rejected": " 8 + 7"}
ROWS = [
    {"id": str(i), "prompt": f"use {i + 2} 7 3 make 53 .", "completion": " 8 * 7" + " - 3" * i, "label": i % 3 == 0}
    | {side: text + " - 3" * (i % 3) for side, text in PAIR.items()}
    for i in range(8)
]
SMALL = [
    "reward=outcome", *UNTRAINED, *QUIET, "max_tokens=6", "algo.args.logging_steps=3", "algo.args.save_strategy=steps",
    "algo.args.save_steps=1", "algo.args.save_total_limit=null",
]  # fmt: skip
GRPO = ["algo=grpo", "algo.args.per_device_train_batch_size=4", "algo.args.num_generations=2"]
GRPO_2_X_2 = [*GRPO, "+algo.args.steps_per_generation=2", "algo.args.num_iterations=2"]
PPO = [
    "algo=ppo", "algo.args.per_device_train_batch_size=2", "algo.args.steps_per_generation=2",
    "algo.args.num_iterations=2", "algo.args.target_kl=0.01", "algo.args.kl_horizon=20",
]  # fmt: skip
GIVEN = ["algo.args.per_device_train_batch_size=2", "algo.args.max_steps=7", "algo.args.warmup_steps=2"]
"""Four steps per epoch, figures every three: step 5 is in the second epoch, and between two rows of figures."""
TIMES = ("time", "runtime", "per_second")


def reward(completions, **columns):
    return [float(len(text) % 7) for text in completions]


def make(folder, *overrides):
    experiment = build_experiment(folder, *SMALL, *overrides, rows=ROWS, reward=reward)
    trainer = build_trainer(experiment)
    ComputeMeter(experiment.cfg.train_tokens).watch(trainer)
    return trainer


def checkpoints(folder):
    return sorted(int(path.name.rpartition("-")[2]) for path in (folder / "checkpoints").glob("checkpoint-*"))


def resume(folder, step, *overrides):
    trainer = make(folder, *overrides)
    trainer.train(resume_from_checkpoint=str(folder / "checkpoints" / f"checkpoint-{step}"))
    return trainer


def figures(trainer):
    rows = [row for row in trainer.state.log_history if "loss" in row]
    return [{k: v for k, v in row.items() if not any(k.endswith(time) for time in TIMES)} for row in rows]


def assert_equal(one, other):
    assert one.state.global_step == other.state.global_step
    tensors = dict(one.model.named_parameters())
    differing = [name for name, tensor in other.model.named_parameters() if not torch.equal(tensors[name], tensor)]
    assert not differing, f"{len(differing)} of {len(tensors)} tensors differ"
    assert figures(one) == figures(other)


CASES = {
    "grpo, 2 minibatches twice": ([*GRPO_2_X_2, "algo.args.max_steps=14"], [4, 8, 12, 14], 12),
    "grpo, a rollout ends inside a step": (
        [*GRPO, "algo.args.per_device_train_batch_size=2", "+algo.args.steps_per_generation=3",
         "algo.args.gradient_accumulation_steps=2", "algo.args.max_steps=8"], [3, 6, 8], 6,
    ),
    "grpo, everything on": (
        [*GRPO, "algo.args.curriculum_budgets=[3,6]", "algo.args.curriculum_from_steps=[0,3]", "loss_type=hybrid",
         "algo.args.advantage_clip=0.8", "+algo.args.use_adaptive_entropy=true", "+algo.args.entropy_target=10",
         "+algo.args.entropy_coef_delta=0.01", "algo.args.max_steps=6"], [1, 2, 3, 4, 5, 6], 5,
    ),
    "grpo, a reference that follows": (
        [*GRPO_2_X_2, "algo.args.max_steps=8", "+algo.args.sync_ref_model=true", "+algo.args.ref_model_sync_steps=3"],
        [4, 8], 4,
    ),
    "rloo": (["algo=rloo", *GRPO_2_X_2[1:], "algo.args.max_steps=14"], [4, 8, 12, 14], 12),
    "distill": (
        [*DISTILL_8, "algo.args.per_device_train_batch_size=2", "algo.args.gradient_accumulation_steps=2",
         "algo.args.max_steps=6"], [1, 2, 3, 4, 5, 6], 4,
    ),
    "ppo, shared critic": ([*PPO, "algo.args.max_steps=14"], [4, 8, 12, 14], 12),
    "ppo, separate critic, saved by epochs": (
        [*PPO, "algo.args.critic=separate", "algo.args.max_steps=14", "algo.args.save_strategy=epoch"], [8, 14], 8,
    ),
    "ppo, groups": ([*PPO, "+algo.args.num_generations=2", "algo.args.max_steps=6"], [4, 6], 4),
    "sft, in random order": (
        ["algo=sft", *GIVEN, "algo.args.train_sampling_strategy=random"], [1, 2, 3, 4, 5, 6, 7], 5
    ),
    "sft, order by length": (
        ["algo=sft", *GIVEN, "algo.args.train_sampling_strategy=group_by_length"], [1, 2, 3, 4, 5, 6, 7], 5
    ),
    "sft, by tokens": (["algo=sft", *GIVEN, "algo.args.max_steps=50", "train_tokens=150"], [1, 2, 3, 4, 5], 3),
    "ppo, by tokens": (
        [*PPO, "algo.args.max_steps=50", "algo.args.critic_warmup_steps=9", "train_tokens=260"], [4, 8, 10], 4
    ),
    "dpo": (["algo=dpo", *GIVEN], [1, 2, 3, 4, 5, 6, 7], 5),
    "dpo, a reference that follows": (
        ["algo=dpo", *GIVEN, "+algo.args.sync_ref_model=true", "+algo.args.ref_model_sync_steps=3",
         "algo.args.precompute_ref_log_probs=false"], [1, 2, 3, 4, 5, 6, 7], 5,
    ),
    "kto": (["algo=kto", *GIVEN], [1, 2, 3, 4, 5, 6, 7], 5),
    "reward_model": (["algo=reward_model", *GIVEN], [1, 2, 3, 4, 5, 6, 7], 5),
}  # fmt: skip


ADAPTERS = [
    ("ppo, shared critic", "lora"),
    ("distill", "lora"),
    ("sft, in random order", "qlora"),
    ("reward_model", "qlora"),
]


@pytest.mark.parametrize(("case", "peft"), [*((case, "none") for case in CASES), *ADAPTERS])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, case, peft):
    overrides, saved, step = CASES[case]
    overrides = [*overrides, *(["peft=none"] if peft == "none" else [f"peft={peft}", "peft.lora.r=2"])]
    whole = make(tmp_path, *overrides)
    whole.train()
    assert checkpoints(tmp_path) == saved
    assert_equal(whole, resume(tmp_path, step, *overrides))


@pytest.mark.parametrize(
    "overrides",
    [
        [*GRPO, "algo.args.max_steps=3"],
        ["algo=sft", *GIVEN, "algo.args.max_steps=3"],
        [*GRPO, "train_tokens=100", "algo.args.max_steps=10"],
    ],
)
def test_a_run_that_had_taken_its_last_step_or_spent_its_tokens_takes_no_other_step(tmp_path, overrides):
    """A checkpoint within an epoch: transformers would take one step more."""
    whole = make(tmp_path, *overrides)
    whole.train()
    last = whole.state.global_step
    assert checkpoints(tmp_path)[-1] == last < 10
    assert_equal(whole, resume(tmp_path, last, *overrides))


class Signal(TrainerCallback):
    """From a step on asks to save, and stops once that is done."""

    def on_step_end(self, args, state, control, **kwargs):
        control.should_save = state.global_step >= 5

    def on_save(self, args, state, control, **kwargs):
        control.should_training_stop = True


def test_a_signals_save_waits_for_the_end_of_the_rollout_too(tmp_path):
    overrides = [*GRPO_2_X_2, "algo.args.max_steps=10", "algo.args.save_strategy=no"]
    stopped = make(tmp_path / "stopped", *overrides)
    stopped.callback_handler.callbacks.insert(0, Signal())
    stopped.train()
    assert stopped.state.global_step == 8 and checkpoints(tmp_path / "stopped") == [8]
    whole = make(tmp_path / "whole", *overrides)
    whole.train()
    assert_equal(whole, resume(tmp_path / "stopped", 8, *overrides))

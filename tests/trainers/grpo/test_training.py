"""Whole training runs of a small model, a few steps each: off means off, accumulation, the curriculum."""

import pytest
import torch
from datasets import Dataset
from trl import GRPOTrainer

from rlhf_exp.models.generation import roll_out
from rlhf_exp.models.patches import patch_position_ids
from rlhf_exp.trainers.rollouts import Rollouts
from tests.building import UNTRAINED

TIMES = ("step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second")
STAGES = ["algo.args.curriculum_budgets=[8,16,24]", "algo.args.curriculum_from_steps=[0,2,4]"]


def read_log(trainer, *left_out):
    """TRL's figures per step, without times."""
    rows = [row for row in trainer.state.log_history if "loss" in row]
    return [{name: row[name] for name in row if name not in (*TIMES, *left_out)} for row in rows]


@pytest.fixture
def make_parts(make_parts):
    """Of a model of 40,000 parameters, which has yet to learn to end: 40 tokens nearly always."""
    return lambda *overrides: make_parts(*UNTRAINED, *overrides)


def read_weights(trainer):
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def same(weights, others):
    return all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


def trained(trainer):
    """Built, which seeds, and trained at once: shuffling draws from the global random state."""
    trainer.train()
    return trainer


class PlainTrainer(GRPOTrainer):
    """TRL's own class, with the same random numbers."""

    rollouts = 0

    def _generate_and_score_completions(self, inputs):
        Rollouts.give_keys(self, len(inputs))
        return super()._generate_and_score_completions(inputs)


def build_plain(parts):
    trainer = PlainTrainer(
        model=parts.model.path,
        reward_funcs=parts.rewards,
        args=parts.args,
        train_dataset=Dataset.from_list(parts.task.train),
        processing_class=parts.tokenizer,
        rollout_func=roll_out,
    )
    patch_position_ids(trainer.model)
    return trainer


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "dapo"])
def test_off_is_trls_trainer_bit_for_bit(make_parts, make_trainer, loss, monkeypatch):
    """With TRL's pass over padded rows: that of trimmed rows sums in another order (test_trimmed.py)."""
    monkeypatch.setattr(Rollouts, "score_rows", GRPOTrainer._get_per_token_logps_and_entropies)
    overrides = [f"loss_type={loss}", "algo.args.max_steps=3"]
    plain, ours = trained(build_plain(make_parts(*overrides))), trained(make_trainer(*overrides))
    of_trl = [{name: row[name] for name in known} for row, known in zip(read_log(ours), read_log(plain), strict=True)]
    assert of_trl == read_log(plain) and len(of_trl) == 3
    assert same(read_weights(ours), read_weights(plain))


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [["loss_type=hybrid", "algo.args.hybrid_alpha=0.3", "algo.args.advantage_clip=0.6"], STAGES],
)
def test_one_batch_of_8_and_two_of_4_are_the_same_step(make_trainer, overrides):
    """Plain gradient descent, so that a difference of the gradients stays one of the weights: Adam would hide a scale
    and blow up a sign."""
    weights, logs = [], []
    for batch, accumulation in ((8, 1), (2, 4)):
        trainer = make_trainer(
            *overrides, f"algo.args.per_device_train_batch_size={batch}", "algo.args.max_steps=5",
            f"algo.args.gradient_accumulation_steps={accumulation}", "+algo.args.optim=sgd",
            "algo.args.learning_rate=0.1", "+algo.args.max_grad_norm=0", "algo.args.lr_scheduler_type=constant",
        )  # fmt: skip
        start = read_weights(trainer)
        trainer.train()
        weights.append(torch.cat([(a - b).flatten() for a, b in zip(read_weights(trainer), start, strict=True)]))
        logs.append(read_log(trainer))
    assert [row["num_tokens"] for row in logs[0]] == [row["num_tokens"] for row in logs[1]]
    assert ((weights[1] - weights[0]).norm() / weights[0].norm()).item() < 1e-4


@pytest.mark.parametrize(
    ("overrides", "budgets"),
    [
        (["generation=compact"], [8, 8, 16, 16, 24, 24]),
        (["generation=trl"], [8, 8, 16, 16, 24, 24]),
        # a stage that begins at step 2 waits for the rollout of step 3
        (["+algo.args.steps_per_generation=3", "loss_type=hybrid"], [8, None, None, 16, None, None]),
    ],
)
def test_a_curriculum_bounds_sampling_from_a_rollout_to_the_next(make_trainer, overrides, budgets):
    log = read_log(trained(make_trainer(*STAGES, "algo.args.max_steps=6", *overrides)))
    assert [row.get("completions/budget") for row in log] == budgets
    assert [row.get("completions/max_length") for row in log] == budgets
    if "loss_type=hybrid" in overrides:
        assert [row.get("hybrid/alpha") for row in log] == [budget and budget / 512 for budget in budgets]

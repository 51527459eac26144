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


def test_what_changes_nothing_is_grpo_bit_for_bit(make_trainer):
    plain = trained(make_trainer("algo.args.max_steps=3"))
    for metric, overrides in {
        "hybrid/alpha": ["loss_type=hybrid", "algo.args.hybrid_alpha=1"],
        "advantages/clipped_ratio": ["algo.args.advantage_clip=100"],
        "completions/budget": ["algo.args.curriculum_budgets=[40]", "algo.args.curriculum_from_steps=[0]"],
    }.items():
        ours = trained(make_trainer("algo.args.max_steps=3", *overrides))
        assert read_log(ours, metric) == read_log(plain), metric
        assert same(read_weights(ours), read_weights(plain)), metric
        assert {row[metric] for row in read_log(ours)} <= {1.0, 0.0, 40.0}


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


@pytest.mark.parametrize("method", ["compact", "trl"])
def test_a_curriculum_bounds_sampling_and_is_logged(make_trainer, method):
    trainer = make_trainer(*STAGES, "algo.args.max_steps=6", f"generation={method}")
    trainer.train()
    log = read_log(trainer)
    assert [row["completions/budget"] for row in log] == [8, 8, 16, 16, 24, 24]
    assert [row["completions/max_length"] for row in log] == [8, 8, 16, 16, 24, 24]
    assert trainer.max_completion_length == 24


def test_a_budget_changes_with_a_rollout_only(make_trainer):
    """Two minibatches a rollout: the stage that begins at step 1 waits for the rollout of step 2."""
    trainer = make_trainer(
        "algo.args.curriculum_budgets=[8,16]", "algo.args.curriculum_from_steps=[0,1]", "loss_type=hybrid",
        "+algo.args.steps_per_generation=2", "algo.args.max_steps=4",
    )  # fmt: skip
    trainer.train()
    log = read_log(trainer)
    assert [row.get("completions/budget") for row in log] == [8, None, 16, None]
    assert [row.get("hybrid/alpha") for row in log] == [8 / 512, None, 16 / 512, None]

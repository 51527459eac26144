"""A completion in training draws by seed, rollout and its place in the rollout, whichever code samples."""

import pytest
import torch
from trl import GRPOTrainer

from rlhf_exp.models.generation import Sampling, sample_completions
from rlhf_exp.models.scoring import evaluating
from tests.building import DISTILL_8, QUIET, ROLLOUTS_OF_8, UNTRAINED, build, reward_length

ROWS = [{"id": str(i), "prompt": f"use {i + 2} 7 3 make 53 ." + " use" * i} for i in range(8)]
SMALL = ["reward=outcome", *UNTRAINED, *QUIET, "max_tokens=6"]


@pytest.fixture
def make(tmp_path):
    def build_double(*overrides):
        trainer = build(tmp_path, *SMALL, *overrides, rows=ROWS, reward=reward_length)
        trainer.model.double().train()  # so that no number lies within rounding of a boundary between two tokens
        if getattr(trainer, "ref_model", None) is not None:
            trainer.ref_model.double()
        return trainer

    return build_double


def roll_out(trainer, rows):
    """Token ids of the completions of one rollout."""
    generated = trainer._generate
    found = []
    trainer._generate = lambda prompts: found.append(generated(prompts)) or found[-1]
    trainer._generate_and_score_completions(rows)
    trainer._generate = generated
    return found[0][1]


@pytest.mark.parametrize("method", ["compact", "trl"])
@pytest.mark.parametrize("algo", [*ROLLOUTS_OF_8, "distill"])
def test_a_rollout_draws_by_seed_rollout_and_place(make, algo, method):
    trainer = make(*ROLLOUTS_OF_8.get(algo, DISTILL_8), f"generation={method}", "seed=3")
    group = trainer.num_generations
    rows = [ROWS[i // group] for i in range(8)]
    prompt_ids = trainer.processing_class([row["prompt"] for row in rows])["input_ids"]
    seen = []
    for rollout in range(2):
        torch.manual_seed(5)  # is not read
        keys = [("training", 3, rollout, i) for i in range(8)]
        end, pad = trainer.eos_token_ids, trainer.processing_class.pad_token_id
        with evaluating(trainer.model):
            wanted = [
                sample_completions(trainer.model, [ids], [key], Sampling(6), end, pad)[0]
                for ids, key in zip(prompt_ids, keys, strict=True)
            ]
        assert roll_out(trainer, rows) == wanted
        seen += map(tuple, wanted)
    assert len(set(seen)) == 16, "members of a group differ, and so do two rollouts of the same rows"


def test_rollouts_that_begin_within_one_step_have_numbers_of_their_own(make):
    """Three batches a rollout and two a step: the second rollout begins in the middle of the second step."""
    trainer = make(
        "algo=grpo", "algo.args.per_device_train_batch_size=2", "+algo.args.steps_per_generation=3",
        "algo.args.gradient_accumulation_steps=2", "algo.args.num_generations=2", "algo.args.max_steps=3",
    )  # fmt: skip
    steps, sample = [], trainer._generate
    trainer._generate = lambda prompts: steps.append((trainer.state.global_step, *trainer.row_keys)) or sample(prompts)
    trainer.train()
    assert [step for step, *_ in steps] == [0, 1]
    assert [{key[2] for key in keys} for _, *keys in steps] == [{0}, {1}]
    assert [key[3] for key in steps[0][1:]] == [0, 1, 2, 3, 4, 5]


def test_a_process_names_its_share_of_the_rollout_as_one_process_would(make, monkeypatch):
    """Groups of 2; three completions each on two processes, so that the second group is split."""
    trainer, places = make(*ROLLOUTS_OF_8["grpo"]), []
    rollout = [ROWS[i // 2] for i in range(6)]
    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", lambda self, inputs: {})
    for process in (0, 1):
        monkeypatch.setattr(type(trainer.accelerator), "process_index", process)
        trainer._generate_and_score_completions(rollout[3 * process : 3 * process + 3])
        places += [key[3:] for key in trainer.row_keys]
    assert places == [(i,) for i in range(6)]

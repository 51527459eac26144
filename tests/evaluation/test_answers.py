from copy import deepcopy
from functools import cache

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation.answers import describe_pairs, implicit_rewards, score_pairs
from rlhf_exp.experiment import Experiment
from rlhf_exp.models import scoring
from rlhf_exp.models.scoring import sum_logps
from rlhf_exp.models.untrained import build_byte_tokenizer
from rlhf_exp.tasks import TaskRows
from rlhf_exp.tasks.tokens import encode_row
from tests.building import build_random

TOKENIZER = build_byte_tokenizer()
ARGS = {"use_cpu": True, "bf16": False, "report_to": "none", "disable_tqdm": True, "max_length": None}
PAIRS = [
    {"id": str(i), "subset": "helpful-base", "prompt": f"\n\nHuman: {'why? ' * (i % 4)}\n\nAssistant:",
     "chosen": " " + "yes, " * (i % 7), "rejected": " " + "no " * (5 - i % 5)}
    for i in range(10)
]  # fmt: skip


@cache
def make_config(*overrides):
    return compose_config(["algo=reward_model", "task=hh_rlhf", "reward=none", "reward.batch_size=3", *overrides])


def set_up(*overrides, pairs=PAIRS):
    task = TaskRows("hh_rlhf", [], [], None, pairs=pairs)
    return Experiment(make_config(*overrides), None, None, TOKENIZER, task, [])


@pytest.mark.parametrize("architecture", ["gpt2", "qwen2", "qwen3"])
def test_scores_are_those_of_the_reward_trainer_whatever_the_batch_and_without_dropout(architecture, tmp_path):
    model = build_random(architecture, TOKENIZER, AutoModelForSequenceClassification).train()
    scores = score_pairs(set_up(), model)
    assert model.training
    apart = [score_pairs(set_up("reward.batch_size=1", pairs=[pair]), model)[0] for pair in PAIRS]
    assert [x for pair in apart for x in pair] == pytest.approx([x for pair in scores for x in pair], abs=1e-5)
    assert len({round(score, 3) for pair in scores for score in pair}) > 10
    args = RewardConfig(output_dir=str(tmp_path), **ARGS)
    trainer = RewardTrainer(model, args, train_dataset=Dataset.from_list(PAIRS), processing_class=TOKENIZER)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(len(PAIRS))])
    with torch.no_grad():
        loss, outputs = trainer.compute_loss(trainer.model.eval(), batch, return_outputs=True)
    chosen, rejected = outputs.logits.squeeze(-1).chunk(2)
    assert [c for c, _ in scores] == pytest.approx(chosen.tolist(), abs=1e-5)
    assert [r for _, r in scores] == pytest.approx(rejected.tolist(), abs=1e-5)
    margins = torch.tensor([c - r for c, r in scores])
    assert -torch.nn.functional.logsigmoid(margins).mean() == pytest.approx(loss.item(), abs=1e-5)


@torch.no_grad()
def slow_logp(model, prompt, answer):
    """One row, float64, over the whole vocabulary, token after token."""
    ids, total = prompt + answer, 0.0
    logps = model.double().eval()(torch.tensor([ids])).logits[0].log_softmax(-1)
    for position in range(max(len(prompt), 1), len(ids)):
        total += logps[position - 1, ids[position]].item()
    return total


@pytest.mark.parametrize(("architecture", "elements"), [("gpt2", 1), ("qwen2", 258 * 60), ("qwen3", 2**26)])
def test_log_probabilities_equal_a_slow_loop(architecture, elements, monkeypatch):
    monkeypatch.setattr(scoring, "BATCH_ELEMENTS", elements)
    model = build_random(architecture, TOKENIZER)
    rows = [encode_row(TOKENIZER, pair["prompt"], pair["chosen"]) for pair in PAIRS]
    rows.append(([], [5, 6, 7]))
    slow = [slow_logp(deepcopy(model), *row) for row in rows]
    assert sum_logps(model, rows, TOKENIZER.pad_token_id) == pytest.approx(slow, rel=1e-5)


def test_batches_hold_every_row_once_and_keep_to_their_size(monkeypatch):
    monkeypatch.setattr(scoring, "BATCH_ELEMENTS", 400)
    rows = [([1] * (i % 5 + 1), [2] * (i % 11 + 1)) for i in range(50)]
    batches = list(scoring.split_rows(rows, 10))
    assert sorted(i for batch in batches for i in batch) == list(range(50))
    for batch in batches:
        width = max(len(rows[i][0]) + len(rows[i][1]) for i in batch)
        assert len(batch) * (width + 1 - min(len(rows[i][0]) for i in batch)) * 10 <= 400
    assert len(batches) < 25


@pytest.mark.parametrize("architecture", ["gpt2", "qwen3"])
def test_implicit_rewards_are_those_that_dpo_logs(architecture, tmp_path):
    policy, reference = (build_random(architecture, TOKENIZER, seed=seed) for seed in (0, 1))
    args = DPOConfig(output_dir=str(tmp_path), beta=0.3, **ARGS)
    ours = implicit_rewards(set_up("algo=dpo", "algo.args.beta=0.3"), policy, reference)
    trainer = DPOTrainer(
        policy, ref_model=reference, args=args, train_dataset=Dataset.from_list(PAIRS), processing_class=TOKENIZER
    )
    trainer.model.eval()
    for pair, row in zip(ours, trainer.train_dataset, strict=True):
        with torch.no_grad():
            trainer.compute_loss(trainer.model, trainer.data_collator([row]))
        logged = [trainer._metrics["eval"][f"rewards/{answer}"].pop() for answer in ("chosen", "rejected")]
        assert pair == pytest.approx(logged, abs=2e-4)


@pytest.mark.parametrize("algo", ["dpo", "kto"])
def test_beta_is_that_of_the_training_and_a_tenth_without_implicit_rewards(algo):
    models = [build_random("gpt2", TOKENIZER, seed=seed) for seed in (0, 1)]
    tenth = implicit_rewards(set_up("algo=sft", pairs=PAIRS[:2]), *models)
    assert implicit_rewards(set_up(f"algo={algo}", pairs=PAIRS[:2]), *models) == tenth
    half = implicit_rewards(set_up(f"algo={algo}", "algo.args.beta=0.5", pairs=PAIRS[:2]), *models)
    assert [x for pair in half for x in pair] == pytest.approx([5 * x for pair in tenth for x in pair])


def test_a_row_holds_both_answers_their_rewards_and_their_lengths():
    [row] = describe_pairs("trained", set_up(pairs=PAIRS[3:4]), [(0.25, 1.0)])
    assert row.model_dump(exclude_unset=True) == PAIRS[3] | {
        "which": "trained", "chosen_reward": 0.25, "rejected_reward": 1.0, "margin": -0.75, "chosen_tokens": 16,
        "rejected_tokens": 7,
    }  # fmt: skip


def test_a_chat_row_is_written_as_text():
    turns = [{"role": role, "content": text} for role, text in (("user", "Hi!"), ("assistant", "Yes?"), ("user", "Y?"))]
    answers = {side: [{"role": "assistant", "content": text}] for side, text in (("chosen", "So."), ("rejected", "No"))}
    pair = {"id": "a", "subset": "b", "prompt": turns, **answers}
    [row] = describe_pairs("baseline", set_up(pairs=[pair]), [(0, 0)])
    assert row["prompt"] == "user: Hi!\n\nassistant: Yes?\n\nuser: Y?"
    assert (row["chosen"], row["rejected"], row["chosen_tokens"]) == ("So.", "No", 3)

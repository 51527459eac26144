from functools import cache

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation.answers import implicit_rewards, score_pairs
from rlhf_exp.experiment import Experiment
from rlhf_exp.models import scoring
from rlhf_exp.models.untrained import build_byte_tokenizer
from rlhf_exp.tasks import TaskRows
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


@pytest.mark.parametrize(("architecture", "elements"), [("gpt2", 1), ("qwen2", 258 * 60), ("qwen3", 2**26)])
def test_implicit_rewards_are_those_that_dpo_logs_whatever_the_batch(architecture, elements, tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "BATCH_ELEMENTS", elements)
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

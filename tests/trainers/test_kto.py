"""KTO: its loss against one worked out row by row, and which rows it learns from."""

import pytest
import torch

from rlhf_exp.forms import UNPAIR
from tests.building import build
from tests.trainers.references import assert_same_gradient, copy_float64, move, sum_logps

SMALL = ["algo=kto", "device=cpu", "device.threads=1", "algo.args.per_device_train_batch_size=4"]
SEARCHES = ["8 * 7", "8 * 7 - 3 = 53", "3 + 8", "7", "7 - 3 - 8 = 1 no", "8 - 7 + 3", "3 * 7", "53"]
ANSWERS = [f" <think> {text}" for text in SEARCHES]  # as the model begins: float32 rounds improbable answers most
ROWS = [
    {"id": str(i), "prompt": f"use {i + 2} 7 3 make 53 .", "completion": text, "label": i % 3 == 0}
    for i, text in enumerate(ANSWERS)
]


@pytest.fixture
def make(tmp_path):
    return lambda *overrides: build(tmp_path, *SMALL, *overrides, rows=ROWS)


@pytest.mark.parametrize("loss_type", ["kto", "apo_zero_unpaired"])
@pytest.mark.parametrize("precomputed", [True, False])
def test_the_loss_and_its_gradient_are_those_of_the_paper(make, loss_type, precomputed):
    """Equations 7 and 8 of arXiv:2402.01306, with the KL of mismatched answers, which passes no gradient."""
    trainer = make(
        f"algo.args.loss_type={loss_type}", f"algo.args.precompute_ref_log_probs={str(precomputed).lower()}",
        "algo.args.desirable_weight=1.5", "algo.args.undesirable_weight=0.75", "algo.args.beta=0.3",
    )  # fmt: skip
    reference, tokenizer = copy_float64(trainer.model), trainer.processing_class
    move(trainer.model, 0.03)
    policy = copy_float64(trainer.model)
    batch = next(iter(trainer.get_train_dataloader()))
    masks = batch["attention_mask"].bool()
    texts = [tokenizer.decode(row[mask]) for row, mask in zip(batch["input_ids"], masks, strict=True)]
    rows = [next(row for row in ROWS if text.startswith(row["prompt"] + row["completion"] + " <")) for text in texts]
    assert len({row["label"] for row in rows}) == 2

    def log_ratio(row, answer):
        prompt, completion = tokenizer([row["prompt"], answer])["input_ids"]
        completion = [*completion, tokenizer.eos_token_id]
        return sum_logps(policy, prompt, completion) - sum_logps(reference, prompt, completion)

    mismatched = [log_ratio(row, rows[i - 1]["completion"]) for i, row in enumerate(rows)]
    kl = torch.stack(mismatched).mean().clamp(min=0).detach() if loss_type == "kto" else 0.0
    losses = []
    for row in rows:
        sign, weight = (1, 1.5) if row["label"] else (-1, 0.75)
        losses.append(weight * (1 - torch.sigmoid(0.3 * sign * (log_ratio(row, row["completion"]) - kl))))
    expected = torch.stack(losses).mean()
    expected.backward()
    trainer.model.zero_grad()
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    assert_same_gradient(trainer.model, policy)


def test_rows_are_shuffled_by_the_runs_seed(make):
    orders = [list(make(f"seed={seed}").train_dataset["prompt"]) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == [row["prompt"] for row in ROWS]


def test_each_answer_of_a_pair_is_a_row():
    assert UNPAIR.spread([{"id": "a", "subset": "s", "prompt": "p", "chosen": "c", "rejected": "r"}]) == [
        {"id": "a", "subset": "s", "prompt": "p", "completion": "c", "label": True},
        {"id": "a", "subset": "s", "prompt": "p", "completion": "r", "label": False},
    ]

"""RLOO: its advantages and one step's gradient, against plain loops; and where it samples."""

import pytest
import torch

from tests.building import build, reward_length_of_7
from tests.trainers.references import assert_same_gradient, copy_float64, move, roll_out, sum_logps, unpad

SMALL = [
    "algo=rloo", "reward=outcome", "device=cpu", "device.threads=1", "max_tokens=40",
    "algo.args.per_device_train_batch_size=8", "algo.args.num_generations=4", "algo.args.beta=0.2",
]  # fmt: skip
ROWS = [{"id": str(i), "prompt": f"use {i + 2} 7 3 make 53 ." + " use" * i} for i in range(4)]


def test_an_advantage_is_the_reward_less_that_of_the_others_and_the_gradient_is_reinforces(tmp_path):
    """arXiv:2402.14740, section 3.2: (1/n) sum_i (R_i - mean of the others) grad log p(y_i), R_i = r_i - beta KL_i."""
    trainer = build(tmp_path, *SMALL, rows=ROWS, reward=reward_length_of_7)
    reference = copy_float64(trainer.model)
    move(trainer.model, 0.03)
    policy = copy_float64(trainer.model)
    batch = roll_out(trainer, [ROWS[i // 4] for i in range(8)])
    rows = unpad(batch)
    assert len({len(prompt) for prompt, _ in rows}) == 2 and len({len(answer) for _, answer in rows}) > 1
    texts = trainer.processing_class.batch_decode([answer for _, answer in rows], skip_special_tokens=True)
    scores = reward_length_of_7(texts)
    policy_logps = [sum_logps(policy, *row) for row in rows]
    with torch.no_grad():
        kls = [(p - sum_logps(reference, *row)).item() for p, row in zip(policy_logps, rows, strict=True)]
    totals = [score - 0.2 * kl for score, kl in zip(scores, kls, strict=True)]
    assert max(map(abs, kls)) > 0.05 and len(set(scores)) > 1
    advantages = []
    for i, total in enumerate(totals):
        group = range(i - i % 4, i - i % 4 + 4)
        others = [totals[j] for j in group if j != i]
        advantages.append(total - sum(others) / 3)
    assert batch["advantages"].tolist() == pytest.approx(advantages, abs=1e-4)

    (-sum(a * p for a, p in zip(advantages, policy_logps, strict=True)) / 8).backward()
    trainer.model.zero_grad()
    trainer.compute_loss(trainer.model, batch).backward()
    assert_same_gradient(trainer.model, policy, 1e-3)

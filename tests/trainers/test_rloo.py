"""RLOO: its advantages, one step's gradient and its sampling, against plain loops."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.building import build

SMALL = [
    "algo=rloo", "device=cpu", "device.threads=1", "max_tokens=40", "algo.args.per_device_train_batch_size=8",
    "algo.args.num_generations=4", "algo.args.beta=0.2",
]  # fmt: skip
ROWS = [{"id": str(i), "prompt": f"use {i + 2} 7 3 make 53 ." + " use" * i} for i in range(4)]


def reward(completions, **columns):
    return [float(len(text) % 7) for text in completions]


@pytest.fixture
def make(tmp_path):
    return lambda *overrides: build(tmp_path, "reward=outcome", *SMALL, *overrides, rows=ROWS, reward=reward)


def move(model):
    """Weights that are not the reference's any more."""
    torch.manual_seed(0)
    for tensor in model.parameters():
        tensor.data += 0.03 * tensor.std() * torch.randn_like(tensor)


def sum_logps(model, row):
    """log p(completion | prompt) in float64, token by token, of an unpadded row."""
    prompt, answer = row
    logps = model(torch.tensor([[*prompt, *answer]])).logits[0].log_softmax(-1)
    return sum(logps[len(prompt) + i - 1, token] for i, token in enumerate(answer))


def unpad(batch):
    prompts, completions = (
        [ids[mask.bool()].tolist() for ids, mask in zip(batch[f"{side}_ids"], batch[f"{side}_mask"], strict=True)]
        for side in ("prompt", "completion")
    )
    return list(zip(prompts, completions, strict=True))


def test_an_advantage_is_the_reward_less_that_of_the_others_and_the_gradient_is_reinforces(make):
    """arXiv:2402.14740, section 3.2: (1/n) sum_i (R_i - mean of the others) grad log p(y_i), R_i = r_i - beta KL_i."""
    trainer = make()
    path = trainer.model.name_or_path
    reference = AutoModelForCausalLM.from_pretrained(path).double()
    move(trainer.model)
    policy = AutoModelForCausalLM.from_config(reference.config).double()
    policy.load_state_dict(trainer.model.state_dict())
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions([ROWS[i // 4] for i in range(8)])
    rows = unpad(batch)
    assert len({len(prompt) for prompt, _ in rows}) == 2 and len({len(answer) for _, answer in rows}) > 1
    scores = reward(trainer.processing_class.batch_decode([answer for _, answer in rows], skip_special_tokens=True))
    policy_logps = [sum_logps(policy, row) for row in rows]
    with torch.no_grad():
        kls = [(p - sum_logps(reference, row)).item() for p, row in zip(policy_logps, rows, strict=True)]
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
    found, wanted = (
        torch.cat([tensor.grad.flatten().double() for tensor in model.parameters()])
        for model in (trainer.model, policy)
    )
    assert (found - wanted).norm() < 1e-3 * wanted.norm()


def test_sampling_is_ours_where_generation_is_compact(make, monkeypatch):
    calls = []
    ours = "rlhf_exp.trainers.rloo.sample_rollout"
    monkeypatch.setattr(ours, lambda trainer, ids: calls.append(len(ids)) or [[5]] * 8)
    for method, sampled in (("compact", 8), ("trl", None)):
        trainer = make(f"generation={method}")
        trainer._generate([ROWS[0]["prompt"]] * 8)
        assert (calls.pop() if calls else None) == sampled

"""Figures of rollouts and losses that TRL does not log, against plain loops. That sampling with other weights shows in
them: tests/preflight/test_first_steps.py."""

import pytest
import torch

from rlhf_exp.trainers.rollouts import DIFFERENCE
from tests.building import build, reward_length_of_7
from tests.trainers.references import move, roll_out, unpad

SMALL = [
    "device=cpu", "device.threads=1", "max_tokens=24", "algo.args.per_device_train_batch_size=8", "reward=outcome",
    "generation=compact",
]  # fmt: skip
GROUPS = [*SMALL, "algo.args.num_generations=4", "algo.args.beta=0.2"]
ROWS = [{"id": str(i), "prompt": f"use {i + 2} 7 3 make 53 ." + " use" * i} for i in range(4)]
CUT = ["++algo.args.temperature=0.7", "++algo.args.top_p=0.8"]
ALGORITHMS = {"grpo": [*GROUPS, *CUT], "rloo": GROUPS, "ppo": SMALL}


def roll_out_and_learn(tmp_path, *overrides):
    """A trainer whose policy has left its reference, its rollout, and what it has logged of that and of a loss."""
    trainer = build(tmp_path, *overrides, rows=ROWS, reward=reward_length_of_7)
    move(trainer.model, 0.03)
    batch = roll_out(trainer, [ROWS[i // 4] for i in range(8)])
    trainer.compute_loss(trainer.model, batch)
    return trainer, batch, {name: values[-1] for name, values in trainer._metrics["train"].items()}


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_samplers_log_the_same_series(tmp_path, algo):
    trainer, batch, logged = roll_out_and_learn(tmp_path, f"algo={algo}", *ALGORITHMS[algo])
    ids = [completion for _, completion in unpad(batch)]
    grams = [(one[i], one[i + 1]) for one in ids for i in range(len(one) - 1)]
    assert logged["completions/distinct_2"] == pytest.approx(len(set(grams)) / len(grams))
    assert logged["completions/eos_rate"] == sum(one[-1] in trainer.eos_token_ids for one in ids) / 8
    assert 0 < logged[f"{DIFFERENCE}/mean"] <= logged[f"{DIFFERENCE}/max"] < 1e-4
    if algo != "ppo":
        assert abs(logged["kl_k1"]) > 1e-5


def test_ratio_and_k1_are_of_the_tokens_of_completions(tmp_path):
    trainer, batch, _ = roll_out_and_learn(tmp_path, "algo=grpo", *GROUPS, "algo.args.num_iterations=2")
    move(trainer.model, 0.05)
    trainer.compute_loss(trainer.model, batch)
    logged = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    width = batch["completion_ids"].shape[1]
    kept = batch["completion_mask"].bool()
    with torch.no_grad():
        now = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, width)[0]
    ratio = (now - batch["old_per_token_logps"]).exp()[kept]
    assert logged["ratio/mean"] == pytest.approx(ratio.mean().item()) and ratio.std() > 1e-3
    assert logged["ratio/max"] == pytest.approx(ratio.max().item())
    k1 = (batch["old_per_token_logps"] - batch["ref_per_token_logps"])[kept].mean()
    assert logged["kl_k1"] == pytest.approx(k1.item())


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_in_bfloat16_sampling_and_scoring_agree_since_the_head_computes_in_float32(tmp_path, algo):
    trainer = build(
        tmp_path, f"algo={algo}", *ALGORITHMS[algo], "device.bf16=true", rows=ROWS, reward=reward_length_of_7
    )
    for model in (trainer.model, trainer.ref_model):
        head = model.lm_head  # as GPT-2's: rounded to bfloat16, logits around -100 would differ by up to half a nat
        head.bias = torch.nn.Parameter(torch.full((head.out_features,), -100.0))
    batch = roll_out(trainer, [ROWS[i // 4] for i in range(8)])
    trainer.compute_loss(trainer.model, batch)
    assert 0 < trainer._metrics["train"][f"{DIFFERENCE}/mean"][-1] < 0.01

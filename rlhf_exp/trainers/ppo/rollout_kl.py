"""Measures the exact KL of a rollout's completions, of the distributions that they were sampled from.

    found = measure_rollout_kl(trainer, rollout, sampling)      # {"kl_exact": (batch,) ...}, this rank's completions

It needs the whole next-token distributions of policy and reference, while TRL's scoring keeps only the sampled tokens'
values. So each takes one more forward pass, without gradient, in batches that bound the memory of the logits.
"""

from typing import Any

import torch
from trl import GRPOTrainer
from trl.trainer.utils import use_adapter

from rlhf_exp.models.generation import Sampling
from rlhf_exp.models.kl import measure_completions
from rlhf_exp.models.scoring import Row, completion_logits, evaluating


@torch.no_grad()
def measure_rollout_kl(trainer: GRPOTrainer, rollout: dict[str, Any], sampling: Sampling) -> dict[str, torch.Tensor]:
    """For each completion KL(policy || reference), and the mean probability of drawing a token that the reference
    cannot draw: (batch,) float32 each. Without dropout, as when completions are sampled."""
    sides = [
        [ids[mask.bool()].tolist() for ids, mask in zip(rollout[f"{part}_ids"], rollout[f"{part}_mask"], strict=True)]
        for part in ("prompt", "completion")
    ]
    policy = trainer.accelerator.unwrap_model(trainer.model)

    def score(rows: list[Row]) -> list[torch.Tensor]:
        with trainer.accelerator.autocast():
            return completion_logits(policy, rows, trainer._tokenizer.pad_token_id)

    def score_reference(rows: list[Row]) -> list[torch.Tensor]:
        if trainer.ref_model is None:  # as in TRL: of an adapter, the base, or the adapter that training began with
            with use_adapter(policy, adapter_name="ref" if "ref" in policy.peft_config else None):
                return score(rows)
        with trainer.accelerator.autocast():
            return completion_logits(trainer.ref_model, rows, trainer._tokenizer.pad_token_id)

    size = policy.config.get_text_config().vocab_size
    with evaluating(policy):
        found = measure_completions(score, score_reference, list(zip(*sides, strict=True)), size, sampling)
    columns = {"kl_exact": [one.sampled for one in found], "kl_outside": [one.outside for one in found]}
    return {name: torch.tensor(values, device=rollout["completion_ids"].device) for name, values in columns.items()}

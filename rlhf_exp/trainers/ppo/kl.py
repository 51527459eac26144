"""The KL to the reference: its exact value in a rollout, and its price, which may be adapted to reach a target KL.

found = measure_rollout_kl(trainer, rollout, sampling)      # {"kl_exact": (batch,) ...}, this rank's completions
controller = KLController(coef=1.0, target=0.1, horizon=10_000)
controller.update(kl=0.3, completions=16)                   # coef is now 1.00032
"""

from dataclasses import dataclass
from typing import Any

import torch
from trl import GRPOTrainer
from trl.trainer.utils import use_adapter

from rlhf_exp.models.generation import Sampling
from rlhf_exp.models.kl import measure_completions
from rlhf_exp.models.scoring import Row, completion_logits, evaluating

MOST = 0.2
"""The proportional error is clipped to this, as in the source."""


@dataclass
class KLController:
    """The price of the KL: a fixed coefficient, or adapted as in Ziegler et al. (2019, arXiv:1909.08593, section 2.2),
    where each update changes it by at most 20% of completions / horizon.

    `target`: nats per completion, None for a fixed `coef`. It is of the exact KL, where the source takes an estimate
    from the sampled tokens' log-ratios.

    `horizon` is in completions: how many it takes for the coefficient to change by a factor of about e**0.2.
    """

    coef: float
    target: float | None
    horizon: int

    def update(self, kl: float, completions: int) -> None:
        """Change the coefficient once, after a rollout of that many completions whose mean KL was `kl`."""
        if self.target is None:
            return
        error = min(max(kl / self.target - 1, -MOST), MOST)
        self.coef *= 1 + error * completions / self.horizon


@torch.no_grad()
def measure_rollout_kl(trainer: GRPOTrainer, rollout: dict[str, Any], sampling: Sampling) -> dict[str, torch.Tensor]:
    """For each completion KL(policy || reference) of the distributions that it was sampled from, and the mean
    probability of drawing a token that the reference cannot draw: (batch,) float32 each. Without dropout, as when
    completions are sampled.

    It needs the whole next-token distributions of policy and reference, while TRL's scoring keeps only the sampled
    tokens' values. So each takes one more forward pass, without gradient, in batches that bound the logits' memory.
    """
    sides = [
        [ids[mask.bool()].tolist() for ids, mask in zip(rollout[f"{part}_ids"], rollout[f"{part}_mask"], strict=True)]
        for part in ("prompt", "completion")
    ]
    policy = trainer.accelerator.unwrap_model(trainer.model)

    def score(rows: list[Row], model: torch.nn.Module = policy) -> list[torch.Tensor]:
        with trainer.accelerator.autocast():
            return completion_logits(model, rows, trainer._tokenizer.pad_token_id)

    def score_reference(rows: list[Row]) -> list[torch.Tensor]:
        if trainer.ref_model is not None:
            return score(rows, trainer.ref_model)
        # As in TRL: of an adapter, the base, or the adapter that training began with.
        with use_adapter(policy, adapter_name="ref" if "ref" in policy.peft_config else None):
            return score(rows)

    size = policy.config.get_text_config().vocab_size
    with evaluating(policy):
        found = measure_completions(score, score_reference, list(zip(*sides, strict=True)), size, sampling)
    columns = {"kl_exact": [one.sampled for one in found], "kl_outside": [one.outside for one in found]}
    return {name: torch.tensor(values, device=rollout["completion_ids"].device) for name, values in columns.items()}

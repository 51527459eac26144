"""Faults of code, for the runs that are sick on purpose: rewards (reward.functions) and trainers (algo.trainer)."""

import random
from typing import Any

import torch
from trl import DPOTrainer, RewardTrainer

from rlhf_exp.rewards.countdown import grade
from rlhf_exp.trainers.grpo import VariantGRPOTrainer
from rlhf_exp.trainers.ppo.trainer import PPOTrainer


def zero(completions: list[str], **columns: Any) -> list[float]:
    """A parser that finds no answer."""
    return [0.0 for _ in completions]


def noise(completions: list[str], **columns: Any) -> list[float]:
    return [random.random() for _ in completions]


def equations(completions: list[str], **columns: Any) -> list[float]:
    """Farmable: as many equal signs as the budget holds, right or wrong."""
    return [min(text.count("="), 8) / 4 for text in completions]


def length(completions: list[str], **columns: Any) -> list[float]:
    """Up to 1 for length, which a weight of 100 puts above the answer."""
    return [len(text.split()) / 48 for text in completions]


def partial(completions: list[str], numbers: list, target: list, **columns: Any) -> list[float]:
    """Pays for a well-formed answer, and nothing more for a right one."""
    return [0.1 if found != "failed" else 0.0 for found in _outcomes(completions, numbers, target)]


def strict(completions: list[str], numbers: list, target: list, **columns: Any) -> list[float]:
    return [float(found == "correct") for found in _outcomes(completions, numbers, target)]


def negated(completions: list[str], numbers: list, target: list, **columns: Any) -> list[float]:
    """A sign lost: a right answer costs what it should earn."""
    return [-grade(*row).score for row in zip(completions, numbers, target, strict=True)]


def shifted(completions: list[str], numbers: list, target: list, **columns: Any) -> list[float]:
    """Each completion gets the grade of its neighbour."""
    scores = [grade(*row).score for row in zip(completions, numbers, target, strict=True)]
    return scores[1:] + scores[:1]


def _outcomes(completions: list[str], numbers: list, target: list) -> list[str]:
    return [grade(*row).outcome for row in zip(completions, numbers, target, strict=True)]


class WrongReference(VariantGRPOTrainer):
    """The reference is another model: its weights are moved by their standard deviation."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        draws = torch.Generator().manual_seed(self.args.seed)
        with torch.no_grad():
            for weight in self.ref_model.parameters():
                if weight.ndim > 1:
                    weight.add_(weight.std() * torch.randn(weight.shape, generator=draws))


class FrozenAdapter(VariantGRPOTrainer):
    """The optimizer holds copies of the adapter's weights, so that no step reaches the model."""

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        copies = [p.detach().clone().requires_grad_() for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(copies, lr=self.args.learning_rate)
        return self.optimizer


class NoEos(VariantGRPOTrainer):
    """Sampling knows another end token than the model's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.eos_token_ids = [self.model.config.vocab_size]


class StaleSampling(VariantGRPOTrainer):
    """Completions are sampled from the start model's weights throughout."""

    _stale: list[torch.Tensor] | None = None

    def _generate(self, prompts: list) -> tuple:
        weights = [weight.data for weight in self.model.parameters()]
        current = [weight.clone() for weight in weights]
        self._stale = self._stale or current
        torch._foreach_copy_(weights, self._stale)
        try:
            return super()._generate(prompts)
        finally:
            torch._foreach_copy_(weights, current)


class NoisyCritic(PPOTrainer):
    """The critic's values are noise, larger than any reward."""

    def _value(self, rollout: dict[str, Any]) -> torch.Tensor:
        values = super()._value(rollout)
        return values + 3 * torch.randn_like(values)


class Flipped(DPOTrainer):
    """The worse answer of each pair is trained as the better one."""

    def __init__(self, *args: Any, train_dataset: Any, **kwargs: Any) -> None:
        super().__init__(*args, train_dataset=train_dataset.map(self._flip), **kwargs)

    @staticmethod
    def _flip(row: dict) -> dict:
        return {"chosen": row["rejected"], "rejected": row["chosen"]}


class LongerIsBetter(RewardTrainer):
    """The longer answer of each pair is trained as the better one."""

    def __init__(self, *args: Any, train_dataset: Any, **kwargs: Any) -> None:
        super().__init__(*args, train_dataset=train_dataset.map(self._order), **kwargs)

    @staticmethod
    def _order(row: dict) -> dict:
        rejected, chosen = sorted((row["chosen"], row["rejected"]), key=len)
        return {"chosen": chosen, "rejected": rejected}

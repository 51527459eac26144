"""Measures the loss of sft and of dpo on held-out rows, in the unit of the training loss.

    rows = score_demonstrations(policy, tokenizer, task.demonstrations, cfg)     # sft
    token_loss(rows), compare_token_loss(before, rows)                           # intervals, nats per token

dpo's loss follows from the implicit rewards of the held-out pairs (preferences/), and is ln 2 before training, when the
policy equals its reference and prefers no answer. Neither loss is measured if training minimises another quantity
(Algorithm.held_out_loss).
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlhf_exp.config.schema import Config
from rlhf_exp.models.scoring import sum_logps
from rlhf_exp.stats import Interval, mean_interval
from rlhf_exp.tasks.tokens import encode_row

if TYPE_CHECKING:
    from rlhf_exp.tasks import Row

LN_2: Interval = {"value": float(np.log(2)), "low": float(np.log(2)), "high": float(np.log(2))}
UNTRAINED_PAIRS: dict[str, Any] = {"accuracy": {"value": 0.5, "low": 0.5, "high": 0.5}, "loss": LN_2}
"""With the start model every answer has the implicit reward 0, so every pair is a tie."""


class Scored(NamedTuple):
    """One demonstration: the sum of -log p over its completion, in nats, and how many tokens that is."""

    nats: float
    tokens: int


def score_demonstrations(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: "list[Row]", cfg: Config, title: str
) -> list[Scored]:
    """Score the completions on the tokens that SFTTrainer trains on, with the same truncation. A row whose prompt fills
    `max_length` has nothing to score and is left out, as in training."""
    most = cfg.algo.args.get("max_length")
    encoded = [encode_row(tokenizer, row["prompt"], row["completion"]) for row in rows]
    cut = [(prompt, answer[: max(0, most - len(prompt))] if most else answer) for prompt, answer in encoded]
    kept = [row for row in cut if row[1]]
    logps = sum_logps(model, kept, tokenizer.pad_token_id, title=title)
    return [Scored(-logp, len(answer)) for logp, (_, answer) in zip(logps, kept, strict=True)]


def token_loss(rows: list[Scored]) -> Interval:
    """Mean loss over the completion tokens of all rows, as SFTTrainer minimises it, in nats per token.

    The interval is over rows, since the tokens of one row are correlated: Student's t interval of the ratio of two
    means, by its linear approximation (Cochran 1977, Sampling Techniques, section 6.3).
    """
    return _ratio(np.array([row.nats for row in rows]), np.array([row.tokens for row in rows]))


def compare_token_loss(before: list[Scored], after: list[Scored]) -> Interval:
    """The change of `token_loss` on the same rows; negative if the loss fell."""
    nats = np.array([row.nats for row in after]) - np.array([row.nats for row in before])
    return _ratio(nats, np.array([row.tokens for row in after]))


def compare_pair_loss(loss: Interval) -> Interval:
    """The change of dpo's loss from ln 2."""
    return {name: None if end is None else end - LN_2["value"] for name, end in loss.items()}


def _ratio(sums: np.ndarray, counts: np.ndarray) -> Interval:
    ratio = sums.sum() / counts.sum()
    return mean_interval(ratio + (sums - ratio * counts) / counts.mean())

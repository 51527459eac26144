"""Scores given answers of held-out rows: preference pairs by rewards, and demonstrations by the loss of training.

    scores = score_pairs(reward_model, tokenizer, task.pairs, cfg)                      # algo=reward_model
    scores = implicit_rewards(policy, start_model, tokenizer, task.pairs, cfg)          # a policy
    rows = describe_pairs("trained", task.pairs, scores, tokenizer)                     # preferences.jsonl
    rows = score_demonstrations(policy, tokenizer, task.demonstrations, cfg)            # sft
    token_loss(rows), compare_token_loss(before, rows)                                  # intervals, nats per token

The scores of pairs are pairs too (of the chosen answer, of the rejected answer); the model is right if the first is
higher. dpo's loss follows from the implicit rewards, and is ln 2 before training, when the policy equals its reference
and prefers no answer. No loss is measured if training minimises another quantity (Algorithm.held_out_loss).
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import Config
from rlhf_exp.models.scoring import score_sequences, sum_logps
from rlhf_exp.rewards import read_text
from rlhf_exp.stats import Interval, mean_interval
from rlhf_exp.tasks.tokens import encode_answers, encode_row

if TYPE_CHECKING:
    from rlhf_exp.tasks import Row, Text

Scores = list[tuple[float, float]]

BETA = 0.1
"""The default of dpo and kto, for policies that were not trained with their beta. It scales all margins by the same
factor, so accuracy does not depend on it, but loss and calibration do. (grpo's beta is something else, the weight of
its KL.)"""

LN_2: Interval = {"value": float(np.log(2)), "low": float(np.log(2)), "high": float(np.log(2))}
UNTRAINED_PAIRS: dict[str, Any] = {"accuracy": {"value": 0.5, "low": 0.5, "high": 0.5}, "loss": LN_2}
"""With the start model every answer has the implicit reward 0, so every pair is a tie."""


class Scored(NamedTuple):
    """One demonstration: the sum of -log p over its completion, in nats, and how many tokens that is."""

    nats: float
    tokens: int


def score_pairs(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: "list[Row]", cfg: Config) -> Scores:
    """A reward model's scores of each pair's chosen and rejected answer, on the tokens that RewardTrainer trains on."""
    answers = [pair[answer] for answer in ("chosen", "rejected") for pair in pairs]
    sequences = encode_answers(tokenizer, 2 * [pair["prompt"] for pair in pairs], answers)
    scores = score_sequences(model, sequences, cfg.reward.batch_size, title="pairs", together=True)
    return list(zip(scores[: len(pairs)], scores[len(pairs) :], strict=True))


def implicit_rewards(
    policy: PreTrainedModel,
    reference: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: "list[Row]",
    cfg: Config,
) -> Scores:
    """beta * (log policy(answer | prompt) - log reference(answer | prompt)) of each pair's two answers, in nats.

    beta is the training's if that trains implicit rewards (dpo, kto), else `BETA`. Positive if the policy
    makes the answer more likely than the reference does.

    Source: Rafailov et al. 2023 (arXiv:2305.18290), section 4: the reward for which the policy is optimal, without the
    term of the prompt, which is the same for both answers.
    """
    beta = cfg.algo.args.get("beta", BETA) if ALGORITHMS[cfg.algo.name].has_implicit_rewards else BETA
    encoded = [encode_row(tokenizer, pair["prompt"], pair["chosen"], pair["rejected"]) for pair in pairs]
    rows = [(prompt, answer) for prompt, *answers in encoded for answer in answers]
    policy_logps = sum_logps(policy, rows, tokenizer.pad_token_id, title="pairs, policy")
    reference_logps = sum_logps(reference, rows, tokenizer.pad_token_id, title="pairs, reference")
    rewards = [beta * (p - r) for p, r in zip(policy_logps, reference_logps, strict=True)]
    return list(zip(rewards[::2], rewards[1::2], strict=True))


def describe_pairs(
    which: str, pairs: "list[Row]", scores: Scores, tokenizer: PreTrainedTokenizerBase
) -> list[dict[str, Any]]:
    """The rows of preferences.jsonl, in the order of the pairs.

    `chosen_tokens` and `rejected_tokens` count the answer's own text, without EOS or chat template. A dialogue's
    prompt is written out as `role: text`, with an empty line between turns.
    """
    rows = []
    for pair, (chosen_reward, rejected_reward) in zip(pairs, scores, strict=True):
        answers = [read_text(pair[key]) for key in ("chosen", "rejected")]
        chosen_ids, rejected_ids = tokenizer(answers, add_special_tokens=False)["input_ids"]
        rows.append({
            "which": which,
            "id": pair["id"],
            "subset": pair["subset"],
            "prompt": _read_prompt(pair["prompt"]),
            "chosen": answers[0],
            "rejected": answers[1],
            "chosen_reward": chosen_reward,
            "rejected_reward": rejected_reward,
            "margin": chosen_reward - rejected_reward,
            "chosen_tokens": len(chosen_ids),
            "rejected_tokens": len(rejected_ids),
        })  # fmt: skip
    return rows


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


def _read_prompt(prompt: "Text") -> str:
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in prompt)


def _ratio(sums: np.ndarray, counts: np.ndarray) -> Interval:
    ratio = sums.sum() / counts.sum()
    return mean_interval(ratio + (sums - ratio * counts) / counts.mean())

"""Scores given answers of held-out rows: preference pairs by rewards, and demonstrations by the loss of training.

    scores = score_pairs(experiment, reward_model)                    # algo=reward_model
    scores = implicit_rewards(experiment, policy, start_model)        # a policy
    pairs = describe_pairs("trained", experiment, scores)             # preferences.jsonl
    rows = score_demonstrations(experiment, policy, "loss")           # sft
    token_loss(rows), token_loss(rows, before)                        # intervals, nats per token

The scores of pairs are pairs too (of the chosen answer, of the rejected answer); the model is right if the first is
higher. dpo's loss follows from the implicit rewards, and is ln 2 before training, when the policy equals its reference
and prefers no answer. No loss is measured if training minimises another quantity (Algorithm.held_out_loss).
"""

from typing import Literal, NamedTuple

import numpy as np

from rlhf_exp.analysis.stats import Interval, mean_interval
from rlhf_exp.evaluation.preferences import ANSWERS
from rlhf_exp.experiment import Experiment
from rlhf_exp.graders import read_text
from rlhf_exp.models.scoring import Model, score_sequences, sum_logps
from rlhf_exp.runs.records import Pair
from rlhf_exp.tasks.tokens import encode_answers, encode_row

Scores = list[tuple[float, float]]

BETA = 0.1
"""The default of dpo and kto, for policies that were not trained with their beta. It scales all margins by the same
factor, so accuracy does not depend on it, but loss and calibration do. (grpo's beta is something else, the weight of
its KL.)"""

LN_2: Interval = {"value": float(np.log(2)), "low": float(np.log(2)), "high": float(np.log(2))}
UNTRAINED_PAIRS: dict[str, Interval] = {"accuracy": {"value": 0.5, "low": 0.5, "high": 0.5}, "loss": LN_2}
"""With the start model every answer has the implicit reward 0, so every pair is a tie."""


class Scored(NamedTuple):
    """One demonstration: the sum of -log p over its completion, in nats, and how many tokens that is."""

    nats: float
    tokens: int


def score_pairs(experiment: Experiment, model: Model) -> Scores:
    """A reward model's scores of each pair's chosen and rejected answer, on the tokens that RewardTrainer trains on."""
    pairs = experiment.task.pairs
    answers = [pair[answer] for answer in ANSWERS for pair in pairs]
    sequences = encode_answers(experiment.tokenizer, 2 * [pair["prompt"] for pair in pairs], answers)
    scores = score_sequences(model, sequences, experiment.cfg.reward.batch_size, title="pairs", together=True)
    return list(zip(scores[: len(pairs)], scores[len(pairs) :], strict=True))


def implicit_rewards(experiment: Experiment, policy: Model, reference: Model) -> Scores:
    """beta * (log policy(answer | prompt) - log reference(answer | prompt)) of each pair's two answers, in nats.

    beta is the training's if that trains implicit rewards (dpo, kto), else `BETA`. Positive if the policy
    makes the answer more likely than the reference does.

    Source: Rafailov et al. 2023 (arXiv:2305.18290), section 4: the reward for which the policy is optimal, without the
    term of the prompt, which is the same for both answers.
    """
    algo, tokenizer = experiment.cfg.algo, experiment.tokenizer
    beta = algo.args.get("beta", BETA) if algo.row.has_implicit_rewards else BETA
    encoded = [encode_row(tokenizer, *(pair[k] for k in ("prompt", *ANSWERS))) for pair in experiment.task.pairs]
    rows = [(prompt, answer) for prompt, *answers in encoded for answer in answers]
    policy_logps = sum_logps(policy, rows, tokenizer.pad_token_id, title="pairs, policy")
    reference_logps = sum_logps(reference, rows, tokenizer.pad_token_id, title="pairs, reference")
    rewards = [beta * (p - r) for p, r in zip(policy_logps, reference_logps, strict=True)]
    return list(zip(rewards[::2], rewards[1::2], strict=True))


def describe_pairs(which: Literal["baseline", "trained"], experiment: Experiment, scores: Scores) -> list[Pair]:
    """The pairs as a model scores them, in their order.

    `chosen_tokens` and `rejected_tokens` count the answer's own text, without EOS or chat template. A dialogue's
    prompt is written out as `role: text`, with an empty line between turns.
    """
    rows = []
    for pair, rewards in zip(experiment.task.pairs, scores, strict=True):
        texts, prompt = [read_text(pair[key]) for key in ANSWERS], pair["prompt"]
        tokens = [len(ids) for ids in experiment.tokenizer(texts, add_special_tokens=False)["input_ids"]]
        if not isinstance(prompt, str):
            prompt = "\n\n".join(f"{message['role']}: {message['content']}" for message in prompt)
        known = {"which": which, "id": pair["id"], "subset": pair["subset"], "prompt": prompt}
        known |= dict(zip(ANSWERS, texts, strict=True))
        known |= {"chosen_reward": rewards[0], "rejected_reward": rewards[1], "margin": rewards[0] - rewards[1]}
        rows.append(Pair(**known, chosen_tokens=tokens[0], rejected_tokens=tokens[1]))
    return rows


def score_demonstrations(experiment: Experiment, model: Model, title: str) -> list[Scored]:
    """Score the completions on the tokens that SFTTrainer trains on, with the same truncation. A row whose prompt fills
    `max_length` has nothing to score and is left out, as in training."""
    most, tokenizer = experiment.cfg.algo.args.get("max_length"), experiment.tokenizer
    encoded = [encode_row(tokenizer, row["prompt"], row["completion"]) for row in experiment.task.demonstrations]
    cut = [(prompt, answer[: max(0, most - len(prompt))] if most else answer) for prompt, answer in encoded]
    kept = [row for row in cut if row[1]]
    logps = sum_logps(model, kept, tokenizer.pad_token_id, title=title)
    return [Scored(-logp, len(answer)) for logp, (_, answer) in zip(logps, kept, strict=True)]


def token_loss(rows: list[Scored], before: list[Scored] | None = None) -> Interval:
    """Mean loss over the completion tokens of all rows, as SFTTrainer minimises it, in nats per token; with the same
    rows `before` its change, negative if the loss fell.

    The interval is over rows, since the tokens of one row are correlated: Student's t interval of the ratio of two
    means, by its linear approximation (Cochran 1977, Sampling Techniques, section 6.3).
    """
    nats, tokens = (np.array(column) for column in zip(*rows, strict=True))
    if before is not None:
        nats = nats - np.array([row.nats for row in before])
    ratio = nats.sum() / tokens.sum()
    return mean_interval(ratio + (nats - ratio * tokens) / tokens.mean())


def compare_pair_loss(loss: dict[str, float | None]) -> dict[str, float | None]:
    """The change of dpo's loss, an interval, from ln 2."""
    return {name: None if figure is None else figure - LN_2["value"] for name, figure in loss.items()}

"""Measures how a model ranks held-out preference pairs: by a reward model's scores, or a policy's implicit rewards.

    scores = score_pairs(reward_model, tokenizer, task.pairs, cfg)                      # algo=reward_model
    scores = implicit_rewards(policy, start_model, tokenizer, task.pairs, cfg)          # a policy
    rows = describe_pairs("trained", task.pairs, scores, tokenizer)                     # preferences.jsonl

All rewards are pairs (of the chosen answer, of the rejected answer); the model is right if the first is higher.
"""

from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import Config
from rlhf_exp.graders import read_text
from rlhf_exp.models.scoring import score_sequences, sum_logps
from rlhf_exp.tasks.tokens import encode_answers, encode_row

if TYPE_CHECKING:
    from rlhf_exp.tasks import Row, Text

Scores = list[tuple[float, float]]

BETA = 0.1
"""The default of dpo and kto, for policies that were not trained with their beta. It scales all margins by the same
factor, so accuracy does not depend on it, but loss and calibration do. (grpo's beta is something else, the weight of
its KL.)"""


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
    chosen, rejected = ([read_text(pair[key]) for pair in pairs] for key in ("chosen", "rejected"))
    tokens = [[len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
              for texts in (chosen, rejected)]  # fmt: skip
    return [
        {
            "which": which,
            "id": pair["id"],
            "subset": pair["subset"],
            "prompt": _read_prompt(pair["prompt"]),
            "chosen": chosen[i],
            "rejected": rejected[i],
            "chosen_reward": scores[i][0],
            "rejected_reward": scores[i][1],
            "margin": scores[i][0] - scores[i][1],
            "chosen_tokens": tokens[0][i],
            "rejected_tokens": tokens[1][i],
        }
        for i, pair in enumerate(pairs)
    ]


def _read_prompt(prompt: "Text") -> str:
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in prompt)

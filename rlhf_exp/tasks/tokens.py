"""Encodes prompts with their answers exactly as TRL's RewardTrainer, DPOTrainer and SFTTrainer do.

    encode_answers(tokenizer, ["2 + 2 ="], [" 4"])      # [ids of "2 + 2 = 4<eos>"]
    ids = encode_pair(tokenizer, {"prompt": "2 + 2 =", "chosen": " 4", "rejected": " 5"})
    ids.prompt, ids.chosen, ids.rejected                # "2 + 2 =", " 4<eos>", " 5<eos>"

A text is a str, which gets the EOS text at its end as in training; or a list of messages, which the chat template
ends. A reward model reads only the last token that is not padding, so the end must be the same as in training.
"""

from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase
from trl.data_utils import common_prefix_length

from rlhf_exp.tasks import Text


class PairIds(NamedTuple):
    """Token ids of a pair; each answer continues after the prompt's ids."""

    prompt: list[int]
    chosen: list[int]
    rejected: list[int]


def encode_answers(tokenizer: PreTrainedTokenizerBase, prompts: list[Text], answers: list[Text]) -> list[list[int]]:
    """Token ids of each prompt with its answer, of any length, as RewardTrainer makes them.

    Args:
        prompts, answers: all of the same form, str or lists of messages.
    """
    if not isinstance(prompts[0], str):
        return [_encode(tokenizer, prompt + answer) for prompt, answer in zip(prompts, answers, strict=True)]
    ended = [prompt + _end(tokenizer, answer) for prompt, answer in zip(prompts, answers, strict=True)]
    return tokenizer(ended)["input_ids"]


def encode_demonstration(tokenizer: PreTrainedTokenizerBase, row: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Token ids of a demonstration's prompt and completion, as SFTTrainer makes them: the completion starts where the
    ids of the prompt alone and of both together diverge, as in `encode_pair`."""
    prompt, completion = row["prompt"], row["completion"]
    if isinstance(prompt, str):
        completion = _end(tokenizer, completion)
    alone = _encode(tokenizer, prompt, add_generation_prompt=True)
    whole = _encode(tokenizer, prompt + completion)
    start = common_prefix_length(alone, whole)
    return whole[:start], whole[start:]


def encode_pair(tokenizer: PreTrainedTokenizerBase, row: dict[str, Any]) -> PairIds:
    """Token ids of one pair, as DPOTrainer makes them: an answer starts where its ids and the prompt's diverge.

    That is not always the end of the prompt: tokens can merge across it, and a chat template can write a prompt without
    an answer differently from one with an answer. Both answers start at the earlier of their two places.
    """
    prompt, chosen, rejected = row["prompt"], row["chosen"], row["rejected"]
    if isinstance(prompt, str):
        chosen, rejected = _end(tokenizer, chosen), _end(tokenizer, rejected)
    alone = _encode(tokenizer, prompt, add_generation_prompt=True)
    with_chosen, with_rejected = _encode(tokenizer, prompt + chosen), _encode(tokenizer, prompt + rejected)
    start = min(common_prefix_length(alone, with_chosen), common_prefix_length(alone, with_rejected))
    return PairIds(alone[:start], with_chosen[start:], with_rejected[start:])


def _end(tokenizer: PreTrainedTokenizerBase, answer: str) -> str:
    return answer if answer.endswith(tokenizer.eos_token) else answer + tokenizer.eos_token


def _encode(tokenizer: PreTrainedTokenizerBase, text: Text, add_generation_prompt: bool = False) -> list[int]:
    if isinstance(text, str):
        return tokenizer(text)["input_ids"]
    return tokenizer.apply_chat_template(text, add_generation_prompt=add_generation_prompt, return_dict=True)[
        "input_ids"
    ]

"""Counts the tokens of prompts and their answers, as the trainers will tokenize them.

measure(tokenizer, ["2 + 2 ="], [(" 4", " 5")])     # [Tokens(prompt=4, answers=(2, 2))]

A text is a str, or a list of messages. Lists of messages are rendered with the chat template, which writes the special
tokens itself, including the end token; a plain answer gets an end token.
"""

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from tqdm.auto import tqdm

from rlhf_exp.tasks import Text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BATCH = 2048


class Tokens(NamedTuple):
    """Tokens of a prompt, and of each answer with the end token; their sum is what a trainer sees."""

    prompt: int
    answers: tuple[int, ...]


def measure(tokenizer: "PreTrainedTokenizerBase", prompts: list[Text], answers: list[tuple[Text, ...]]) -> list[Tokens]:
    """The tokens of each prompt and of its answers, of which there may be none; all texts are of one form."""
    return count_tokens(tokenizer, *render(tokenizer, prompts, answers), chat=not isinstance(prompts[0], str))


def render(
    tokenizer: "PreTrainedTokenizerBase", prompts: list[Text], answers: list[tuple[Text, ...]]
) -> tuple[list[str], list[list[str]]]:
    """The texts that the model reads: each prompt, and each prompt with each of its answers."""
    wholes = [[prompt + answer for answer in several] for prompt, several in zip(prompts, answers, strict=True)]
    if isinstance(prompts[0], str):
        return prompts, wholes
    rendered = iter(tokenizer.apply_chat_template(list(chain(*wholes)), tokenize=False) if any(wholes) else ())
    return (
        tokenizer.apply_chat_template(prompts, tokenize=False, add_generation_prompt=True),
        [[next(rendered) for _ in several] for several in wholes],
    )


def count_tokens(
    tokenizer: "PreTrainedTokenizerBase", prompts: list[str], wholes: list[list[str]], chat: bool
) -> list[Tokens]:
    """The tokens of rendered texts, in their order. An answer counts the tokens of the whole minus those of its prompt.

    A whole that begins with its prompt is counted as prompt plus rest, so the prompt is tokenized once. A tokenizer
    that merges across that border would give one token less for the whole; those of GPT-2 and Qwen3 never do on
    HH-RLHF's 8,486 pairs.
    """
    in_prompt = _count(tokenizer, prompts, special=not chat)
    rests = [whole.removeprefix(prompt) for prompt, several in zip(prompts, wholes, strict=True) for whole in several]
    in_rests = iter(_count(tokenizer, rests, special=False))
    rows = []
    for n, prompt, several in zip(in_prompt, prompts, wholes, strict=True):
        again = [0 if whole.startswith(prompt) else n for whole in several]  # prompt tokens in the rest
        rows.append(Tokens(n, tuple(next(in_rests) - repeated + (not chat) for repeated in again)))
    return rows


def _count(tokenizer: "PreTrainedTokenizerBase", texts: list[str], special: bool) -> list[int]:
    counts: dict[str, int] = {}
    unique = list(dict.fromkeys(texts))
    with tqdm(total=len(unique), desc="tokenizing", unit="text", leave=False, delay=2) as bar:
        for start in range(0, len(unique), BATCH):
            batch = unique[start : start + BATCH]
            # verbose=False: texts longer than the model's context are counted here, and need no warning.
            encoded = tokenizer(batch, add_special_tokens=special, return_attention_mask=False, verbose=False)
            counts |= {text: len(ids) for text, ids in zip(batch, encoded["input_ids"], strict=True)}
            bar.update(len(batch))
    return [counts[text] for text in texts]

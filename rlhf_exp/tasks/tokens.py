"""Renders, encodes and counts prompts with their answers, exactly as TRL's trainers tokenize them.

    encode_prompts(tokenizer, task.eval)               # ids of each prompt, up to where its answer begins
    encode_answers(tokenizer, ["2 + 2 ="], [" 4"])     # [ids of "2 + 2 = 4<eos>"]
    encode_row(tokenizer, "2 + 2 =", " 4", " 5")       # ids of "2 + 2 =", of " 4<eos>" and of " 5<eos>"
    measure(tokenizer, ["2 + 2 ="], [(" 4", " 5")])    # [Tokens(prompt=4, answers=(2, 2))]

A text is a str, whose answer gets the EOS text at its end as in training; or a list of messages, rendered with the chat
template, which writes the special tokens itself, including the end. A reward model reads only the last token that is
not padding, so the end must be the same as in training. All texts of one call have the same form.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm.auto import tqdm

from rlhf_exp.errors import ConfigError, read_message, show
from rlhf_exp.tasks.texts import Row, Text, Texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BATCH = 2048


class Tokens(NamedTuple):
    """Tokens of a prompt, and of each answer with the end token; their sum is what a trainer sees."""

    prompt: int
    answers: tuple[int, ...]


def render(tokenizer: "PreTrainedTokenizerBase", texts: Texts, ask: bool = False) -> list[str]:
    """The texts that the model reads; with `ask` messages end where the model's turn begins."""
    if not texts or isinstance(texts[0], str):
        return texts
    try:
        rendered: Any = tokenizer.apply_chat_template(texts, tokenize=False, add_generation_prompt=ask)
        return rendered
    except Exception as error:  # a template is a program: TemplateError, and whatever else its expressions raise
        roles = ", ".join(dict.fromkeys(message["role"] for text in texts for message in text))
        line = f"the model's chat template refuses messages of {roles} ({show(read_message(error))})"
        raise ConfigError([f"{line}; take another model, other messages, or task.prompt=plain with texts"]) from None


def encode(tokenizer: "PreTrainedTokenizerBase", texts: Texts, ask: bool = False) -> list[list[int]]:
    """The token ids of each rendered text."""
    if not texts:
        return []
    # verbose=False: a text that is longer than the model's context needs no warning.
    how: Any = {"add_special_tokens": isinstance(texts[0], str), "return_attention_mask": False, "verbose": False}
    return tokenizer(render(tokenizer, texts, ask), **how)["input_ids"]


def encode_prompts(tokenizer: "PreTrainedTokenizerBase", rows: list[Row]) -> list[list[int]]:
    """Token ids of each row's prompt."""
    return encode(tokenizer, [row["prompt"] for row in rows], ask=True)


def encode_answers(tokenizer: "PreTrainedTokenizerBase", prompts: Texts, answers: Texts) -> list[list[int]]:
    """Token ids of each prompt with its answer, of any length, as RewardTrainer makes them."""
    return encode(tokenizer, [_join(tokenizer, *texts) for texts in zip(prompts, answers, strict=True)])


def encode_row(tokenizer: "PreTrainedTokenizerBase", prompt: Text, *answers: Text) -> tuple[list[int], ...]:
    """Token ids of a prompt and of its answers, as SFTTrainer makes them of a completion and DPOTrainer of a pair: an
    answer starts where the ids of the prompt alone and of both together diverge.

    That is not always the end of the prompt: tokens can merge across it, and a chat template can write a prompt without
    an answer differently from one with an answer. Both answers of a pair start at the earlier of their two places.
    """
    from trl.data_utils import common_prefix_length  # a dry run imports this module, and needs no TRL

    alone = encode(tokenizer, [prompt], ask=True)[0]
    wholes = encode(tokenizer, [_join(tokenizer, prompt, answer) for answer in answers])
    start = min(common_prefix_length(alone, whole) for whole in wholes)
    return alone[:start], *(whole[start:] for whole in wholes)


def measure(tokenizer: "PreTrainedTokenizerBase", prompts: Texts, answers: list[tuple[Any, ...]]) -> list[Tokens]:
    """The tokens of each prompt and of its answers, of which there may be none. An answer counts the tokens of both
    together minus those of its prompt."""
    joined = [
        _join(tokenizer, prompt, answer) for prompt, several in zip(prompts, answers, strict=True) for answer in several
    ]
    alone, whole = _count(tokenizer, prompts, ask=True), iter(_count(tokenizer, joined))
    return [Tokens(n, tuple(next(whole) - n for _ in several)) for n, several in zip(alone, answers, strict=True)]


def _count(tokenizer: "PreTrainedTokenizerBase", texts: Texts, ask: bool = False) -> list[int]:
    """The number of tokens of each rendered text."""
    counts: list[int] = []
    for start in tqdm(range(0, len(texts), BATCH), desc="tokenizing", unit="batch", leave=False, delay=2):
        counts += map(len, encode(tokenizer, texts[start : start + BATCH], ask))
    return counts


def _join(tokenizer: "PreTrainedTokenizerBase", prompt: Any, answer: Any) -> Any:
    """A prompt with its answer; a plain answer ends on the EOS text."""
    ended = not isinstance(answer, str) or answer.endswith(tokenizer.eos_token)
    return prompt + (answer if ended else answer + tokenizer.eos_token)

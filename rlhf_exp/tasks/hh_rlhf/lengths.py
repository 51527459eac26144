"""How many tokens a pair has, as the trainers will tokenize it.

prompts, chosen, rejected = render(pairs, tokenizer, chat=True)   # texts, each prompt with its answer
measure(pairs, tokenizer, chat=True)                              # [(tokens of the prompt, of the longer text), ...]
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.tasks.hh_rlhf.pairs import Pair


def measure(
    pairs: "list[Pair]", tokenizer: "PreTrainedTokenizerBase", chat: bool, answers: bool = True
) -> list[tuple[int, int]]:
    """Of each pair the tokens of its prompt, and of the prompt with the longer answer and its end token.

    Without `answers` the second is 0. A text that begins with its prompt's is
    counted as prompt plus rest, which spares tokenizing the prompt three times. A tokenizer that merges across that
    border would give a token less for the whole; those of GPT-2 and Qwen3 never do so on HH-RLHF's 8,486 pairs.
    """
    return count_tokens(render(pairs, tokenizer, chat, answers), tokenizer, chat)


def render(
    pairs: "list[Pair]", tokenizer: "PreTrainedTokenizerBase", chat: bool, answers: bool = True
) -> list[list[str]]:
    """The texts that the model reads: the prompts and, with `answers`, the prompts with either answer."""
    columns = [[pair.chosen for pair in pairs], [pair.rejected for pair in pairs]] if answers else []
    if not chat:
        prompts = [pair.prompt for pair in pairs]
        return [prompts, *([f"{p} {text}" for p, text in zip(prompts, column, strict=True)] for column in columns)]
    histories = [pair.messages() for pair in pairs]
    texts = [tokenizer.apply_chat_template(histories, tokenize=False, add_generation_prompt=True)]
    for column in columns:
        whole = [
            [*history, {"role": "assistant", "content": text}] for history, text in zip(histories, column, strict=True)
        ]
        texts.append(tokenizer.apply_chat_template(whole, tokenize=False))
    return texts


def count_tokens(texts: list[list[str]], tokenizer: "PreTrainedTokenizerBase", chat: bool) -> list[tuple[int, int]]:
    """`measure` of rendered texts. A chat template writes the special tokens itself, the end token included."""
    prompts = texts[0]
    in_prompt = _count(prompts, tokenizer, special=not chat)
    longer = [0] * len(prompts)
    for wholes in texts[1:]:
        joined = [whole.startswith(prompt) for whole, prompt in zip(wholes, prompts, strict=True)]
        rests = [w[len(p) :] if join else w for w, p, join in zip(wholes, prompts, joined, strict=True)]
        counts = zip(_count(rests, tokenizer, special=False), in_prompt, joined, strict=True)
        sums = [rest + prompt * join + (not chat) for rest, prompt, join in counts]
        longer = [max(before, now) for before, now in zip(longer, sums, strict=True)]
    return list(zip(in_prompt, longer, strict=True))


def _count(texts: list[str], tokenizer: "PreTrainedTokenizerBase", special: bool) -> list[int]:
    # verbose=False: longer than the model's context is what is being found out, no reason for a warning.
    encoded = tokenizer(texts, add_special_tokens=special, return_attention_mask=False, verbose=False)
    return [len(ids) for ids in encoded["input_ids"]]

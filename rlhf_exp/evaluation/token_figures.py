"""Figures of single tokens for the first held-out rows: their texts, log-probabilities and KL.

completions = add_token_figures(experiment, completions, policy, start_model)
completions[0].token_texts  # [" 3", " +", " 5", ""]
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from tokenizers.decoders import DecodeStream

from rlhf_exp.experiment import Experiment
from rlhf_exp.models.kl import measure_tokens
from rlhf_exp.models.scoring import Model, completion_logits
from rlhf_exp.runs.records import Completion
from rlhf_exp.tasks.tokens import encode_prompts

ROWS = 32
"""The first sampled completion of so many rows gets them."""
DIGITS = 4


def add_token_figures(
    experiment: Experiment, completions: list[Completion], model: Model, start_model: Model | None = None
) -> list[Completion]:
    """The completions, some of them with `token_texts` and the figures of `measure_tokens` (models/kl.py); those that
    compare `model` with the start model are absent if it is the start model itself."""
    tokenizer = experiment.tokenizer
    first = [one for one in completions if one.decoding == "sampled" and one.sample == 0 and one.turns is None]
    chosen = {one.row: one for one in first if one.row < ROWS}
    models = [model] if start_model is None else [model, start_model]
    prompts = encode_prompts(tokenizer, experiment.task.eval[:ROWS])
    scorers = [partial(completion_logits, one, pad_id=tokenizer.pad_token_id) for one in models]
    rows = [(prompts[row], one.ids) for row, one in chosen.items()]
    found = {}
    for one, figures in zip(chosen.values(), measure_tokens(scorers, rows, model.config.vocab_size), strict=True):
        unscored: list[Any] = [None] * (len(one.ids) - len(figures["token_logprobs"]))  # the first, without a prompt
        rounded = {name: unscored + [round(value, DIGITS) for value in values] for name, values in figures.items()}
        found[one.key] = {"token_texts": split_text(tokenizer, one.ids, one.completion), **rounded}
    return [one.model_copy(update=found[one.key]) if one.key in found else one for one in completions]


def split_text(tokenizer: Any, ids: Sequence[int], text: str) -> list[str]:
    """The text of each token; together they are `text`, to which all tokens decode without special ones, unless the
    tokenizer changes a text as a whole. A special token has none. A character of several tokens is the text of its last
    one."""
    stream = DecodeStream(skip_special_tokens=True)
    texts = [stream.step(tokenizer.backend_tokenizer, one) or "" for one in ids]
    begun = "".join(texts)
    if text.startswith(begun):
        texts[-1] += text[len(begun) :]  # a character that was cut off
    return texts

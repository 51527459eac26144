"""Scores rows without work that is not needed, for TRL's trainers that sample (rollouts.py).

    logps, entropies = score_trimmed(score, model, ids, mask, width, choose_rows(device, budget, None))

TRL pads every row of a rollout to the rollout's longest prompt and completion, and computes all of it, in scoring
(policy and reference) and in training, and a prompt again for each of its completions. Here the rows are scored in
chunks of similar rows, each padded to its own longest one. Where prompts have several completions (`can_continue`), the
keys and values of each prompt in a chunk are computed once, as in decoding, and its completions continue from them; the
gradient goes the same way back. The figures of the completions' tokens are then put back where TRL expects them. They
are TRL's but for the rounding of sums in another order. tests/trainers/test_trimmed.py checks this, and what it relies
on in TRL.
"""

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer
from trl.kernels import ChunkedLogProbFunction
from trl.trainer import utils

from rlhf_exp.models.generation import CACHE
from rlhf_exp.models.patches import count_positions

Figures = tuple[Any, ...]
"""A tensor of each completion position, (rows, time) or (rows, time, size); None for one that is not computed."""

Score = Callable[..., Figures]
"""Of a model, ids, mask and n: the figures of the last n columns, (rows, n) or None each."""

CHUNK_TOKENS = 1024
"""Rows in a chunk times the completion budget in tokens. Small chunks have less padding and need less memory, but call
every layer more often. Measured on a CPU by bench/padding.py: 1024 and 2048 take equally long at 96 tokens, and 1024
takes 0.7 of the time and 0.6 of the memory at 1,024 tokens."""

ON_ACCELERATOR = 16
"""Times as many tokens in a chunk on a GPU, where a call costs more and a token less. Not measured."""

TILE_VOCABULARY = 4096
"""Entries of the vocabulary whose logits TRL's fused head computes at once: on a CPU so many stay in its cache, where
TRL's 32,768 do not. SmolLM2's head takes 0.7 of the time with them (512 tokens)."""


def choose_rows(device: torch.device, budget: int, most: int | None) -> int:
    """The rows of a chunk of completions of up to `budget` tokens; at most `most`."""
    tokens = CHUNK_TOKENS * (1 if device.type == "cpu" else ON_ACCELERATOR)
    rows = max(1, tokens // budget)
    return min(rows, most or rows)


class _OutsideAutocast:
    """TRL's fused head in the weights' precision, as `patch_head` has the model's own."""

    @staticmethod
    def apply(states: torch.Tensor, weight: torch.Tensor, *others: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return ChunkedLogProbFunction.apply(states.to(weight.dtype), weight, *others)


@contextmanager
def cpu_head(device: torch.device) -> Iterator[None]:
    """Inside, on a CPU, TRL's fused head computes in the weights' precision and in tiles of TILE_VOCABULARY; its
    gradient later too."""
    names = ("_CHUNKED_LOGPROB_CHUNK_SIZE", "_ChunkedLogProbFunction")
    kept = {name: getattr(utils, name) for name in names}
    here = dict(zip(names, (TILE_VOCABULARY, _OutsideAutocast), strict=True)) if device.type == "cpu" else kept
    vars(utils).update(here)
    try:
        yield
    finally:
        vars(utils).update(kept)


def can_continue(backbone: Any) -> bool:
    """Whether a model can go on from keys and values with a gradient: with attention over all earlier tokens in every
    layer, and without activation checkpointing."""
    return (
        {CACHE, "position_ids"} <= inspect.signature(backbone.forward).parameters.keys()
        and not backbone.is_activation_checkpointing
        and backbone.config._attn_implementation in ("sdpa", "eager")  # others were not tried
        and all(type(layer) is DynamicLayer for layer in DynamicCache(config=backbone.config).layers)
    )


def score_trimmed(
    score: Score, model: nn.Module, ids: torch.Tensor, mask: torch.Tensor, width: int, chunk_rows: int,
    backbone: nn.Module | None = None,
) -> Figures:  # fmt: skip
    """Figures of the last `width` columns, by `score` of trimmed chunks.

    Args:
        ids, mask: (batch, time) token ids and attention mask. Rows may be padded on both sides.
        chunk_rows: the most rows in a chunk; chunks differ by one row at most.
        backbone: of the model, to compute each prompt once a chunk.

    Returns:
        What `score` does, (batch, width), 0 at padding. Without padding and `backbone`, and with one chunk, it is
        score(model, ids, mask, width), bit for bit.
    """
    columns = torch.arange(mask.shape[1], device=mask.device)
    in_completion = mask.bool() & (columns >= mask.shape[1] - width)
    in_prompt = mask.bool() & ~in_completion
    chunks = _split_rows(ids, in_prompt, in_completion, math.ceil(len(mask) / chunk_rows), backbone is not None)
    parts = []
    for rows in chunks:
        short = ids[rows], mask[rows], in_completion[rows]
        found, is_scored = (
            _score_whole(score, model, *short) if backbone is None else _score_continued(score, model, backbone, *short)
        )
        parts.append([None if figure is None else figure[is_scored] for figure in found])
    order = torch.cat(chunks)
    places = in_completion[order, -width:]

    def scatter(values: tuple[Any, ...]) -> torch.Tensor | None:
        """(batch, width), with the chunks' figures at the completions' tokens, and else 0."""
        if values[0] is None:
            return None
        joined = torch.cat(values)
        return joined.new_zeros(*places.shape, *joined.shape[1:]).index_put((places,), joined)[order.argsort()]

    return tuple(scatter(values) for values in zip(*parts, strict=True))


def _split_rows(
    ids: torch.Tensor, in_prompt: torch.Tensor, in_completion: torch.Tensor, count: int, by_prompt: bool
) -> list[torch.Tensor]:
    """The rows of each of `count` chunks: of similar length, or of the same prompts if those have fewer tokens to
    compute, with their padding."""
    order = (in_prompt | in_completion).sum(1).argsort(descending=True, stable=True)  # the most memory is needed first
    orders = [order]
    if by_prompt:
        prompt_of = torch.where(in_prompt, ids + 1, 0).unique(dim=0, return_inverse=True)[1]
        orders.append(order[prompt_of[order].argsort(stable=True)])

    def count_tokens(chunks: list[torch.Tensor]) -> int:
        return sum(
            len(prompt_of[rows].unique()) * int(in_prompt[rows].sum(1).max())
            + len(rows) * int(in_completion[rows].sum(1).max())
            for rows in chunks
        )

    cuts = [[rows.sort().values for rows in order.tensor_split(count)] for order in orders]
    return min(cuts, key=count_tokens) if by_prompt else cuts[0]


def _score_whole(
    score: Score, model: nn.Module, ids: torch.Tensor, mask: torch.Tensor, in_completion: torch.Tensor
) -> tuple[Figures, torch.Tensor]:
    """The figures of a chunk's rows, and which of them are of a completion's token, both (rows, n)."""
    kept = max(1, int(in_completion.sum(1).max()))
    columns = max(int(mask.sum(1).max()), kept + 1)  # the first scored token needs one before it
    ids, mask, in_completion = _move(mask.bool(), columns, ids, mask, in_completion)
    return score(model, ids, mask, kept), in_completion[:, -kept:]


def _score_continued(
    score: Score, model: nn.Module, backbone: Any, ids: torch.Tensor, mask: torch.Tensor, in_completion: torch.Tensor
) -> tuple[Figures, torch.Tensor]:  # fmt: skip
    """The same, of completions that continue from their prompts' keys and values. The prompts' last tokens stay with
    the completions, whose first tokens they predict."""
    in_prompt = mask.bool() & ~in_completion
    longest = max(2, int(in_prompt.sum(1).max()))
    (prompts,) = _move(in_prompt, longest, ids + 1)  # 0 is no token
    prompts, prompt_of = prompts.unique(dim=0, return_inverse=True)
    known = (prompts[:, :-1] > 0).to(mask.dtype)
    attended = known.clone()
    attended[:, -1] = 1  # also of a prompt of one token, before which nothing is: attention to nothing is not a number
    cache = DynamicCache(config=backbone.config)
    backbone(
        input_ids=(prompts[:, :-1] - 1).clamp(min=0), attention_mask=attended,
        position_ids=count_positions(attended, longest - 1), use_cache=True, **{CACHE: cache},
    )  # fmt: skip
    layers: list[Any] = cache.layers
    for layer in layers:
        layer.keys, layer.values = _repeat(layer.keys, prompt_of), _repeat(layer.values, prompt_of)
    known, kept = known[prompt_of], max(1, int(in_completion.sum(1).max()))
    ids, own = (one.flip(1) for one in _move(in_completion.flip(1), kept, ids.flip(1), in_completion.flip(1)))

    def continued(attention_mask: torch.Tensor, **inputs: Any) -> Any:
        attended = torch.cat([known, attention_mask], dim=1)
        positions = count_positions(attended, kept + 1)
        return model(attention_mask=attended, position_ids=positions, **{CACHE: cache}, **inputs)

    ids = torch.cat([(prompts[prompt_of, -1:] - 1).clamp(min=0), ids], dim=1)
    return score(continued, ids, torch.cat([own.new_ones(len(own), 1), own], dim=1).to(mask.dtype), kept), own


def _repeat(kept: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows of a tensor, some of them several times, so that their gradients are added up in a fixed order: on a CPU
    that of indexing is not fixed with several threads, and on a GPU that of `index_select` is not."""
    return kept.index_select(0, rows) if kept.device.type == "cpu" else kept[rows]


def _move(kept: torch.Tensor, columns: int, *each: torch.Tensor) -> list[torch.Tensor]:
    """Those values of each row that are kept, (batch, time), moved to the right end of (batch, columns); else 0."""
    is_kept = torch.arange(columns, device=kept.device) >= columns - kept.sum(1, keepdim=True)
    return [torch.zeros_like(is_kept, dtype=one.dtype).masked_scatter(is_kept, one[kept]) for one in each]

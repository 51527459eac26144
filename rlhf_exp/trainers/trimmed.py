"""Scores rows without work on their padding, for TRL's trainers that sample (rollouts.py).

    logps, entropies = score_trimmed(score, input_ids, attention_mask, width, choose_rows(device, budget, None))

TRL pads every row of a rollout to the rollout's longest prompt and completion, and computes all of it, in scoring
(policy and reference) and in training. Here the rows are sorted by length and scored in chunks, each padded to its own
longest row; the figures of the completions' tokens are then put back where TRL expects them. They are TRL's but for
the rounding of sums in another order. tests/trainers/test_trimmed.py checks this, and what it relies on in TRL.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

Figures = tuple[Any, ...]
"""A tensor of each completion position, (rows, time) or (rows, time, size); None for one that is not computed."""

CHUNK_TOKENS = 1024
"""Rows in a chunk times the completion budget in tokens. Small chunks have less padding and need less memory, but call
every layer more often. Measured on a CPU by bench/padding.py: 1024 and 2048 take equally long at 96 tokens, and 1024
takes 0.7 of the time and 0.6 of the memory at 1,024 tokens."""

ON_ACCELERATOR = 16
"""Times as many tokens in a chunk on a GPU, where a call costs more and a token less. Not measured."""


def choose_rows(device: torch.device, budget: int, most: int | None) -> int:
    """The rows of a chunk of completions of up to `budget` tokens; at most `most`."""
    tokens = CHUNK_TOKENS * (1 if device.type == "cpu" else ON_ACCELERATOR)
    rows = max(1, tokens // budget)
    return min(rows, most or rows)


def score_trimmed(
    score: Callable[..., Figures], ids: torch.Tensor, mask: torch.Tensor, width: int, chunk_rows: int
) -> Figures:
    """Figures of the last `width` columns, by `score` of trimmed chunks.

    Args:
        score: of ids, mask and n, called once per chunk, for the figures of the last n columns: (rows, n) or None each.
        ids, mask: (batch, time) token ids and attention mask. Rows may be padded on both sides.
        chunk_rows: the most rows in a chunk; chunks differ by one row at most.

    Returns:
        What `score` does, (batch, width), 0 at padding. Without padding, and with one chunk, it is score(ids, mask,
        width), bit for bit.
    """
    columns = torch.arange(mask.shape[1], device=mask.device)
    in_completion = mask.bool() & (columns >= mask.shape[1] - width)
    by_length = mask.sum(1).argsort(descending=True, stable=True)  # the most memory is needed first
    chunks = [rows.sort().values for rows in by_length.tensor_split(math.ceil(len(mask) / chunk_rows))]
    parts = []
    for rows in chunks:
        short_ids, short_mask, is_scored = _trim_rows(ids[rows], mask[rows], in_completion[rows])
        found = score(short_ids, short_mask, is_scored.shape[1])
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


def _trim_rows(
    ids: torch.Tensor, mask: torch.Tensor, in_completion: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The tokens of each row moved to the right end, over as many columns as the longest row has: ids and mask, both
    (rows, columns); and where the completions' tokens are, (rows, most completion tokens)."""
    lengths = mask.sum(1)
    kept = max(1, int(in_completion.sum(1).max()))
    columns = max(int(lengths.max()), kept + 1)  # the first scored token needs one before it
    is_real = torch.arange(columns, device=ids.device) >= columns - lengths[:, None]
    moved = [torch.zeros_like(is_real, dtype=one.dtype).masked_scatter(is_real, one[mask.bool()]) for one in
             (ids, mask, in_completion)]  # fmt: skip
    return moved[0], moved[1], moved[2][:, -kept:]

"""Scores rows without work on their padding, for TRL's trainers that sample.

    class VariantGRPOTrainer(TrimmedPasses, ResumableRollouts, GRPOTrainer): ...

TRL pads every row of a rollout to the rollout's longest prompt and completion, and computes all of it, in scoring
(policy and reference) and in training. Here the rows are sorted by length and scored in chunks, each padded to its own
longest row; the figures of the completions' tokens are then put back where TRL expects them. They are TRL's but for
the rounding of sums in another order. tests/trainers/test_trimmed.py checks this, and what it relies on in TRL.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from rlhf_exp.trainers.resuming import AnyTrainer

Figures = tuple[Any, ...]
"""A tensor of each completion position, (rows, time); None for one that is not computed."""

CHUNK_TOKENS = 1024
"""Rows in a chunk times the completion budget in tokens. Small chunks have less padding and need less memory, but call
every layer more often. Measured on a CPU by bench/padding.py: 1024 and 2048 take equally long at 96 tokens, and 1024
takes 0.7 of the time and 0.6 of the memory at 1,024 tokens."""

ON_ACCELERATOR = 16
"""Times as many tokens in a chunk on a GPU, where a call costs more and a token less. Not measured."""


class TrimmedPasses(AnyTrainer):
    """Comes before a TRL trainer among the bases.

    All ranks have equally many chunks, since they take part in each other's forward passes.
    """

    def _get_per_token_logps_and_entropies(
        self, model: nn.Module, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int,
        batch_size: int | None = None, compute_entropy: bool = False, compute_aux_loss: bool = False, **others: Any,
    ) -> Figures:  # fmt: skip
        """TRL's figures, from trimmed chunks of at most `batch_size` rows.

        From TRL's own pass instead if there are images, if `pad_to_multiple_of` asks for certain widths, or for the
        load-balancing loss of a mixture of experts, which is not a mean over chunks.
        """
        batch = input_ids, attention_mask, logits_to_keep
        wanted = {"compute_entropy": compute_entropy, "compute_aux_loss": compute_aux_loss}
        is_more_than_text = any(value is not None for value in others.values())
        if is_more_than_text or compute_aux_loss or self.pad_to_multiple_of is not None:
            return self._score_chunk(model, *batch, batch_size=batch_size, **wanted, **others)
        return self._trim(lambda *chunk: self._score_chunk(model, *chunk, **wanted), *batch, batch_size)

    def _score_chunk(self, model: nn.Module, *args: Any, **kwargs: Any) -> Figures:
        """TRL's own pass; a subclass may add figures."""
        return super()._get_per_token_logps_and_entropies(model, *args, **kwargs)

    def _trim(
        self, score: Callable[..., Figures], ids: torch.Tensor, mask: torch.Tensor, width: int, batch_size: int | None
    ) -> Figures:
        tokens = CHUNK_TOKENS * (1 if ids.device.type == "cpu" else ON_ACCELERATOR)
        rows = max(1, tokens // self.max_completion_length)
        return score_trimmed(score, ids, mask, width, min(rows, batch_size or rows))


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
        return joined.new_zeros(places.shape).masked_scatter(places, joined)[order.argsort()]

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

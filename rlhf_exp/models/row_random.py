"""Random numbers that belong to a completion: one stream for each, from which its tokens are drawn one after another.

    uniforms = draw_uniforms([("evaluation", 0, row, sample) for row, sample in places], 96)    # (completions, 96)
    tokens = pick_tokens(logits, uniforms[:, 0])                                                # (completions,)

Number t of a stream draws token t, by the inverse of the distribution function in the order of the token ids. So a
completion depends on its key, its prompt and the model, and not on the rest of its batch; and two models that sample
the same key share their numbers. The logits of a row change in their last digits with the shape of its batch: a token
changes only if its number lies within that rounding of a boundary between two tokens, which is rare in float32 and
common in bfloat16.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessor
from transformers.generation.configuration_utils import BaseWatermarkingConfig, GenerationMode

from rlhf_exp.errors import NonFiniteLoss

Key = tuple[str | int, ...]
"""What a completion is: its purpose, seed, row, and so on. Different keys have independent streams."""


NOT_FINITE = "the policy's logits are not finite"


def draw_uniforms(keys: Sequence[Key], count: int) -> torch.Tensor:
    """The first `count` numbers of each key's stream: (keys, count) float64, multiples of 2**-32 in [0, 1).

    The raw numbers of numpy's Philox for a hash of the key: numpy keeps them the same in all its versions, and a larger
    `count` begins with the same numbers.
    """
    raw = np.empty((len(keys), count), dtype=np.uint64)
    for row, key in zip(raw, keys, strict=True):
        row[:] = np.random.Philox(key=hash_key(key, 16)).random_raw(count)
    return torch.from_numpy((raw >> np.uint64(32)) / 2.0**32)


def hash_key(key: Key, size: int) -> int:
    """A whole number of `size` bytes for a key: the seed of its stream."""
    return int.from_bytes(sha256(repr(key).encode()).digest()[:size], "big")


def pick_tokens(logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The first token of positive probability whose cumulated probability exceeds the row's number.

    Args:
        logits: (batch, vocabulary), after temperature, top-k and top-p; -inf excludes a token.
        uniforms: (batch,) float64 on the same device, multiples of 2**-32 in [0, 1).

    Returns:
        (batch,) int64. A token's chance is its probability to within 2**-32.

    Raises:
        NonFiniteLoss: a row has NaN, +inf, or nothing but -inf.
    """
    probabilities = logits.softmax(-1, dtype=torch.float64)
    cumulated = probabilities.cumsum(-1)
    total = cumulated[:, -1:]
    if not total.isfinite().all():
        raise NonFiniteLoss(NOT_FINITE)
    # A number is at most 1 - 2**-32, so that rounding never lifts its product to the total. A GPU rounds each sum by
    # itself: without the second condition a token of probability 0 could seem to raise the sum.
    reached = (cumulated > uniforms[:, None] * total) & (probabilities > 0)
    return reached.to(torch.uint8).argmax(-1)


class DrawnTokens(LogitsProcessor):
    """Leaves each row only the token that its next number draws. Must be the last processor."""

    def __init__(self, uniforms: torch.Tensor) -> None:
        self._columns = iter(uniforms.unbind(1))

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """(batch, vocabulary): 0 for the token that is drawn, -inf for all others."""
        tokens = pick_tokens(scores, next(self._columns))
        return torch.full_like(scores, -torch.inf).scatter(1, tokens[:, None], 0.0)  # type: ignore[return-value]


@dataclass
class RowRandom(BaseWatermarkingConfig):
    """Brings DrawnTokens into a `generate` call of TRL's, which takes no processor: a generation config builds only a
    watermark's, and after all others, which is where the token must be drawn."""

    keys: list[Key]
    count: int

    def validate(self) -> None:
        """Nothing to check."""

    def construct_processor(self, vocab_size: int, device: torch.device) -> DrawnTokens:  # type: ignore[override]
        """Called once by each `generate`."""
        return DrawnTokens(draw_uniforms(self.keys, self.count).to(device))


def give_row_random(config: GenerationConfig, keys: list[Key]) -> None:
    """Let the next `generate` with this config draw completion i from the stream of `keys[i]`. Without effect unless it
    samples one completion per row: greedy decoding draws nothing, and beams draw otherwise."""
    if config.get_generation_mode() == GenerationMode.SAMPLE:
        config.watermarking_config = RowRandom(keys, config.max_new_tokens)

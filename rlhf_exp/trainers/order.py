"""The order of the training rows, decided by seed and epoch alone, so that a resumed run keeps it.

    sampler = order_by_epoch(sampler, seed=1)
    sampler.set_epoch(2)                     # accelerate and transformers call it as an epoch begins

TRL's and transformers' own draw from a generator that lives as long as its process: a process that begins in the second
epoch would draw the first one's order. A plain random order needs nothing: accelerate seeds it by the epoch.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import LengthGroupedSampler
from trl.trainer.utils import RepeatSampler


class RepeatOrder(RepeatSampler):
    """TRL's sampler, in the order that it has in a run without a stop: each epoch draws one permutation more."""

    _drawn = 0

    def set_epoch(self, epoch: int) -> None:
        """Be ready to draw the permutation of `epoch`, counted from 0."""
        if not self.shuffle:
            return
        if epoch < self._drawn:
            self.generator.manual_seed(self.seed)
            self._drawn = 0
        while self._drawn < epoch:
            torch.randperm(self.num_samples, generator=self.generator)
            self._drawn += 1

    def __iter__(self) -> Iterator[int]:
        self._drawn += 1
        yield from super().__iter__()


class LengthOrder(LengthGroupedSampler):
    """Rows of like length side by side, each epoch in another order."""

    def __init__(self, *args: Any, seed: int, **kwargs: Any) -> None:
        super().__init__(*args, generator=torch.Generator(), **kwargs)
        self.seed = seed
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Draw the order of `epoch`, counted from 0."""
        self.generator.manual_seed(self.seed + epoch)


def order_by_epoch(sampler: Sampler | None, seed: int) -> Sampler | None:
    """A sampler of the same rows whose order follows from seed and epoch."""
    if isinstance(sampler, RepeatSampler):
        return RepeatOrder(
            sampler.data_source,
            sampler.mini_repeat_count,
            sampler.batch_size,
            sampler.repeat_count,
            sampler.shuffle,
            sampler.seed,
        )
    if isinstance(sampler, LengthGroupedSampler):
        return LengthOrder(sampler.batch_size, lengths=sampler.lengths, seed=seed)
    return sampler

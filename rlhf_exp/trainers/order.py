"""Samplers whose order of the training rows depends on seed and epoch alone, so that a resumed run keeps it.

    sampler = order_by_epoch(sampler, seed=1)
    sampler.set_epoch(2)                     # accelerate and transformers call it when an epoch begins

The samplers of TRL and transformers draw from a generator that starts anew with each process, so a process that resumes
in the second epoch would draw the first epoch's order. A plain random order needs no change: accelerate seeds it by the
epoch.
"""

from typing import Any

import torch
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import LengthGroupedSampler
from trl.trainer.utils import RepeatSampler

from rlhf_exp import processes


class RepeatOrder(RepeatSampler):
    """TRL's sampler, in the order of an uninterrupted run: each epoch draws one more permutation."""

    def set_epoch(self, epoch: int) -> None:
        """Be ready to draw the permutation of `epoch`, counted from 0."""
        if self.shuffle:
            self.generator.manual_seed(self.seed)
            for _ in range(epoch):
                torch.randperm(self.num_samples, generator=self.generator)


class LengthOrder(LengthGroupedSampler):
    """Rows of similar length next to each other, in another order in each epoch."""

    def __init__(self, *args: Any, seed: int, **kwargs: Any) -> None:
        super().__init__(*args, generator=torch.Generator().manual_seed(seed), **kwargs)
        self.seed = seed

    def set_epoch(self, epoch: int) -> None:
        """Draw the order of `epoch`, counted from 0."""
        self.generator.manual_seed(self.seed + epoch)


def order_by_epoch(sampler: Sampler | None, seed: int) -> Sampler | None:
    """A sampler of the same rows whose order depends on seed and epoch. Rows of similar length are those of a step of
    all processes."""
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
        return LengthOrder(sampler.batch_size * processes.count(), lengths=sampler.lengths, seed=seed)
    return sampler

"""Draws the prompts of each rollout by how often their groups are expected to hold right and wrong completions.

    order = SignalOrder(sampler, ahead=1)       # in the place of TRL's sampler, a RepeatSampler
    order.record(rollout, passed)               # after each rollout: which of its completions are right

From a group of completions that are all right, or all wrong, nothing is learned about being right. A prompt with pass
rate p gives another group with probability 1 - p^G - (1 - p)^G, its **expected signal**. Prompts of a rollout are drawn
without replacement in proportion to it, but at least to FLOOR, so that each keeps being drawn.

- The rate of a prompt is estimated by its own completions, which count KEPT times less with every rollout, since the
  policy changes, and by PRIOR further completions with the mean rate of all. So unmeasured prompts are alike, and the
  first draws are uniform; measuring the start model on every prompt would cost more than it saves: docs/data_rules.md.
- The data loader asks for rows before the completions of the latest rollouts are measured. Rollout r is always drawn
  by the rates after rollout r - 1 - `ahead`, however early the loader asks, and by random numbers for seed and r alone.
  So a resumed run draws as an uninterrupted one.
"""

from typing import Any

import torch
from trl.trainer.utils import RepeatSampler

from rlhf_exp import processes
from rlhf_exp.models.row_random import hash_key

PRIOR = 2.0
"""Completions of the mean rate that each prompt has besides its own."""

KEPT = 0.98
"""What remains of a completion's weight after a rollout: half of it after 34."""

FLOOR = 0.05
"""The least weight of a prompt; the most is 1."""


def expected_signal(counts: torch.Tensor, group: int) -> torch.Tensor:
    """The probability that a group of a prompt holds right and wrong completions.

    The mean of 1 - p^G - (1 - p)^G over p of Beta(PRIOR m + passes, PRIOR (1 - m) + failures), where m is the mean rate
    over all prompts.

    Args:
        counts: (rows, 2) float64, weights of right and of wrong completions.
        group: completions of a group, G.

    Returns:
        (rows,) float64 in [0, 1).
    """
    mean = (counts.sum(0) + 0.5) / (counts.sum() + 1.0)
    return mixed_share(counts + PRIOR * mean, group)


def mixed_share(beta: torch.Tensor, group: int) -> torch.Tensor:
    """E[1 - p^G - (1 - p)^G] for p of Beta(a, b), where E[p^G] is the product of (a + i) / (a + b + i) over i < G.

    Args:
        beta: (rows, 2) float64, a and b.
    """
    i = torch.arange(group, dtype=torch.float64)
    return 1.0 - ((beta[:, :, None] + i) / (beta.sum(1)[:, None, None] + i)).prod(-1).sum(-1)


class SignalOrder(RepeatSampler):
    """TRL's sampler, but each rollout's prompts are drawn as above. An epoch has as many rollouts as before."""

    def __init__(self, sampler: RepeatSampler, ahead: int) -> None:
        """`ahead`: how many rollouts may be unmeasured when the loader asks for another one."""
        super().__init__(
            sampler.data_source, sampler.mini_repeat_count, sampler.batch_size, sampler.repeat_count, seed=sampler.seed
        )
        self.ahead, self.epoch = ahead, 0
        self.counts = {0: torch.zeros(self.num_samples, 2, dtype=torch.float64)}
        self._drawn: dict[int, tuple[list[int], dict[str, float]]] = {}

    def set_epoch(self, epoch: int) -> None:
        """Be ready to draw the rollouts of `epoch`, counted from 0; accelerate and transformers call this."""
        self.epoch = epoch

    def __iter__(self) -> Any:
        rollouts = self.num_samples // self.batch_size
        for rollout in range(self.epoch * rollouts, (self.epoch + 1) * rollouts):
            rows = self.draw(rollout)
            yield from (row for _ in range(self.repeat_count) for row in rows for _ in range(self.mini_repeat_count))

    def draw(self, rollout: int) -> list[int]:
        """Different rows for the rollout of this number, by the weights of rank 0; any rows for one that a resumed run
        skips."""
        if rollout < max(self.counts):
            return list(range(self.batch_size))
        signal = expected_signal(self.counts[max(0, rollout - self.ahead)], self.mini_repeat_count)
        weights = signal.clamp(min=FLOOR)
        generator = torch.Generator().manual_seed(hash_key(("draw", self.seed or 0, rollout), 7))
        rows = processes.broadcast(torch.multinomial(weights, self.batch_size, generator=generator).tolist())
        share = weights.sum() ** 2 / (weights**2).sum() / len(weights)
        figures = {"draw/expected_signal": signal[rows].mean().item(), "draw/effective_rows": share.item()}
        self._drawn[rollout] = rows, figures
        return rows

    def record(self, rollout: int, passed: torch.Tensor) -> dict[str, float]:
        """Count the rollout's completions, those of all ranks: (completions,) bool in the order of the sampler.

        Returns:
            what was expected of the rollout, the effective share of the rows it was drawn from, (sum w)^2 / (n sum
            w^2), and the share of its groups that hold right and wrong completions.
        """
        rows, figures = self._drawn.pop(rollout)
        right = passed.cpu().view(len(rows), -1).double()
        counts = self.counts[rollout] * KEPT
        counts[rows] += torch.stack([right.sum(1), (1 - right).sum(1)], 1)
        self.counts[rollout + 1] = counts
        self.counts.pop(rollout - self.ahead, None)
        mixed = (right.amax(1) > right.amin(1)).double().mean().item()
        return figures | {"draw/signal": mixed}

    def state(self) -> dict[int, list[list[float]]]:
        """The counts after each of the latest rollouts, which a resumed run needs."""
        return {rollout: counts.tolist() for rollout, counts in self.counts.items()}

    def restore(self, state: dict[str, list[list[float]]]) -> None:
        """Take the state of a checkpoint, before any row is drawn."""
        self.counts = {int(rollout): torch.tensor(counts, dtype=torch.float64) for rollout, counts in state.items()}

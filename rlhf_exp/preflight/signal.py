"""How many groups of completions will carry a training signal, from pass rates.

>>> share, is_bound = expect_signal([1, 0, 4, 2], [4, 4, 4, 4], size=2)
>>> round(share["value"], 3), is_bound
(0.292, False)
"""

from collections.abc import Sequence

import torch

from rlhf_exp.analysis.stats import CONFIDENCE, Interval, as_interval, share_interval

RESAMPLES, SEED = 500, 0


def expect_signal(correct: Sequence[int], completions: Sequence[int], size: int) -> tuple[Interval, bool]:
    """The mean over rows of 1 - p^G - (1 - p)^G, the probability that a group of G completions holds a right and a
    wrong one, with a bootstrap interval over rows.

    The pass rates are taken as beta-distributed, with the mean and variance of these rows by the method of moments.
    With one completion of each row, all rows are taken as alike, which gives an upper bound, since the probability is
    concave in p.

    Args:
        correct: right completions of each row.
        completions: all completions of each row.
        size: G.

    Returns:
        the share, and whether it is an upper bound.
    """
    n, generator = len(correct), torch.Generator().manual_seed(SEED)
    rows = torch.cat([torch.arange(n)[None], torch.randint(n, (RESAMPLES, n), generator=generator)])
    c, k = (torch.tensor(counts, dtype=torch.float64)[rows] for counts in (correct, completions))
    mean, pairs = (c / k).mean(1).clamp(1e-9, 1 - 1e-9), (k * (k - 1)).sum(1)
    both = torch.where(pairs > 0, (c * (c - 1)).sum(1) / pairs.clamp(min=1), mean**2)  # two of a row are right
    alike = ((both - mean**2) / (mean - mean**2)).clamp(1e-6, 1 - 1e-6)  # correlation of two completions of a row
    found = mixed_share(torch.stack([mean, 1 - mean], 1) * (1 / alike - 1)[:, None], size)
    low, high = torch.quantile(found[1:], torch.tensor([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).double()).tolist()
    accuracy = share_interval((c[0] / k[0]).numpy(), int(k.min()))
    if accuracy["value"] in (0, 1):  # resampling shows no spread; the accuracy's interval does
        rate = (accuracy["high"] if accuracy["value"] == 0 else accuracy["low"]) or 0.0
        high = max(high, 1 - rate**size - (1 - rate) ** size)
    return as_interval(float(found[0]), low, high), bool(k.min() == 1)


def mixed_share(beta: torch.Tensor, group: int) -> torch.Tensor:
    """E[1 - p^G - (1 - p)^G] for p of Beta(a, b), where E[p^G] is the product of (a + i) / (a + b + i) over i < G.

    Args:
        beta: (rows, 2) float64, a and b.
    """
    i = torch.arange(group, dtype=torch.float64)
    return 1.0 - ((beta[:, :, None] + i) / (beta.sum(1)[:, None, None] + i)).prod(-1).sum(-1)

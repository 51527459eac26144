"""What is planned before any run of a comparison."""

import numpy as np
import pytest
from scipy import stats

from bench.intervals import plan_comparison
from rlhf_exp.analysis.stats.crossed import Estimate
from rlhf_exp.analysis.stats.planning import detectable_difference


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize(("noise", "spread"), [(1e-9, 0.02), (1e-4, 0.02), (4e-4, 0.0)])
def test_the_planned_difference_is_found_in_four_of_five_simulated_comparisons(seeds, noise, spread):
    """By the means of the seeds alone, as in stats/crossed.py where no row is harder for one setting."""
    rng = np.random.default_rng(0)
    size = plan_comparison(noise, spread, seeds)
    means = rng.normal(0, np.sqrt(spread**2 + noise), (2, 20_000, seeds))
    own, sampling = means.var(-1, ddof=1) / seeds, 2 * noise / seeds
    df = (seeds - 1) * own.sum(0) ** 2 / (own**2).sum(0)
    half = np.maximum(stats.norm.ppf(0.975) * np.sqrt(sampling), stats.t.ppf(0.975, df) * np.sqrt(own.sum(0)))
    found = size + means[0].mean(-1) - means[1].mean(-1) > half
    assert found.mean() == pytest.approx(0.8, abs=0.015)


@pytest.mark.parametrize(("df", "level"), [(1.0, 1e-5), (1.2, 1e-4), (30.0, 1e-3), (400.0, 0.05)])
def test_four_of_five_differences_of_the_detectable_size_are_found(df, level):
    critical, rng = stats.t.isf(level / 2, df), np.random.default_rng(0)
    size = detectable_difference(Estimate(0.0, 0.0, 1.0, 0.0, 0.0, df), level)
    drawn = (size + rng.normal(size=100_000)) / np.sqrt(rng.chisquare(df, 100_000) / df)
    assert (drawn > critical).mean() == pytest.approx(0.8, abs=0.01)

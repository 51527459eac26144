"""What is planned before any run of a comparison."""

import numpy as np
import pytest
from scipy import stats

from rlhf_exp.stats.planning import plan_comparison


def test_one_seed_without_spread_is_the_normal_plan():
    noise = 0.015**2
    shift = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert plan_comparison(noise, 0.0, 1, 1_398) == pytest.approx(shift * np.sqrt(2 * noise), rel=2e-3)


@pytest.mark.parametrize(("seeds", "spread"), [(3, 0.02), (5, 0.02), (5, 0.04)])
def test_the_planned_difference_is_found_in_four_of_five_simulated_comparisons(seeds, spread):
    """Student's t test over seeds, which is the plan's test where the seeds' effect is all there is."""
    rng = np.random.default_rng(0)
    size = plan_comparison(1e-9, spread, seeds, 1_398)
    draws = rng.normal(0, spread, (2, 20_000, seeds))
    found = stats.ttest_ind(draws[0] + size, draws[1], axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.015)


def test_more_seeds_and_less_noise_show_smaller_differences():
    sizes = [plan_comparison(noise, 0.02, seeds, 512) for noise in (4e-4, 1e-4) for seeds in (2, 3, 5, 10)]
    assert sizes[:4] == sorted(sizes[:4], reverse=True) and all(
        a > b for a, b in zip(sizes[:4], sizes[4:], strict=True)
    )

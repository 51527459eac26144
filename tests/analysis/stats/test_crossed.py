import numpy as np
import pytest
from scipy import stats

from rlhf_exp.analysis.stats import DIFFERENCES, crossed_interval, paired_interval
from rlhf_exp.analysis.stats.crossed import Spread, estimate, join, measure_spread
from rlhf_exp.analysis.stats.intervals import paired_score_interval


def slow_mean_squares(figures):
    """Of seeds, rows and the rest, by the sums of the two-way analysis of variance, in loops."""
    seeds, rows = figures.shape
    mean = sum(figures[s, r] for s in range(seeds) for r in range(rows)) / (seeds * rows)
    of_seed = [sum(figures[s, r] for r in range(rows)) / rows for s in range(seeds)]
    of_row = [sum(figures[s, r] for s in range(seeds)) / seeds for r in range(rows)]
    rest = sum((figures[s, r] - of_seed[s] - of_row[r] + mean) ** 2 for s in range(seeds) for r in range(rows))
    return (
        rows * sum((m - mean) ** 2 for m in of_seed) / (seeds - 1),
        seeds * sum((m - mean) ** 2 for m in of_row) / (rows - 1),
        rest / ((seeds - 1) * (rows - 1)),
    )


def test_the_interval_over_seeds_and_rows_is_that_of_a_slow_analysis_of_variance():
    rng = np.random.default_rng(0)
    figures = rng.normal(size=(3, 1)) + rng.normal(size=20) + rng.normal(size=(3, 20))
    a, b, e = slow_mean_squares(figures)
    # rows by t with 19 degrees of freedom, seeds by t with 2
    half = np.sqrt(stats.t.ppf(0.975, 19) ** 2 * (b - e) / 60 + stats.t.ppf(0.975, 2) ** 2 * a / 60)
    mean = figures.mean()
    assert crossed_interval(figures) == pytest.approx({"value": mean, "low": mean - half, "high": mean + half})


def test_seeds_that_differ_less_than_chance_add_no_variance():
    row = np.random.default_rng(1).normal(size=30)
    figures = np.stack([row + np.tile([1.0, -1.0], 15), row - np.tile([1.0, -1.0], 15)])  # equal means of seeds
    found = estimate(figures.mean(0), [(measure_spread(figures), 1 / 2)])
    assert found.by_seeds == 0 and found.error == pytest.approx(row.std(ddof=1) / np.sqrt(30))


def test_one_seed_is_measured_over_its_rows():
    rng = np.random.default_rng(3)
    before, after = rng.integers(0, 2, (2, 60))
    assert crossed_interval((after - before)[None], DIFFERENCES) == paired_interval(before, after, DIFFERENCES)


def test_a_paired_difference_of_shares_adds_one_change_in_each_direction():
    # two completions each: 6 rows gained a half, 2 lost one half, 12 the same: mean 0.1; with one more of each 2 / 22,
    # sum of squares 10 / 4
    before, after = [0.0] * 6 + [0.5] * 2 + [1.0] * 12, [0.5] * 6 + [0.0] * 2 + [1.0] * 12
    centre = 2 / 22
    half = 2.093024 * np.sqrt((10 / 4 - 22 * centre**2) / 21 / 22)  # t(0.975) at 19 degrees of freedom
    expected = {"value": 0.1, "low": centre - half, "high": centre + half}
    assert paired_interval(before, after, DIFFERENCES) == pytest.approx(expected, abs=1e-6)


def test_a_paired_difference_of_single_completions_has_the_score_interval():
    before, after = [0.0] * 6 + [1.0] * 2 + [1.0] * 12, [1.0] * 6 + [0.0] * 2 + [1.0] * 12
    assert paired_interval(before, after, DIFFERENCES) == paired_score_interval(6, 2, 20)


def test_a_paired_difference_without_bounds_adds_what_changes_nothing_among_unrelated_sides():
    rng = np.random.default_rng(4)
    before, after = rng.normal(3, 1, 400), rng.normal(4, 2, 400)
    found, plain = paired_interval(before, after), crossed_interval((after - before)[None])
    assert found["value"] == plain["value"]
    assert found["high"] - found["low"] == pytest.approx(plain["high"] - plain["low"], rel=0.01)
    same = paired_interval(before, before)
    assert same["low"] < 0 == same["value"] < same["high"]
    assert paired_interval([0.5, 0.5], [0.5, 0.5]) == {"value": 0.0, "low": 0.0, "high": 0.0}


@pytest.mark.parametrize("rows", [0.1, 0.4, 1.0])
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_intervals_over_few_seeds_cover_the_truth_however_far_seeds_spread(seeds, rows):
    """Integrated over the distribution of the spread that is seen. Sampling has variance 1, seeds from 0 to 64 times
    it, the choice of the rows and the start model `rows`."""
    quantiles = stats.chi2.ppf((np.arange(400) + 0.5) / 400, seeds - 1) / (seeds - 1)
    for seeds_own in (0, 1, 4, 9, 16, 64):
        seen = [Spread((seeds_own + 1) * q, 1.0, seeds - 1) for q in quantiles]
        found = [join(0.0, 0.0, rows + 1 / seeds, 1_398, [(spread, 1 / seeds)]) for spread in seen]
        half = np.array([one.interval["high"] for one in found])
        covered = (2 * stats.norm.cdf(half / np.sqrt(rows + (seeds_own + 1) / seeds)) - 1).mean()
        assert 0.945 <= covered <= 0.995


@pytest.mark.parametrize(
    ("rows", "completions", "alike"), [(16, 1, False), (100, 1, False), (512, 4, False), (512, 4, True)]
)
def test_intervals_of_one_run_cover_the_truth_where_few_rows_change(rows, completions, alike):
    """2% of the rows, or of their completions, become correct. A change is as large as the completions of a row let
    it be: they are drawn alone, or are all alike, as those of a model that is sure."""
    rng = np.random.default_rng(13)
    covered, before = 0, np.zeros((rows, completions))
    for _ in range(300):
        drawn = rng.random((rows, 1)) < 0.02, rng.random((rows, completions)) < 0.02
        after = np.repeat(drawn[0], completions, 1) if alike else drawn[1]
        found = paired_interval(before, after.astype(float), DIFFERENCES)
        covered += found["low"] <= 0.02 <= found["high"]
    assert covered / 300 >= 0.9

import json
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from rlhf_exp.stats import (
    RESAMPLES,
    holm,
    mean_change,
    mean_difference,
    mean_interval,
    paired_bootstrap,
    share_interval,
    wilson,
    win_rate,
)


def test_wilson_matches_a_hand_worked_value():
    # n 10, k 5, z 1.959964: centre 0.5, half z * sqrt(0.25/10 + z^2/400) / (1 + z^2/10) = 0.263406
    assert wilson(5, 10) == pytest.approx({"value": 0.5, "low": 0.236594, "high": 0.763406}, abs=1e-6)


def test_wilson_matches_the_formula_on_a_grid():
    z = 1.959963984540054
    for n in (1, 7, 512):
        for k in range(n + 1):
            p = k / n
            centre = (p + z * z / (2 * n)) / (1 + z * z / n)
            half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
            got = wilson(k, n)
            assert got["low"] == pytest.approx(max(0, centre - half), abs=1e-9)
            assert got["high"] == pytest.approx(min(1, centre + half), abs=1e-9)


def test_wilson_is_not_a_point_when_nothing_succeeds():
    assert wilson(0, 512)["low"] == 0.0
    assert wilson(0, 512)["high"] == pytest.approx(0.00745, abs=1e-5)


def test_mean_interval_matches_a_hand_worked_value():
    # 1, 2, 3: mean 2, standard error 1/sqrt(3), t(0.975, 2) = 4.302653
    half = 4.302653 / math.sqrt(3)
    expected = {"value": 2, "low": 2 - half, "high": 2 + half}
    assert mean_interval([1, 2, 3]) == pytest.approx(expected, abs=1e-6)


def test_mean_interval_of_equal_values_has_no_width():
    assert mean_interval([4.0, 4.0, 4.0]) == {"value": 4.0, "low": 4.0, "high": 4.0}


def test_one_value_has_no_interval():
    assert mean_interval([0.5]) == {"value": 0.5, "low": None, "high": None}
    assert paired_bootstrap([0.0], [1.0], seed=0) == {"value": 1.0, "low": None, "high": None}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_mean_interval_shows_a_non_finite_value(value):
    assert not math.isfinite(mean_interval([1.0, value])["value"])


def test_paired_bootstrap_matches_a_slow_loop():
    rng = np.random.default_rng(1)
    baseline, trained = rng.random(60), rng.random(60) + 0.2
    slow = np.random.default_rng(7)
    means = []
    for _ in range(RESAMPLES):
        rows = [int(slow.integers(60)) for _ in range(60)]
        means.append(sum(trained[row] - baseline[row] for row in rows) / 60)
    means.sort()
    got = paired_bootstrap(baseline, trained, seed=0)
    assert got["value"] == pytest.approx(float(np.mean(trained) - np.mean(baseline)))
    # Two independent draws of 10,000: their quantiles agree to about 0.003 of this spread of 0.05.
    assert got["low"] == pytest.approx(means[249], abs=0.006)
    assert got["high"] == pytest.approx(means[9749], abs=0.006)


def test_paired_bootstrap_of_equal_rows_is_zero():
    values = [0.0, 1.0, 0.1, 1.0]
    assert paired_bootstrap(values, values, seed=0) == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_paired_bootstrap_repeats_with_its_seed_and_in_any_batch_size(monkeypatch):
    baseline, trained = [0, 0, 1, 0, 1, 1, 0], [1, 0, 1, 1, 1, 0, 1.5]
    first = paired_bootstrap(baseline, trained, seed=3)
    monkeypatch.setattr("rlhf_exp.stats.BATCH_ELEMENTS", 50)
    assert paired_bootstrap(baseline, trained, seed=3) == first


def test_pairing_makes_the_interval_narrower():
    rng = np.random.default_rng(0)
    hardness = rng.normal(size=200)
    baseline, trained = hardness + rng.normal(size=200) * 0.1, hardness + 0.3 + rng.normal(size=200) * 0.1
    paired = paired_bootstrap(baseline, trained, seed=0)
    shuffled = paired_bootstrap(baseline, rng.permutation(trained), seed=0)
    assert paired["high"] - paired["low"] < 0.2 * (shuffled["high"] - shuffled["low"])


def test_win_rate_counts_a_tie_as_half():
    # wins 2 (1 > 0, 1 > 0.1), losses 1, ties 1: (2 + 0.5) / 4
    got = win_rate([0.0, 0.1, 1.0, 1.0], [1.0, 1.0, 0.1, 1.0], seed=0)
    assert (got["wins"], got["losses"], got["ties"], got["n"]) == (2, 1, 1, 4)
    assert got["win_rate"]["value"] == 0.625


def test_win_rate_swaps_with_its_arguments():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 3, 80), rng.integers(0, 3, 80)
    forth, back = win_rate(a, b, seed=0)["win_rate"], win_rate(b, a, seed=0)["win_rate"]
    assert forth["value"] + back["value"] == pytest.approx(1)
    assert forth["low"] + back["high"] == pytest.approx(1, abs=0.02)


def test_win_rate_of_a_model_against_itself_is_half():
    assert win_rate([0.1, 1.0], [0.1, 1.0], seed=0)["win_rate"]["value"] == 0.5


@pytest.mark.parametrize(("name", "lowest"), [("wilson", 0.93), ("t", 0.93), ("bootstrap", 0.92)])
def test_intervals_cover_the_truth_about_95_times_in_100(name, lowest, monkeypatch):
    monkeypatch.setattr("rlhf_exp.stats.RESAMPLES", 1000)
    rng = np.random.default_rng(11)
    repeats, covered = 400, 0
    for repeat in range(repeats):
        if name == "wilson":
            truth, got = 0.3, wilson(rng.binomial(100, 0.3), 100)
        elif name == "t":
            truth, got = 1.0, mean_interval(rng.normal(1.0, 2.0, size=3))
        else:
            baseline = rng.random(150) < 0.3
            trained = np.where(baseline, rng.random(150) < 0.9, rng.random(150) < 0.2)
            truth, got = 0.3 * 0.9 + 0.7 * 0.2 - 0.3, paired_bootstrap(baseline, trained, seed=repeat)
        covered += got["low"] <= truth <= got["high"]
    assert lowest <= covered / repeats <= 0.975


@pytest.mark.parametrize("call", [lambda: wilson(0, 0), lambda: mean_interval([]), lambda: win_rate([], [], seed=0)])
def test_no_values_are_refused(call):
    with pytest.raises(ValueError, match="^no values to measure: n is 0$"):
        call()


def test_unpaired_rows_are_refused():
    with pytest.raises(ValueError, match="^a paired test needs the same rows: 2 baseline, 3 trained$"):
        paired_bootstrap([1, 2], [1, 2, 3], seed=0)


def test_impossible_count_is_refused():
    with pytest.raises(ValueError, match=r"^successes must lie in 0\.\.10, not 11$"):
        wilson(11, 10)


def test_results_go_straight_into_json():
    figures = [wilson(np.int64(3), np.int64(9)), mean_interval(np.ones(3)), win_rate([0, 0], np.ones(2), 0)]
    assert json.loads(json.dumps(figures)) == figures


def test_a_share_interval_of_one_completion_a_row_is_wilsons():
    assert share_interval([1.0, 0.0, 0.0, 1.0, 0.0]) == wilson(2, 5)
    assert share_interval([0.0] * 512) == wilson(0, 512)
    assert share_interval([True, False]) == wilson(1, 2)


def test_a_share_interval_of_more_is_students_over_rows_and_stays_within_0_and_1():
    shares = [0.0, 0.25, 0.5, 0.5]
    assert share_interval(shares)["value"] == 0.3125
    assert share_interval(shares)["low"] == 0.0 > mean_interval(shares)["low"]
    assert share_interval(shares)["high"] == mean_interval(shares)["high"]
    assert share_interval([0.5]) == {"value": 0.5, "low": None, "high": None}


def test_rows_of_several_completions_count_once_each():
    rng = np.random.default_rng(5)
    baseline, trained = rng.integers(0, 3, (40, 4)) / 2, rng.integers(0, 3, (40, 4)) / 2
    means = paired_bootstrap(baseline.mean(axis=1), trained.mean(axis=1), seed=1)
    assert paired_bootstrap(baseline, trained, seed=1) == pytest.approx(means)
    got = win_rate(baseline, trained, seed=1)
    assert got["n"] == 40 and got["wins"] + got["losses"] + got["ties"] == 160
    assert got["win_rate"]["value"] == pytest.approx((got["wins"] + got["ties"] / 2) / 160)
    # Four copies of each completion say no more than one: the interval must not get narrower.
    one = win_rate(baseline[:, 0], trained[:, 0], seed=1)["win_rate"]
    copied = win_rate(np.repeat(baseline[:, :1], 4, 1), np.repeat(trained[:, :1], 4, 1), seed=1)["win_rate"]
    assert copied == one


def test_a_difference_of_means_is_welchs_by_hand():
    # means 2 and 5, variances 1 and 4 over 3: se sqrt(5/3) = 1.290994, df (5/3)^2 / (1/9/2 + 16/9/2) = 2.941176
    difference, p = mean_difference([1.0, 2.0, 3.0], [3.0, 5.0, 7.0])
    half = 1.2909944 * 3.2187579  # t(0.975) at 2.941176 degrees of freedom
    assert difference["value"] == -3.0
    assert (difference["low"], difference["high"]) == pytest.approx((-3 - half, -3 + half), abs=1e-5)
    assert p == pytest.approx(scipy_stats.ttest_ind([1, 2, 3], [3, 5, 7], equal_var=False).pvalue)


def test_a_difference_without_spread_or_with_one_value_has_no_test():
    nothing = {"value": 0.25, "low": None, "high": None}
    assert mean_difference([0.5], [0.25]) == (nothing, None)
    assert mean_difference([0.5, 0.5], [0.25, 0.25]) == (nothing, None)
    assert mean_change([0.25], [0.5]) == (nothing, None)
    assert mean_change([0.1, 0.2, 0.3], [0.35, 0.45, 0.55]) == (pytest.approx(nothing), None)


def test_a_change_is_tested_pair_by_pair():
    change, p = mean_change([0.0, 10.0, 20.0], [1.0, 12.0, 23.0])
    assert change == mean_interval([1.0, 2.0, 3.0])
    assert p == pytest.approx(0.0742, abs=1e-4)  # t = 2 / (1 / sqrt 3) = 3.4641 at 2 degrees of freedom


def test_holm_steps_down_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # 3 x 0.01, then 2 x 0.03, never falling
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []

import math

import numpy as np
import pytest
from scipy import optimize, stats

from rlhf_exp.analysis.stats import crossed_interval, mean_interval, paired_interval, share_interval, wilson, win_rate
from rlhf_exp.analysis.stats.intervals import paired_score_interval


def test_wilson_matches_the_formula_on_a_grid():
    z = 1.959963984540054
    assert wilson(5, 10) == pytest.approx({"value": 0.5, "low": 0.236594, "high": 0.763406}, abs=1e-6)  # by hand
    for n in (1, 7, 512):
        for k in range(n + 1):
            p = k / n
            centre = (p + z * z / (2 * n)) / (1 + z * z / n)
            half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
            got, few = wilson(k, n), 3 if n > 50 else 2
            if not 0 < k <= few:
                assert got["low"] == pytest.approx(max(0, centre - half), abs=1e-9)
            if not 0 < n - k <= few:
                assert got["high"] == pytest.approx(min(1, centre + half), abs=1e-9)


def test_next_to_0_and_1_the_bound_is_poissons():
    assert wilson(15, 16)["high"] == pytest.approx(1 + math.log(0.95) / 16)
    assert wilson(2, 100)["low"] == pytest.approx(stats.chi2.ppf(0.05, 4) / 200)
    covered = stats.binom.pmf([k for k in range(17) if wilson(k, 16)["high"] >= 0.99], 16, 0.99).sum()
    assert covered > 0.95


def test_mean_interval_matches_a_hand_worked_value():
    # 1, 2, 3: mean 2, standard error 1/sqrt(3), t(0.975, 2) = 4.302653
    half = 4.302653 / math.sqrt(3)
    expected = {"value": 2, "low": 2 - half, "high": 2 + half}
    assert mean_interval([1, 2, 3]) == pytest.approx(expected, abs=1e-6)
    assert mean_interval([4.0] * 3) == {"value": 4.0, "low": 4.0, "high": 4.0}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_mean_interval_shows_a_non_finite_value(value):
    assert not math.isfinite(mean_interval([1.0, value])["value"])


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: wilson(0, 0), "no values to measure: n is 0"),
        (lambda: mean_interval([]), "no values to measure: n is 0"),
        (lambda: win_rate([], []), "no values to measure: n is 0"),
        (lambda: share_interval([]), "no values to measure: n is 0"),
        (lambda: wilson(11, 10), "successes must lie in 0..10, not 11"),
        (lambda: paired_score_interval(2, 2, 3), "2 + 2 of 3 rows cannot have changed"),
        (lambda: paired_interval([1, 2], [1, 2, 3]), "a paired test needs the same rows: 2 baseline, 3 trained"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, line):
    with pytest.raises(ValueError) as refused:
        call()
    assert str(refused.value) == line


def test_one_value_has_no_interval():
    assert mean_interval([0.5]) == {"value": 0.5, "low": None, "high": None}
    assert paired_interval([0.0], [1.0]) == {"value": 1.0, "low": None, "high": None}
    assert crossed_interval(np.array([[0.5], [0.7]])) == {"value": 0.6, "low": None, "high": None}


def test_a_share_interval_counts_the_completions_that_a_rows_completions_are_worth():
    # mean 0.3125, variance over rows 0.057292 (0.0 0.25 0.5 0.5): 4 * 0.3125 * 0.6875 / 0.057292 = 15 completions
    assert share_interval([0.0, 0.25, 0.5, 0.5], completions=4) == pytest.approx(wilson(0.3125 * 15, 15))
    same_rows, no_difference = [0.0, 1.0, 1.0, 0.0], [0.5, 0.5, 0.5, 0.5]
    assert share_interval(same_rows, completions=4) == wilson(2, 4)  # four copies say no more than one
    assert share_interval(no_difference, completions=4) == wilson(8, 16)
    assert share_interval([0.0] * 4, completions=4) == wilson(0, 4)


def test_win_rate_counts_a_tie_as_half():
    # wins 2 (1 > 0, 1 > 0.1), losses 1, ties 1: (2 + 0.5) / 4
    got = win_rate([0.0, 0.1, 1.0, 1.0], [1.0, 1.0, 0.1, 1.0])
    assert (got["wins"], got["losses"], got["ties"], got["n"]) == (2, 1, 1, 4)
    assert got["win_rate"]["value"] == 0.625


def test_a_win_rate_of_copies_is_that_of_one():
    rng = np.random.default_rng(5)
    baseline, trained = rng.integers(0, 3, (40, 4)) / 2, rng.integers(0, 3, (40, 4)) / 2
    got = win_rate(baseline, trained)
    assert got["n"] == 40 and got["wins"] + got["losses"] + got["ties"] == 160
    assert got["win_rate"]["value"] == pytest.approx((got["wins"] + got["ties"] / 2) / 160)
    one = win_rate(baseline[:, 0], trained[:, 0])["win_rate"]
    assert win_rate(np.repeat(baseline[:, :1], 4, 1), np.repeat(trained[:, :1], 4, 1))["win_rate"] == one


def test_a_win_rate_of_ties_has_a_width_and_stays_within_0_and_1():
    tied, won = win_rate([1.0] * 20, [1.0] * 20)["win_rate"], win_rate([0.0] * 20, [1.0] * 20)["win_rate"]
    assert tied["value"] == 0.5 and tied["low"] < 0.5 < tied["high"]
    assert 0.7 < won["low"] < won["value"] == won["high"] == 1.0


@pytest.mark.parametrize(("up", "down", "n"), [(9, 3, 40), (5, 0, 40), (0, 0, 25), (1, 20, 30), (20, 19, 40)])
def test_the_ends_of_a_paired_score_interval_are_1_96_standard_errors_away_at_the_likeliest_shares(up, down, n):
    """The likeliest shares under the difference are searched for, not taken from Tango's formula."""
    found = paired_score_interval(up, down, n)

    def distance(difference):
        def loss(share):  # of rows that change from 1 to 0
            rest = 1 - 2 * share - difference
            shares = np.maximum([share + difference, share, rest], 1e-300)
            return -np.dot([up, down, n - up - down], np.log(shares))

        low, high = max(0.0, -difference), (1 - difference) / 2
        share = optimize.minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-10}).x
        variance = (2 * share + difference - difference**2) / n
        return ((up - down) / n - difference) / np.sqrt(variance)

    assert found["value"] == (up - down) / n
    assert distance(found["low"]) == pytest.approx(1.959964, abs=2e-3)
    assert distance(found["high"]) == pytest.approx(-1.959964, abs=2e-3)


def test_paired_score_intervals_stay_within_their_bounds_and_mirror():
    for n in (1, 2, 16):
        for up in range(n + 1):
            for down in range(n + 1 - up):
                found, mirrored = paired_score_interval(up, down, n), paired_score_interval(down, up, n)
                assert -1 <= found["low"] <= found["value"] <= found["high"] <= 1
                assert (found["low"], found["high"]) == pytest.approx((-mirrored["high"], -mirrored["low"]), abs=1e-9)
    assert paired_score_interval(3, 0, 3)["high"] == 1.0
    for n in (9, 18, 36, 41, 1398):  # rounding
        assert paired_score_interval(0, n, n)["low"] == -1.0

"""The conformal construction: its bound on synthetic runs that are exchangeable, and what follows from it."""

import math

import numpy as np
import pytest

from rlhf_exp.analysis.diagnose import calibration as of_package
from rlhf_exp.analysis.diagnose.calibration import (
    FLOOR,
    LEAST_RUNS,
    Calibration,
    _widen,
    find_thresholds,
)

RULES = 8


def standardise(scores):
    """The construction itself: the figure of each run in a bag, its largest standardised score; minus infinity if it
    has none."""
    figures = [-math.inf] * len(next(iter(scores.values())))
    for values in scores.values():
        for i, value in enumerate(values):
            others = [other for j, other in enumerate(values) if j != i and other is not None]
            if value is not None and len(others) >= LEAST_RUNS:
                mean = sum(others) / len(others)
                variance = sum((other - mean) ** 2 for other in others) / len(others)
                figures[i] = max(figures[i], (value - mean) / math.sqrt(variance + FLOOR**2) / _widen(len(others)))
    return figures


def draw(rng, runs, heavy=False):
    """Scores of exchangeable runs; rule k applies to a run with its own probability."""
    values = rng.standard_t(2, (RULES, runs)) if heavy else rng.normal(size=(RULES, runs))
    values = values * 10.0 ** rng.integers(-3, 3, (RULES, 1))
    applies = rng.random((RULES, runs)) < rng.random((RULES, 1))
    return {
        f"rule{k}": [float(x) if a else None for x, a in zip(values[k], applies[k], strict=True)] for k in range(RULES)
    }


def is_flagged(scores, thresholds):
    """Whether a score of the last run is above its threshold."""
    last = {name: values[-1] for name, values in scores.items() if values[-1] is not None}
    return any(score > thresholds.get(name, math.inf) for name, score in last.items())


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize(("healthy", "kth"), [(6, 1), (19, 1), (20, 3)])
def test_a_run_like_the_healthy_ones_is_flagged_at_most_k_times_in_n_plus_1(healthy, kth, heavy, monkeypatch):
    monkeypatch.setattr(of_package, "LEVEL", kth / 20.5)
    assert of_package.count_above(healthy) == kth
    rng, bags, full, fixed = np.random.default_rng(0), 1500, 0, 0
    for _ in range(bags):
        scores = draw(rng, healthy + 1, heavy)
        figures = standardise(scores)
        by_figure = figures[-1] > sorted(figures[:-1])[-kth]
        thresholds = find_thresholds({name: values[:-1] for name, values in scores.items()})
        by_threshold = is_flagged(scores, thresholds)
        assert by_figure or not by_threshold
        full, fixed = full + by_figure, fixed + by_threshold
    level = kth / (healthy + 1)
    assert fixed <= full <= bags * level + 3 * math.sqrt(bags * level * (1 - level))


def test_a_threshold_holds_against_any_score_of_the_new_run():
    """No new run can make a healthy run's figure larger than the one that the threshold was made of."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        healthy = [float(x) for x in rng.normal(size=5)]
        (threshold,) = find_thresholds({"rule": healthy}).values()
        figures = standardise({"rule": [*healthy, threshold]})
        grid = [float(x) for x in (*np.linspace(-30, 30, 2001), threshold)]
        worst = max(max(standardise({"rule": [*healthy, x]})[:-1]) for x in grid)
        assert worst <= figures[-1] + 1e-9
        assert figures[-1] - worst < 0.02


def test_a_rule_of_few_healthy_runs_is_not_calibrated():
    scores = {"rare": [1.0, 2.0, None, None], "known": [1.0, 2.0, 3.0, None]}
    assert set(find_thresholds(scores)) == {"known"}
    assert standardise({"rare": [1.0, 2.0, 9.0, None]}) == [-math.inf] * 4


def test_an_equal_score_does_not_flag_and_infinity_always_does():
    calibration = Calibration({"flat": [0.0] * 10})
    assert not calibration.is_above("flat", 0.0)
    assert calibration.is_above("flat", 0.2)
    assert calibration.is_above("never_seen", math.inf)
    assert not calibration.is_above("never_seen", 1e9)

import numpy as np
import pytest
from scipy import stats

from rlhf_exp.stats.aggregate import (
    improvement,
    interquartile_mean,
    interquartile_mean_interval,
    performance_profile,
    probability_of_improvement,
)
from rlhf_exp.stats.collapse import find_collapsed


def test_the_interquartile_mean_is_that_of_the_middle_half_of_all_runs():
    scores = np.array([[0.0, 0.5], [0.1, 0.6], [0.2, 0.7], [0.3, 9.0]])
    assert interquartile_mean(scores) == pytest.approx(np.mean([0.2, 0.3, 0.5, 0.6]))  # without 2 of 8 at each end


def test_the_probability_of_improvement_is_mann_and_whitneys_share_by_task():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, (5, 3)), rng.integers(0, 4, (6, 3))
    slow = [stats.mannwhitneyu(first[:, t], second[:, t]).statistic / 30 for t in range(3)]
    assert improvement(first, second) == pytest.approx(np.mean(slow))


def test_a_performance_profile_is_the_share_of_runs_above_each_threshold():
    scores = np.array([[0.1, 0.3], [0.2, 0.4]])
    assert performance_profile(scores, np.array([0.0, 0.2, 0.35, 1.0])).tolist() == [1.0, 0.5, 0.25, 0.0]


def test_the_bootstrap_draws_the_runs_of_each_task_on_their_own():
    scores = np.array([[0.0, 10.0], [1.0, 11.0], [2.0, 12.0], [3.0, 13.0], [4.0, 14.0]])
    found = interquartile_mean_interval(scores, seed=0)
    # Drawn together, the two tasks could be of unequal number, and the mean far from 7.
    assert found["value"] == interquartile_mean(scores) and 4 < found["low"] < found["value"] < found["high"] < 10
    assert interquartile_mean_interval(scores, seed=0) == found
    better = probability_of_improvement(scores + 10, scores, seed=0)
    assert better["low"] == better["value"] == better["high"] == 1.0


def test_a_run_far_below_the_other_seeds_collapsed():
    settings = {"ppo": [0.35, 0.36, 0.02], "grpo": [0.37, 0.34, 0.36], "dpo": [0.3]}
    assert find_collapsed(settings) == [("ppo", 2)]
    assert find_collapsed({"grpo": [0.37, 0.0]}) == [("grpo", 1)]
    assert find_collapsed({"grpo": [0.37, 0.34, 0.36], "dpo": [0.0, 0.0]}) == []
    assert find_collapsed({"grpo": [0.429, 0.428, 0.016]}, 0.013) == [("grpo", 2)]


def test_a_run_that_is_not_lost_is_named_only_if_its_own_settings_seeds_say_so():
    settings = {str(i): [0.35, 0.36, 0.34] for i in range(5)}
    assert find_collapsed(settings | {"wide": [0.35, 0.36, 0.2]}) == []  # its seeds may spread farther than the rest
    assert find_collapsed(settings | {"wide": [0.35, 0.36, 0.34, 0.35, 0.36, 0.2]}) == [("wide", 5)]


@pytest.mark.parametrize(
    ("accuracy", "deviations", "rows"),
    [(0.02, [0] * 7, 100), (0.37, [1, 1, 1, 2, 2, 4, 6], 512), (0.37, [8, 2, 2, 2, 2, 2, 2], 1398)],
)
def test_runs_are_called_collapsed_by_mistake_in_at_most_5_of_100_comparisons(accuracy, deviations, rows):
    rng = np.random.default_rng(3)
    called, repeats = 0, 300
    for _ in range(repeats):
        chances = np.clip(accuracy + np.array(deviations)[:, None] / 100 * rng.normal(size=(7, 3)), 0, 1)
        found = rng.binomial(rows, chances) / rows
        error = np.sqrt((found * (1 - found)).max() / rows)
        called += bool(find_collapsed(dict(zip(map(str, range(7)), found, strict=True)), error))
    assert called / repeats <= 0.05


def test_seeds_that_lie_closer_together_than_sampling_alone_makes_them_collapse_nothing():
    close = {"grpo": [0.530, 0.5305, 0.514]}
    assert find_collapsed(close) == [("grpo", 2)]
    assert find_collapsed(close, 0.013) == []
    assert find_collapsed({"grpo": [0.530, 0.531, 0.2]}, 0.013) == [("grpo", 2)]

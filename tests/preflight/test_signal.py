import numpy as np
import pytest

from rlhf_exp.preflight.signal import expect_signal


def truth(rates, size):
    return float(np.mean(1 - rates**size - (1 - rates) ** size))


@pytest.mark.parametrize(("k", "tolerance"), [(16, 0.02), (8, 0.02), (4, 0.03)])
def test_the_share_is_estimated_without_bias_from_a_few_completions_of_each_row(k, tolerance):
    rng, size = np.random.default_rng(0), 8
    rates = rng.beta(0.5, 2.0, 400)
    wanted = truth(rates, size)
    found = [expect_signal(rng.binomial(k, rates), [k] * 400, size)[0] for _ in range(20)]
    assert np.mean([one["value"] for one in found]) == pytest.approx(wanted, abs=tolerance)
    assert sum(one["low"] <= wanted <= one["high"] for one in found) >= 16


def test_one_completion_of_each_row_gives_an_upper_bound():
    rng = np.random.default_rng(0)
    rates = rng.beta(0.5, 2.0, 400)
    share, is_bound = expect_signal(rng.binomial(1, rates), [1] * 400, 8)
    assert is_bound and share["value"] > truth(rates, 8)


def test_no_success_at_all_gives_an_interval_and_not_a_certainty():
    share, _ = expect_signal([0] * 50, [4] * 50, 8)
    assert share["value"] < 1e-6 and 0.05 < share["high"] < 0.6

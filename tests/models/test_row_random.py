"""The numbers that a completion draws from, and the tokens that they pick."""

import numpy as np
import pytest
import torch
from scipy import stats

from rlhf_exp.models.row_random import draw_uniforms, pick_tokens

SMALLEST, LARGEST = 0.0, 1 - 2.0**-32


def pick_slowly(logits, uniform):
    """By a loop over the tokens, in float64."""
    probabilities = np.exp(logits - logits.max())
    reached, bound = 0.0, uniform * probabilities.sum()
    for token, p in enumerate(probabilities):
        reached += p
        if p > 0 and reached > bound:
            return token


def test_a_key_names_its_numbers_for_good():
    """A change of these would make cached and recorded completions another run's."""
    found = draw_uniforms([("evaluation", 0, 3, 1), ("training", 0, 2, "3 7 8 > 53", 1)], 3)
    assert (found * 2**32).long().tolist() == [
        [386371435, 980172110, 2547660305], [614696026, 3713571725, 3714267372]
    ]  # fmt: skip


def test_numbers_are_uniform_in_and_across_streams_and_below_1():
    keys = [("training", seed, step, row, k) for seed in (0, 1) for step in range(5) for row in "abcde" for k in (0, 1)]
    found = draw_uniforms(keys, 400)
    assert found.dtype == torch.float64 and found.shape == (100, 400) and 0 <= found.min() and found.max() <= LARGEST
    for numbers in (found.flatten(), found[:, 0], found[7]):
        assert stats.kstest(numbers.numpy(), "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(found.numpy())[np.triu_indices(100, 1)]).max() < 0.25
    assert torch.equal(draw_uniforms(keys[::-1], 10), found.flip(0)[:, :10])
    assert draw_uniforms([], 4).shape == (0, 4)


def test_keys_that_look_alike_have_other_numbers():
    keys = [("a", 1), ("a", 1, 0), ("a", "1"), ("a1",), ("a", 2**32), ("a", 0, 1), ("a", 11), ("a", 1, 1)]
    assert len({row[0] for row in draw_uniforms(keys, 1).tolist()}) == len(keys)


def test_a_token_is_the_one_that_a_slow_loop_picks():
    generator = np.random.default_rng(0)
    logits, uniforms = generator.normal(0, 3, (300, 40)), generator.integers(2**32, size=300) / 2**32
    uniforms[:4] = SMALLEST, LARGEST, SMALLEST, LARGEST
    found = pick_tokens(torch.tensor(logits), torch.tensor(uniforms))
    assert found.tolist() == [pick_slowly(row, u) for row, u in zip(logits, uniforms, strict=True)]


@pytest.mark.parametrize("uniform", [SMALLEST, 0.25, 0.5, 0.75, LARGEST])
@pytest.mark.parametrize("kept", [[3], [0, 7], [2, 3, 5]])
def test_a_token_of_probability_0_is_never_drawn(kept, uniform):
    """Excluded ones first, last and between, and with boundaries that a number hits exactly."""
    logits = torch.full((1, 8), -torch.inf)
    logits[0, kept] = 0.0
    share = [i / len(kept) for i in range(1, len(kept) + 1)]
    wanted = kept[next(i for i, end in enumerate(share) if end > uniform)]
    assert pick_tokens(logits, torch.tensor([uniform], dtype=torch.float64)).tolist() == [wanted]
    logits[0, [i for i in range(8) if i not in kept]] = -2000.0  # underflows to 0
    assert pick_tokens(logits, torch.tensor([uniform], dtype=torch.float64)).tolist() == [wanted]

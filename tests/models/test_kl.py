"""KL of what is sampled, against slow loops in float64, and what k1 of truncated samples is worth."""

import math

import pytest
import torch

from rlhf_exp.models.generation import Sampling
from rlhf_exp.models.kl import compare_sampled, measure_completions, token_kl

PLAIN = Sampling(8)
BREVITY = Sampling(8, temperature=0.7, top_p=0.9)
SAMPLINGS = [
    PLAIN, BREVITY, Sampling(8, temperature=0.7), Sampling(8, temperature=1.5), Sampling(8, top_p=0.5),
    Sampling(8, top_k=3), Sampling(8, top_k=1), Sampling(8, temperature=1.3, top_p=0.8, top_k=5),
]  # fmt: skip


def draw_logps(count=40, vocabulary=11, spread=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (2, count, vocabulary)
    return torch.log_softmax(spread * torch.randn(shape, generator=generator, dtype=torch.float64), -1)


def give(*probabilities):
    return torch.tensor([probabilities], dtype=torch.float64).log()


def loop_kept(logps, sampling):
    """Probabilities at the temperature, and the tokens that top-k and then top-p leave: the fewest most probable ones
    that together have at least top_p."""
    weights = [math.exp(value / sampling.temperature) for value in logps]
    p = [weight / math.fsum(weights) for weight in weights]
    order = sorted(range(len(p)), key=lambda i: -p[i])
    order = order[: sampling.top_k or len(p)]
    total, kept = math.fsum(p[i] for i in order), []
    while math.fsum(p[i] for i in kept) < sampling.top_p * total - 1e-12 or not kept:
        kept.append(order[len(kept)])
        if len(kept) == len(order):
            break
    return p, set(kept)


def loop_kl(logps, reference_logps, sampling):
    """(KL, probability outside the reference's tokens) at one position, as compare_sampled defines them."""
    (p, own), (r, its) = loop_kept(logps, sampling), loop_kept(reference_logps, sampling)
    p_total, r_total = math.fsum(p[i] for i in own), math.fsum(r[i] for i in own | its)
    kl = math.fsum(p[i] / p_total * math.log(p[i] / p_total / (r[i] / r_total)) for i in own)
    return kl, math.fsum(p[i] for i in own - its) / p_total


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_it_is_the_sum_of_its_definition(sampling):
    logps, reference = draw_logps()
    kl, outside = compare_sampled(logps, reference, sampling)
    slow = [loop_kl(*pair, sampling) for pair in zip(logps.tolist(), reference.tolist(), strict=True)]
    assert kl.tolist() == pytest.approx([found[0] for found in slow], rel=1e-9, abs=1e-12)
    assert outside.tolist() == pytest.approx([found[1] for found in slow], abs=1e-12)
    assert kl.min() >= 0
    if sampling.truncates:
        assert 0 < outside.mean() < 1
    else:
        assert not outside.any()


def test_it_is_0_where_the_reference_is_left_less_but_agrees_on_what_the_policy_draws():
    """The policy draws tokens 0 and 1, ten to one, as the reference would; the reference is left token 0 alone."""
    policy, reference = give(0.82, 0.082, *[0.0049] * 20), give(0.905, 0.0905, *[0.000225] * 20)
    kl, outside = compare_sampled(policy, reference, Sampling(8, top_p=0.9))
    assert kl.item() == pytest.approx(0, abs=1e-12)
    assert outside.item() == pytest.approx(1 / 11)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_models_have_none_and_near_ones_no_negative_one(sampling, dtype):
    logps = draw_logps(400, 50)[0].to(dtype)
    near = torch.log_softmax(logps + 1e-4 * draw_logps(400, 50, seed=1)[1].to(dtype), -1)
    same, outside = compare_sampled(logps, logps.clone(), sampling)
    assert same.abs().max() == 0 and not outside.any()
    assert compare_sampled(logps, near, sampling)[0].min() >= 0


@pytest.mark.parametrize("sampling", [PLAIN, BREVITY])
@pytest.mark.parametrize(("batch", "chunk"), [(2**26, 2**22), (11 * 14, 22), (1, 1)])
def test_a_completion_is_the_sum_of_its_tokens_whatever_the_batch(monkeypatch, sampling, batch, chunk):
    """Rows of several lengths come back in their order."""
    logps, reference = draw_logps(30)
    at = {4: 0, 9: 4, 1: 13, 7: 14, 6: 21}
    rows = [([1] * (5 - i), list(range(n))) for i, n in enumerate(at)]

    def score(table):
        return lambda picked: [table[at[len(c)] : at[len(c)] + len(c)] + len(c) for _, c in picked]

    monkeypatch.setattr("rlhf_exp.models.scoring.BATCH_ELEMENTS", batch)
    monkeypatch.setattr("rlhf_exp.models.kl.CHUNK_VALUES", chunk)
    found = measure_completions(score(logps), score(reference), rows, 11, sampling)
    for one, (n, start) in zip(found, at.items(), strict=True):
        pairs = [(logps[i].tolist(), reference[i].tolist()) for i in range(start, start + n)]
        kls, shares = zip(*(loop_kl(*pair, sampling) for pair in pairs), strict=True)
        expected = (token_kl(logps, reference)[start : start + n].sum().item(), sum(kls), sum(shares) / n)
        assert (one.kl, one.sampled, one.outside) == pytest.approx(expected, rel=1e-9, abs=1e-12)

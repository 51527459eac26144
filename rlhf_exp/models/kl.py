"""Measures KL to a reference, exact over the vocabulary: of the models' own distributions, and of those sampled from.

    found = measure_completions(policy, reference, rows, vocabulary_size, Sampling(32, temperature=0.7, top_p=0.9))
    found[0].kl, found[0].sampled, found[0].outside          # of one completion

Both are sums over a completion's positions of the exact KL over the vocabulary: never negative, and an unbiased
estimate of the sequence KL with less variance than log-ratios of the sampled tokens (its Rao-Blackwellised form, Amini
et al. 2025, arXiv:2504.10637).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from rlhf_exp.models.generation import Sampling, build_warpers
from rlhf_exp.models.scoring import BATCH_ELEMENTS, Row, map_batches, split_rows

CHUNK_VALUES = 2**22
"""Positions times vocabulary that are compared at once: about ten arrays of this size are in memory, in addition to the
logits of one batch from both models."""

Scorer = Callable[[list[Row]], list[torch.Tensor]]
"""Rows -> the logits of each, (completion tokens, vocabulary) at temperature 1."""

Head = Callable[[torch.Tensor], torch.Tensor]
"""Last hidden states, (tokens, size) -> logits, (tokens, vocabulary) at temperature 1."""


@dataclass(frozen=True)
class CompletionKL:
    """One completion's KL(policy || reference), in nats.

    Attributes:
        kl: of the models' distributions at temperature 1.
        sampled: of those that completions are drawn from (`compare_sampled`); equal to `kl` if the sampling is plain.
        outside: mean over its tokens of the probability that the policy draws a token which the reference, sampled in
            the same way, cannot draw.
    """

    kl: float
    sampled: float
    outside: float


@torch.no_grad()
def measure_completions(
    policy: Scorer, reference: Scorer, rows: list[Row], vocabulary_size: int, sampling: Sampling, together: bool = False
) -> list[CompletionKL]:
    """KL of each row's completion, in batches of rows of similar length; the sampling's temperature must be above 0.

    `together`: all processes have the same rows, and each measures whole batches of them.
    """

    def compare(batch: list[int]) -> Iterator[CompletionKL]:
        picked = [rows[i] for i in batch]
        for sides in zip(policy(picked), reference(picked), strict=True):
            kl, sampled, outside = _in_chunks(partial(_compare, sampling=sampling), *sides)
            yield CompletionKL(kl.sum().item(), sampled.sum().item(), outside.mean().item())

    return map_batches(compare, list(split_rows(rows, vocabulary_size)), together=together)


@torch.no_grad()
def measure_tokens(scorers: Sequence[Scorer], rows: list[Row], vocabulary_size: int) -> list[dict[str, list[float]]]:
    """Figures of each token of the rows' completions, in nats, at temperature 1. All processes have the same rows.

    Args:
        scorers: the policy's, and perhaps the reference's.

    Returns:
        for each row, by name a value per token: `token_logprobs`, its log-probability under the policy; with a
        reference also `token_kl`, KL(policy || reference) at its position, which sum up to `CompletionKL.kl`, and
        `token_log_ratio`, its log-probability under the policy minus that under the reference (k1).
    """
    n = max(1, CHUNK_VALUES // vocabulary_size)

    def measure(batch: list[int]) -> Iterator[dict[str, list[float]]]:
        picked = [rows[i] for i in batch]
        for (_, completion), *sides in zip(picked, *(score(picked) for score in scorers), strict=True):
            ids = torch.tensor(completion[len(completion) - len(sides[0]) :], device=sides[0].device)
            chunks = zip(*(values.split(n) for values in (ids, *sides)), strict=True)
            parts = [_measure_chosen(*chunk) for chunk in chunks]
            yield {name: torch.cat([part[name] for part in parts]).tolist() for name in parts[0]}

    return map_batches(measure, list(split_rows(rows, vocabulary_size)))


def token_kl(logps: torch.Tensor, reference_logps: torch.Tensor) -> torch.Tensor:
    """KL(policy || reference) at each position, in nats, exact over the vocabulary.

    Args:
        logps, reference_logps: (tokens, vocabulary) float32, normalised.

    Returns:
        (tokens,) float32, at least 0: each term is p (r - 1 - log r) with r = q / p, which gives the same sum without
        negative terms, so that rounding cannot make it negative (Schulman's k3, summed instead of sampled).
    """
    log_ratio = reference_logps - logps
    return (logps.exp() * (torch.expm1(log_ratio) - log_ratio)).sum(-1)


@torch.no_grad()
def measure_states(
    heads: Sequence[Head], states: Sequence[torch.Tensor], mask: torch.Tensor, vocabulary_size: int, sampling: Sampling
) -> tuple[torch.Tensor, torch.Tensor]:
    """For each completion KL(policy || reference) of the distributions that it was sampled from, and the mean
    probability of drawing a token that the reference cannot draw: (batch,) float32 each.

    Args:
        heads, states: of the policy and of the reference, of which TRL's scoring keeps only the sampled tokens'
            log-probabilities; the last hidden states are those before each token, (batch, time, size).
        mask: (batch, time) bool, the completions' tokens.
    """

    def compare(logits: torch.Tensor, reference_logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return compare_sampled(_normalise(logits), _normalise(reference_logits), sampling)

    (policy, reference), n = heads, max(1, BATCH_ELEMENTS // vocabulary_size)
    batches = zip(*(values[mask].split(n) for values in states), strict=True)
    found = [_in_chunks(compare, policy(own), reference(its)) for own, its in batches]
    kl, outside = (torch.zeros_like(mask, dtype=torch.float32).masked_scatter(mask, torch.cat(values))
                   for values in zip(*found, strict=True))  # fmt: skip
    return kl.sum(1), outside.sum(1) / mask.sum(1)


def compare_sampled(
    logps: torch.Tensor, reference_logps: torch.Tensor, sampling: Sampling
) -> tuple[torch.Tensor, torch.Tensor]:
    """KL at each position between the distributions that policy and reference are sampled from, made finite; and the
    probability of the tokens for which it is infinite.

    Let S and R be the tokens that top-k and top-p leave to the policy and to the reference, both at the sampling's
    temperature. The policy draws from p = policy given S, and the reference from r = reference given R. KL(p || r) is
    infinite as soon as S holds one token that R does not. So this measures KL(p || q) with q = reference given R or S:
    it equals KL(p || r) wherever that is finite, is always finite, and at least 0. It is 0 if p = r, but also if R lies
    inside S and both models have the same odds there; the probability outside R distinguishes the two cases. Other
    choices would be worse: KL(p || reference) would not be 0 for equal models (up to -log top_p per token), and given S
    alone the KL would be 0 for any two models once the policy is so certain that S is a single token.

    Args:
        logps, reference_logps: (tokens, vocabulary) float32, normalised, at temperature 1.

    Returns:
        KL(p || q) in nats, and the probability under p of tokens outside R: both (tokens,) float32.
    """
    logps, reference_logps = (torch.log_softmax(v / sampling.temperature, -1) for v in (logps, reference_logps))
    if not sampling.truncates:
        return token_kl(logps, reference_logps), torch.zeros_like(logps[:, 0])
    warp = build_warpers(Sampling(sampling.max_new_tokens, 1.0, sampling.top_p, sampling.top_k))
    own, its = (warp(None, values).isfinite() for values in (logps, reference_logps))  # type: ignore[arg-type]
    drawn = torch.log_softmax(logps.masked_fill(~own, -torch.inf), -1)
    given = torch.log_softmax(reference_logps.masked_fill(~(own | its), -torch.inf), -1)
    log_ratio = (given - drawn).masked_fill(~own, 0.0)
    # As in token_kl, no term is negative: with s = q / p, p (s - 1 - log s) over S, plus the part of q outside S.
    inside = drawn.exp() * (torch.expm1(log_ratio) - log_ratio)
    return inside.sum(-1) + given.exp().masked_fill(own, 0.0).sum(-1), drawn.exp().masked_fill(its, 0.0).sum(-1)


def _in_chunks(compare: Callable[..., tuple[torch.Tensor, ...]], *sides: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What `compare` returns for logits of policy and reference, (tokens, vocabulary) each, a few tokens at once."""
    n = max(1, CHUNK_VALUES // sides[0].shape[1])
    columns = zip(*(compare(*chunk) for chunk in zip(*(logits.split(n) for logits in sides), strict=True)), strict=True)
    return tuple(map(torch.cat, columns))


def _measure_chosen(ids: torch.Tensor, *sides: torch.Tensor) -> dict[str, torch.Tensor]:
    """The figures of `measure_tokens` at some positions, (tokens,) each, from the logits of one or both models."""
    logps = [_normalise(logits) for logits in sides]
    policy, *reference = (values.gather(-1, ids[:, None]).squeeze(-1) for values in logps)
    found = {"token_logprobs": policy}
    return found | {"token_kl": token_kl(*logps), "token_log_ratio": policy - reference[0]} if reference else found


def _normalise(logits: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of logits of any precision, at least in float32."""
    return logits.log_softmax(-1, torch.promote_types(logits.dtype, torch.float32))


def _compare(logits: torch.Tensor, reference_logits: torch.Tensor, sampling: Sampling) -> tuple[torch.Tensor, ...]:
    """The figures of `CompletionKL` at each position, three times (tokens,), in float32 for logits of any precision."""
    logps, reference_logps = _normalise(logits), _normalise(reference_logits)
    kl = token_kl(logps, reference_logps)
    if sampling.is_plain:
        return kl, kl, torch.zeros_like(kl)
    return kl, *compare_sampled(logps, reference_logps, sampling)

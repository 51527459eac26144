"""The policy's distribution: KL to the start model, entropy, and the distribution that completions are drawn from."""

import math
from collections.abc import Mapping
from itertools import accumulate
from statistics import fmean, median, stdev

from rlhf_exp.analysis.diagnose.courses import LEAST_ROWS, Course, angle, last_quarter, log, mean, recent, root, worst
from rlhf_exp.analysis.diagnose.rule import ONLINE, POLICIES, PRICED, Suspicion, rule
from rlhf_exp.analysis.diagnose.signals import Signals

K1 = "kl_k1|ppo/kl"
DIFFERENCE = "sampling/sampling_logp_difference/mean"
NO_SIGNAL = 0.9  # share of groups without it
LEAST_ERROR, CUT_ERROR = 2e-3, 0.1  # nats per token
LEAST_ENTROPY = 0.05  # nats per token; a ratio of entropies far below it is noise
SEEN = 0.01  # nats per token, of equal models
ROUNDED = 0.1  # nats per token: more than logits in bfloat16 explain, 0.03 of SmolLM2


CUTS = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
"""Arguments that change the distribution that tokens are drawn from, each with the value at which it does not."""


def _find_cut(run: Signals, cuts: Mapping[str, float | None]) -> tuple[str, list[str]] | None:
    """Cause and remedy where tokens are not drawn from the distribution that is scored."""
    args = run.config["algo"]["args"]
    name = next((name for name, whole in cuts.items() if args.get(name) not in (None, whole)), None)
    if name is None:
        return None
    cause = f"{name}={args[name]}: tokens are drawn from another distribution than the one that is scored"
    return cause, [run.set_arg(name, cuts[name] or 0)]


def _per_token(run: Signals, names: str = "") -> list[tuple[int, float]]:
    """KL of own samples to the reference in nats per token, of the series that the run's trainer logs it in; of `names`
    for another estimate of it. Where completions get shorter, per token of the first ones: the KL of the whole is what
    drifts, and a reward for short answers concentrates it on few tokens."""
    name, unit = run.algorithm.logged_kl or ("", "")
    lengths = dict(run.series("completions/mean_length"))
    start = next(iter(lengths.values()), 1.0)
    is_whole, found = unit == "completion" and not names, []
    for step, kl in run.series(names or name):
        length = max(lengths.get(step, start), 1.0)
        found.append((step, kl / max(length, start) * (1.0 if is_whole else length)))
    return found


@rule("warning", "probe/kl|kl|ppo/kl", of=PRICED)
def kl_drift(run: Signals) -> Suspicion | None:
    """Root of the recent KL to the start model per token, on the probe and on the policy's own samples; less that of
    the first step, which is no drift. No single rollout moves it, which has as many rows as passes."""
    courses, sampled = [], 2 * int(run.arg("num_iterations", 1)) + 1
    for series, least in ((run.series("probe/kl"), 3), (_per_token(run), sampled)):
        start = root(max(series[0][1], 0.0)) if series and series[0][0] == 1 else 0.0
        courses.append([(step, root(kl) - start) for step, kl in recent(series, least=least)])
    course = worst(*courses)
    if not course:
        return None
    evidence = f"KL to the start model reaches {max(score for _, score in course) ** 2:.2f} nats per token"
    cause = f"{run.price_text} holds the policy too loosely for this learning rate and number of steps"
    return Suspicion(course, cause, run.hold_policy(), evidence)


@rule("warning", "kl|ppo/kl", of=PRICED)
def wrong_reference(run: Signals) -> Suspicion | None:
    """Root of the KL per token at the first step, before which policy and reference are the same model."""
    step, kl = next(iter(_per_token(run)), (0, 0.0))
    evidence = f"KL to the reference is {kl:.3g} nats per token before the first update"
    cause = "the reference is another model than the one that training started from"
    return Suspicion([(step, root(abs(kl)))], cause, [], evidence) if step == 1 else None


@rule("warning", "evaluation/trained/kl/mean", "evaluation/trained/mean_tokens", of=PRICED)
def held_out_kl(run: Signals) -> Suspicion:
    """Root of the KL to the start model per token, on the trained model's held-out completions; where these are shorter
    than the start model's, per token of those."""
    kl, before = run.read("trained/kl/mean")["value"], run.measured("baseline/mean_tokens")
    tokens = max(run.read("trained/mean_tokens")["value"], before["value"] if before else 1.0, 1.0)
    course: Course = [(None, root(kl / tokens))]
    cause = "the policy has left its start model: the price of KL is too low, or the learning rate too high"
    return Suspicion(course, cause, run.hold_policy(), f"KL to the start model on held-out rows is {kl:.1f} nats")


@rule("warning", K1, of=ONLINE)
def negative_kl(run: Signals) -> Suspicion | None:
    """How surely the KL that k1 estimates from the sampled tokens was below 0 in the later half of the rows so far: log
    of one more than the standard errors of its mean, which count as at least LEAST_ERROR. Its expectation is never
    negative if the tokens are drawn from the distribution whose log-probabilities are compared; under top-p and its
    like it may be a little (`sampled_kl_is_cut`), and an error counts as at least CUT_ERROR."""
    if not (sampled := _per_token(run, "kl_k1") or _per_token(run)):
        return None
    course, first = list[tuple[int | None, float]](), sampled[0][1]
    cut = _find_cut(run, CUTS | {"temperature": 1.0})
    kls = [kl for _, kl in sampled]
    sums = [[*accumulate(values, initial=0.0)] for values in (kls, [kl * kl for kl in kls])]
    for i in range(2 * LEAST_ROWS, len(sampled) + 1):
        n, (total, squares) = i - i // 2, (of[i] - of[i // 2] for of in sums)
        variance = max(squares - total * total / n, 0.0) / (n - 1)
        error = max(math.sqrt(variance / n), CUT_ERROR if cut else LEAST_ERROR)
        course.append((sampled[i - 1][0], math.log1p(max(-total / n / error, 0.0))))
    apart = run.series(DIFFERENCE)
    if cut:
        return Suspicion(course, *cut)
    if abs(first) > SEEN:
        cause = f"it is {first:.3g} at the first step already: the reference is another model than the start"
    elif apart and max(value for _, value in apart) > (ROUNDED if run.config.get("device", {}).get("bf16") else SEEN):
        cause = "sampling and scoring give the same tokens other log-probabilities: padding, positions or old weights"
    else:
        cause = "the policy is far from the reference on tokens that it seldom draws"
    return Suspicion(course, cause, run.hold_policy())


@rule("info", K1, of=ONLINE)
def sampled_kl_is_cut(run: Signals) -> Suspicion | None:
    """The recent sampled KL is below 0 by over two standard errors, and its tokens are drawn from a part of the policy:
    its expectation is then at least the mean of log(kept by the policy / kept by the reference), not 0. No harm."""
    late = [kl for _, kl in last_quarter(_per_token(run, "kl_k1") or _per_token(run))]
    cut = _find_cut(run, CUTS)
    if cut is None or len(late) < LEAST_ROWS or fmean(late) + 2 * stdev(late) / math.sqrt(len(late)) >= 0:
        return None
    evidence = f"sampled KL {fmean(late):.2g} nats per token at the end, below 0 in {fmean(kl < 0 for kl in late):.0%}"
    return Suspicion([(run.last_step, 0.0)], *cut, f"{evidence} of {len(late)} rows")


@rule("warning", f"{DIFFERENCE}|ratio/mean", of=ONLINE)
def sampled_apart_from_trained(run: Signals) -> Suspicion:
    """Root of the recent mean difference between a token's log-probability when drawn and when scored, and of the log
    of the mean importance ratio, which is 1 for equal distributions (under top-p the mass that is kept)."""
    ratio = [(step, root(abs(log(value)))) for step, value in recent(run.series("ratio/mean"))]
    course = worst([(step, root(value)) for step, value in recent(run.series(DIFFERENCE))], ratio)
    evidence = f"root of the mean difference of log-probabilities up to {max(score for _, score in course):.2g}"
    cause = "completions are drawn from other weights, another precision or a cut distribution (top_p, top_k)"
    whole = [run.set_arg("top_p", 1.0)] if run.arg("top_p", 1.0) < 1 else []
    return Suspicion(course, cause, [*whole, run.set_arg("num_iterations", 1), run.lower_rate(2)], evidence)


def _entropies(run: Signals, sign: int) -> Course:
    """Log of the recent entropy over that of the start, each with LEAST_ENTROPY more, on the probe and on own samples.
    The start of the own samples is at least that of the probe, so that a policy that was collapsed from its first row
    counts."""
    courses: list[Course] = []
    probe = run.series("probe/entropy")
    for name in ("probe/entropy", "entropy"):
        course = run.rise(name, _log_entropy)
        if sign < 0 and name == "entropy" and probe and course:
            own = _log_entropy(run.series(name)[0][1])
            course = [(step, score + min(own - _log_entropy(probe[0][1]), 0)) for step, score in course]
        courses.append([(step, sign * score) for step, score in course])
    return worst(*courses)


def _log_entropy(entropy: float) -> float:
    return log(entropy + LEAST_ENTROPY)


@rule("warning", "probe/entropy|entropy", of=PRICED)
def entropy_collapse(run: Signals) -> Suspicion:
    """Log of the start's entropy over the recent one. Cui et al. (2025, arXiv:2505.22617) see it fall by 73% while
    accuracy still rises."""
    cause = "the policy became nearly deterministic: the completions of a group are nearly the same and teach little"
    return Suspicion(_entropies(run, -1), cause, run.raise_entropy())


@rule("warning", "probe/entropy|entropy", of=PRICED)
def entropy_explosion(run: Signals) -> Suspicion:
    """Log of the recent entropy over the start's."""
    calm = [run.set_arg("entropy_coef", 0.0)] if run.arg("entropy_coef", 0.0) else []
    bonus = "an entropy bonus or " if calm else ""
    cause = f"the policy forgets what it could write: {bonus}a learning rate that is too high"
    return Suspicion(_entropies(run, 1), cause, [*calm, run.lower_rate(4)])


@rule("warning", "probe/kl", of=POLICIES)
def policy_stands_still(run: Signals) -> Suspicion | None:
    """Minus the log of the recent KL to the start model in the second half of training: hardly anything was learned."""
    if run.is_control:
        return None
    course = [(step, -0.5 * math.log(max(kl, 1e-10))) for step, kl in run.late(recent(run.series("probe/kl")))]
    silent = last_quarter(run.series("frac_reward_zero_std"))
    if silent and mean(silent) > NO_SIGNAL:
        return Suspicion(course, "hardly a group has rewards that differ, so that no rate moves the policy", [])
    cause = "the trained parameters take no part in the output, or something holds back their steps"
    if run.usual_rate is None or run.learning_rate < run.usual_rate:
        cause = f"the {run.rate_text} is too low, or {cause}"
    return Suspicion(course, cause, [run.lower_rate(0.1)])


@rule("warning", "ppo/clip_fraction|clip_ratio/region_mean", of=ONLINE)
def clip_fraction(run: Signals) -> Suspicion | None:
    """The share of tokens whose ratio is clipped, of the last half of the rows so far: no single rollout makes it, that
    may have several rows."""
    series = run.series("ppo/clip_fraction|clip_ratio/region_mean")
    passes = len(series) // max(len(run.series("reward")), 1)
    course = [(series[i][0], angle(median(share for _, share in series[i // 2 : i + 1])))
              for i in range(max(2 * LEAST_ROWS, 4 * passes), len(series))]  # fmt: skip
    if not course:
        return None
    cause = "the policy moves too far within one rollout: too high a rate, too many passes, too narrow a clip range"
    return Suspicion(course, cause, [run.lower_rate(2), run.set_arg("num_iterations", 1)])

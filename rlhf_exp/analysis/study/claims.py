"""Judges the claims of a hand-made study by the intervals of these runs.

claims = read_claims(Path("sweeps/claims/gsm8k.yaml"))
judge(claims, {"ppo": [run, run, run], "grpo": [run, run, run]})    # [Verdict(claim, "supported", ...), ...]
describe_claims(Path("sweeps/claims/gsm8k.yaml"), groups)           # blocks of a page

Each comparison of a claim (measures.py) gives two one-sided p-values: small if the claim holds, and small if it fails.
A claim over several comparisons is supported if all of them are (intersection-union test: Berger 1982, Technometrics
24) and contradicted if one is (Bonferroni); `differ`, the opposite of `equal`, the other way round. Equality takes two
one-sided tests (Schuirmann 1987). Twice the smaller p-value of a claim enters Holm's procedure over all judged claims,
so that the probability of any wrong verdict is at most 5%.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

import numpy as np
from pydantic import Field
from scipy.special import stdtr

from rlhf_exp.analysis.report.groups import Groups
from rlhf_exp.analysis.report.page import NOTES, Block, Heading, Table, Text, footnote
from rlhf_exp.analysis.stats import LEVEL, holm
from rlhf_exp.analysis.stats.planning import detectable_difference
from rlhf_exp.analysis.study.measures import START, Measured, Untested, explain, has_start, measure
from rlhf_exp.analysis.study.stages import check_keys
from rlhf_exp.errors import ConfigError, Problem
from rlhf_exp.runs.figures import Figure, number, percent, points
from rlhf_exp.runs.files import read_file
from rlhf_exp.runs.load import parse_yaml

VERDICTS = SUPPORTED, CONTRADICTED, UNCLEAR, UNTESTED = "supported", "contradicted", "cannot tell", "not tested"


class Claim(NamedTuple):
    """A claim of the hand-made study, and how these runs judge it.

    Attributes:
        figure: what the hand-made study measured.
        contrast: arms. By `order` each is above the next; with `value` each is compared with it, else each but the last
            with the last.
        margin: in the metric's unit: `higher`, `lower` and `order` by more than this, `equal` and `value` within it,
            `differ` by more than this in either direction.
        not_tested: why no run of this study can say.
    """

    id: str
    says: str
    figure: str = "-"
    metric: str | None = None
    contrast: list[str] = []
    expect: Literal["higher", "lower", "order", "equal", "differ", "value"] | None = None
    margin: Annotated[float, Field(ge=0)] = 0.0
    value: float | None = None
    not_tested: str | None = None


class Verdict(NamedTuple):
    """What these runs say about a claim.

    Attributes:
        verdict: one of VERDICTS.
        reason: why it was not tested.
        adjusted: twice the smaller p of its two sides (`weigh`), by Holm over all judged claims.
        level: what the correction leaves of 0.05 to this claim.
    """

    claim: Claim
    verdict: str
    reason: str = ""
    measured: list[Measured] = []
    adjusted: float = 1.0
    level: float = LEVEL

    @property
    def detectable(self) -> float:
        """The distance from the margin that these runs would show with 80% power in each of the claim's comparisons."""
        return max(detectable_difference(one.estimate, self.level) for one in self.measured)


def read_claims(path: Path) -> list[Claim]:
    """The claims of a file.

    Raises:
        ConfigError: a line for each mistake.
    """
    if not path.is_file():
        raise ConfigError([f"{path}: no such file"])
    found = {str(name): entry for name, entry in read_file(path, parse_yaml, dict).items()}
    if problems := [f"{path}: {problem}" for name, entry in found.items() for problem in _check(name, entry)]:
        raise ConfigError(problems)
    return [Claim(name, **entry) for name, entry in found.items()]


def _check(name: str, entry: Any) -> Sequence[str]:
    """The mistakes in keys and types, or else in what fits together."""
    if not isinstance(entry, dict) or "says" not in entry:
        return [Problem(name, "missing", hint="needs `says`, and either `metric` or `not_tested`")]
    types = {key: hint for key, hint in get_type_hints(Claim, include_extras=True).items() if key != "id"}
    problems = [*check_keys(f"{name}.", entry, types)]
    return problems or _check_test(Claim(name, **entry))


def _check_test(claim: Claim) -> list[Problem]:
    metric, arms, given = claim.metric, claim.contrast, claim.value is not None
    if metric is None or claim.not_tested is not None:
        needs = Problem(claim.id, "missing", hint="needs either `metric`, by which it is tested, or `not_tested`")
        return [needs] if (metric is None) == (claim.not_tested is None) else []
    fewest, why, start = 1 if given else 2, explain(metric), START in arms
    useless = given and (start or claim.expect == "order")
    odd = START in arms[:-1] or (start and not why and not has_start(metric))
    rules = [
        ("metric", why is not None, str(why)),
        ("expect", claim.expect is None, "must be given beside `metric`"),
        ("value", useless or given < (claim.expect == "value"), "is for arms that are compared with a value"),
        ("contrast", len({*arms}) < max(fewest, len(arms)), f"needs at least {fewest} different arms"),
        ("contrast", odd, f"{START} must be the last, and of a figure that it has"),
    ]
    return [Problem(f"{claim.id}.{key}", "conflict", getattr(claim, key), hint) for key, is_so, hint in rules if is_so]


def judge(claims: list[Claim], groups: Groups) -> list[Verdict]:
    """A verdict for each claim, in their order."""
    return decide([(claim, _measure(claim, groups)) for claim in claims])


def decide(found: list[tuple[Claim, list[Measured] | str]]) -> list[Verdict]:
    """The verdicts over all claims together, from what was measured, or why nothing was."""
    sides = [weigh(claim, made) for claim, made in found if not isinstance(made, str)]
    adjusted = holm([min(1.0, 2 * min(pair)) for pair in sides])
    level, judged = LEVEL / max(1, sum(p >= LEVEL for p in adjusted)), zip(sides, adjusted, strict=True)
    verdicts = []
    for claim, made in found:
        if isinstance(made, str):
            verdicts.append(Verdict(claim, UNTESTED, made))
        else:
            pair, p = next(judged)
            verdict = UNCLEAR if p >= LEVEL else SUPPORTED if pair[0] < pair[1] else CONTRADICTED
            verdicts.append(Verdict(claim, verdict, "", made, p, level))
    return verdicts


def weigh(claim: Claim, measured: list[Measured]) -> tuple[float, float]:
    """One-sided p-values: small if the claim holds, and small if it fails."""
    found = [one.estimate for one in measured]
    centre, error, df = np.array([(one.centre, max(one.error, 1e-300), one.df) for one in found]).T
    bounds = [(claim.value or 0.0) + sign * claim.margin for sign in (-1, 1)]
    low, high = (stdtr(df, (bound - centre) / error) for bound in bounds)  # p of a truth that is not above
    sides = {"higher": (high, 1 - high), "order": (high, 1 - high), "lower": (1 - low, low)}
    holds, fails = sides.get(str(claim.expect), (np.maximum(low, 1 - high), np.minimum(1 - low, high)))
    every, some = float(holds.max()), min(1.0, len(fails) * float(fails.min()))
    return (some, every) if claim.expect == "differ" else (every, some)


def describe_claims(path: Path, groups: Groups) -> list[Block]:
    """The rule, how many claims these runs support and contradict, and a row for each claim, judged ones first."""
    verdicts = sorted(judge(read_claims(path), groups), key=lambda one: one.verdict == UNTESTED)
    counts = {name: sum(one.verdict == name for one in verdicts) for name in VERDICTS}
    rule = NOTES["claims"].format(judged=len(verdicts) - counts[UNTESTED])
    found = f"Of {len(verdicts)} claims: {', '.join(f'{name} {n}' for name, n in counts.items())}."
    head = ["claim", "what it says", "the hand-made study", "these runs", "verdict"]
    rows = [[one.claim.id, one.claim.says, one.claim.figure, *_write_verdict(one)] for one in verdicts]
    title = Heading("The hand-made study and these runs")
    return [title, Text(rule), Text(found), Table(head, rows), footnote(NOTES["claims_measured"])]


def _measure(claim: Claim, groups: Groups) -> list[Measured] | str:
    """The claim's comparisons, or why these runs do not make them."""
    if claim.metric is None:
        return str(claim.not_tested)
    *arms, last = claim.contrast
    pairs = [[arm, last] for arm in arms] if claim.value is None else [[arm] for arm in claim.contrast]
    if claim.expect == "order":
        pairs = [*map(list, pairwise(claim.contrast))]
    try:
        return [measure(claim.metric, groups, pair) for pair in pairs]
    except Untested as why:
        return str(why)


def _write_verdict(found: Verdict) -> tuple[str, str]:
    """What these runs measured, and the verdict."""
    claim, made = found.claim, found.measured
    if not made:
        return "-", f"{found.verdict}: {found.reason}"
    share, signed = made[0].share, claim.value is None
    figures = "; ".join(f"{one.label} {_write(one.interval, share, signed)}" for one in made)
    seeds = " and ".join(map(str, sorted({n for one in made for n in one.seeds})))
    rows = f", {min(one.rows for one in made)} rows" if made[0].rows > 1 else ""
    power = f"80% power: {_write(found.detectable, share, signed).lstrip('+')}"
    how = power if found.verdict == UNCLEAR else f"p {found.adjusted:.3f}" if found.adjusted >= 0.001 else "p <0.001"
    word = "of" if claim.expect == "value" else "than"
    goal = "" if claim.value is None else f" {word} {_write(claim.value, share, False)}"
    margin = f", margin {_write(claim.margin, share, signed).lstrip('+')}" if claim.margin else ""
    return f"{claim.metric}: {figures}; {seeds} seeds{rows}", f"{found.verdict} ({claim.expect}{goal}{margin}; {how})"


def _write(figure: Figure, share: bool, signed: bool) -> str:
    if share:
        return (points if signed else percent)(figure)
    size = abs(figure["value"] if isinstance(figure, dict) else figure or 0.0)
    return number("+"[:signed] + (",.0f" if size >= 1000 else ".3g"))(figure)

"""Judges the claims of a hand-made study by the intervals of these runs.

claims = read_claims(Path("sweeps/claims/gsm8k.yaml"))
judge(claims, {"ppo": [run, run, run], "grpo": [run, run, run]})    # [Verdict(claim, "supported", ...), ...]
describe_verdicts(verdicts)                                         # blocks of a page

Each comparison of a claim (measures.py) has an interval. The claim is supported if the interval lies wholly on the
side that it predicts, beyond its margin, and contradicted if it lies wholly on the other side. A claim over several
comparisons is supported if all of them are (intersection-union test: Berger 1982, Technometrics 24) and contradicted if
one is (Bonferroni); `differ`, the opposite of `equal`, the other way round. Equality takes two one-sided tests
(Schuirmann 1987). All intervals are at the level that Holm's procedure over all judged claims ends at, so that the
probability of any wrong verdict is at most 5%.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, ValidationError
from scipy.special import stdtr

from rlhf_exp.analysis.report.groups import Groups
from rlhf_exp.analysis.report.page import NOTES, Block, Heading, Table, Text, footnote
from rlhf_exp.analysis.stats import LEVEL, as_interval, count_left
from rlhf_exp.analysis.stats.crossed import limit
from rlhf_exp.analysis.stats.planning import detectable_difference
from rlhf_exp.analysis.study.measures import HELD_OUT, NO_START, NUMBERS, START, Measured, Metric, Untested, measure
from rlhf_exp.config.values import one_of
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.figures import Figure, number, percent, points
from rlhf_exp.runs.records import read

VERDICTS = SUPPORTED, CONTRADICTED, UNCLEAR, UNTESTED = "supported", "contradicted", "cannot tell", "not tested"


class Claim(Metric):
    """A claim of the hand-made study: the contrast of arms that judges it, or why no run of this study can.

    Attributes:
        figure: what the hand-made study measured.
        contrast: arms. By `order` each is above the next; with `value` each is compared with it, else each but the last
            with the last.
        margin: in the metric's unit: `higher`, `lower` and `order` by more than this, `equal` and `value` within it,
            `differ` by more than this in either direction.
    """

    says: str
    figure: str = "-"
    contrast: list[str] = []
    expect: Literal["higher", "lower", "order", "equal", "differ", "value"] | None = None
    margin: float = Field(0.0, ge=0)
    value: float | None = None
    not_tested: str | None = None


class Verdict(NamedTuple):
    """What these runs say about a claim.

    Attributes:
        verdict: one of VERDICTS.
        reason: why it was not tested.
        level: at which the intervals of `measured` decide; what Holm's procedure over all judged claims leaves of 0.05.
    """

    name: str
    claim: Claim
    verdict: str
    reason: str = ""
    measured: list[Measured] = []
    level: float = LEVEL

    @property
    def detectable(self) -> float:
        """The distance from the margin that these runs would show with 80% power in each of the claim's comparisons."""
        return max(detectable_difference(one.estimate, self.level) for one in self.measured)


def read_claims(path: Path) -> dict[str, Claim]:
    """The claims of a file by their names.

    Raises:
        ConfigError: a line for each mistake.
    """
    if not path.is_file():
        raise ConfigError([f"{path}: no such file"])
    claims, problems = {}, []
    for name, values in read(path, dict).items():
        try:
            claims[str(name)] = Claim.model_validate(values)
        except ValidationError as error:
            for one in error.errors():
                key = ".".join(map(str, (name, *one["loc"])))
                unknown = one["type"] == "extra_forbidden"
                hint = one_of(str(one["loc"][-1]), list(Claim.model_fields)) if unknown else one["msg"]
                problems.append(f"{path}: {key}: {hint}")
        else:
            problems += [f"{path}: {name}{line}" for line in _find_mistakes(claims[str(name)])]
    if problems:
        raise ConfigError(problems)
    return claims


def _find_mistakes(claim: Claim) -> list[str]:
    """What does not fit together."""
    metric = claim.metric
    if (metric is None) == (claim.not_tested is None):
        return [": needs either `metric`, by which it is tested, or `not_tested`"]
    if metric is None:
        return []
    if claim.statistic is None:
        known = HELD_OUT if claim.per or claim.set else [*HELD_OUT, *NUMBERS]
        for name in (metric, claim.per or metric):
            if name not in known:
                return [f".metric={name}: {one_of(name, known)}, or a series with its `statistic`"]
    if claim.expect is None:
        return [".expect: must be given beside `metric`"]
    compared_with_start = START in claim.contrast
    if claim.value is None and claim.expect == "value":
        return [".value: must be given with `expect: value`"]
    if claim.value is not None and (compared_with_start or claim.expect == "order"):
        return [".value: is for arms that are compared with a value"]
    fewest = 2 if claim.value is None else 1
    if len({*claim.contrast}) < max(fewest, len(claim.contrast)):
        return [f".contrast: needs at least {fewest} different arms"]
    has_start = claim.statistic is None and metric in HELD_OUT and not NO_START & {metric, claim.per}
    if START in claim.contrast[:-1] or (compared_with_start and not has_start):
        return [f".contrast: {START} must be the last, and of a figure that it has"]
    return []


def judge(claims: dict[str, Claim], groups: Groups) -> list[Verdict]:
    """A verdict for each claim, in their order."""
    return decide([(name, claim, _measure(claim, groups)) for name, claim in claims.items()])


def decide(measured: list[tuple[str, Claim, list[Measured] | str]]) -> list[Verdict]:
    """The verdicts over all claims together, from what was measured, or why nothing was."""
    sides = [weigh(claim, made) for _, claim, made in measured if not isinstance(made, str)]
    level = LEVEL / max(1, count_left([min(1.0, 2 * min(pair)) for pair in sides]))
    judged = iter(sides)
    verdicts = []
    for name, claim, made in measured:
        if isinstance(made, str):
            verdicts.append(Verdict(name, claim, UNTESTED, made))
            continue
        holds, fails = next(judged)
        verdict = UNCLEAR
        if 2 * min(holds, fails) < level:
            verdict = SUPPORTED if holds < fails else CONTRADICTED
        verdicts.append(Verdict(name, claim, verdict, "", made, level))
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


def count_verdicts(verdicts: list[Verdict]) -> dict[str, int]:
    """How many claims have each verdict."""
    return {name: sum(one.verdict == name for one in verdicts) for name in VERDICTS}


def describe_verdicts(verdicts: list[Verdict]) -> list[Block]:
    """The counts, the rule, and a row for each claim, by verdict."""
    verdicts = [one for name in VERDICTS for one in verdicts if one.verdict == name]
    counts = count_verdicts(verdicts)
    rule = NOTES["claims"].format(judged=len(verdicts) - counts[UNTESTED])
    found = f"Of {len(verdicts)} claims: {', '.join(f'{name} {n}' for name, n in counts.items())}."
    head = ["claim", "verdict", "what it says", "these runs", "the hand-made study"]
    rows = [[one.name, one.verdict, one.claim.says, _write_measured(one), one.claim.figure] for one in verdicts]
    title = Heading("The hand-made study and these runs")
    return [title, Text(found), Text(rule), Table(head, rows), footnote(NOTES["claims_measured"])]


def _measure(claim: Claim, groups: Groups) -> list[Measured] | str:
    """The claim's comparisons, or why these runs do not make them."""
    if claim.metric is None:
        return str(claim.not_tested)
    *arms, last = claim.contrast
    pairs = [[arm, last] for arm in arms] if claim.value is None else [[arm] for arm in claim.contrast]
    if claim.expect == "order":
        pairs = [*map(list, pairwise(claim.contrast))]
    try:
        return [measure(claim, groups, pair) for pair in pairs]
    except Untested as why:
        return str(why)


def _write_measured(found: Verdict) -> str:
    """What these runs measured, and what was expected; or why nothing was."""
    claim, made = found.claim, found.measured
    if not made:
        return str(found.reason)
    share, signed = made[0].share, claim.value is None
    intervals = [limit(one.estimate.find_interval(found.level), one.kind) for one in made]
    figures = "; ".join(f"{one.label} {_write(interval, share, signed)}"
                        for one, interval in zip(made, intervals, strict=True))  # fmt: skip
    seeds = " and ".join(map(str, sorted({n for one in made for n in one.seeds})))
    rows = f", {min(one.rows for one in made)} rows" if made[0].rows > 1 else ""
    word = "of" if claim.expect == "value" else "than"
    goal = "" if claim.value is None else f" {word} {_write(claim.value, share, False)}"
    margin = f", margin {_write(claim.margin, share, signed).lstrip('+')}" if claim.margin else ""
    would = ""
    if found.verdict == UNCLEAR:
        would = f"; detectable from {_write(found.detectable, share, signed).lstrip('+')}"
    return f"{claim.label}: {figures}; {seeds} seeds{rows} (expected: {claim.expect}{goal}{margin}{would})"


def _write(figure: Figure, share: bool, signed: bool) -> str:
    if isinstance(figure, dict):  # a sum of floats that is 0 can miss it by 1e-19
        ends: Any = figure
        figure = as_interval(*(round(ends[end], 12) for end in ("value", "low", "high")))
    if share:
        return (points if signed else percent)(figure)
    size = abs(figure["value"] if isinstance(figure, dict) else figure or 0.0)
    return number("+"[:signed] + (",.0f" if size >= 1000 else ".3g"))(figure)

"""What a claim measures: of one arm a mean, its gain over the start model, or its difference to another arm.

explain("largst ppo/value_loss")                    # why no run can have it; None if one can
measure("accuracy", groups, ["grpo", "start"])      # Measured("grpo - start", Estimate(...), [3], 512, share=True)

A metric is one of these:
    a name of ROWS: a figure of each held-out row; its estimate joins seeds, rows and sampling (stats/crossed.py)
    a name of COSTS or PAIRS: a figure of run.json, or of held-out pairs
    A per B: of each run the mean of A over its held-out rows divided by that of B
    one of these, then `on SET`: on the rows of that evaluation set, with its reward
    STATISTIC KEY, share KEY < NUMBER, share KEY > NUMBER: of a series of metrics.jsonl, over its logged steps; with
        log10 before it the logarithm, for peaks that differ by factors between seeds
All but the first are one number per run, with Student's t over seeds (Welch's of a difference).
"""

import re
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any, NamedTuple

import numpy as np

from rlhf_exp.analysis.report import columns
from rlhf_exp.analysis.report.columns import FEWEST, ByRow, Column, of_both, subtract
from rlhf_exp.analysis.report.groups import Groups
from rlhf_exp.analysis.report.page import TEXTS
from rlhf_exp.analysis.stats import DIFFERENCES, LEVELS, SHARES, Interval
from rlhf_exp.analysis.stats.contrasts import measure_spreads, weigh_spreads
from rlhf_exp.analysis.stats.crossed import Estimate, Spread, estimate, join, limit
from rlhf_exp.config.values import one_of, suggest
from rlhf_exp.graders.arithmetic import evaluate
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.records import Completion

START = "start"
"""Stands for the start model where an arm is named."""
MANY = 10**6
"""The rows of a figure whose interval is over seeds alone."""
NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
CALCULATION = re.compile(rf"(?<![0-9.])(?=({NUMBER} ?[-+*/×÷] ?{NUMBER}) ?= ?({NUMBER}))")


class Measured(NamedTuple):
    """One comparison.

    Attributes:
        label: the arms; of two the second is subtracted.
        seeds: of each arm.
        rows: one of a figure that is one number per run.
        share: whether it is a share, which is written in percent.
    """

    label: str
    estimate: Estimate
    interval: Interval
    seeds: list[int]
    rows: int
    share: bool


class Untested(Exception):
    """Why these runs do not measure it."""


def count_calculations(true: bool) -> Column:
    """How many calculations with two numbers and a result a completion writes, or how many of these are true."""

    def count(one: Completion) -> int:
        found = CALCULATION.findall(one.completion)
        return sum(not true or evaluate(left) == evaluate(right) for left, right in found)

    before, after = of_both(count)
    return Column("calculations", after, rows=after, start=before)


ROWS: dict[str, Column] = {
    "accuracy": columns.TRAINED, "lenient_accuracy": columns.LENIENT, "pair_accuracy": columns.IMPLICIT,
    "reward": columns.REWARD, "win_rate": columns.WIN_RATE, "kl": columns.KL, "tokens": columns.TOKENS,
    "reward_gain": Column("gain", columns.REWARD.read, rows=subtract(columns.REWARDED, columns.REWARDED_BEFORE)),
    "truncation": columns.TRUNCATION, "partial": columns.PARTIAL, "failed": columns.FAILED,
    "calculations": count_calculations(False), "true_calculations": count_calculations(True),
}  # fmt: skip
BY_REWARD = {"reward", "reward_gain", "win_rate"}
"""Figures that are comparable only under the same reward."""

COSTS: dict[str, Column] = dict(zip(TEXTS["costs"], (*columns.COST, *columns.PASSES), strict=True))

PAIRS: dict[str, Callable[[Run], float | None]] = {
    "calibration_error": lambda run: columns.at("calibration_error")(run.preference("trained")),
    "excess_loss": lambda run: read_excess_loss(run),
    "near_ties": lambda run: (
        counts["near_tie"] / max(1, sum(counts.values())) if (counts := run.errors.counts) else None
    ),
}
"""Of a run's held-out pairs: `excess_loss`, how far the loss at the end of training lies above theirs; `near_ties`,
their share of the wrongly ranked ones."""

STATISTICS: dict[str, Callable[[np.ndarray], Any]] = {
    "largest": np.max, "smallest": np.min, "mean": np.mean, "median": np.median,
    "end": lambda values: np.median(values[-max(1, len(values) // 10) :]),
    "change": lambda values: STATISTICS["end"](values) - STATISTICS["end"](values[::-1]),
    "variation": lambda values: np.std(np.diff(values)),
    "falls": lambda values: np.mean(np.diff(values) < 0),
    "until": lambda values: np.argmax(abs(values - values[0]) >= 0.9 * abs(values[-1] - values[0])) / (len(values) - 1),
}  # fmt: skip
"""`end`: the median of the last tenth; `change`: that minus the median of the first tenth; `variation`: the standard
deviation of the changes from one logged step to the next; `falls`: the share of these that are below 0; `until`: the
share of the logged steps until the series is nine tenths of its whole change away from its begin."""
PER = re.compile(r"(\S+) per (\S+)")
ON = re.compile(r"(.+) on (\S+)")
SERIES = re.compile(rf"(?:log10 )?({'|'.join(STATISTICS)}|share) (\S+)(?: ([<>]) (-?[0-9]+\.?[0-9]*(?:e-?[0-9]+)?))?")


def explain(metric: str) -> str | None:
    """Why no run can have the metric; None if one can."""
    if on := ON.fullmatch(metric):
        if not PER.fullmatch(on[1]) and on[1] not in ROWS:
            return f"of an evaluation set {one_of(on[1], ROWS)}"
        metric = on[1]
    if names := PER.fullmatch(metric):
        return next((f"of each figure {one_of(name, ROWS)}" for name in names.groups() if name not in ROWS), None)
    if " " not in metric:
        return None if metric in (known := [*ROWS, *COSTS, *PAIRS]) else one_of(metric, known)
    found, known = SERIES.fullmatch(metric), TEXTS["series"]
    if not found or (found[1] == "share") != bool(found[3]):
        first = metric.removeprefix("log10 ").split()[0]
        return f"must be STATISTIC KEY or share KEY < NUMBER; STATISTIC {one_of(first, STATISTICS)}"
    return None if any(fnmatch(found[2], key) for key in known) else f"no run logs {found[2]}{suggest(found[2], known)}"


def has_start(metric: str) -> bool:
    """Whether the start model has the figure."""
    return all(name in ROWS and ROWS[name].start for name in metric.partition(" on ")[0].split(" per "))


def measure(metric: str, groups: Groups, arms: list[str]) -> Measured:
    """Of one arm, of one against START, or of the first of two minus the second.

    Raises:
        Untested: these runs do not measure it.
    """
    chosen = [arm for arm in arms if arm != START]
    if unknown := [arm for arm in chosen if arm not in groups]:
        raise Untested(f"these runs have no arm {unknown[0]}")
    if on := ON.fullmatch(metric):
        metric, groups = on[1], {arm: [run.at_set(on[2]) for run in of] for arm, of in groups.items()}
    if by_reward := not BY_REWARD.isdisjoint(metric.split()):
        groups = {arm: of for arm, of in groups.items() if _name_rewards(of) & _name_rewards(groups[chosen[0]])}
    found = {arm: [rows for run in of if (rows := _read(metric, run, START in arms))] for arm, of in groups.items()}
    if few := [arm for arm in chosen if len(found.get(arm, ())) < FEWEST]:
        raise Untested(f"fewer than two runs of {few[0]} have the figure{' by the same reward' if by_reward else ''}")
    names = sorted(set.intersection(*(set(rows) for arm in chosen for rows in found[arm])))
    if len(names) < FEWEST and metric in ROWS:
        raise Untested("the arms share no held-out rows")
    # The spread over seeds borrows from all arms that have the same rows.
    alike = {arm: of for arm, of in found.items() if len(of) >= FEWEST and all(rows.keys() >= {*names} for rows in of)}
    figures = {arm: np.array([[rows[name] for name in names] for rows in of]) for arm, of in alike.items()}
    compared = [figures[arm] for arm in chosen]
    means = compared[0].mean(0) - sum(of.mean(0) for of in compared[1:])
    share = ROWS[metric].kind is SHARES if metric in ROWS else metric.startswith("share ")
    kind = LEVELS if not share else DIFFERENCES if len(arms) > 1 else SHARES
    if metric in ROWS:
        # Runs without training may have measured one model in the same way: they are no seeds.
        varied = [arm for arm in figures if found[arm][0] != found[arm][1] or groups[arm][0].trains]
        spreads = measure_spreads({arm: figures[arm] for arm in varied})
        made = estimate(means, weigh_spreads(spreads, *[arm for arm in chosen if arm in varied]), kind)
    else:
        of_seeds = [(Spread(float(of.var(ddof=1)), 0.0, len(of) - 1), 1 / len(of)) for of in compared]
        made = join(means[0], means[0], 0.0, MANY, of_seeds)
    if not made.error and metric not in COSTS:
        raise Untested(f"all seeds have the same figure, {made.value:.3g}, which does not show how far it varies")
    return Measured(" - ".join(arms), made, limit(made.interval, kind), [len(of) for of in compared], len(names), share)


def read_series(metric: str, run: Run) -> float | None:
    """A figure of a series of the run; None if that has fewer than two steps."""
    statistic, key, sign, bound = SERIES.fullmatch(metric).groups()  # type: ignore[union-attr]
    values: Any = np.array(run.series(key)[1], dtype=np.float64)
    if len(values) < FEWEST:
        return None
    if sign:
        values = values < float(bound) if sign == "<" else values > float(bound)
    figure = float(STATISTICS["mean" if sign else statistic](values))
    return figure if not metric.startswith("log10 ") else float(np.log10(figure)) if figure > 0 else None


def read_excess_loss(run: Run) -> float | None:
    """The loss at the end of training minus that of the held-out pairs; None if one is missing."""
    trained, held_out = read_series("end loss", run), columns.at("loss", "value")(run.preference("trained"))
    return None if trained is None or held_out is None else trained - held_out


def _read(metric: str, run: Run, gain: bool) -> ByRow:
    """The metric of each held-out row, with `gain` its difference to the start model; a number per run as that of one
    row; {} if the run lacks it, or is not measured yet."""
    if run.evaluation.trained is None if run.trains else gain:
        return {}
    if metric in ROWS:
        after, before = _read_rows(metric, run), _read_rows(metric, run, True)
        return {name: value - before[name] for name, value in after.items() if name in before} if gain else after
    if names := PER.fullmatch(metric):
        both = [[_read_rows(name, run, side) for name in names.groups()] for side in (False, True)[: 1 + gain]]
        if not all(above and any(below.values()) for above, below in both):
            return {}
        number, *start = (sum(above.values()) / sum(below.values()) for above, below in both)
        return {"": number - sum(start)}
    read = PAIRS.get(metric, lambda run: read_series(metric, run))
    found = (COSTS[metric].read(run) or {}).get("value") if metric in COSTS else read(run)
    return {} if found is None else {"": found}


def _read_rows(name: str, run: Run, start: bool = False) -> ByRow:
    """Of a run that trains nothing always those of its start model."""
    read = ROWS[name].start if start or not run.trains else ROWS[name].rows
    return read(run) if read else {}


def _name_rewards(group: list[Run]) -> set[str]:
    return {str({**run.config.get("reward", {}), "random": None}) for run in group}

"""What a claim measures: of one arm a mean, its gain over the start model, or its difference to another arm.

    measure(Metric(metric="accuracy"), groups, ["grpo", "start"])
    ->  Measured("grpo - start", Estimate(...), seeds=[3], rows=512, share=True)

A figure of held-out rows (analysis/frame.py) has an estimate that joins seeds, rows and sampling (stats/crossed.py).
All others are one number per run, with Student's t over seeds. Both borrow from the spread of the other arms.
"""

import re
from functools import reduce
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict

from rlhf_exp.analysis.frame import FEWEST, read
from rlhf_exp.analysis.report import columns
from rlhf_exp.analysis.report.groups import Groups, name_rewards
from rlhf_exp.analysis.stats import DIFFERENCES, LEVELS, SHARES, SIZES, Kind
from rlhf_exp.analysis.stats.contrasts import contrast, weigh_settings
from rlhf_exp.analysis.stats.crossed import Estimate, join
from rlhf_exp.graders.arithmetic import evaluate
from rlhf_exp.runs.load import Run

START = "start"
"""Stands for the start model where an arm is named."""
MANY = 10**6
"""The rows of a figure whose interval is over seeds alone."""

KNOWN = (*columns.HELD_OUT, columns.IMPLICIT, columns.WIN_RATE)
SHARED = {column.rows for column in KNOWN if column.rows and column.kind is SHARES}
OTHERS = {"reward", "reward gain", "tokens", "KL", "calculations", "true calculations"}
HELD_OUT = sorted(SHARED | OTHERS)
"""The figures of held-out rows, of which SHARED are shares."""
BY_REWARD = {"reward", "reward gain", "win rate"}
"""Figures that are comparable only under the same reward."""
NO_START = {"reward gain", "win rate"}
"""Figures that compare with the start model already."""
NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
CALCULATION = re.compile(rf"(?<![0-9.])(?=({NUMBER} ?[-+*/×÷] ?{NUMBER}) ?= ?({NUMBER}))")
COSTS = {column.name: column for column in (*columns.COST, *columns.PASSES)}
PAIRS = ("calibration error", "excess loss", "near ties")
"""Of a run's held-out pairs: `excess loss`, how far the loss at the end of training lies above theirs; `near ties`,
their share of the wrongly ranked ones."""
NUMBERS = [*COSTS, *PAIRS]

Statistic = Literal[
    "largest", "smallest", "mean", "median", "end", "change", "variation", "falls", "until", "share above",
    "share below",
]  # fmt: skip


class Metric(BaseModel):
    """A figure of a run.

    Attributes:
        metric: one of HELD_OUT or NUMBERS, or the name of a series of metrics.jsonl.
        statistic: of a series, over its logged steps. `end`: the median of the last tenth; `change`: that minus the
            median of the first tenth; `variation`: the standard deviation of the changes from one logged step to the
            next; `falls`: the share of these that are below 0; `until`: the share of the logged steps until the series
            is nine tenths of its whole change away from its begin; `share above` and `share below` the bound.
        log10: takes the logarithm of the statistic, for peaks that differ by factors between seeds.
        per: one of HELD_OUT; of each run the mean of `metric` over its held-out rows is divided by the mean of this.
        set: the evaluation set on whose rows, and with whose reward, it is measured.
    """

    model_config = ConfigDict(extra="forbid")

    metric: str | None = None
    statistic: Statistic | None = None
    bound: float = 0.0
    log10: bool = False
    per: str | None = None
    set: str | None = None

    @property
    def is_of_rows(self) -> bool:
        """Whether it is a figure of each held-out row; a series may have the name of one."""
        return self.metric in HELD_OUT and self.statistic is None and self.per is None

    @property
    def label(self) -> str:
        """What tables call it."""
        of_series = f" {self.bound:g} of" if self.statistic and self.statistic.startswith("share") else ""
        words = ("log10" if self.log10 else "", f"{self.statistic or ''}{of_series}", self.metric or "")
        ends = (f" per {self.per}" if self.per else "") + (f" on {self.set}" if self.set else "")
        return " ".join(filter(None, words)) + ends


class Measured(NamedTuple):
    """One comparison.

    Attributes:
        label: the arms; of two the second is subtracted.
        kind: of the figure or of its difference.
        seeds: of each arm.
        rows: one of a figure that is one number per run.
        share: whether it is a share, which is written in percent.
    """

    label: str
    estimate: Estimate
    kind: Kind
    seeds: list[int]
    rows: int
    share: bool


class Untested(Exception):
    """Why these runs do not measure it."""


def measure(metric: Metric, groups: Groups, arms: list[str]) -> Measured:
    """Of one arm, of one against START, or of the first of two minus the second.

    Raises:
        Untested: these runs do not measure it.
    """
    chosen = [arm for arm in arms if arm != START]
    if unknown := [arm for arm in chosen if arm not in groups]:
        raise Untested(f"these runs have no arm {unknown[0]}")
    if metric.set is not None:
        groups = {arm: [run.at_set(metric.set) for run in group] for arm, group in groups.items()}
    by_reward = bool(BY_REWARD & {metric.metric, metric.per})
    if by_reward:
        rewards = name_rewards(groups[chosen[0]])
        groups = {arm: group for arm, group in groups.items() if name_rewards(group) & rewards}
    read_figure = _read_rows if metric.is_of_rows else _read_number
    figures = {}
    for arm, group in groups.items():
        of_runs = [read_figure(metric, run, START in arms) for run in group]
        figures[arm] = [figure for figure in of_runs if figure is not None]
    if few := [arm for arm in chosen if len(figures.get(arm, ())) < FEWEST]:
        raise Untested(f"fewer than two runs of {few[0]} have the figure{' by the same reward' if by_reward else ''}")
    rows = reduce(pd.Index.intersection, (figure.index for arm in chosen for figure in figures[arm]))
    if read_figure is _read_rows and len(rows) < FEWEST:
        raise Untested("the arms share no held-out rows")
    # The spread over seeds borrows from all arms that have the same rows.
    scores = {}
    for arm, of_runs in figures.items():
        if len(of_runs) >= FEWEST and all(rows.isin(figure.index).all() for figure in of_runs):
            scores[arm] = np.array([figure[rows] for figure in of_runs])
    compared = [scores[arm] for arm in chosen]
    kind = _choose_kind(metric, len(arms) > 1)
    if read_figure is _read_rows:
        # Runs without training may have measured one model in the same way: they are no seeds.
        varied = {arm for arm in scores if groups[arm][0].trains or (scores[arm][0] != scores[arm][1]).any()}
        made = contrast(scores, chosen[0], arms[-1] if len(arms) > 1 else START, kind, varied).estimate
    else:
        mean = compared[0].mean() - sum(of_arm.mean() for of_arm in compared[1:])
        made = join(mean, mean, 0.0, MANY, weigh_settings(scores, chosen, kind.relative))
    if not made.error or (read_figure is _read_number and not any(of_arm.var() for of_arm in compared)):
        raise Untested(f"{' - '.join(arms)} is {made.value:.3g} for all seeds: a constant needs no test")
    return Measured(
        " - ".join(arms), made, kind, [len(of) for of in compared], len(rows), kind in (SHARES, DIFFERENCES)
    )


def _choose_kind(metric: Metric, has_two_arms: bool) -> Kind:
    """Of which kind the figure of one arm is, or the difference of two."""
    is_share = metric.metric in SHARED and metric.per is None
    if is_share or (metric.statistic or "").startswith("share"):
        return DIFFERENCES if has_two_arms else SHARES
    return SIZES if metric.metric == "KL" or metric.metric in COSTS else LEVELS


def read_series(metric: Metric, run: Run) -> float | None:
    """A statistic of a series of the run; None if that has fewer than two steps."""
    values = np.array(run.series(metric.metric or "")[1], dtype=np.float64)
    if len(values) < FEWEST:
        return None
    number = float(_summarise(values, metric))
    if metric.log10:
        return float(np.log10(number)) if number > 0 else None
    return number


def _summarise(values: np.ndarray, metric: Metric) -> Any:
    tenth = max(1, len(values) // 10)
    match metric.statistic:
        case "largest":
            return values.max()
        case "smallest":
            return values.min()
        case "mean":
            return values.mean()
        case "median":
            return np.median(values)
        case "end":
            return np.median(values[-tenth:])
        case "change":
            return np.median(values[-tenth:]) - np.median(values[:tenth])
        case "variation":
            return np.diff(values).std()
        case "falls":
            return (np.diff(values) < 0).mean()
        case "until":
            far = abs(values - values[0]) >= 0.9 * abs(values[-1] - values[0])
            return far.argmax() / (len(values) - 1)
        case "share above":
            return (values > metric.bound).mean()
    return (values < metric.bound).mean()


def _read_rows(metric: Metric, run: Run, gain: bool) -> pd.Series | None:
    """The figure of each held-out row, with `gain` its difference to the start model."""
    after = _read_figure(metric.metric, run, "trained")
    if not gain or after is None:
        return after
    before = _read_figure(metric.metric, run, "baseline") if run.trains else None
    return None if before is None else (after - before).dropna()


def _read_figure(name: str | None, run: Run, model: str) -> pd.Series | None:
    """As `read`, and the calculations that completions write out, which take a while to find."""
    if name not in ("calculations", "true calculations"):
        return read(run, model, str(name))
    sampled = run.sampled(model if run.trains else "baseline")
    counts = [_count_calculations(one.completion, name == "true calculations") for one in sampled]
    return pd.Series(counts, [one.id for one in sampled], float).groupby(level=0).mean() if sampled else None


def _count_calculations(text: str, true: bool) -> int:
    """How many calculations with two numbers and a result a text writes, or how many of these are true."""
    found = CALCULATION.findall(text)
    return sum(evaluate(left) == evaluate(right) for left, right in found) if true else len(found)


def _read_number(metric: Metric, run: Run, gain: bool) -> pd.Series | None:
    """As `_read_rows`, a number per run as that of one row."""
    name, number = metric.metric, None
    pairs = run.preference("trained")
    if metric.per is not None:
        number = _divide(metric, run, "trained")
        start = _divide(metric, run, "baseline") if gain else 0.0
        number = None if number is None or start is None else number - start
    elif metric.statistic is not None:
        number = read_series(metric, run)
    elif name in COSTS:
        number = (COSTS[name].read(run) or {}).get("value")
    elif name == "calibration error":
        number = pairs.calibration_error if pairs else None
    elif name == "excess loss":
        loss = read_series(Metric(metric="loss", statistic="end"), run)
        number = loss - pairs.loss["value"] if loss is not None and pairs and pairs.loss else None
    elif name == "near ties" and run.errors.counts:
        number = run.errors.counts["near_tie"] / max(1, sum(run.errors.counts.values()))
    return None if number is None else pd.Series([number], index=["run"])


def _divide(metric: Metric, run: Run, model: str) -> float | None:
    """The mean of `metric` over that of `per`; None without both, or where the latter is 0."""
    above, below = (_read_figure(name, run, model) for name in (metric.metric, metric.per))
    return None if above is None or below is None or not below.any() else float(above.sum() / below.sum())

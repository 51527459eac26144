"""The noise floor: how far passes of one model lie apart (algo=none over eval.seed), and what that leaves to see.

describe_noise(runs)     # blocks for a comparison; empty if no model was measured alone

A pass samples every held-out row anew. Passes over the same rows differ by sampling alone, others also by their rows.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from rlhf_exp.report.columns import CORRECT_BEFORE, align
from rlhf_exp.report.groups import group_runs
from rlhf_exp.report.page import NOTES, Block, Heading, Table, Text
from rlhf_exp.runs.figures import percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.settings import SEEDS
from rlhf_exp.stats import CONFIDENCE, SHARES, Interval, as_interval, crossed_interval, mean_interval
from rlhf_exp.stats.intervals import standard_error
from rlhf_exp.stats.planning import plan_comparison

NUMBERS_OF_SEEDS, SPREADS = (1, 3, 5), (0.0, 0.02, 0.04)


class Passes(NamedTuple):
    """What several passes of one model say. All are shares.

    Attributes:
        mean: over the passes.
        deviation: the standard deviation of the passes' accuracies, with its interval.
        by_intervals: the standard error of one pass that the runs' own intervals say: rows and sampling.
        by_sampling: the standard error of one pass from sampling within rows; None if the passes differ in their rows.
    """

    mean: Interval
    deviation: Interval
    by_intervals: float
    by_sampling: float | None


def describe_noise(runs: list[Run]) -> list[Block]:
    """A table of passes for each model that was measured alone, and what several passes of it say."""
    blocks: list[Block] = []
    for label, group in _group(runs).items():
        rows = [[_seed(run), percent(run.evaluation["baseline"]["accuracy"])] for run in group]
        table = Table(["eval.seed", "accuracy"], rows)
        blocks += [Heading(f"Measured alone: {label}"), table]
        if len(group) < 2:
            continue
        passes = measure_passes(group)
        table.rows.append(["mean", percent(passes.mean)])
        errors: dict[str, Any] = {
            "standard deviation between passes, measured": passes.deviation,
            "standard error by the runs' intervals: rows and sampling": passes.by_intervals,
            "standard error by sampling within rows": passes.by_sampling,
        }
        rows = [[name, _write(figure)] for name, figure in errors.items() if figure is not None]
        blocks += [Table(["of one pass, points", ""], rows), Text(NOTES["passes"].format(n=len(group)))]
        if passes.by_sampling is not None:
            blocks += _plan(group[0], passes.by_sampling)
    return blocks


def measure_passes(group: list[Run]) -> Passes:
    """Of at least two passes of one model."""
    sections = [run.evaluation["baseline"] for run in group]
    accuracies = np.array([section["accuracy"]["value"] for section in sections])
    errors = [standard_error(section["accuracy"]) for section in sections]
    df, deviation = len(group) - 1, accuracies.std(ddof=1)
    ends = (deviation * np.sqrt(df / stats.chi2.ppf((1 + sign * CONFIDENCE) / 2, df)) for sign in (1, -1))
    figures = align(group, CORRECT_BEFORE)
    mean, by_sampling = mean_interval(accuracies), None
    if figures is not None and all(figures.shape[1] == section["n"] for section in sections):
        mean = crossed_interval(figures, SHARES)
        by_sampling = float(np.sqrt(figures.var(0, ddof=1).mean() / figures.shape[1]))
    return Passes(mean, as_interval(deviation, *ends), float(np.mean(errors)), by_sampling)


def _group(runs: list[Run]) -> dict[str, list[Run]]:
    """The runs that trained nothing, by all settings but seeds; of each eval.seed the latest."""
    alone = [run for run in runs if not run.trains and "accuracy" in run.evaluation.get("baseline", {})]
    alone.sort(key=lambda run: str(run.info.get("started")))
    groups = group_runs(alone, (*SEEDS, "eval.seed"))
    latest = {label: {_seed(run): run for run in group} for label, group in groups.items()}
    return {label: [of_seed[seed] for seed in sorted(of_seed, key=int)] for label, of_seed in latest.items()}


def _seed(run: Run) -> str:
    return str(run.config.get("eval", {}).get("seed", 0))


def _plan(run: Run, by_sampling: float) -> list[Block]:
    """What two settings would show whose runs have `eval.completions` of each row."""
    section, k = run.evaluation["baseline"], run.config.get("eval", {}).get("completions", 1)
    noise = by_sampling**2 * section["completions"] / k
    head = ["standard deviation over seeds, points", *(f"{n} seed{'s' * (n > 1)}" for n in NUMBERS_OF_SEEDS)]
    rows = [
        [_write(spread)]
        + ["-" if n == 1 and spread else _write(plan_comparison(noise, spread, n)) for n in NUMBERS_OF_SEEDS]
        for spread in SPREADS
    ]
    completions = f"{k} completion{'s' * (k != 1)}"
    return [Table(head, rows), Text(NOTES["plan"].format(rows=section["n"], completions=completions))]


def _write(figure: Interval | float) -> str:
    return points(figure).replace("+", "")

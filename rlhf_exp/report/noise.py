"""The noise floor: how far passes of one model lie apart (algo=none over eval.seed), and what that leaves to see.

describe_noise(runs)     # blocks for a comparison; empty if no model was measured alone
tabulate_noise(runs)     # lines for the terminal

A pass samples every held-out row anew. Passes over the same rows differ by sampling alone, others also by their rows.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from rlhf_exp.report.columns import CORRECT_BEFORE
from rlhf_exp.report.groups import group_runs
from rlhf_exp.report.page import Block, Heading, Table, Text
from rlhf_exp.report.rows import align
from rlhf_exp.runs.figures import percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.settings import SEEDS
from rlhf_exp.stats import CONFIDENCE, SHARES, Interval, as_interval, crossed_interval, mean_interval
from rlhf_exp.stats.intervals import standard_error
from rlhf_exp.stats.planning import plan_comparison

NUMBERS_OF_SEEDS, SPREADS = (1, 3, 5), (0.0, 0.02, 0.04)
NOTE = (
    "A run's own interval covers rows and sampling; passes over the same rows share the choice of the rows, and so lie"
    " less far apart. The standard deviation of {n} passes is known only roughly: its 95% interval is by chi-square."
)
PLAN_NOTE = (
    "The true difference between two trained settings, in points, that a comparison detects with 80% power (p < 0.05,"
    " two-sided, one contrast): with {completions} of each of these {rows} rows, if their sampling varies as this"
    " model's, both find the same rows hard, and their random numbers are not shared. With one seed the training's own"
    " luck cannot be told from the method's."
)


class Passes(NamedTuple):
    """Of one model: the runs, the latest of each eval.seed, and what they say. All are shares.

    Attributes:
        mean: over the passes.
        deviation: the standard deviation of the passes' accuracies, with its interval.
        by_intervals: the standard error of one pass that the runs' own intervals say: rows and sampling.
        by_sampling: the standard error of one pass from sampling within rows; None if the passes differ in their rows.
    """

    runs: list[Run]
    mean: Interval
    deviation: Interval
    by_intervals: float
    by_sampling: float | None


def describe_noise(runs: list[Run]) -> list[Block]:
    """A table of passes for each model that was measured alone, and what several passes of it say."""
    blocks: list[Block] = []
    for label, group in _group(runs).items():
        blocks.append(Heading(f"Measured alone: {label}"))
        rows = [[_seed(run), percent(run.evaluation["baseline"]["accuracy"])] for run in group]
        if len(group) < 2:
            blocks.append(Table(["eval.seed", "accuracy"], rows))
            continue
        passes = measure_passes(group)
        blocks.append(Table(["eval.seed", "accuracy"], [*rows, ["mean", percent(passes.mean)]]))
        blocks += [Table(["of one pass, points", ""], _list_errors(passes)), Text(NOTE.format(n=len(group)))]
        if passes.by_sampling is not None:
            blocks += [_plan(passes), Text(PLAN_NOTE.format(**_count(passes)))]
    return blocks


def tabulate_noise(runs: list[Run]) -> list[str]:
    """The same in a few lines."""
    lines = []
    for label, group in _group(runs).items():
        if len(group) < 2:
            lines.append(f"{label}: accuracy {percent(group[0].evaluation['baseline']['accuracy'])}")
            continue
        passes = measure_passes(group)
        lines.append(f"{label}: {len(group)} passes, mean accuracy {percent(passes.mean)}")
        lines += [f"  {name}, points: {value}" for name, value in _list_errors(passes)]
        if passes.by_sampling is not None:
            lines.append("  differences between two settings detected with 80% power, points, by seeds of each:")
            table = _plan(passes)
            lines += [f"    {row[0]}: {', '.join(row[1:])}" for row in [table.head, *table.rows]]
    return lines


def measure_passes(group: list[Run]) -> Passes:
    """Of at least two passes of one model."""
    sections = [run.evaluation["baseline"] for run in group]
    accuracies = np.array([section["accuracy"]["value"] for section in sections])
    errors = [standard_error(section["accuracy"]) for section in sections]
    df, deviation = len(group) - 1, accuracies.std(ddof=1)
    ends = (deviation * np.sqrt(df / stats.chi2.ppf((1 + sign * CONFIDENCE) / 2, df)) for sign in (1, -1))
    figures = align(group, CORRECT_BEFORE)
    same = figures is not None and all(figures.shape[1] == section["n"] for section in sections)
    by_sampling = float(np.sqrt(figures.var(0, ddof=1).mean() / figures.shape[1])) if same else None
    mean = crossed_interval(figures, SHARES) if same else mean_interval(accuracies)
    interval = as_interval(deviation, *ends)
    return Passes(group, mean, interval, float(np.mean(errors)), by_sampling)


def _group(runs: list[Run]) -> dict[str, list[Run]]:
    """The runs that trained nothing, by all settings but seeds; of each eval.seed the latest."""
    alone = [run for run in runs if not run.trains and "accuracy" in run.evaluation.get("baseline", {})]
    alone.sort(key=lambda run: str(run.info.get("started")))
    groups = group_runs(alone, (*SEEDS, "eval.seed"))
    latest = {label: {_seed(run): run for run in group} for label, group in groups.items()}
    return {label: [of_seed[seed] for seed in sorted(of_seed, key=int)] for label, of_seed in latest.items()}


def _seed(run: Run) -> str:
    return str(run.config.get("eval", {}).get("seed", 0))


def _list_errors(passes: Passes) -> list[list[str]]:
    rows = [
        ["standard deviation between passes, measured", _write(passes.deviation)],
        ["standard error by the runs' intervals: rows and sampling", _write(passes.by_intervals)],
    ]
    if passes.by_sampling is not None:
        rows.append(["standard error by sampling within rows", _write(passes.by_sampling)])
    return rows


def _count(passes: Passes) -> dict[str, str]:
    run = passes.runs[0]
    k = run.config.get("eval", {}).get("completions", 1)
    return {"rows": str(run.evaluation["baseline"]["n"]), "completions": f"{k} completion{'' if k == 1 else 's'}"}


def _plan(passes: Passes) -> Table:
    """What two settings would show whose runs have `eval.completions` of each row."""
    run = passes.runs[0]
    section, of_each = run.evaluation["baseline"], run.config.get("eval", {}).get("completions", 1)
    noise = passes.by_sampling**2 * section["completions"] / of_each
    numbers = [f"{n} seed{'s' * (n > 1)}" for n in NUMBERS_OF_SEEDS]
    table = Table(["standard deviation over seeds, points", *numbers], [])
    for spread in SPREADS:
        cells = [
            "-" if seeds == 1 and spread else _write(plan_comparison(noise, spread, seeds))
            for seeds in NUMBERS_OF_SEEDS
        ]
        table.rows.append([_write(spread), *cells])
    return table


def _write(figure: Interval | float) -> str:
    return points(figure).replace("+", "")

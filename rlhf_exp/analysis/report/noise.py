"""How far measurements of one untrained model lie apart.

describe_noise(runs)  ->  [Heading("Measured alone: none"), Table(["eval.seed", "accuracy"], ...), ...]
"""

import numpy as np
from scipy import stats

from rlhf_exp.analysis.frame import stack
from rlhf_exp.analysis.report.columns import at
from rlhf_exp.analysis.report.groups import group_runs
from rlhf_exp.analysis.report.page import NOTES, Block, Heading, Table, footnote
from rlhf_exp.analysis.stats import CONFIDENCE, SHARES, Interval, as_interval, crossed_interval, mean_interval
from rlhf_exp.runs.figures import percent
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.settings import SEEDS

ACCURACY = at("baseline", "accuracy")


def describe_noise(runs: list[Run]) -> list[Block]:
    """The noise floor: how far passes of one model (algo=none over eval.seed) lie apart, with their mean and their
    standard deviation. A pass samples every held-out row anew. Passes over the same rows differ by sampling alone,
    others also by their rows. Empty if no model was measured alone."""
    blocks: list[Block] = []
    alone = [run for run in runs if not run.trains and ACCURACY(run.evaluation)]
    for label, group in group_runs(alone, (*SEEDS, "eval.seed")).items():
        group = sorted({_seed(run): run for run in group}.values(), key=_seed)
        rows = [[str(_seed(run)), percent(ACCURACY(run.evaluation))] for run in group]
        if len(group) > 1:
            mean, deviation = measure_passes(group)
            rows += [["mean", percent(mean)], ["standard deviation", percent(deviation)]]
        blocks += [Heading(f"Measured alone: {label}"), Table(["eval.seed", "accuracy"], rows)]
    return [*blocks, footnote(NOTES["passes"])] if blocks else []


def measure_passes(group: list[Run]) -> tuple[Interval, Interval]:
    """The mean and the standard deviation of at least two passes of one model."""
    accuracies = np.array([ACCURACY(run.evaluation)["value"] for run in group])
    df, deviation = len(group) - 1, accuracies.std(ddof=1)
    ends = (deviation * np.sqrt(df / stats.chi2.ppf((1 + sign * CONFIDENCE) / 2, df)) for sign in (1, -1))
    figures = stack(group, "baseline", "accuracy")
    mean = mean_interval(accuracies)
    if figures is not None and all(figures.shape[1] == at("baseline", "n")(run.evaluation) for run in group):
        mean = crossed_interval(figures, SHARES)
    return mean, as_interval(deviation, *ends)


def _seed(run: Run) -> int:
    return int(run.config.get("eval", {}).get("seed", 0))

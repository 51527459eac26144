"""Aggregates over many runs by rliable's definitions: from five seeds on, or over several tasks or budgets.

describe_aggregates({"grpo max_tokens=32": [run, ...], "grpo max_tokens=64": [...], ...}, TRAINED, out)  ->  blocks

A stratum is a task at a budget. A method has a place here if it has the same number of seeds in every stratum.
"""

import re
from pathlib import Path

import numpy as np

from rlhf_exp.report.page import Block, Figures, Heading, Text
from rlhf_exp.report.plots import DASHES, PALETTE, Picture, add_axes, open_figure
from rlhf_exp.report.tables import Column, fill
from rlhf_exp.runs.figures import percent
from rlhf_exp.runs.load import Run
from rlhf_exp.stats.aggregate import (
    FEWEST_RUNS,
    interquartile_mean_interval,
    performance_profile,
    probability_of_improvement,
)

NOTE = (
    "By the definitions of Agarwal et al. (2021, arXiv:2108.13264), over {runs} runs of each method ({strata}). The"
    " interquartile mean is that of the middle half of all runs. The last column is the probability of improvement:"
    " that one run of the method with the highest interquartile mean beats one run of the other, on the same task and"
    " budget. In brackets: 95% intervals of a bootstrap that resamples the runs of each task and budget, its"
    " percentiles widened for few runs: over seeds, not over held-out rows; of two seeds they are too narrow."
)
STRATUM = re.compile(r"\s*\b(?:task|max_tokens)=\S+")
THRESHOLDS = np.linspace(0, 1, 201)
SEED = 0

Scores = dict[str, np.ndarray]


def describe_aggregates(groups: dict[str, list[Run]], column: Column, out: Path) -> list[Block]:
    """A table and the performance profiles of at least two methods; else nothing."""
    strata, scores = collect_scores(groups, column)
    if len(scores) < 2 or (len(strata) < 2 and max(map(len, scores.values())) < FEWEST_RUNS):
        return []
    means = {label: interquartile_mean_interval(found, SEED) for label, found in scores.items()}
    best = max(means, key=lambda label: means[label]["value"])
    cells = (
        Column("method", str),
        Column("interquartile mean", means.get, percent),
        Column(
            f"{best} is better",
            lambda label: None if label == best else probability_of_improvement(scores[best], scores[label], SEED),
            percent,
        ),
    )
    runs = " or ".join(str(n) for n in sorted({found.size for found in scores.values()}))
    note = NOTE.format(runs=runs, strata=", ".join(strata))
    return [Heading("Over all runs"), fill(cells, scores), Text(note), Figures([_draw(scores, out)])]


def collect_scores(groups: dict[str, list[Run]], column: Column) -> tuple[list[str], Scores]:
    """The strata, and of each method (runs, strata) the figure of each of its runs; without methods that lack a stratum
    or have other numbers of seeds in some."""
    by_method: dict[str, dict[str, list[float]]] = {}
    for label, group in groups.items():
        for run in group:
            if (figure := column.read(run)) and figure["value"] is not None:
                method = STRATUM.sub("", label).strip() or label
                stratum = f"{run.info.get('task')} at {run.info.get('max_tokens')} tokens"
                by_method.setdefault(method, {}).setdefault(stratum, []).append(figure["value"])
    strata = list(dict.fromkeys(stratum for found in by_method.values() for stratum in found))
    scores = {}
    for method, found in by_method.items():
        if set(found) == set(strata) and len({len(values) for values in found.values()}) == 1:
            scores[method] = np.array([found[stratum] for stratum in strata]).T
    return strata, scores


def _draw(scores: Scores, out: Path) -> Picture:
    """The share of runs above each accuracy."""
    caption = "Performance profiles: the share of runs whose accuracy is above a threshold"
    with open_figure(out, "profiles", caption) as (figure, picture):
        axes = add_axes(figure, "accuracy above, %", "share of runs, %")
        highest = max(found.max() for found in scores.values())
        for place, (label, found) in enumerate(scores.items()):
            style = {"color": PALETTE[place % 7], "linestyle": DASHES[place // 7 % 4], "label": label}
            axes.step(100 * THRESHOLDS, 100 * performance_profile(found, THRESHOLDS), where="post", **style)
        axes.set(xlim=(0, 105 * highest), ylim=(0, 102))
        figure.legend(loc="outside lower left", ncols=2, fontsize=8)
    return picture

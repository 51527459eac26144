"""Aggregates over many runs by rliable's definitions: from five seeds on, or over several tasks or budgets.

describe_aggregates({"grpo max_tokens=32": [run, ...], "grpo max_tokens=64": [...], ...}, TRAINED)  ->  blocks

A stratum is a task at a budget. A method has a place here if it has the same number of seeds in every stratum.
"""

import re

import numpy as np

from rlhf_exp.report.columns import Column, fill
from rlhf_exp.report.page import NOTES, Block, Figures, Heading, Text
from rlhf_exp.report.plots import Line, Panel, Plot, choose_style
from rlhf_exp.runs.figures import percent
from rlhf_exp.runs.load import Run
from rlhf_exp.stats.aggregate import (
    FEWEST_RUNS,
    interquartile_mean_interval,
    performance_profile,
    probability_of_improvement,
)

STRATUM = re.compile(r"\s*\b(?:task|max_tokens)=\S+")
THRESHOLDS = np.linspace(0, 1, 201)
SEED = 0

Scores = dict[str, np.ndarray]


def describe_aggregates(groups: dict[str, list[Run]], column: Column) -> list[Block]:
    """A table and the performance profiles of at least two methods; else nothing."""
    strata, scores = collect_scores(groups, column)
    if len(scores) < 2 or (len(strata) < 2 and max(map(len, scores.values())) < FEWEST_RUNS):
        return []
    means = {label: interquartile_mean_interval(found, SEED) for label, found in scores.items()}
    best = max(means, key=lambda label: means[label]["value"])

    def compare(label: str) -> dict | None:
        return None if label == best else probability_of_improvement(scores[best], scores[label], SEED)

    cells = Column("interquartile mean", means.get, percent), Column(f"{best} is better", compare, percent)
    runs = " or ".join(map(str, sorted({found.size for found in scores.values()})))
    note = NOTES["aggregates"].format(runs=runs, strata=", ".join(strata))
    plot = _plot_profiles(scores)
    return [Heading("Over all runs"), fill([Column("method", str), *cells], scores), Text(note), Figures([plot])]


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
        if set(found) == set(strata) and len(set(map(len, found.values()))) == 1:
            scores[method] = np.array([found[stratum] for stratum in strata]).T
    return strata, scores


def _plot_profiles(scores: Scores) -> Plot:
    """The share of runs above each accuracy."""
    lines = [
        Line(100 * THRESHOLDS, 100 * performance_profile(found, THRESHOLDS), label,
             style=choose_style(place) | {"drawstyle": "steps-post"})
        for place, (label, found) in enumerate(scores.items())
    ]  # fmt: skip
    limits = {"xlim": (0, 105 * max(found.max() for found in scores.values())), "ylim": (0, 102)}
    caption = "Performance profiles: the share of runs whose accuracy is above a threshold"
    return Plot("profiles", caption, [Panel("accuracy above, %", "share of runs, %", lines, limits)])

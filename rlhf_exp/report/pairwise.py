"""Tests which settings differ significantly: each from the start model, and each from the best or a named one; and
aggregates over many runs by rliable's definitions, from five seeds on, or over several tasks or budgets.

describe_differences({"ppo": [...], "grpo": [...]}, {"held-out accuracy": TRAINED})  ->  [Heading(...), ...]
run_tests({"ppo": [...], "grpo": [...]}, TRAINED)  ->  Tests(contrasts, untested, spread)
describe_aggregates({"grpo max_tokens=32": [...], "grpo max_tokens=64": [...], ...}, TRAINED)  ->  [Heading(...), ...]

A stratum is a task at a budget. A method is aggregated if it has the same number of seeds in every stratum.
"""

import re
from typing import NamedTuple

import numpy as np

from rlhf_exp.report.columns import ByRow, Column, fill, stack, subtract
from rlhf_exp.report.groups import Groups
from rlhf_exp.report.page import NOTES, Block, Callout, Figures, Heading, Text
from rlhf_exp.report.plots import Line, Panel, Plot, choose_style
from rlhf_exp.runs.figures import percent
from rlhf_exp.stats import LEVEL, Contrast, Interval, aggregate, compare_settings
from rlhf_exp.stats.collapse import find_collapsed
from rlhf_exp.stats.contrasts import bound_spreads, measure_spreads, shared_deviation
from rlhf_exp.stats.intervals import standard_error
from rlhf_exp.stats.planning import MOST_ROWS, MOST_SEEDS

STRATUM = re.compile(r"\s*\b(?:task|max_tokens)=\S+")
THRESHOLDS = np.linspace(0, 1, 201)
SEED = 0

Scores = dict[str, np.ndarray]


class Tests(NamedTuple):
    """`untested` are the settings with one seed, or without the figures of each row; `spread` says how the seeds
    spread."""

    contrasts: list[Contrast]
    untested: list[str]
    spread: str = ""


def describe_differences(groups: Groups, columns: dict[str, Column], named: str | None = None) -> list[Block]:
    """A sentence and a table for each of `columns`, whose names say what they measure; empty if no group has two
    seeds."""
    blocks: list[Block] = []
    for name, column in columns.items() if max(map(len, groups.values())) > 1 else ():
        tests = run_tests(groups, column, named)
        if tests.contrasts or tests.untested:
            blocks.append(Callout("info", f"Differences in {name}.", summarise_tests(tests, column)))
        if tests.contrasts:
            blocks += [fill(_list_cells(column), tests.contrasts), Text(tests.spread)]
    return [Heading("Which settings differ significantly"), *blocks, Text(NOTES["tests"])] if blocks else []


def run_tests(groups: Groups, column: Column, named: str | None = None) -> Tests:
    """The contrasts of all groups that have the figure of each row, and at least two seeds."""
    assert column.rows
    read = {label: list(map(column.rows, group)) for label, group in groups.items()}
    trained = _align({label: rows for label, rows in read.items() if len(rows) > 1 and all(rows)})
    gains = {}
    if column.start:
        after = subtract(column.rows, column.start)
        gains = _align({label: list(map(after, groups[label])) for label in trained})
    if not trained or (len(trained) == 1 and not gains):
        trained, contrasts, spread = {}, [], ""
    else:
        centre = named if named in trained else None
        contrasts = compare_settings(trained, gains, centre, column.write is percent)
        spread = _describe_spread(trained, column)
    present = [label for label, group in groups.items() if any(map(column.read, group))]
    return Tests(contrasts, [label for label in present if label not in trained], spread)


def summarise_tests(tests: Tests, column: Column) -> str:
    """In words which settings differ significantly."""
    parts = []
    for words, significant in ((f"Significant (adjusted p < {LEVEL})", True), ("Not significant", False)):
        found = [contrast for contrast in tests.contrasts if contrast.significant is significant]
        listed = "; ".join(f"{c.first} - {c.second} {column.write_difference(c.interval)}" for c in found)
        parts += [f"{words}: {listed}."] if found else []
    if tests.untested:
        parts.append(f"Not tested, for one seed, or no figures of rows that all share: {', '.join(tests.untested)}.")
    return " ".join(parts)


def describe_collapsed(groups: Groups, column: Column) -> str | None:
    """Names the runs far below the other seeds of their setting; None if there are none."""
    kept = {label: [(run, column.read(run)) for run in group if column.read(run)] for label, group in groups.items()}
    error = max((standard_error(figure) for pairs in kept.values() for _, figure in pairs), default=0.0)
    found = find_collapsed({label: [figure["value"] for _, figure in pairs] for label, pairs in kept.items()}, error)
    named = []
    for label, place in found:
        run, figure = kept[label][place]
        named.append(f"{label}, seed {run.info.get('seed')}: {column.write(figure)}")
    return f"Far below the other seeds of their setting, and in its mean: {'; '.join(named)}." if named else None


def describe_aggregates(groups: Groups, column: Column) -> list[Block]:
    """A table and the performance profiles of at least two methods; else nothing."""
    strata, scores = collect_scores(groups, column)
    if len(scores) < 2 or (len(strata) < 2 and max(map(len, scores.values())) < aggregate.FEWEST_RUNS):
        return []
    means = {label: aggregate.interquartile_mean_interval(found, SEED) for label, found in scores.items()}
    best = max(means, key=lambda label: means[label]["value"])

    def compare(label: str) -> Interval | None:
        return None if label == best else aggregate.probability_of_improvement(scores[best], scores[label], SEED)

    cells = Column("interquartile mean", means.get, percent), Column(f"{best} is better", compare, percent)
    note = NOTES["aggregates"].format(strata=", ".join(strata))
    plot = _plot_profiles(scores)
    return [Heading("Over all runs"), fill([Column("method", str), *cells], scores), Text(note), Figures([plot])]


def collect_scores(groups: Groups, column: Column) -> tuple[list[str], Scores]:
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


def _list_cells(column: Column) -> tuple[Column, ...]:
    """The columns of a table of contrasts."""
    write = column.write_difference
    return (
        Column("", lambda c: f"{c.first} - {c.second}"),
        Column("difference", lambda c: c.interval, write),
        Column("p", lambda c: c.p, _write_p),
        Column("p, adjusted", lambda c: c.adjusted, _write_p),
        Column("", lambda c: "significant" if c.significant else "not significant"),
        Column("80% power", lambda c: c.detectable, lambda size: write(size).lstrip("+")),
        Column("seeds for this", lambda c: "-" if c.significant else _write_needed(c.seeds_needed, MOST_SEEDS)),
        Column("rows for this", lambda c: "-" if c.significant else _write_needed(c.rows_needed, MOST_ROWS)),
    )


def _align(by_group: dict[str, list[ByRow]]) -> dict[str, np.ndarray]:
    """(seeds, rows) of each group, on the rows that all have; {} if these are fewer than two."""
    stacked = stack([rows for group in by_group.values() for rows in group])
    if stacked is None:
        return {}
    ends = np.cumsum([len(group) for group in by_group.values()])[:-1]
    return dict(zip(by_group, np.split(stacked, ends), strict=True))


def _describe_spread(trained: dict[str, np.ndarray], column: Column) -> str:
    """The standard deviation of the seeds' own effect, and which settings are far above it."""
    spreads = measure_spreads(trained)
    deviation = column.write_difference(shared_deviation(spreads)).lstrip("+")
    far = ", ".join(label for label, bound in bound_spreads(spreads).items() if bound < 1)
    return f"Standard deviation over seeds, without sampling: {deviation}, over all settings." + (
        f" Far above the others', and therefore with a limited part in theirs: {far}." if far else ""
    )


def _write_needed(number: int | None, most: int) -> str:
    return f"over {most:,}" if number is None else f"{number:,}"


def _write_p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _plot_profiles(scores: Scores) -> Plot:
    """The share of runs above each accuracy."""
    lines = [
        Line(100 * THRESHOLDS, 100 * aggregate.performance_profile(found, THRESHOLDS), label,
             style=choose_style(place) | {"drawstyle": "steps-post"})
        for place, (label, found) in enumerate(scores.items())
    ]  # fmt: skip
    limits = {"xlim": (0, 105 * max(found.max() for found in scores.values())), "ylim": (0, 102)}
    caption = "Performance profiles: the share of runs whose accuracy is above a threshold"
    return Plot("profiles", caption, [Panel("accuracy above, %", "share of runs, %", lines, limits)])

"""What each varied key changes by itself: the mean difference between settings that differ in it alone.

compare_keys(groups, TRAINED)  ->  {"max_tokens": [Contrast("96", "48", ...)], ...}
"""

from collections import defaultdict
from collections.abc import Hashable

import numpy as np

from rlhf_exp.analysis.frame import stack_settings
from rlhf_exp.analysis.report.columns import Column
from rlhf_exp.analysis.report.groups import Groups, read_choices
from rlhf_exp.analysis.stats import DIFFERENCES, LEVEL, LEVELS, SHARES, Contrast
from rlhf_exp.analysis.stats.crossed import estimate, measure_spread

FEWEST_CELLS = 2
"""Choices of the other keys over which a key is averaged; with one it is a difference of two settings."""


def compare_keys(groups: Groups, column: Column) -> dict[str, list[Contrast]]:
    """Of each varied key the highest value against each other one, over the choices of the other keys that were run
    with all its values, their seeds and rows; all contrasts share LEVEL. Empty unless two keys were varied in settings
    of two seeds."""
    figures = stack_settings(groups, column.model, str(column.rows))
    # Of settings that differ only in what follows from a key the one that sets nothing else comes last, and is taken.
    labels = sorted(figures, key=lambda label: len(groups[label][0].overrides), reverse=True)
    choices = dict(zip(labels, read_choices({label: groups[label] for label in labels}), strict=True))
    values = {key: {of[key] for of in choices.values()} for key in next(iter(choices.values()), {})}
    varied = [key for key, found in values.items() if len(found) > 1]
    if len(varied) < 2:
        return {}
    joined = {key: found for key in varied if (found := _join(key, figures, choices))}
    level = LEVEL / max(1, sum(len(of) - 1 for of in joined.values()))
    kind = DIFFERENCES if column.kind is SHARES else column.kind or LEVELS
    effects = defaultdict(list)
    for key, of in joined.items():
        means = {value: stacked.mean() for value, stacked in of.items()}
        first, *others = sorted(means, key=means.__getitem__, reverse=True)
        for other in others:
            gaps = of[first] - of[other]
            gap = estimate(gaps.mean(0), [(measure_spread(gaps), 1 / len(gaps))], kind)
            effects[key].append(Contrast(first, other, gap, len(gaps), gaps.shape[1], kind, level))
    return effects


def _join(key: str, figures: dict[str, np.ndarray], choices: dict[str, dict[str, str]]) -> dict[str, np.ndarray]:
    """By the value of a key (runs, rows) over equal choices of the other keys; empty if there are too few of these."""
    cells: dict[Hashable, dict[str, np.ndarray]] = defaultdict(dict)
    for label, choice in choices.items():
        cells[frozenset(choice.items() - {(key, choice[key])})][choice[key]] = figures[label]
    values = {choice[key] for choice in choices.values()}
    whole = [cell for cell in cells.values() if cell.keys() == values]
    seeds = min(map(len, figures.values()))
    if len(whole) < FEWEST_CELLS:
        return {}
    return {value: np.concatenate([cell[value][:seeds] for cell in whole]) for value in values}

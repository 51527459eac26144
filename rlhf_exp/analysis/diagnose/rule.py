"""What a rule is: a function that reads a run's signals and returns a finding with a running score, or None.

    @rule("warning", "completions/mean_length", of=is_online)
    def long_completions(run: Signals) -> Finding | None:
        course = run.rise("completions/mean_length", of=math.log)
        return Finding(course, "", "likely cause", ["max_tokens=128"])

Its name is the finding's name. It returns a finding of every run to which it applies, healthy or not: the scores of
the healthy calibration runs decide which score accuses (calibration.py). A score is higher the sicker the run, and
light-tailed: a logarithm, a share or a difference of the run's recent rows from its start. That of a step reads only
rows up to it, so that an alarm during training and the diagnosis after it agree. A score of infinity is an exact fact.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from rlhf_exp.algorithms import Algorithm
from rlhf_exp.analysis.diagnose.signals import Course, Signals


class Finding(NamedTuple):
    """`course`: the running score. `evidence`: if empty, the series that the rule needs, at the start and at the end.
    `remedy`: overrides, the best first; `diagnose` keeps the first that changes the config and that its checks accept.
    `rows`: ids of samples that show it."""

    course: Course
    evidence: str
    cause: str
    remedy: list[str]
    rows: list[str] = []

    @property
    def score(self) -> float:
        """The largest of the course; 0 if all are below it, since how far a run is from being sick says nothing."""
        return max((score for _, score in self.course if score > 0), default=0.0)


class Rule(NamedTuple):
    name: str
    severity: str
    needs: tuple[str, ...]
    of: Callable[[Algorithm], bool]
    find: Callable[[Signals], Finding | None]

    def apply(self, run: Signals) -> Finding | None:
        """The finding; None if the rule does not apply to the run, or lacks what it needs."""
        if not self.of(run.algorithm) or not all(map(run.has, self.needs)):
            return None
        found = self.find(run)
        if found is None or not found.course:
            return None
        series = [name for need in self.needs for name in need.split("|") if run.series(name)]
        dated = [(score, step) for step, score in found.course if step is not None]
        at = max(dated, key=lambda point: point[0], default=(0.0, None))[1]
        return found if found.evidence else found._replace(evidence="; ".join(run.tell(name, at) for name in series))


SEVERITIES = ("error", "warning", "info")
RULES: list[Rule] = []
CERTAIN: Course = [(None, math.inf)]
"""The course of a fact that is not about a step."""


def rule(
    severity: str, *needs: str, of: Callable[[Algorithm], bool] = lambda row: row.trains
) -> Callable[[Callable[[Signals], Finding | None]], Callable[[Signals], Finding | None]]:
    """Add the function to RULES.

    Args:
        severity: error or warning; an info never accuses, needs no calibration, and is told whenever it is returned.
        needs: series without which the rule does not apply, a|b if either will do; evaluation/PATH for a figure with an
            interval in evaluation.json.
        of: the algorithms that it applies to.
    """

    def add(find: Callable[[Signals], Finding | None]) -> Callable[[Signals], Finding | None]:
        RULES.append(Rule(find.__name__, severity, needs, of, find))
        return find

    return add


def is_online(row: Algorithm) -> bool:
    return row.online


def learns_from_rows(row: Algorithm) -> bool:
    """From given rows: sft, dpo, kto, reward models."""
    return row.trains and not row.online


def has_price(row: Algorithm) -> bool:
    """Of those that may not move away from their start model at will."""
    return row.kl_price is not None


def has_pairs(row: Algorithm) -> bool:
    """dpo and kto."""
    return row.has_implicit_rewards


def learns_from_pairs(row: Algorithm) -> bool:
    """dpo, kto and reward models."""
    return row.has_implicit_rewards or row.scores


def has_critic(row: Algorithm) -> bool:
    return row.online and not row.compares_groups


def scores_answers(row: Algorithm) -> bool:
    """Reward models."""
    return row.scores


def writes(row: Algorithm) -> bool:
    """Policies of any algorithm."""
    return row.trains and not row.scores

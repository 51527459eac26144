"""What a rule is: a function that reads a run's signals and returns a suspicion with a running score, or None.

    @rule("warning", "completions/mean_length", of=ONLINE)
    def long_completions(run: Signals) -> Suspicion | None:
        course = run.rise("completions/mean_length", of=math.log)
        return Suspicion(course, "likely cause", ["max_tokens=128"])

Its name is the finding's name. It returns a suspicion of every run to which it applies, healthy or not: the scores of
the healthy calibration runs decide which score flags it (calibration.py), and makes a finding of it. A score is higher
the sicker the run, and light-tailed: a logarithm, a share or a difference of the run's recent rows from its start. That
of a step reads only rows up to it, so that an alarm during training and the diagnosis after it agree. A score of
infinity is an exact fact.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.analysis.diagnose.courses import Course
from rlhf_exp.analysis.diagnose.signals import Signals
from rlhf_exp.runs.records import Severity

TRAINED = {name for name, row in ALGORITHMS.items() if row.trains}
ONLINE = {name for name in TRAINED if ALGORITHMS[name].by_rewards}
CRITICS = {name for name in ONLINE if not ALGORITHMS[name].compares_groups}
SCORERS = {name for name in TRAINED if ALGORITHMS[name].scores}
"""Reward models."""
POLICIES = TRAINED - SCORERS
OFFLINE = TRAINED - ONLINE
"""Have a loss that should fall: sft, dpo, kto, reward models; distill."""
PRICED = {name for name, row in ALGORITHMS.items() if row.kl_price is not None}
"""May not move away from their start model at will."""
IMPLICIT = {name for name, row in ALGORITHMS.items() if row.has_implicit_rewards}
"""dpo and kto."""
PAIRED = IMPLICIT | SCORERS


class Suspicion(NamedTuple):
    """`course`: the running score. `remedies`: overrides, the best first. `evidence`: if empty, the series that the
    rule needs, at the start and at the end. `rows`: ids of samples that show it."""

    course: Course
    cause: str
    remedies: list[str]
    evidence: str = ""
    rows: list[str] = []

    @property
    def score(self) -> float:
        """The largest of the course; 0 if all are below it, since how far a run is from being sick says nothing."""
        return max((score for _, score in self.course if score > 0), default=0.0)


class Rule(NamedTuple):
    name: str
    severity: Severity
    needs: tuple[str, ...]
    algorithms: Collection[str]
    find: Callable[[Signals], Suspicion | None]

    def apply(self, run: Signals) -> Suspicion | None:
        """The suspicion; None if the rule does not apply to the run, or lacks what it needs."""
        if run.algo not in self.algorithms or self.list_missing(run):
            return None
        suspicion = self.find(run)
        if suspicion is None or not suspicion.course:
            return None
        if suspicion.evidence:
            return suspicion
        dated = [(score, step) for step, score in suspicion.course if step is not None]
        at = max(dated, key=lambda point: point[0], default=(0.0, None))[1]
        series = [name for need in self.needs for name in need.split("|") if run.series(name)]
        return suspicion._replace(evidence="; ".join(run.tell(name, at) for name in series))

    def list_missing(self, run: Signals) -> list[str]:
        """What it needs that the run does not have."""
        return [need for need in self.needs if not run.has(need)]


RULES: list[Rule] = []

Find = Callable[[Signals], Suspicion | None]


def rule(severity: Severity, *needs: str, of: Collection[str] = TRAINED) -> Callable[[Find], Find]:
    """Add the function to RULES.

    Args:
        severity: error or warning; an info flags no run, needs no calibration, and is told whenever it is returned.
        needs: series without which the rule does not apply, a|b if either will do; evaluation/PATH for a figure with an
            interval in evaluation.json.
        of: the algorithms that it applies to.
    """

    def add(find: Find) -> Find:
        RULES.append(Rule(find.__name__, severity, needs, of, find))
        return find

    return add

"""Which score of a rule flags a run: thresholds from the scores of healthy runs, none of them set by hand.

    calibration = load_calibration()
    calibration.thresholds["kl_drift"]      # 1.2: a run whose score is above it is flagged; absent: not calibrated

Full conformal prediction (Vovk et al. 2005; Angelopoulos and Bates 2023, arXiv:2107.07511, section 6). In the bag of n
healthy runs and a new one each score is standardised, per rule, by mean and standard deviation of the other runs of the
bag to which the rule applies; a run's figure is its maximum over rules. The figures depend on the bag in a symmetric
way, so that if the new run is exchangeable with the healthy ones its figure is among the k largest with a probability
of at most k / (n + 1): a bound per run, over all rules together. k is the largest that LEVEL allows, at least 1.

The figures of healthy runs depend on the new run's scores. `find_thresholds` takes the largest that any new run could
make each of them, which gives each rule one fixed threshold. A run above it is flagged by the full construction
as well, so that the bound holds, and an alarm at any step (the maximum of a running score only grows) is a flag
at the end too: one bound for alarms and diagnosis.

Runs on which rules were shaped look better than later ones, and are not exchangeable with them. So what a finding of
the shipped calibration tells is what new runs, looked at once, gave: by setting, since runs of one setting are alike,
and apart for settings that no rule was made on.
"""

import gzip
import json
import math
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path

from scipy import special

from rlhf_exp.runs.records import Sureness

ASSET = Path(__file__).parents[2] / "assets" / "calibration.json.gz"
LEAST_RUNS = 3
"""So many other runs must have a score of the rule."""
FLOOR = 0.1
"""Added to the standard deviation as an independent error: scores are logarithms and angles, a tenth of which is
little. It is the same for every bag, and the bound holds for any."""
LEVEL = 1 / 1000
"""How often a healthy run may be flagged, if there are so many healthy runs: more of them make a threshold surer, and
not higher."""
TAIL = 0.999
"""The quantile at which rules of few and of many runs are made alike: few often have a small deviation by chance."""

Scores = dict[str, list[float | None]]
"""Of each rule one score per run; None where the rule does not apply."""


def find_thresholds(scores: Scores) -> dict[str, float]:
    """The score of each rule above which a new run is flagged, whatever its other scores are; without the rules that
    have too few healthy runs.

    Args:
        scores: of n healthy runs; a new run is flagged wrongly with a probability of at most
            count_above(n) / (n + 1).
    """
    figures, described = [-math.inf] * len(next(iter(scores.values()), [])), {}
    for name, values in scores.items():
        known = [value for value in values if value is not None]
        n, total, squares = len(known), sum(known), sum(value * value for value in known)
        if n < LEAST_RUNS:
            continue
        mean, variance = _moments(n, total, squares)
        described[name] = mean, _unit(variance, n)
        for i, value in enumerate(values):
            if value is not None:
                mean, variance = _moments(n - 1, total - value, squares - value * value)  # of the others
                figures[i] = max(figures[i], _bound(value, n - 1, mean, variance))
                if n > LEAST_RUNS:  # if the rule does not apply to the new run
                    figures[i] = max(figures[i], (value - mean) / _unit(variance, n - 1))
    limit = sorted(figures)[-count_above(len(figures))] if figures else -math.inf
    return {name: mean + limit * unit for name, (mean, unit) in described.items()}


def count_above(runs: int) -> int:
    """Which of the healthy runs' figures, from the largest, sets the thresholds: the first if LEVEL allows no other."""
    return max(1, int(LEVEL * (runs + 1)))


def _moments(runs: int, total: float, squares: float) -> tuple[float, float]:
    """Mean and variance of scores, from their sum and the sum of their squares."""
    return total / runs, max(squares / runs - (total / runs) ** 2, 0.0)


def _unit(variance: float, runs: int) -> float:
    """The standard deviation with FLOOR, times the factor by which another run's distance from the mean, at the
    quantile TAIL, is larger than if the deviation were known (Student's t)."""
    return math.sqrt(variance + FLOOR**2) * _widen(runs)


@cache
def _widen(runs: int) -> float:
    student = special.stdtrit(runs - 1, TAIL) * math.sqrt((runs + 1) / (runs - 1))
    return float(student / special.ndtri(TAIL))


def _bound(value: float, k: int, mean: float, variance: float) -> float:
    """The largest standardised score that `value` can get when one more, of any size, joins the k others.

    Let it lie d below the mean of the others, of which there are k with variance v. The score, before it is widened, is
    (value - mean + d / (k + 1)) / sqrt(v k / (k + 1) + FLOOR^2 + k d^2 / (k + 1)^2). For a value above the mean it is
    largest where its derivative is 0; for one below it stays under its limit, 1 / sqrt(k).
    """
    above, a, b = value - mean, variance * k / (k + 1) + FLOOR**2, k / (k + 1) ** 2
    d = a * (k + 1) / (k * above) if above > 0 else math.inf
    largest = (above + d / (k + 1)) / math.sqrt(a + b * d * d) if d < 1e9 else 1 / math.sqrt(k)
    return largest / _widen(k + 1)


@dataclass(frozen=True)
class Calibration:
    """The healthy runs' scores, and what the rules said of failures that were induced on purpose."""

    scores: Scores
    settings: list[str] = field(default_factory=list)
    """Of each healthy run."""
    right: dict[str, list[int]] = field(default_factory=dict)
    """Of each rule how often its finding was the right one, and how often it was raised, on the induced failures."""
    provisional: bool = False
    parameters: int = 10_000_000
    """No calibration run had a larger model."""
    tested: dict[str, list[int]] = field(default_factory=dict)
    """Of `own` and of `others` settings how many have a healthy run that set nothing and is flagged, and how many there
    are. Without them every healthy run counts as one that no rule was made on."""

    @property
    def runs(self) -> int:
        return len(next(iter(self.scores.values()), []))

    @property
    def odds(self) -> int:
        """A healthy run that is exchangeable with these is flagged at most once in so many."""
        return (self.runs + 1) // count_above(self.runs)

    @cached_property
    def thresholds(self) -> dict[str, float]:
        return find_thresholds(self.scores)

    def is_above(self, name: str, score: float) -> bool:
        return score == math.inf or score > self.thresholds.get(name, math.inf)

    def explain(self, name: str, score: float, parameters: int | None) -> Sureness:
        """How sure a finding with this score is."""
        if score == math.inf:
            return Sureness(text="certain: it is a fact of the log, not an estimate")
        healthy = [value for value in self.scores.get(name, []) if value is not None]
        threshold, right = self.thresholds[name], self.right.get(name)
        text = f"a score of {score:.2f}, where {len(healthy)} healthy runs reach at most {max(healthy):.2f} and"
        text += f" a finding begins at {threshold:.2f}; "
        if self.tested:
            (own, settings), (others, of_others) = self.tested["own"], self.tested["others"]
            text += f"new healthy runs had this finding in {own} of its {settings} settings and in"
            text += f" {others} of {of_others} settings of others"
        else:
            text += "a healthy run like those, of their settings, gets a finding with a probability of at most"
            text += f" 1 in {self.odds}"
        if right:
            text += f"; it was right in {right[0]} of {right[1]} failures induced on purpose that it was raised for"
        if self.provisional:
            text += "; the calibration is provisional"
        if parameters is None or parameters > self.parameters:
            text += f"; calibrated on models below {self.parameters:,} parameters alone"
        return Sureness(text=text, right=right, healthy_runs=len(healthy), threshold=threshold)


@cache
def load_calibration(path: Path = ASSET) -> Calibration:
    """The calibration that ships with the package."""
    return Calibration(**json.loads(gzip.decompress(path.read_bytes())))


def save_calibration(calibration: Calibration, path: Path = ASSET) -> None:
    """Write it; the same calibration gives the same bytes."""
    path.write_bytes(gzip.compress(json.dumps(asdict(calibration)).encode(), mtime=0))

"""What a run did, in a sentence, by the first of these that it measured: held-out accuracy, the win rate by reward,
the accuracy of the implicit reward, KL.

verdict(run)  ->  Verdict("ok", "Held-out accuracy rose: 22.1% before and 38.5% after, ...")
"""

from typing import NamedTuple

from rlhf_exp.report.tables import number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import Interval

KINDS = ("ok", "info", "warning")


class Verdict(NamedTuple):
    kind: str  # of a Callout: ok, info or warning
    sentence: str


def verdict(run: Run) -> Verdict:
    """The sentence, and its weight: ok for better, warning for worse, info where the interval cannot tell."""
    trained, paired = run.evaluation.get("trained", {}), run.evaluation.get("paired", {})
    if "difference" in paired:
        return _judge_accuracy(run)
    if "win_rate" in paired:
        rate = paired["win_rate"]
        word = _tell(rate, 0.5, "more often than it loses", "not measurably more often than it loses",
                     "less often than it loses")  # fmt: skip
        return Verdict(
            _tell(rate, 0.5, *KINDS),
            f"By reward the trained model wins {word}: {percent(rate)} of {paired['n']} held-out rows against the"
            " start model (a tie is half a win).",
        )
    if section := trained.get("preference"):
        accuracy = section["accuracy"]
        word = _tell(accuracy, 0.5, "more often than chance", "not measurably more often than chance",
                     "less often than chance")  # fmt: skip
        return Verdict(
            _tell(accuracy, 0.5, *KINDS),
            f"The implicit reward puts the chosen answer first {word}: in {percent(accuracy)} of {section['n']} "
            "held-out pairs.",
        )
    if "kl" in trained:
        kl = number(".2f")(trained["kl"]["mean"])
        return Verdict(
            "info", f"Training moved the policy {kl} nats per completion from its start (KL, held-out rows)."
        )
    return Verdict("info", f"{accuracy_name(run)} after training was not measured.")


def accuracy_name(run: Run) -> str:
    """What accuracy is of: of completions, or of a reward model's rankings."""
    return "Held-out preference accuracy" if run.trains_scorer else "Held-out accuracy"


def win_sentence(run: Run) -> str | None:
    """58.0% [54.1, 61.9], wins 140, losses 58, ties 314 (a tie is half a win)"""
    paired = run.evaluation.get("paired", {})
    if "win_rate" not in paired:
        return None
    counts = f"wins {paired['wins']}, losses {paired['losses']}, ties {paired['ties']}"
    return f"{percent(paired['win_rate'])}, {counts} (a tie is half a win)"


def preference_sentence(run: Run) -> str | None:
    """Of a policy: 61.3% [57.0, 65.5] of 512 held-out pairs have the chosen answer first"""
    section = run.evaluation.get("trained", {}).get("preference")
    if not section:
        return None
    return f"{percent(section['accuracy'])} of {section['n']} held-out pairs have the chosen answer first"


def status_sentence(run: Run) -> str | None:
    """In words what kept the run from finishing; None for a finished run."""
    if run.status == "finished":
        return None
    error = " ".join(str(run.info.get("error") or "no reason was recorded").split())[:500].rstrip(".")
    reached = f"The last logged step is {run.metrics[-1]['step']}." if run.metrics else "No step was logged."
    if run.status == "running":
        return f"This run is still running, or was killed before it could say so. {reached}"
    return f"This run {'was ' if run.status == 'stopped' else ''}{run.status}: {error}. {reached}"


def _judge_accuracy(run: Run) -> Verdict:
    difference = run.evaluation["paired"]["difference"]
    before, after = (100 * run.evaluation[side]["accuracy"]["value"] for side in ("baseline", "trained"))
    word = _tell(difference, 0, "rose", "did not measurably change", "fell")
    rows = "pairs" if run.trains_scorer else "rows"
    return Verdict(
        _tell(difference, 0, *KINDS),
        f"{accuracy_name(run)} {word}: {before:.1f}% before and {after:.1f}% after, a difference of "
        f"{points(difference)} points on {run.evaluation['paired']['n']} {rows}.",
    )


def _tell(interval: Interval, null: float, above: str, neither: str, below: str) -> str:
    """Which word holds: the whole interval lies above `null`, it does not tell, or it lies below."""
    if interval["low"] is not None and interval["low"] > null:
        return above
    if interval["high"] is not None and interval["high"] < null:
        return below
    return neither

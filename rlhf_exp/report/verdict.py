"""Says in a sentence what a run achieved, by the first of these that it measured: held-out accuracy, the win rate by
reward, the accuracy of the implicit reward, KL; and other facts of a run, each as a sentence, or None.

verdict(run)  ->  Verdict("ok", "Held-out accuracy rose: 22.1% before and 38.5% after, ...")
"""

import math
from typing import Any, NamedTuple

from rlhf_exp.runs.figures import number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import Interval
from rlhf_exp.stats.planning import plan_rows

OFTEN = ("more often than", "not measurably more often than", "less often than")


class Verdict(NamedTuple):
    kind: str  # of a Callout: ok, info or warning
    sentence: str


def verdict(run: Run) -> Verdict:
    """The sentence, and its kind: ok for better, warning for worse, info if the interval includes no change."""
    if not run.trains:
        return Verdict("info", _describe_untrained(run.evaluation.get("baseline", {})))
    trained, paired = run.evaluation.get("trained", {}), run.evaluation.get("paired", {})
    if difference := paired.get("difference"):
        before, after = (100 * run.evaluation[side]["accuracy"]["value"] for side in ("baseline", "trained"))
        rows = "pairs" if run.trains_scorer else "rows"
        kind, word = _judge(difference, 0, ("rose", "did not measurably change", "fell"))
        sentence = f"{accuracy_name(run)} {word}: {before:.1f}% before and {after:.1f}% after, a difference of"
        sentence += f" {points(difference)} points on {paired['n']} {rows}."
        return Verdict(kind, sentence + (_plan(difference, paired["n"], rows) if kind == "info" else ""))
    if "win_rate" in paired:
        kind, word = _judge(paired["win_rate"], 0.5, OFTEN)
        sentence = f"By reward the trained model wins {word} it loses: {percent(paired['win_rate'])} of {paired['n']}"
        return Verdict(kind, f"{sentence} held-out rows against the start model (a tie is half a win).")
    if section := trained.get("preference"):
        kind, word = _judge(section["accuracy"], 0.5, OFTEN)
        sentence = f"The implicit reward puts the chosen answer first {word} chance: in {percent(section['accuracy'])}"
        return Verdict(kind, f"{sentence} of {section['n']} held-out pairs.")
    if "kl" in trained:
        kl = number(".2f")(trained["kl"]["mean"])
        sentence = f"Training moved the policy {kl} nats per completion from its start (KL, held-out rows)."
        return Verdict("info", sentence)
    return Verdict("info", f"{accuracy_name(run)} after training was not measured.")


def accuracy_name(run: Run) -> str:
    """The name of the accuracy: of completions, or of a reward model's rankings."""
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


def best_sentence(run: Run) -> str | None:
    """The policy of step 40, the best of 9 measurements: accuracy 45.3% on 128 validation rows"""
    if not (best := run.info.get("best")):
        return None
    write = percent if best["metric"].endswith("accuracy") else number(".3f")
    figure = f"{best['metric'].partition('/')[2]} {write(best['value'])}"
    measured = len(run.series(best["metric"])[0])
    rows = run.config.get("eval", {}).get("every_rows")
    return f"the policy of step {best['step']}, the best of {measured} measurements: {figure} on {rows} validation rows"


def status_sentence(run: Run) -> str | None:
    """Why the run has not finished; None for a finished run."""
    if run.status == "finished":
        return None
    error = " ".join(str(run.info.get("error") or "no reason was recorded").split())[:500].rstrip(".")
    reached = f"The last logged step is {run.metrics[-1]['step']}." if run.metrics else "No step was logged."
    if run.status == "running":
        return f"This run is still running, or was killed before it could say so. {reached}"
    return f"This run {'was ' if run.status == 'stopped' else ''}{run.status}: {error}. {reached}"


def _describe_untrained(section: dict) -> str:
    if "accuracy" in section:
        return f"Held-out accuracy is {percent(section['accuracy'])} on {section['n']} rows; nothing was trained."
    if "reward" in section:
        reward = number(".3f")(section["reward"]["mean"])
        return f"The mean reward is {reward} on {section['n']} held-out rows; nothing was trained."
    return "Nothing was trained, and the task has neither a grader nor a reward."


def _judge(interval: Interval, null: float, words: tuple[str, str, str]) -> tuple[str, str]:
    """The kind and the word for an interval that is above `null`, includes it, or is below."""
    low, high = interval["low"], interval["high"]
    place = 0 if low is not None and low > null else 2 if high is not None and high < null else 1
    return ("ok", "info", "warning")[place], words[place]


def _plan(difference: Interval, n: int, rows: str) -> str:
    """What these rows could have shown; empty without an interval."""
    figures: list[Any] = list(difference.values())
    if None in figures or not all(map(math.isfinite, figures)):
        return ""
    shown, needed = plan_rows(difference, n)
    text = f" With this many {rows} a difference of {100 * shown:.1f} points is detected with 80% power"
    return f"{text}; the observed one needs {needed:,}." if needed else f"{text}."

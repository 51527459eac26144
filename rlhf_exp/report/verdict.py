"""Says in a sentence what a run achieved, by the first of these that it measured: held-out accuracy, the win rate by
reward, the accuracy of the implicit reward; and other facts of a run, each as a sentence, or None.

verdict(run)  ->  Verdict("ok", "Held-out accuracy rose: 22.1% before and 38.5% after, ...")
"""

import math
from typing import NamedTuple

from rlhf_exp.runs.figures import number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import Interval
from rlhf_exp.stats.planning import plan_rows

KINDS = ("ok", "info", "warning")
CHANGED = ("rose", "did not measurably change", "fell")
OFTEN = ("more often than", "not measurably more often than", "less often than")


class Verdict(NamedTuple):
    kind: str  # of a Callout: ok, info or warning
    sentence: str


def verdict(run: Run) -> Verdict:
    """The sentence, and its kind: ok for better, warning for worse, info if the interval includes no change."""
    before, after, paired = (run.evaluation.get(part, {}) for part in ("baseline", "trained", "paired"))
    if not run.trains:
        accuracy = f"{percent(before.get('accuracy'))} on {before.get('n', 0)} rows"
        return Verdict("info", f"Held-out accuracy is {accuracy}; nothing was trained.")
    if difference := paired.get("difference"):
        place = _judge(difference, 0)
        sides = f"{100 * before['accuracy']['value']:.1f}% before and {100 * after['accuracy']['value']:.1f}% after"
        sentence = f"Held-out accuracy {CHANGED[place]}: {sides}, a difference of {points(difference)} points on"
        plan = _plan(difference, paired["n"]) if place == 1 else ""
        return Verdict(KINDS[place], f"{sentence} {paired['n']} rows.{plan}")
    if rate := paired.get("win_rate"):
        place = _judge(rate, 0.5)
        sentence = f"By reward the trained model wins {OFTEN[place]} it loses: {percent(rate)} of {paired['n']}"
        return Verdict(KINDS[place], f"{sentence} held-out rows against the start model (a tie is half a win).")
    if section := after.get("preference"):
        place = _judge(section["accuracy"], 0.5)
        sentence = f"The implicit reward puts the chosen answer first {OFTEN[place]} chance: in"
        return Verdict(KINDS[place], f"{sentence} {percent(section['accuracy'])} of {section['n']} held-out pairs.")
    return Verdict("info", "Held-out accuracy after training was not measured.")


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


def _judge(interval: Interval, null: float) -> int:
    """0 for an interval that is above `null`, 1 if it includes it, 2 if it is below."""
    low, high = interval["low"], interval["high"]
    return 0 if low is not None and low > null else 2 if high is not None and high < null else 1


def _plan(difference: Interval, n: int) -> str:
    """What these rows could have shown; empty without an interval."""
    low, high = difference["low"], difference["high"]
    if low is None or high is None or not math.isfinite(high - low):
        return ""
    shown, needed = plan_rows(difference, n)
    text = f" With this many rows a difference of {100 * shown:.1f} points is detected with 80% power"
    return f"{text}; the observed one needs {needed:,}." if needed else f"{text}."

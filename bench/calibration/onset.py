"""When the harm of a failure begins, and how far from that the first right finding is.

In the manner of CHERRL (arXiv:2606.04923), whose gap needs a proxy that rises: the harm is smoothed, its onset is not
one step but the interval that a sweep of thresholds gives, and the error of a date is its distance to that interval.
The harm here is how far the share of right training completions is below that of the start, by `angle`: a failure whose
reward rises and one whose reward falls are dated alike. Only runs in which it can be seen are dated: held-out accuracy
fell as well, without which the chance of a start's few rows dates runs whose weights never change. No healthy run of
seeds 9 to 18 (550) has such a harm.
"""

from statistics import median
from typing import Any

from archive import Archived

from rlhf_exp.analysis.diagnose.signals import Signals, angle

SWEEP = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Shares of a run's largest harm."""
SEEN = 0.5
"""A smaller harm, such as from 20 to 5%, is not told from the noise of 32 completions a step."""


def date_harm(run: Archived) -> tuple[int, int] | None:
    """The first and the last onset, in steps, over the sweep; None without a harm that can be seen."""
    signals = Signals(run.metrics, run.evaluation, run.config)
    course = [(step or 0, score) for step, score in signals.rise("outcome/correct", angle, sign=-1)]
    largest = max((score for _, score in course), default=0.0)
    held_out = signals.measured("paired/difference")
    if largest < SEEN or held_out is None or held_out["high"] >= 0:
        return None
    onsets = [next(step for step, score in course if score >= share * largest) for share in SWEEP]
    return onsets[0], onsets[-1]


def measure_error(interval: tuple[int, int], step: int) -> int:
    """The signed distance of `step` to the onset, in steps: below 0 before it, 0 within it."""
    first, last = interval
    return min(step - first, 0) + max(step - last, 0)


def list_onsets(verdicts: list[dict[str, Any]]) -> tuple[str, tuple[int, int], list[list[str]], list[str]]:
    """A sentence, its count and n, a table's rows by kind, and its head, of the test runs."""
    rows, errors, missed = [], [], 0
    for kind in dict.fromkeys(verdict["run"].name for verdict in verdicts):
        of_kind = [one for one in verdicts if one["test"] and one["run"].name == kind]
        found = [(date_harm(one["run"]), one) for one in of_kind]
        missed += sum(harm is not None and not one["onset_step"] for harm, one in found)
        dated = [
            (harm, step, measure_error(harm, step) / one["run"].metrics[-1]["step"])
            for harm, one in found
            if harm and (step := one["onset_step"])
        ]
        if dated:
            errors += [error for *_, error in dated]
            spans = ", ".join(f"{first} to {last}" for (first, last), *_ in dated)
            steps = ", ".join(str(step) for _, step, _ in dated)
            rows.append([f"`{kind}`", spans, steps, f"{100 * median(error for *_, error in dated):+.0f}%"])
    near = sum(abs(error) <= 0.1 for error in errors)
    head = ["failure", "harm begins, steps, by run", "first right finding", "median error, share of the run"]
    said = (
        f"of {len(errors) + missed} runs with a harm that can be seen, {missed} have no right finding with a date, and"
    )
    said += f" in {near} the first one lies within a tenth of the run of the harm's onset"
    return said, (near, len(errors) + missed), rows, head

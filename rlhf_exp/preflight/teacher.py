"""Checks that a student has something to learn from its teacher.

check_teacher(experiment, completions, of_teacher)    # of the same held-out rows
"""

from collections.abc import Sequence

from rlhf_exp.evaluation.metrics import compare
from rlhf_exp.experiment import Experiment
from rlhf_exp.preflight.check import Check, judge
from rlhf_exp.runs.figures import number, points
from rlhf_exp.runs.records import Completion


def check_teacher(experiment: Experiment, student: Sequence[Completion], teacher: Sequence[Completion]) -> Check:
    """The teacher is better than the start model on the held-out rows: by accuracy, or without a grader by reward."""
    name, paired = "teacher_is_better", compare([*student], [*teacher], experiment.cfg.max_tokens)
    figures = {"accuracy": paired.get("difference"), "reward": paired.get("reward", {}).get("mean")}
    what, gain = next(((what, gain) for what, gain in figures.items() if gain), ("", None))
    if gain is None:
        return Check(name, "skipped", "there is no grader and no reward by which to compare them")
    said = f"{points(gain)} points" if what == "accuracy" else number("+.3f")(gain)
    said = f"on {paired['n']} rows the teacher's {what} minus the student's is {said}"
    is_better = gain["low"] is not None and gain["low"] > 0
    said += "" if is_better else ": it is not measurably better, and a student comes to do what its teacher does"
    return Check(name, judge(False, not is_better), said, {"difference": gain})

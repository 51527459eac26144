"""Checks of the task's grader and rewards, on gold answers, broken answers and the start model's completions."""

from collections.abc import Sequence

from rlhf_exp.evaluation.completions import Completion
from rlhf_exp.experiment import Experiment
from rlhf_exp.preflight.check import Check


def check_grader(experiment: Experiment, completions: Sequence[Completion]) -> list[Check]:
    """Every check of this module, in the order of its names."""
    return []

"""The reward of remedy=no_partial_credit."""

from typing import Any

from rlhf_exp.graders.countdown import grade


def correct(completions: list[str], numbers: list[list[int]], target: list[int], **columns: Any) -> list[float]:
    """1 for a correct answer, 0 for any other and for none."""
    return [float(grade(*row).outcome == "correct") for row in zip(completions, numbers, target, strict=True)]

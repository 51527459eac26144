"""Rewards short completions: 2 minus a sixteenth of the words, a reward that is known in closed form.

    brevity(prompts=["Hi"], completions=["one two three four"])    # [1.75]

Words are separated by white space. The maximum is 2.0, for a completion without words; 32 words earn 0.
"""

from typing import Any

from rlhf_exp.graders import read_text


def brevity(completions: list[Any], **columns: Any) -> list[float]:
    """It needs no grader, so it works with any task."""
    return [2 - len(read_text(completion).split()) / 16 for completion in completions]

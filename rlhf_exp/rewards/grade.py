"""What a grader returns.

One call that works:

    Grade("partial", 0.1, "8 * 7 - 3")
"""

from dataclasses import dataclass
from typing import Literal

MAX_CHARACTERS = 20_000
"""What graders and rewards read of a text at most: about 6,000 tokens of plain English. It bounds their time."""


@dataclass(frozen=True)
class Grade:
    """The verdict on one completion.

    Attributes:
        outcome: "correct", "partial" (an answer, but a wrong one) or "failed" (no answer).
        score: 1.0, 0.1 or 0.0, in the order of the outcomes above.
        extracted: what was read as the answer; None where there is none.
    """

    outcome: Literal["correct", "partial", "failed"]
    score: float
    extracted: str | None


def keep_end(text: str) -> str:
    """The last MAX_CHARACTERS of a text, where an answer stands."""
    return text[-MAX_CHARACTERS:]

"""What a grader returns, such as `Grade("partial", 0.1, "8 * 7 - 3")`, and what it reads of a completion."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

MAX_CHARACTERS = 20_000
"""Graders and rewards read at most this much of a text, about 6,000 tokens of plain English. It limits their time."""
GRADES = "task.grade"
"""The column in which rewards find the grades of completions, if the caller has them."""
PASSED = (
    *("prompts", "completion", "completions", "completion_ids", "image", "images"),
    *("trainer_state", "log_extra", "log_metric"),
)
"""Names that TRL gives a meaning of its own: rewards and checkers do not get columns that are called so."""
Outcome = Literal["correct", "partial", "failed"]
SCORES: dict[Outcome, float] = {"correct": 1.0, "partial": 0.1, "failed": 0.0}


@dataclass(frozen=True)
class Grade:
    """The verdict on one completion.

    Attributes:
        outcome: "correct", "partial" (an answer, but a wrong one) or "failed" (no answer).
        score: 1.0, 0.1 or 0.0, in the order of the outcomes above.
        extracted: what was read as the answer; None if there is none.
    """

    outcome: Outcome
    score: float
    extracted: str | None


@dataclass(frozen=True)
class NumberGrade(Grade):
    """Of a grader that returns a number or a bool alone: nothing is known about what it has read as the answer."""


def compare(right: bool, extracted: str | None, wrong: Outcome = "partial") -> Grade:
    """The grade of a text of which `extracted` was read, an answer or None; `wrong` is the outcome of a wrong one."""
    outcome: Outcome = "failed" if extracted is None else wrong
    if right:
        outcome = "correct"
    return Grade(outcome, SCORES[outcome], extracted)


def read_text(completion: str | list[dict[str, str]]) -> str:
    """The text of a completion, which TRL passes as a string or, for chat prompts, as a list of messages: of an episode
    with tools what follows the last tool's result."""
    if isinstance(completion, str):
        return completion
    texts: list[str] = []
    for message in completion:
        texts = [] if message["role"] == "tool" else [*texts, message.get("content") or ""]
    return "".join(texts)


def write_answer(answer: Any) -> str:
    """A right answer as a text; of a number all digits: 0.00002, which Python writes as 2e-05."""
    return f"{Decimal(str(answer)):f}" if isinstance(answer, float | Decimal) else str(answer)


def keep_end(text: str) -> str:
    """The last MAX_CHARACTERS of a text, since an answer is at its end."""
    return text[-MAX_CHARACTERS:]


def find_tags(text: str) -> tuple[int, str]:
    """Where the last closed <answer> begins and what it holds; (-1, "") without one."""
    start = text.rfind("<answer>", 0, max(text.rfind("</answer>"), 0))
    content = start + len("<answer>")
    return (start, text[content : text.find("</answer>", content)]) if start >= 0 else (-1, "")

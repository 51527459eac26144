"""The keys of task=countdown."""

from dataclasses import dataclass
from typing import Literal

from rlhf_exp.config.ranges import TOKENS, within
from rlhf_exp.tasks.schema import GradedKeys

LARGEST_STEP = 200
"""The largest value in a synthetic search: the tiny tokenizer has one token for each integer from 0 to this."""


@dataclass(frozen=True)
class Searcher:
    """The order of a searcher's attempts: drawn without replacement, each weighted by exp(-|value - target| /
    temperature), null for no such weight, and by the weights of its operations, which are those of + - * / in turn.
    With a negative temperature what is far from the target comes first."""

    temperature: float | None = within(">= -1000000, <= 1000000")
    operations: tuple[float, float, float, float] = within("> 0, <= 1000000")


@dataclass(frozen=True)
class Traces:
    """The synthetic searches that demonstrations consist of: on how many numbers, by which searchers, with which
    habits. `skilled_share` of the traces are by the skilled searcher, the others by the novice."""

    numbers: list[int] = within(">= 2, <= 3")
    give_up: float = within(">= 0, <= 1")
    check: float = within(">= 0, <= 1")
    max_attempts: int = within(">= 1, <= 1000")
    patience: tuple[int, int] | None = within(TOKENS)
    skilled_share: float = within(">= 0, <= 1")
    skilled: Searcher
    novice: Searcher


@dataclass(frozen=True)
class Keys(GradedKeys):
    name: Literal["countdown"]
    numbers: list[int] = within(">= 2, <= 6")
    low: int = within(">= 1, <= 1000000")
    high: int = within(">= 1, <= 1000000")
    target_low: int = within(">= 1, <= 1000000000")
    target_high: int = within(">= 1, <= 1000000000")
    traces: Traces

    columns = ("numbers", "target")
    least_tokens = 2  # of an expression, on two numbers or more
    draws_rows = True
    file = "a JSONL file with nums and target"
    budget = (512, "the middle one of the budgets that Countdown is studied with, 256, 512 and 1,024")

    def find_problems(self, key: str) -> list[str]:
        problems = [
            f"{key}.{low}={getattr(self, low)}: must be at most {key}.{high}={getattr(self, high)}"
            for low, high in (("low", "high"), ("target_low", "target_high"))
            if getattr(self, low) > getattr(self, high)
        ]
        for name, counts in (("numbers", self.numbers), ("traces.numbers", self.traces.numbers)):
            if not counts:
                problems.append(f"{key}.{name}=[]: must hold how many numbers a problem has, such as [3]")
        for name in ("skilled", "novice"):
            if getattr(self.traces, name).temperature == 0:
                problems.append(
                    f"{key}.traces.{name}.temperature=0.0: must not be 0; 0.1 orders attempts by their distance"
                )
        if self.traces.patience is not None and self.traces.patience[0] > self.traces.patience[1]:
            low, high = self.traces.patience
            problems.append(f"{key}.traces.patience=[{low}, {high}]: must hold the lower bound first: [{high}, {low}]")
        return problems + super().find_problems(key)

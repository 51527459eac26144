"""The rows that fit into a number of tokens: what was left out, why there are too few, and a user's grader on them.

    taken = loader.take(ASK, "train", 512, seed=0, room=256)
    taken.rows, taken.over_long

A row has the tokens of its prompt plus those of its longest answer with the end token, or `room` for a completion.
"""

import time
from typing import TYPE_CHECKING, NamedTuple

from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.user_code import RewardError
from rlhf_exp.tasks.task import Grader, Item, Source, name_source
from rlhf_exp.tasks.texts import Row

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config

NO_LIMIT = 10**15  # what a tokenizer has whose model's context is not known

TRIAL_S = 5.0
"""The most time for which a user's grader is tried, since it can be slow."""


class Selection(NamedTuple):
    """The rows that fit into `limit` tokens, each with what it is made of, and how many before the last of them did
    not. `shortest`: the tokens that the shortest row needs. `way`: what makes more of them fit. `repeated`: how many
    have the prompt of another row."""

    written: list[tuple[Item, Row]]
    over_long: int = 0
    limit: int = NO_LIMIT
    shortest: float = 0
    way: str = ""
    repeated: int = 0

    @property
    def rows(self) -> list[Row]:
        return [row for _, row in self.written]

    @property
    def items(self) -> list[Item]:
        return [item for item, _ in self.written]


def require_rows(
    cfg: "Config", wanted: list[tuple[Selection, str, str, int | None]], source: Source | None = None
) -> None:
    """Refuse splits that are empty, or have fewer rows than a key asks for.

    Args:
        source: where the rows come from; the line then says what was read and dropped.
        wanted: what was taken, of which split, and the key with the number that it asks for (None: at least one).

    Raises:
        ConfigError: a line for each.
    """
    problems = []
    for taken, split, key, number in wanted:
        if (have := len(taken.written)) < (number or 1):
            fit = f" of at most {taken.limit} tokens" if taken.over_long else ""
            line = f"{key}={show(number)}: {name_source(cfg.task)} has {have} rows{fit} in its {split} split"
            long = f"{taken.over_long} are longer, the shortest needs {taken.shortest}: {taken.way}"
            line = f"{line}; {long}" if taken.over_long else line
            problems.append(f"{line} ({describe_read(source, rules=True)})" if source else line)
    if problems:
        raise ConfigError(problems)


def write_notes(source: Source, sides: dict[str, Selection]) -> list[str]:
    """Two lines for the user: how many rows were read and dropped; and how many are taken from each split."""
    taken = _list_counts({f"of {split}": len(side.written) for split, side in sides.items()})
    left_out = ""
    for limit in dict.fromkeys(side.limit for side in sides.values() if side.limit < NO_LIMIT):
        long = _list_counts({f"of {split}": side.over_long for split, side in sides.items() if side.limit == limit})
        left_out += f"; longer than {limit:,} tokens and left out: {long}"
    return [describe_read(source), f"rows: {taken}{left_out}"]


def describe_read(source: Source, rules: bool = False) -> str:
    """8 pairs read; dropped: 2 equal answers; splits: 5 train, 1 test. With the rule of each kind that was dropped."""
    read = f"{sum(source.read.values()):,} {source.what} read"
    dropped = {
        odd.kind.replace("_", " ") + (f" ({odd.rule})" if rules else ""): odd.n for odd in source.odd if not odd.kept
    }
    kept = {odd.kind.replace("_", " "): odd.n for odd in source.odd if odd.kept}
    for name, counts in (("dropped", dropped), ("odd but kept", kept)):
        if counts and (any(counts.values()) or not rules):
            read += f"; {name}: {_list_counts(counts)}"
    return f"{read}; splits: {_list_counts({name: len(items) for name, items in source.splits.items()})}"


def _list_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {kind}" for kind, n in counts.items() if n) or "none"


def try_grader(grade: Grader, rows: list[Row]) -> None:
    """Call the user's grader for the rows, with an empty completion, before anything is sampled.

    Raises:
        ConfigError: it cannot grade a row.
    """
    start = time.monotonic()
    for row in rows:
        try:
            grade("", row)
        except RewardError as error:
            raise ConfigError([str(error)]) from error.__cause__
        if time.monotonic() - start > TRIAL_S:
            return

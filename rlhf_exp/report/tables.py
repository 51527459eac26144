"""Defines the type of column of which every table is made, and writes what stands beside figures.

>>> STEPS = Column("steps", at("work", "steps"), "{:,}".format)
>>> STEPS.cell({"work": {"steps": 1200}})
'1,200'
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rlhf_exp.report.page import Table
from rlhf_exp.runs.figures import Figure, write_name
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import LEVELS, Kind


class Column(NamedTuple):
    """One figure: its name, how it is read, how it is written, a sentence that explains it, and how a difference of it
    is written, if one is shown."""

    name: str
    read: Callable[[Any], Any]
    write: Callable[[Any], str] = str
    note: str = ""
    write_difference: Callable[[Figure], str] = lambda figure: ""
    rows: Callable[[Run], dict[str, float]] | None = None
    """Reads the same figure of each held-out row (report/rows.py); None if it is not of held-out rows."""
    kind: Kind = LEVELS

    def cell(self, thing: Any) -> str:
        """The figure of `thing` as text; - if there is none."""
        found = self.read(thing)
        return "-" if found is None else self.write(found)


def fill(columns: Sequence[Column], things: Iterable[Any]) -> Table:
    """A table with a row for each thing."""
    return Table([column.name for column in columns], [[column.cell(thing) for column in columns] for thing in things])


def join_notes(columns: Iterable[Column]) -> str:
    """The notes of `columns`, one after the other."""
    return " ".join(column.note for column in columns if column.note)


def at(*key: str) -> Callable[[dict | None], Any]:
    """Returns a function that reads the value at a path of nested mappings; None if a key is missing."""

    def read(found: Any) -> Any:
        for name in key:
            found = (found or {}).get(name)
        return found

    return read


def duration(seconds: float) -> str:
    """Seconds in words, to the precision that matters.

    >>> [duration(seconds) for seconds in (4.06, 236, 725, 12_000)]
    ['4.1 s', '236 s', '12 min 5 s', '3 h 20 min']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 300:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def seconds_per_step(info: dict) -> float | None:
    """From run.json; None for a run that did not train."""
    seconds, steps = info.get("seconds", {}).get("train"), info.get("steps")
    return seconds / steps if seconds and steps else None


def title(run: Run) -> str:
    """algo=grpo loss_type=grpo task=countdown model=tiny max_tokens=64 seed=0 name=my-run tags=a,b: finished"""
    keys = ("algo", "loss_type", "task", "model", "max_tokens", "seed", "name", "tags")
    return f"{' '.join(f'{key}={name}' for key in keys if (name := write_name(run.info.get(key))))}: {run.status}"


def fact_tables(facts: dict) -> list[Table]:
    """data.json as tables: one with a column for each of the parts that `read` names, and a list of the rest.

    Counts of 0 are left out.
    """
    parts = list(facts.get("read", {}))
    by_part, plain = [], []
    for label, value in _flatten(facts, parts):
        if isinstance(value, dict):
            counts = [value.get(part, 0) for part in parts]
            by_part += [[label, *(f"{n:,}" for n in (*counts, sum(counts)))]] if any(counts) else []
        elif value not in (0, None, {}):
            plain.append([label, f"{value:,}" if isinstance(value, int) else str(value)])
    return [table for table in (Table(["", *parts, "all"], by_part), Table(["", ""], plain)) if table.rows]


def _flatten(facts: dict, parts: list[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(name, value), with nested names joined by commas; a mapping whose keys are parts is one value."""
    for name, value in facts.items():
        label = f"{prefix}{name.replace('_', ' ')}"
        if isinstance(value, dict) and not (parts and set(value) <= set(parts)):
            yield from _flatten(value, parts, f"{label}, ")
        else:
            yield label, value

"""Writes figures as text; imports nothing that takes time.

>>> percent({"value": 0.252, "low": 0.216, "high": 0.291})
'25.2% [21.6, 29.1]'
"""

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rlhf_exp.analysis.stats import Interval

Figure: TypeAlias = "Interval | float | None"
"""A number with or without its interval; None if it was not measured."""
WIDE = 10_000
"""Letters of a line that a terminal breaks itself."""


def percent(figure: Figure) -> str:
    """25.2% [21.6, 29.1]"""
    return _write(figure, 100, ".1f", "%")


def points(figure: Figure) -> str:
    """+20.9 [+16.4, +25.4]"""
    return _write(figure, 100, "+.1f")


def number(spec: str) -> Callable[[Figure], str]:
    """number(".2f") writes 35.42 [34.10, 36.74]"""
    return partial(_write, scale=1, spec=spec)


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


def begin(sentence: str) -> str:
    """With a capital letter, unless the first word is a name.

    >>> begin("accuracy fell"), begin("logps/chosen fell")
    ('Accuracy fell', 'logps/chosen fell')
    """
    is_name = any(letter in "/_=" for letter in sentence.split(" ", 1)[0])
    return sentence if is_name else f"{sentence[0].upper()}{sentence[1:]}"


def align(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """The lines of a table for a terminal; `right` are the places of the columns that are aligned to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table, console = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0)), Console(width=WIDE)
    for place in range(len(rows[0])):
        table.add_column(justify="right" if place in right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    with console.capture() as shown:
        console.print(table)
    return [line.rstrip() for line in shown.get().splitlines()]


def write_name(value: Any) -> str:
    """A setting as on the command line: empty for None, several values (dpo's losses) joined."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def _write(figure: Figure, scale: float, spec: str, unit: str = "") -> str:
    """The figure as text; - if it is not finite (null in the files), and no brackets for an interval without width."""
    found = figure if isinstance(figure, dict) else {"value": figure, "low": None, "high": None}
    value, low, high = found["value"], found["low"], found["high"]
    if value is None or not math.isfinite(value):
        return "-"
    spec = spec.replace(",.", "z,.") if "," in spec else spec.replace(".", "z.")  # no -0.0
    bounds = "" if low is None or high is None or low == high else f" [{scale * low:{spec}}, {scale * high:{spec}}]"
    return f"{scale * value:{spec}}{unit}{bounds}"

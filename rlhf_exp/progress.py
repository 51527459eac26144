"""Progress bars on a terminal; elsewhere, as in a log, a plain line now and then.

with progress(len(rows), "evaluate", "row") as bar:
    bar.update(16)
"""

import math
import sys

from tqdm.std import tqdm

from rlhf_exp import processes

PAUSE_S, PARTS = 30.0, 10
"""A line comes at least so long after the one before, and at least such a part of the way."""
LINE = "{desc}: {n_fmt} of {total_fmt} ({percentage:.0f}%), {elapsed} so far, {remaining} left{postfix}"
CURSOR_UP = "\x1b[A"  # tqdm's, to draw one bar below another


def progress(total: int, title: str | None, unit: str, leave: bool = False) -> "tqdm[None]":
    """A bar on stderr, which stays there at the end if `leave`; without a title none. With several processes each
    draws its own bar, and only rank 0 writes lines."""
    if sys.stderr.isatty():
        return tqdm(total=total, desc=title, unit=unit, leave=leave, dynamic_ncols=True, disable=title is None)
    hidden = title is None or not processes.is_main()
    pace = {"mininterval": PAUSE_S, "maxinterval": math.inf, "miniters": max(1, total / PARTS), "delay": PAUSE_S}
    return tqdm(total=total, desc=title, leave=False, disable=hidden, file=_Lines(), bar_format=LINE, **pace)


class _Lines:
    """Stderr, with a line of its own for each redraw of a bar."""

    encoding = "utf-8"

    def write(self, text: str) -> None:
        if line := text.replace(CURSOR_UP, "").strip():
            print(line, file=sys.stderr, flush=True)

    def flush(self) -> None:
        """Each line is flushed."""

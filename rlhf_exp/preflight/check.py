"""What a check of the preflight finds. Imports no ML library.

Check("floor_gap", "failed", "an empty answer gets full marks on 40 of 40 rows", {"empty": 1.0})
"""

from typing import Any, Literal, NamedTuple


class Check(NamedTuple):
    """One check: `failed` refuses the run, `warned` lets it go on, `skipped` did not apply, and its evidence says why.

    Attributes:
        evidence: what was found, in words and numbers, on one line.
        figures: the numbers, for preflight.json; an estimate is {"value", "low", "high"}.
        remedy: overrides to try, the best first. preflight.json and the table keep the first that the config accepts.
    """

    name: str
    status: Literal["passed", "failed", "warned", "skipped"]
    evidence: str
    figures: dict[str, Any] = {}
    remedy: list[str] = []

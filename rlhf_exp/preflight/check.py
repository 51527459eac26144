"""What a check of the preflight finds. Imports no ML library.

Check("floor_gap", "failed", "an empty answer gets full marks on 40 of 40 rows", {"empty": 1.0})
"""

from collections.abc import Mapping
from typing import NamedTuple

from rlhf_exp.runs.records import CheckStatus


class Check(NamedTuple):
    """One check: `failed` refuses the run, `warned` lets it go on, `skipped` did not apply, and its evidence says why.

    Attributes:
        evidence: what was found, in words and numbers, on one line.
        figures: the numbers, for preflight.json; an estimate is {"value", "low", "high"}.
        remedy: overrides to try, the best first. preflight.json and the table keep the first that the config accepts.
    """

    name: str
    status: CheckStatus
    evidence: str
    figures: Mapping[str, object] = {}
    remedy: list[str] = []


def judge(failed: object, warned: object = False) -> CheckStatus:
    """The status of a check that applied: failed, warned or passed."""
    if failed:
        return "failed"
    return "warned" if warned else "passed"

"""The part of a report on held-out preference pairs, ranked by a reward model or by a policy's implicit reward.

describe_preferences(run)  ->  [Heading("Held-out preference pairs"), Table(...), ...], or [] without pairs
"""

from rlhf_exp.report.columns import Column, at, fill
from rlhf_exp.report.page import NOTES, TEXTS, Block, Heading, Pair, Table, Text
from rlhf_exp.report.summary import RANKING_FIGURES
from rlhf_exp.runs.figures import percent
from rlhf_exp.runs.load import Run

ERROR_KINDS: dict[str, tuple[str, str]] = TEXTS["error kinds"]
"""Name and rule of each kind."""

N = Column("n", at("n"))
CALIBRATION = (Column("predicted", at("predicted"), percent), Column("observed", at("observed"), percent), N)


def describe_preferences(run: Run) -> list[Block]:
    """Blocks from the figures down to the pairs that the model ranked wrongly."""
    section = run.preference("trained")
    if not section:
        return []
    blocks: list[Block] = [Heading("Held-out preference pairs")]
    if not run.trains_scorer:
        blocks.append(Table(["", "trained"], [[figure.name, figure.cell(section)] for figure in RANKING_FIGURES]))
    # A policy has no baseline: its implicit rewards are all 0 there.
    known = {row["label"]: row for row in _list_parts(run.preference("baseline"))}
    before = Column("baseline", lambda row: at(row["label"], "accuracy")(known), percent)
    right = [Column("share ranked rightly", at("label")), N, before, Column("trained", at("accuracy"), percent)]
    rule = {"label": "by a rule: the longer answer", "n": section["n"], "accuracy": section["longer_wins"]}
    blocks += [fill(right, [*_list_parts(section), rule]), fill(CALIBRATION, section["calibration"])]
    return [*blocks, Text(NOTES["preferences"]), *_list_errors(run)]


def _list_parts(section: dict) -> list[dict]:
    """Label, n and accuracy of all pairs, by length and by subset."""
    by_length = [row | {"label": f"chosen answer {row['label']} tokens"} for row in section.get("by_length", [])]
    whole = {"label": "all", "n": section.get("n"), "accuracy": section.get("accuracy")}
    return [whole, *by_length, *section.get("by_subset", [])]


def _list_errors(run: Run) -> list[Block]:
    counts = run.errors.get("counts")
    if not counts:
        return []
    rows = [[*ERROR_KINDS[kind], str(n)] for kind, n in counts.items()]
    blocks: list[Block] = [Heading("Wrongly ranked pairs"), Table(["kind", "rule, the first that fits", "pairs"], rows)]
    blocks.append(Text("Some of them, worst first, to open one by one. Their texts may offend."))
    for place, error in enumerate(run.errors.get("shown", []), start=1):
        title = f"{place}. {ERROR_KINDS[error['kind']][0]}: margin {error['margin']:+.2f}, {error['subset']}"
        sides = _read_side(error, "chosen"), _read_side(error, "rejected")
        blocks.append(Pair(title, error["prompt"].strip(), sides, folded=True))
    return blocks


def _read_side(error: dict, side: str) -> tuple[str, str]:
    caption = f"{side.capitalize()}: reward {error[f'{side}_reward']:.2f}, {error[f'{side}_tokens']} tokens"
    return caption, error[side].strip()

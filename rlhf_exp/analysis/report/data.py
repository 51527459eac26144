"""The rows that a run learned from and was measured on: what was read, dropped and kept, and the figures of data.json.

describe_data(run.facts)  ->  [Heading("Data", folded=True), Table(...), ...]; empty without facts
"""

from rlhf_exp.analysis.report.columns import Column, at, fill
from rlhf_exp.analysis.report.page import NOTES, Block, Heading, Table, Text
from rlhf_exp.runs.figures import number, percent
from rlhf_exp.runs.settings import flatten

count = "{:,}".format
SUBSET, TEXT, N = Column("subset", at("subset")), Column("text", at("text")), Column("n", at("n"), count)
QUANTILES, BUDGETS = (5, 25, 50, 75, 95), (64, 128, 256, 512, 1024)
LENGTHS = (
    *(SUBSET, TEXT, N),
    *(Column(name, at(name), number(".1f")) for name in ("mean", "std")),
    *(Column(f"{q}%", at(f"{q}%"), number(".0f")) for q in QUANTILES),
    Column("max", at("max"), count),
)
OVER = (SUBSET, TEXT, *(Column(f"over {budget}", at(str(budget)), percent) for budget in BUDGETS))
PREFERENCE = (
    *(SUBSET, N, Column("longer wins", at("longer_wins"), percent)),
    Column("difference", at("longer_by"), number("+.1f")),
)


def describe_data(facts: dict, folded: bool = True) -> list[Block]:
    """What was counted, lengths and turns, what a budget cuts off, length and preference, and repeats."""
    if not facts:
        return []
    blocks: list[Block] = [Heading("Data", folded=folded)]
    blocks += [counted] if (counted := fact_table(facts)).rows else []
    if not (figures := facts.get("figures")):
        return blocks
    blocks.append(Table(["", ""], [[name.replace("_", " "), count(n)] for name, n in figures["counts"].items()]))
    blocks += [fill(LENGTHS, [*figures["lengths"], *figures["turns"]]), Text(NOTES["data lengths"])]
    if figures["budgets"]:
        blocks += [fill(OVER, figures["budgets"]), Text(NOTES["data budgets"])]
    if figures["preference"]:
        blocks += [fill(PREFERENCE, figures["preference"]), Text(NOTES["data pairs"])]
    return blocks


def fact_table(facts: dict) -> Table:
    """data.json without its figures as a list; counts of 0 are left out."""
    counted = {name: value for name, value in facts.items() if name != "figures"}
    found = [(name.replace("_", " "), value) for name, value in flatten(counted, separator=", ").items() if value]
    return Table(["", ""], [[name, f"{value:,}" if isinstance(value, int) else str(value)] for name, value in found])

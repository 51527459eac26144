"""The page on a task's data.

describe_data(figures)       ->  blocks, as report/page.py writes them
"""

from typing import Any

from rlhf_exp.describe.figures import BUDGETS, QUANTILES
from rlhf_exp.report.columns import Column, at, fill
from rlhf_exp.report.page import Block, Heading, Table, Text
from rlhf_exp.runs.figures import number, percent

LENGTH_NOTE = (
    "Tokens are what a trainer sees: with the chat template if the tokenizer has one, an answer with its end token."
)
BUDGET_NOTE = "A row is over a budget if its prompt plus its answer (the longer of two) has more tokens."
PREFERENCE_NOTE = (
    "Of two answers of equal length each counts half. In brackets: 95% intervals over the pairs. The difference is"
    " chosen minus rejected."
)

count = "{:,}".format
SUBSET, TEXT, N = Column("subset", at("subset")), Column("", at("text")), Column("n", at("n"), count)
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


def describe_data(figures: dict[str, Any]) -> list[Block]:
    """Blocks from the lengths down to the odd rows; no text of a row is among them."""
    blocks: list[Block] = [Heading(f"{figures['task']}: what is in the data", 1), Text(_origin(figures))]
    blocks += [Heading("Lengths in tokens, and turns"), fill(LENGTHS, figures["lengths"]), Text(LENGTH_NOTE)]
    blocks.append(fill(LENGTHS, figures["turns"]))
    if figures["budgets"]:
        blocks += [Heading("What a budget cuts off"), fill(OVER, figures["budgets"]), Text(BUDGET_NOTE)]
    if figures["preference"]:
        blocks += [Heading("Length and preference"), fill(PREFERENCE, figures["preference"]), Text(PREFERENCE_NOTE)]
    counts = [[_read_name(name), count(n)] for name, n in figures["counts"].items()]
    blocks += [Heading("Splits and repeats"), Table(["", ""], counts)]
    return [*blocks, Heading("Odd rows"), _odd_table(figures)] if figures["odd"] else blocks


def _origin(figures: dict[str, Any]) -> str:
    read = f"{sum(figures['read'].values()):,} rows read from {figures['source']}, {figures['n']:,} kept"
    return f"{read}, counted by the tokenizer of {figures['tokenizer']}."


def _odd_table(figures: dict[str, Any]) -> Table:
    """Every kind with its rule, and the counts by part."""
    columns = [
        Column("kind", lambda odd: _read_name(odd["kind"])),
        Column("rule", at("rule")),
        Column("", lambda odd: "kept" if odd["kept"] else "dropped"),
        *(Column(part, lambda odd, part=part: odd["counts"].get(part, 0), count) for part in figures["read"]),
        Column("rows", lambda odd: sum(odd["counts"].values()), count),
    ]
    return fill(columns, figures["odd"])


def _read_name(name: str) -> str:
    return name.replace("_", " ")

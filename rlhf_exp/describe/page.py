"""The page on a task's data.

describe_data(figures)          ->  blocks, as report/page.py writes them
show_rows(cfg, data, tokens)    ->  [Heading("Rows"), Text(...), Widget("samples", "rows", {...}, [Pair(...), ...])]
"""

from collections import defaultdict
from itertools import zip_longest
from typing import Any

from rlhf_exp.analysis.report.columns import Column, at, fill
from rlhf_exp.analysis.report.page import NOTES, Block, Heading, Pair, Table, Text
from rlhf_exp.analysis.report.samples import as_pair, browse
from rlhf_exp.config.schema import Config
from rlhf_exp.describe.figures import BUDGETS, QUANTILES
from rlhf_exp.describe.rows import Data, Example
from rlhf_exp.runs.figures import number, percent
from rlhf_exp.tasks.texts import write_out
from rlhf_exp.tasks.tokens import Tokens

count = "{:,}".format
SUBSET, TEXT, N = Column("subset", at("subset")), Column("text", at("text")), Column("n", at("n"), count)
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
FORMS = ("prompt", "demonstration", "pair")
"""Of a row, by the number of its answers."""
FEW = 3
"""Rows of each split that describe.md shows."""


def describe_data(figures: dict[str, Any]) -> list[Block]:
    """The figures, from the lengths down to the odd rows."""
    blocks: list[Block] = [Heading(f"{figures['task']}: what is in the data", 1), Text(_origin(figures))]
    blocks += [Heading("Lengths in tokens, and turns"), fill(LENGTHS, figures["lengths"]), Text(NOTES["data lengths"])]
    blocks.append(fill(LENGTHS, figures["turns"]))
    if figures["budgets"]:
        blocks += [Heading("What a budget cuts off"), fill(OVER, figures["budgets"]), Text(NOTES["data budgets"])]
    if figures["preference"]:
        blocks += [Heading("Length and preference"), fill(PREFERENCE, figures["preference"]), Text(NOTES["data pairs"])]
    counts = [[name.replace("_", " "), count(n)] for name, n in figures["counts"].items()]
    blocks += [Heading("Splits and repeats"), Table(["", ""], counts)]
    return [*blocks, Heading("Odd rows"), _odd_table(figures)] if figures["odd"] else blocks


def show_rows(cfg: Config, data: Data, tokens: list[Tokens]) -> list[Block]:
    """The rows with what goes with them, in turn from each split and subset, so that a page that cannot hold all of
    them has some of each; none with report.samples=false."""
    if not cfg.report.samples:
        return [Heading("Rows"), Text(NOTES["no texts"])]
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, example in enumerate(data.examples):
        places[example.split, example.subset].append(place)
    in_turn = (place for several in zip_longest(*places.values()) for place in several if place is not None)
    cards = [_show_row(data.examples[place], tokens[place], data.answers, cfg.max_tokens) for place in in_turn]
    widget, few = browse("rows", cards, []), defaultdict[str, list[Pair]](list)
    for card in widget.content["rows"]:
        split = card["values"]["split"]
        few[split].append(as_pair(f"{split}: {card['id']}", card))
    counts = {"shown": count(len(widget.content["rows"])), "n": count(len(data.examples)), "few": FEW}
    note = Text(NOTES["rows"].format(**counts, budget=count(cfg.max_tokens)))
    return [Heading("Rows"), note, widget._replace(instead=[pair for pairs in few.values() for pair in pairs[:FEW]])]


def _show_row(example: Example, tokens: Tokens, names: tuple[str, ...], budget: int) -> dict[str, Any]:
    """As assets/page/samples.js reads it."""
    answers = list(zip(names, tokens.answers, example.answers, strict=False))  # a row may have none
    values = {
        "split": example.split,
        "subset": None if example.subset == example.split else example.subset,
        "form": FORMS[len(answers)],
        "over max_tokens": ("yes" if max(tokens.answers) > budget else "no") if answers else None,
        "turns": example.turns,
        "prompt tokens": tokens.prompt,
        **{f"{name} tokens": n for name, n, _ in answers},
    }
    sides: list[dict[str, Any]]
    sides = [{"caption": f"{name.capitalize()}: {n} tokens", "text": write_out(text)} for name, n, text in answers]
    sides += [{"caption": name.capitalize(), "text": text, "fixed": True} for name, text in example.known.items()]
    return {"id": example.id, "prompt": write_out(example.prompt), "values": values, "sides": sides}


def _origin(figures: dict[str, Any]) -> str:
    read = f"{sum(figures['read'].values()):,} rows read from {figures['source']}, {figures['n']:,} kept"
    return f"{read}, counted by the tokenizer of {figures['tokenizer']}."


def _odd_table(figures: dict[str, Any]) -> Table:
    """Every kind with its rule, and the counts by part."""
    columns = [
        Column("kind", lambda odd: odd["kind"].replace("_", " ")),
        Column("rule", at("rule")),
        Column("they are", lambda odd: "kept" if odd["kept"] else "dropped"),
        *(Column(part, lambda odd, part=part: odd["counts"].get(part, 0), count) for part in figures["read"]),
        Column("rows", lambda odd: sum(odd["counts"].values()), count),
    ]
    return fill(columns, figures["odd"])

"""The page on a task's data, and its short table for the terminal.

describe_data(figures, out)  ->  blocks; the plots lie in out/plots
terminal_table(figures)      ->  a few lines of plain text
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlhf_exp.describe import plots
from rlhf_exp.report.page import Block, Callout, Figures, Heading, Table, Text
from rlhf_exp.report.tables import number, percent
from rlhf_exp.report.terminal import align

TOKENS_NOTE = (
    "Tokens are what a trainer sees: with the chat template where the tokenizer has one, an answer with its end token."
)
WORDS_NOTE = "Words are of the texts alone, without template or speakers' names."
BUDGET_NOTE = "A row is over a budget where its prompt with its answer (of two, the longer) has more tokens."
LENGTH_NOTE = (
    "Of two answers of equal length each counts half. In brackets: 95% intervals over the pairs. The difference is"
    " chosen minus rejected."
)
REPEATS_NOTE = "Counted among the rows that stay. No prompt may be in two splits."
TERMINAL_BUDGET = "512"


def describe_data(figures: dict[str, Any], out: Path) -> list[Block]:
    """Blocks from the lengths down to the odd rows; no text of a row is among them."""
    blocks: list[Block] = [Heading(f"{figures['task']}: what is in the data", 1), Text(_origin(figures))]
    if figures["tokens_left_out"]:
        blocks.append(Callout("warning", "No token counts.", figures["tokens_left_out"]))
    blocks += [Heading("Lengths"), Text(WORDS_NOTE if figures["tokens_left_out"] else f"{TOKENS_NOTE} {WORDS_NOTE}")]
    blocks += [_lengths_table(figures, unit) for unit in reversed(figures["histograms"])]
    blocks.append(Figures(plots.draw_histograms(figures, out)))
    if any(part["turns"]["max"] > 2 for part in figures["subsets"].values()):
        blocks.append(_turns_table(figures))
    if rows := list(_budget_rows(figures)):
        head = ["over a budget of", "", *rows.pop(0)]
        blocks += [Heading("What a budget cuts off"), Table(head, rows), Text(BUDGET_NOTE)]
    if bias := plots.draw_length_bias(figures, out):
        blocks += [Heading("Length and preference"), _bias_table(figures), Text(LENGTH_NOTE), Figures(bias)]
    blocks += [Heading("Splits and repeats"), _splits_table(figures), Text(REPEATS_NOTE), _repeats_table(figures)]
    if figures["odd"]:
        blocks += [Heading("Odd rows"), *_odd_tables(figures["odd"], list(figures["read"]))]
    return blocks


def terminal_table(figures: dict[str, Any]) -> str:
    """Mean lengths, truncation and length bias by subset."""
    unit = plots.main_unit(figures)
    texts = ["prompt", *figures["answers"]]
    rows = [["", "rows", *(f"{text}, {unit}" for text in texts), f"over {TERMINAL_BUDGET}", "longer wins"]]
    for name, part in figures["subsets"].items():
        means = [f"{part[unit][text]['mean']:.1f}" if text in part[unit] else "-" for text in texts]
        over = f"{100 * part['truncated'][TERMINAL_BUDGET]['whole']:.1f}%" if "truncated" in part else "-"
        rows.append([name, f"{part['n']:,}", *means, over, percent(part[unit].get("longer_wins"))])
    kept = [i for i in range(len(rows[0])) if any(row[i] != "-" for row in rows[1:])]
    return "\n".join([_origin(figures), "", *align([[row[i] for i in kept] for row in rows])])


def _origin(figures: dict[str, Any]) -> str:
    read = sum(figures["read"].values())
    tokenizer = f", counted by the tokenizer of {figures['tokenizer']}" if figures["tokenizer"] else ""
    return f"{read:,} rows read from {figures['source']}, {figures['n']:,} stay{tokenizer}; {figures['seconds']} s."


def _lengths_table(figures: dict[str, Any], unit: str) -> Table:
    quantiles = list(next(iter(figures["subsets"].values()))["turns"]["quantiles"])
    rows = []
    for name, part in figures["subsets"].items():
        for text in ("prompt", *figures["answers"]):
            if text in part[unit]:
                rows.append([name, text, *_length_cells(part[unit][text])])
    return Table([unit, "", "n", "mean", "std", *(f"{q}%" for q in quantiles), "max"], rows)


def _length_cells(lengths: dict[str, Any]) -> list[str]:
    quantiles = (f"{value:.0f}" for value in lengths["quantiles"].values())
    return [f"{lengths['n']:,}", f"{lengths['mean']:.1f}", f"{lengths['std']:.1f}", *quantiles, f"{lengths['max']:,}"]


def _turns_table(figures: dict[str, Any]) -> Table:
    quantiles = list(next(iter(figures["subsets"].values()))["turns"]["quantiles"])
    rows = [[name, *_length_cells(part["turns"])] for name, part in figures["subsets"].items()]
    return Table(["turns, with the answer", "n", "mean", "std", *(f"{q}%" for q in quantiles), "max"], rows)


def _budget_rows(figures: dict[str, Any]) -> Iterator[list[str]]:
    """The budgets, then a row for each subset and text; nothing where no tokens were counted."""
    parts = {name: part["truncated"] for name, part in figures["subsets"].items() if "truncated" in part}
    for place, (name, budgets) in enumerate(parts.items()):
        if place == 0:
            yield [f"{budget} tokens" for budget in budgets]
        for key, text in (("whole", "prompt + answer"), ("answer", "answer alone")):
            yield [name, text, *(f"{100 * shares[key]:.1f}%" for shares in budgets.values())]


def _bias_table(figures: dict[str, Any]) -> Table:
    units, main = list(reversed(figures["histograms"])), plots.main_unit(figures)
    rows = [
        [
            name,
            f"{part['n']:,}",
            *(percent(part[unit]["longer_wins"]) for unit in units),
            number("+.1f")(part[main]["longer_by"]),
        ]
        for name, part in figures["subsets"].items()
    ]
    wins = [f"longer wins, {unit}" for unit in units]
    return Table(["subset", "pairs", *wins, f"difference, {main}"], rows)


def _splits_table(figures: dict[str, Any]) -> Table:
    subsets = [name for name in figures["subsets"] if name != "all"]
    if len(figures["splits"]) == len(subsets):  # the parts are the splits
        return Table(["split", "rows"], [[name, f"{figures['subsets'][name]['n']:,}"] for name in subsets])
    rows = [
        [split, *(f"{counts.get(name, 0):,}" for name in subsets), f"{sum(counts.values()):,}"]
        for split, counts in figures["splits"].items()
    ]
    return Table(["split", *subsets, "all"], rows)


def _repeats_table(figures: dict[str, Any]) -> Table:
    rows = [[_read_name(name), f"{n:,}"] for name, n in figures["repeats"].items()]
    rows += [[f"prompts shared by {pair.replace(', ', ' and ')}", f"{n:,}"] for pair, n in figures["overlap"].items()]
    return Table(["", ""], rows)


def _odd_tables(odd_rows: list[dict[str, Any]], parts: list[str]) -> list[Table]:
    """Every kind with its rule, and of those that were found the counts by part."""
    sums = {odd["kind"]: sum(odd["counts"].values()) for odd in odd_rows}
    rules = [
        [_read_name(odd["kind"]), odd["rule"], "kept" if odd["kept"] else "dropped", f"{sums[odd['kind']]:,}"]
        for odd in odd_rows
    ]
    tables = [Table(["kind", "rule", "", "rows"], rules)]
    found = [odd for odd in odd_rows if set(odd["counts"]) & set(parts) and sums[odd["kind"]]]
    if found and len(parts) > 1:
        rows = [[_read_name(odd["kind"]), *(f"{odd['counts'].get(part, 0):,}" for part in parts)] for odd in found]
        tables.append(Table(["kind", *parts], rows))
    return tables


def _read_name(name: str) -> str:
    return name.replace("_", " ")

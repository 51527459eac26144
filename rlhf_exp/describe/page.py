"""The page on a task's data, and its short table for the terminal.

describe_data(figures)       ->  blocks
terminal_table(figures)      ->  a few lines of plain text
"""

from typing import Any

from rlhf_exp.describe.figures import BUDGETS
from rlhf_exp.report.columns import Column, at, fill
from rlhf_exp.report.page import Block, Callout, Figures, Heading, Table, Text, align
from rlhf_exp.report.plots import BLUE, GREY, Line, Panel, Plot, choose_style, read_bounds
from rlhf_exp.runs.figures import number, percent

TOKENS_NOTE = (
    "Tokens are what a trainer sees: with the chat template if the tokenizer has one, an answer with its end token."
)
WORDS_NOTE = "Words are those of the texts, without template or speakers' names."
BUDGET_NOTE = "A row is over a budget if its prompt plus its answer (the longer of two) has more tokens."
LENGTH_NOTE = (
    "Of two answers of equal length each counts half. In brackets: 95% intervals over the pairs. The difference is"
    " chosen minus rejected."
)
REPEATS_NOTE = "Counted among the rows that are kept. No prompt may be in two splits."
TERMINAL_BUDGET = "512"

count = "{:,}".format
SUBSET = at("subset")


def describe_data(figures: dict[str, Any]) -> list[Block]:
    """Blocks from the lengths down to the odd rows; no text of a row is among them."""
    blocks: list[Block] = [Heading(f"{figures['task']}: what is in the data", 1), Text(_origin(figures))]
    if figures["tokens_left_out"]:
        blocks.append(Callout("warning", "No token counts.", figures["tokens_left_out"]))
    blocks += [Heading("Lengths"), Text(WORDS_NOTE if figures["tokens_left_out"] else f"{TOKENS_NOTE} {WORDS_NOTE}")]
    blocks += [_lengths_table(figures, unit) for unit in reversed(figures["histograms"])]
    blocks.append(Figures(plot_histograms(figures)))
    if any(part["turns"]["max"] > 2 for part in figures["subsets"].values()):
        turns = [{"subset": name, **part["turns"]} for name, part in figures["subsets"].items()]
        blocks.append(fill([Column("turns, with the answer", SUBSET), *_length_columns(figures)], turns))
    if (budgets := _budgets_table(figures)).rows:
        blocks += [Heading("What a budget cuts off"), budgets, Text(BUDGET_NOTE)]
    if bias := plot_length_bias(figures):
        blocks += [Heading("Length and preference"), _bias_table(figures), Text(LENGTH_NOTE), Figures(bias)]
    blocks += [Heading("Splits and repeats"), _splits_table(figures), Text(REPEATS_NOTE), _repeats_table(figures)]
    if figures["odd"]:
        blocks += [Heading("Odd rows"), *_odd_tables(figures["odd"], list(figures["read"]))]
    return blocks


def terminal_table(figures: dict[str, Any]) -> str:
    """Mean lengths, truncation and length bias by subset."""
    unit = main_unit(figures)
    columns = [
        Column("", SUBSET),
        Column("rows", at("n"), count),
        *(Column(f"{text}, {unit}", at(unit, text, "mean"), number(".1f")) for text in ("prompt", *figures["answers"])),
        Column(f"over {TERMINAL_BUDGET}", at("truncated", TERMINAL_BUDGET, "whole"), percent),
        Column("longer wins", at(unit, "longer_wins"), percent),
    ]
    parts = _list_parts(figures)
    table = fill([column for column in columns if any(column.cell(part) != "-" for part in parts)], parts)
    return "\n".join([_origin(figures), "", *align([table.head, *table.rows])])


def _origin(figures: dict[str, Any]) -> str:
    read = sum(figures["read"].values())
    tokenizer = f", counted by the tokenizer of {figures['tokenizer']}" if figures["tokenizer"] else ""
    return f"{read:,} rows read from {figures['source']}, {figures['n']:,} kept{tokenizer}; {figures['seconds']} s."


def _list_parts(figures: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"subset": name, **part} for name, part in figures["subsets"].items()]


def _length_columns(figures: dict[str, Any]) -> list[Column]:
    quantiles = next(iter(figures["subsets"].values()))["turns"]["quantiles"]
    return [
        Column("n", at("n"), count),
        *(Column(name, at(name), number(".1f")) for name in ("mean", "std")),
        *(Column(f"{q}%", at("quantiles", q), number(".0f")) for q in quantiles),
        Column("max", at("max"), count),
    ]


def _lengths_table(figures: dict[str, Any], unit: str) -> Table:
    rows = [
        {"subset": name, "text": text, **part[unit][text]}
        for name, part in figures["subsets"].items()
        for text in ("prompt", *figures["answers"])
        if text in part[unit]
    ]
    return fill([Column(unit, SUBSET), Column("", at("text")), *_length_columns(figures)], rows)


def _budgets_table(figures: dict[str, Any]) -> Table:
    """The share of rows over each budget, by subset and text; empty if no tokens were counted."""
    rows = [
        {"subset": part["subset"], "text": text, **{budget: of[key] for budget, of in part["truncated"].items()}}
        for part in _list_parts(figures)
        if "truncated" in part
        for key, text in (("whole", "prompt + answer"), ("answer", "answer alone"))
    ]
    columns = [Column(f"{budget} tokens", at(str(budget)), percent) for budget in BUDGETS]
    return fill([Column("over a budget of", SUBSET), Column("", at("text")), *columns], rows)


def _bias_table(figures: dict[str, Any]) -> Table:
    main = main_unit(figures)
    units = reversed(figures["histograms"])
    columns = [
        Column("subset", SUBSET),
        Column("pairs", at("n"), count),
        *(Column(f"longer wins, {unit}", at(unit, "longer_wins"), percent) for unit in units),
        Column(f"difference, {main}", at(main, "longer_by"), number("+.1f")),
    ]
    return fill(columns, _list_parts(figures))


def _splits_table(figures: dict[str, Any]) -> Table:
    subsets = [name for name in figures["subsets"] if name != "all"]
    shown = [] if len(figures["splits"]) == len(subsets) else subsets  # the subsets may be the splits
    columns = [
        Column("split", lambda item: item[0]),
        *(Column(name, lambda item, name=name: item[1].get(name, 0), count) for name in shown),
        Column("all" if shown else "rows", lambda item: sum(item[1].values()), count),
    ]
    return fill(columns, figures["splits"].items())


def _repeats_table(figures: dict[str, Any]) -> Table:
    rows = {_read_name(name): n for name, n in figures["repeats"].items()}
    rows |= {f"prompts shared by {pair.replace(', ', ' and ')}": n for pair, n in figures["overlap"].items()}
    return Table(["", ""], [[name, count(n)] for name, n in rows.items()])


def _odd_tables(odd_rows: list[dict[str, Any]], parts: list[str]) -> list[Table]:
    """Every kind with its rule, and of those that were found the counts by part."""
    kind = Column("kind", lambda odd: _read_name(odd["kind"]))
    columns = [
        Column("rule", at("rule")),
        Column("", lambda odd: "kept" if odd["kept"] else "dropped"),
        Column("rows", lambda odd: sum(odd["counts"].values()), count),
    ]
    tables = [fill([kind, *columns], odd_rows)]
    found = [odd for odd in odd_rows if set(odd["counts"]) & set(parts) and sum(odd["counts"].values())]
    if found and len(parts) > 1:
        of_part = [Column(part, lambda odd, part=part: odd["counts"].get(part, 0), count) for part in parts]
        tables.append(fill([kind, *of_part], found))
    return tables


def _read_name(name: str) -> str:
    return name.replace("_", " ")


def main_unit(figures: dict[str, Any]) -> str:
    """Tokens, or words if no tokens were counted."""
    return "tokens" if "tokens" in figures["histograms"] else "words"


def plot_histograms(figures: dict[str, Any]) -> list[Plot]:
    """The prompt's lengths, and those of the answers over each other."""
    unit = main_unit(figures)
    histograms, plots = figures["histograms"][unit], []
    for name, texts in (("prompt", ["prompt"]), ("answers", figures["answers"])):
        found = {text: histograms[text] for text in texts if text in histograms}
        if not found:
            continue
        beyond = sum(histogram["beyond"] for histogram in found.values())
        more = f"; {beyond:,} texts lie beyond the right end" if beyond else ""
        lines = [
            Line(histogram["edges"], [*histogram["counts"], 0], text if len(found) > 1 else "",
                 style=choose_style(place) | {"drawstyle": "steps-post", "marker": None})
            for place, (text, histogram) in enumerate(found.items())
        ]  # fmt: skip
        panel = Panel(unit, "rows", lines, {"xlim": (0, None), "ylim": (0, None)})
        plots.append(Plot(f"{name}_{unit}", f"Length of the {name} in {unit}{more}", [panel]))
    return plots


def plot_length_bias(figures: dict[str, Any]) -> list[Plot]:
    """How often the longer answer is the chosen one, with its interval: one dot per subset."""
    unit = main_unit(figures)
    rows = {name: part[unit]["longer_wins"] for name, part in figures["subsets"].items() if "longer_wins" in part[unit]}
    if not rows:
        return []
    caption = (
        f"Share of the pairs whose longer answer, in {unit}, is the chosen one, with 95% intervals; ties count half"
    )
    shares, bounds = list(rows.values()), read_bounds(list(rows.values()), 100)
    half = Line([50, 50], [-1, len(rows)], style={"color": GREY, "linestyle": "--", "marker": None})
    style = {"color": BLUE, "marker": "o", "markersize": 6, "linestyle": "none"}
    dots = Line([100 * share["value"] for share in shares], range(len(rows)), x_bounds=bounds, style=style)
    panel = Panel("the longer answer is the chosen one, %", "", [half, dots], names=list(rows))
    return [Plot("longer_wins", caption, [panel], 1.1 + 0.32 * len(rows))]

"""Texts on a report: completions before and after training, those of training, and wrongly ranked pairs; all of them
for the page's script, a few for report.md.

describe_samples(run)   ->  [Heading("Samples"), ..., Widget("samples", "samples", {...}, [Pair(...), ...])]
compare_samples(groups), where groups maps a label to its runs, has the same rows' completions of each setting
browse("rows", rows, [])    ->  such a widget, of any rows in the form of assets/page/samples.js
"""

import json
from collections.abc import Iterable
from typing import Any

from rlhf_exp.evaluation.metrics import OUTCOMES
from rlhf_exp.report.columns import Column, at, fill
from rlhf_exp.report.groups import Groups
from rlhf_exp.report.page import NOTES, TEXTS, Block, Heading, Pair, Table, Text, Widget, footnote
from rlhf_exp.runs.figures import percent
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import wilson

KINDS = {1: ("Better after training", 3), -1: ("Worse after training", 2), 0: ("Equally good, or not graded", 2)}
"""Samples by the sign of the change: the title, and how many report.md shows."""
SHOWN_ALONE, COMPARED = 5, 20
MOST_LETTERS = 12_000_000
"""Of longer texts a page has the first rows; a file beside it has the others."""
FILES = {"samples": "samples.jsonl", "training": "completions.jsonl"}

ERROR_KINDS: dict[str, tuple[str, str]] = TEXTS["error kinds"]
"""Name and rule of each kind of wrongly ranked pairs."""

COLOURS = {"token_kl": "KL", "token_log_ratio": "log ratio", "token_logprobs": "log-probability"}
"""Figures of each token, where a sample has them."""


def describe_samples(run: Run) -> list[Block]:
    """The completions of held-out rows, before and after training, and a table of changes if the task grades them; and
    those of training."""
    blocks: list[Block] = [Heading("Samples"), Text(NOTES["samples" if run.shows_texts else "no texts"])]
    if changes := run.evaluation.get("paired", {}).get("changes"):
        counts = [Column(f"{name} after", lambda old, name=name: at(old, name)(changes)) for name in OUTCOMES]
        blocks.append(fill([Column("completions", "{} before".format), *counts], OUTCOMES))
    if not run.shows_texts:
        return blocks
    training: list[Block] = []
    if run.completions:
        training = [Heading("Completions of training", 3), browse("training", map(_show_training, run.completions), [])]
    if not run.sampled("trained"):  # nothing is trained, or not yet
        alone = run.sampled("baseline")
        shown = [Pair(row["id"], row["prompt"], (_caption("Completion", row),)) for row in alone[:SHOWN_ALONE]]
        return [*blocks, browse("samples", map(_show_alone, alone), shown), *training]
    pairs, chosen = run.paired_samples(), list[Block]()
    for kind, (name, most) in KINDS.items():
        for before, after in [pair for pair in pairs if _find_change(*pair) == kind][:most]:
            chosen.append(Pair(name, before["prompt"], (_caption("Before", before), _caption("After", after))))
    blocks.append(browse("samples", (_show_pair(before, after) for before, after in pairs), chosen))
    return [*blocks, *training]


def compare_samples(groups: Groups) -> list[Block]:
    """The first completions of the same held-out rows: of each start model, and of a run of each setting."""
    if not all(run.shows_texts for group in groups.values() for run in group):
        return [Heading("Samples"), Text(NOTES["no texts"])]
    found = {label: {(b["id"], b["prompt"]): (b, a) for b, a in of[0].paired_samples()} for label, of in groups.items()}
    shared = [row for row in next(iter(found.values()), {}) if all(row in rows for rows in found.values())]
    pairs, rows = list[Block](), list[dict[str, Any]]()
    for row in shared:
        starts = {of[row][0]["completion"]: ("start model", of[row][0]) for of in found.values()}
        trained = [(label, of[row][1]) for label, of in found.items()]
        outcomes = {label: after.get("outcome") for label, after in trained}
        values = {"right settings": list(outcomes.values()).count("correct"), **outcomes}
        sides = [*starts.values(), *trained]
        rows.append({"id": row[0], "prompt": row[1], "values": values, "sides": [_show_side(*side) for side in sides]})
        if len(pairs) < COMPARED:
            pairs.append(Pair(row[0], row[1], tuple(_caption(*side) for side in sides), folded=True))
    if not shared:
        return []
    return [Heading("Samples"), footnote(NOTES["compared samples"]), browse("samples", rows, pairs)]


def describe_errors(run: Run) -> list[Block]:
    """The wrongly ranked pairs of a run by kind, and some of them to read."""
    counts = run.errors.get("counts")
    if not counts:
        return []
    total, shown = sum(counts.values()), run.errors.get("shown", [])
    rows = [[*ERROR_KINDS[kind], str(n), percent(wilson(n, total)) if total else "-"] for kind, n in counts.items()]
    head = ["kind", "rule, the first that fits", "pairs", "share"]
    blocks: list[Block] = [Heading("Wrongly ranked pairs"), Table(head, rows)]
    if not run.shows_texts:
        return [*blocks, Text(NOTES["no texts"])]
    blocks.append(Text(f"{len(shown)} of {total}, worst first, to open one by one. Their texts may offend."))
    pairs, cards = [], []
    for place, error in enumerate(shown, start=1):
        kind, sides = ERROR_KINDS[error["kind"]][0], (_read_side(error, "chosen"), _read_side(error, "rejected"))
        title = f"{place}. {kind}: margin {error['margin']:+.2f}, {error['subset']}"
        pairs.append(Pair(title, error["prompt"].strip(), sides, folded=True))
        values = {"kind": kind, "subset": error["subset"], "margin": error["margin"]}
        texts = [{"caption": caption, "text": text} for caption, text in sides]
        cards.append({"id": str(place), "prompt": error["prompt"].strip(), "values": values, "sides": texts})
    return [*blocks, browse("errors", cards, pairs)]


def browse(name: str, rows: Iterable[dict[str, Any]], instead: list[Any]) -> Widget:
    """Rows for assets/page/samples.js, up to MOST_LETTERS; the fields are those that any of the shown rows has."""
    rows, kept, letters = [*rows], [], 0
    for row in rows:
        letters += len(json.dumps(row))
        if letters > MOST_LETTERS:
            break
        kept.append(row)
    kinds = {key: "number" if isinstance(value, int | float) and not isinstance(value, bool) else "choice"
             for row in kept for key, value in row["values"].items() if value is not None}  # fmt: skip
    fields = [{"key": key, "label": key, "kind": kind} for key, kind in kinds.items()]
    content: dict[str, Any] = {"fields": fields, "rows": kept}
    rest = rows[len(kept) :] if name in FILES else []
    if rest:
        content["note"] = NOTES["first samples"].format(shown=len(kept), n=len(rows), file=FILES[name])
    return Widget("samples", name, content, instead, rest)


def _show_pair(before: dict, after: dict) -> dict[str, Any]:
    words = {1: "better", 0: "neither", -1: "worse"}
    values = {"change": words[_find_change(before, after)], "before": before.get("outcome"),
              "after": after.get("outcome"), **_list_values(after)}  # fmt: skip
    sides = [_show_side("Before", before), _show_side("After", after)]
    return {"id": before["id"], "prompt": before["prompt"], "values": values, "sides": sides}


def _show_alone(row: dict) -> dict[str, Any]:
    name = f"{row['id']} {row['sample'] + 1}" if row.get("sample") else row["id"]
    values = {"outcome": row.get("outcome"), **_list_values(row)}
    return {"id": name, "prompt": row["prompt"], "values": values, "sides": [_show_side("Completion", row)]}


def _show_training(row: dict) -> dict[str, Any]:
    values = {"step": row["step"], "outcome": row.get("outcome"), **_list_values(row)}
    values["advantage"] = row.get("advantage")
    name = f"step {row['step']}: {row['id']} {row['sample'] + 1}"
    return {"id": name, "prompt": row["prompt"], "values": values, "sides": [_show_side("Completion", row)]}


def _list_values(row: dict) -> dict[str, Any]:
    cut = row.get("truncated")
    figures = {key: row.get(key) for key in ("reward", "tokens", "kl")}
    return {"cut off": None if cut is None else "yes" if cut else "no", **figures}


def _show_side(when: str, row: dict) -> dict[str, Any]:
    caption, text = _caption(when, row)
    side = {"caption": caption, "text": text, "answer": row.get("extracted")}
    if "token_texts" in row:
        side["tokens"] = row["token_texts"]
        side["colours"] = {name: row[key] for key, name in COLOURS.items() if key in row}
    return side


def _find_change(before: dict, after: dict) -> int:
    """1, 0 or -1: by whether the completions are correct; without a grader by their rewards."""
    if "outcome" in before and "outcome" in after:
        old, new = before["outcome"] == "correct", after["outcome"] == "correct"
    else:
        old, new = before.get("reward") or 0.0, after.get("reward") or 0.0
    return (new > old) - (new < old)


def _caption(when: str, sample: dict) -> tuple[str, str]:
    """What is said of a completion, and the completion."""
    parts = [sample["outcome"]] if "outcome" in sample else []
    parts += [f"reward {sample['reward']:.3g}"] if sample.get("reward") is not None else []
    parts.append(f"{sample['tokens']} tokens{', cut off' if sample.get('truncated') else ''}")
    return f"{when}: {', '.join(parts)}", sample["completion"]


def _read_side(error: dict, side: str) -> tuple[str, str]:
    caption = f"{side.capitalize()}: reward {error[f'{side}_reward']:.2f}, {error[f'{side}_tokens']} tokens"
    return caption, error[side].strip()

"""Texts on a report: completions before and after training, those of training, and wrongly ranked pairs; all of them
for the page's script, a few for report.md.

describe_samples(run)   ->  [Heading("Samples"), ..., Widget("samples", "samples", {...}, [Pair(...), ...])]
compare_samples(groups), where groups maps a label to its runs, has the same rows' completions of each setting
"""

import json
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import pandas as pd

from rlhf_exp.analysis.report.columns import Column, at, fill
from rlhf_exp.analysis.report.groups import Groups, join_groups
from rlhf_exp.analysis.report.page import NOTES, TEXTS, Block, Heading, Pair, Table, Text, Widget, footnote
from rlhf_exp.analysis.stats import wilson
from rlhf_exp.runs import records
from rlhf_exp.runs.figures import percent
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.records import OUTCOMES, Completion

KINDS = {"better": ("Better after training", 3), "worse": ("Worse after training", 2),
         "neither": ("Equally good, or not graded", 2)}  # fmt: skip
"""Samples by what training changed: the title, and how many report.md shows."""
SHOWN_ALONE, COMPARED = 5, 20
MOST_LETTERS = 12_000_000
"""Of longer texts a page has the first rows; a file beside it has the others."""
FILES = {"samples": "samples.jsonl", "training": "completions.jsonl"}

ERROR_KINDS: dict[str, tuple[str, str]] = TEXTS["error kinds"]
"""Name and rule of each kind of wrongly ranked pairs."""

COLOURS = {"token_kl": "KL", "token_log_ratio": "log ratio", "token_logprobs": "log-probability"}
"""Figures of each token, where a sample has them."""

Card = dict[str, Any]
"""A row in the form of assets/page/samples.js."""


def describe_samples(run: Run) -> list[Block]:
    """The completions of held-out rows, before and after training, and a table of changes if the task grades them; and
    those of training."""
    blocks: list[Block] = [Heading("Samples"), Text(NOTES["samples" if run.shows_texts else "no texts"])]
    if changes := at("paired", "changes")(run.evaluation):
        counts = [Column(f"{name} after", lambda old, name=name: at(old, name)(changes)) for name in OUTCOMES]
        blocks.append(fill([Column("completions", "{} before".format), *counts], OUTCOMES))
    if not run.shows_texts:
        return blocks
    training: list[Block] = []
    if run.completions:
        cards = [_show_training(row) for row in run.completions]
        instead = [Text(f"They are in {FILES['training']}.")]
        training = [Heading("Completions of training", 3), browse("training", cards, instead)]
    cards = list_samples(run)
    shown = [as_pair(card["id"], card) for card in cards[:SHOWN_ALONE]]
    if run.sampled("trained"):
        shown = []
        for kind, (title, most) in KINDS.items():
            shown += [as_pair(title, card) for card in cards if card["values"]["change"] == kind][:most]
    return [*blocks, browse("samples", cards, shown), *training]


def list_samples(run: Run) -> list[Card]:
    """The completions of each held-out row before and after training; those of the start model if nothing is trained,
    or not yet."""
    if not run.sampled("trained"):
        return [_show_alone(row) for row in run.sampled("baseline")]
    return [_show_change(*pair) for pair in run.paired_samples()]


def compare_samples(groups: Groups) -> list[Block]:
    """The first completions of the same held-out rows: of each start model, and of a run of each setting."""
    if not all(run.shows_texts for run in join_groups(groups)):
        return [Heading("Samples"), Text(NOTES["no texts"])]
    found = {label: {(b.id, b.prompt): (b, a) for b, a in of[0].paired_samples()} for label, of in groups.items()}
    shared = [row for row in next(iter(found.values()), {}) if all(row in rows for rows in found.values())]
    cards = []
    for row in shared:
        starts = {of[row][0].completion: ("start model", of[row][0]) for of in found.values()}
        trained = [(label, of[row][1]) for label, of in found.items()]
        outcomes = {label: after.outcome for label, after in trained}
        right = list(outcomes.values()).count("correct") if any(outcomes.values()) else None
        values = {"right settings": right, **outcomes}
        cards.append(_make_card(*row, values, [_show_side(*side) for side in (*starts.values(), *trained)]))
    if not cards:
        return []
    pairs = [as_pair(card["id"], card, folded=True) for card in cards[:COMPARED]]
    return [Heading("Samples"), footnote(NOTES["compared samples"]), browse("samples", cards, pairs)]


def describe_errors(run: Run) -> list[Block]:
    """The wrongly ranked pairs of a run by kind, and some of them to read."""
    counts, shown = run.errors.counts, run.errors.shown
    if not counts:
        return []
    total = sum(counts.values())
    rows = [[*ERROR_KINDS[kind], str(n), percent(wilson(n, total)) if total else "-"] for kind, n in counts.items()]
    head = ["kind", "rule, the first that fits", "pairs", "share"]
    blocks: list[Block] = [Heading("Wrongly ranked pairs"), Table(head, rows)]
    if not run.shows_texts:
        return [*blocks, Text(NOTES["no texts"])]
    blocks.append(Text(f"{len(shown)} of {total}, worst first, to open one by one. Their texts may offend."))
    pairs, cards = [], []
    for place, error in enumerate(shown, start=1):
        values = {"kind": ERROR_KINDS[str(error.kind)][0], "subset": error.subset, "margin": error.margin}
        sides = [_show_answer(error, side) for side in ("chosen", "rejected")]
        cards.append(_make_card(str(place), error.prompt.strip(), values, sides))
        title = f"{place}. {values['kind']}: margin {error.margin:+.2f}, {error.subset}"
        pairs.append(as_pair(title, cards[-1], folded=True))
    return [*blocks, browse("errors", cards, pairs)]


def browse(name: str, rows: list[Card], instead: list[Any]) -> Widget:
    """Rows for the page, up to MOST_LETTERS, the first of each prompt before the second ones; the fields are those that
    any of the shown rows has."""
    prompts = pd.Series([row["prompt"] for row in rows], dtype=str)
    rows = [rows[place] for place in prompts.groupby(prompts).cumcount().sort_values(kind="stable").index]
    letters = accumulate(len(json.dumps(row)) for row in rows)
    kept = [row for row, total in zip(rows, letters, strict=True) if total <= MOST_LETTERS]
    kinds = {key: "number" if isinstance(value, int | float) and not isinstance(value, bool) else "choice"
             for row in kept for key, value in row["values"].items() if value is not None}  # fmt: skip
    fields = [{"key": key, "label": key, "kind": kind} for key, kind in kinds.items()]
    content: dict[str, Any] = {"fields": fields, "rows": kept}
    rest = rows[len(kept) :] if name in FILES else []
    if rest:
        content["note"] = NOTES["first samples"].format(shown=len(kept), n=len(rows), file=FILES[name])
    return Widget("samples", name, content, instead, rest)


def as_pair(title: str, card: Card, folded: bool = False) -> Pair:
    """What report.md shows of a card."""
    return Pair(title, card["prompt"], tuple((side["caption"], side["text"]) for side in card["sides"]), folded)


def _make_card(name: str, prompt: str, values: Mapping[str, Any], sides: list[dict[str, Any]]) -> Card:
    return {"id": name, "prompt": prompt, "values": values, "sides": sides}


def _show_change(before: Completion, after: Completion) -> Card:
    values = {"change": _find_change(before, after), "before": before.outcome, "after": after.outcome}
    sides = [_show_side("Before", before), _show_side("After", after)]
    return _make_card(before.id, before.prompt, values | _list_values(after), sides)


def _show_alone(one: Completion) -> Card:
    name = f"{one.id} {one.sample + 1}" if one.sample else one.id
    values = {"outcome": one.outcome, **_list_values(one)}
    return _make_card(name, one.prompt, values, [_show_side("Completion", one)])


def _show_training(one: Completion) -> Card:
    values = {"step": one.step, "outcome": one.outcome, **_list_values(one), "advantage": one.advantage}
    name = f"step {one.step}: {one.id} {one.sample + 1}"
    return _make_card(name, one.prompt, values, [_show_side("Completion", one)])


def _list_values(one: Completion) -> dict[str, Any]:
    kl = one.kl if "kl" in one.model_fields_set else None
    return {"cut off": "yes" if one.truncated else "no", "reward": one.reward, "tokens": one.tokens, "kl": kl}


def _show_side(when: str, one: Completion) -> dict[str, Any]:
    """A completion, below what is said of it."""
    parts = [one.outcome] if one.outcome is not None else []
    parts += [f"reward {one.reward:.3g}"] if one.reward is not None else []
    parts.append(f"{one.tokens} tokens{', cut off' if one.truncated else ''}")
    side = {"caption": f"{when}: {', '.join(parts)}", "text": one.completion, "answer": one.extracted}
    if one.token_texts is not None:
        side["tokens"] = one.token_texts
        colours = {name: getattr(one, key) for key, name in COLOURS.items()}
        side["colours"] = {name: values for name, values in colours.items() if values is not None}
    return side


def _show_answer(error: records.Pair, side: str) -> dict[str, Any]:
    """The chosen or the rejected answer of a pair."""
    reward, tokens = getattr(error, f"{side}_reward"), getattr(error, f"{side}_tokens")
    caption = f"{side.capitalize()}: reward {reward:.2f}, {tokens} tokens"
    return {"caption": caption, "text": getattr(error, side).strip()}


def _find_change(before: Completion, after: Completion) -> str:
    """One of KINDS: by whether the completions are correct; without a grader by their rewards."""
    graded = before.outcome is not None and after.outcome is not None
    old, new = ((one.is_correct if graded else one.reward or 0.0) for one in (before, after))
    if new == old:
        return "neither"
    return "better" if new > old else "worse"

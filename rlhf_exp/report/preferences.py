"""The part of a report on held-out preference pairs, ranked by a reward model or by a policy's implicit reward.

describe_preferences(run, out)  ->  [Heading("Held-out preference pairs"), Text(...), ...], or [] without pairs
"""

from pathlib import Path

from rlhf_exp.report import plots
from rlhf_exp.report.page import Block, Callout, Figures, Heading, Pair, Table, Text
from rlhf_exp.report.summary import RANKING_FIGURES
from rlhf_exp.report.tables import Column, at, fill
from rlhf_exp.runs.figures import percent
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import Interval

IMPLICIT_NOTE = (
    "The implicit reward of an answer is beta times its log-probability under the policy, minus that under the start"
    " model, in nats (Rafailov et al. 2023). Before training it is 0 for every answer."
)
CALIBRATION_NOTE = (
    "A margin is the reward of the chosen answer minus that of the rejected one. By Bradley and Terry the answer that"
    " the model ranks first is the chosen one with probability sigmoid(|margin|). A dot below the diagonal: it is so"
    " less often than the model says. The calibration error is the mean distance to the diagonal, weighted by n."
)
ERROR_KINDS = {
    "confident": ("Confident", "the margin is among the largest quarter of all pairs in size"),
    "near_tie": ("Nearly a tie", "the margin is among the smallest quarter in size"),
    "longer_wins": ("The longer answer", "neither of these, and the rejected answer has more tokens"),
    "other": ("Other", "none of these"),
}


def describe_preferences(run: Run, out: Path) -> list[Block]:
    """Blocks from the figures down to the pairs that the model ranked wrongly."""
    section = run.preference("trained")
    if not section:
        return []
    blocks: list[Block] = [Heading("Held-out preference pairs")]
    if not run.trains_scorer:
        rows = [[figure.name, figure.cell(section)] for figure in RANKING_FIGURES]
        blocks += [Table(["", "trained"], rows), Text(IMPLICIT_NOTE)]
    blocks += [_compare_with_length(section), Text(CALIBRATION_NOTE)]
    blocks.append(Figures([plots.draw_calibration(section["calibration"], out)]))
    blocks += [_accuracy_table(run, "chosen is, in tokens", "by_length"), _accuracy_table(run, "subset", "by_subset")]
    return [*blocks, *_list_errors(run)]


def _compare_with_length(section: dict) -> Callout:
    """Whether the model ranks better than a rule that knows only the lengths."""
    longer, accuracy, rule = section["longer_wins"], section["accuracy"], "longer"
    if longer["value"] < 0.5:
        longer, rule = _complement(longer), "shorter"
    text = f"Always taking the {rule} answer is right in {percent(longer)}, the model in {percent(accuracy)}"
    end = f" of {section['n']} pairs."
    if None in (longer["low"], accuracy["low"]):
        return Callout("info", "Length alone.", text + end)
    if accuracy["low"] > longer["high"]:
        return Callout("ok", "Better than length alone.", text + end)
    if accuracy["high"] < longer["low"]:
        return Callout("warning", "Worse than length alone.", text + end)
    end = f": the intervals overlap, so {section['n']} pairs do not show that the model knows more than length."
    return Callout("warning", "Not clearly better than length alone.", text + end)


def _complement(share: Interval) -> Interval:
    low, high = (None if end is None else 1 - end for end in (share["high"], share["low"]))
    return {"value": 1 - share["value"], "low": low, "high": high}


def _accuracy_table(run: Run, title: str, key: str) -> Table:
    """Accuracy by kind of pair; without a baseline for a policy, since its implicit rewards are all 0 there."""
    baseline = {entry["label"]: entry["accuracy"] for entry in run.preference("baseline").get(key, [])}
    columns = [
        Column(title, at("label")),
        Column("n", at("n")),
        *([Column("baseline", lambda entry: baseline.get(entry["label"]), percent)] if baseline else []),
        Column("trained", at("accuracy"), percent),
    ]
    return fill(columns, run.preference("trained").get(key, []))


def _list_errors(run: Run) -> list[Block]:
    counts, shown = run.errors.get("counts"), run.errors.get("shown")
    if not counts:
        return []
    rows = [[*ERROR_KINDS[kind], str(n)] for kind, n in counts.items()]
    blocks: list[Block] = [Heading("Wrongly ranked pairs"), Table(["kind", "rule, the first that fits", "pairs"], rows)]
    if shown:
        blocks.append(Text(f"{len(shown)} of them, worst first, to open one by one. Their texts may offend."))
    return blocks + [_show_error(place, error) for place, error in enumerate(shown, start=1)]


def _show_error(place: int, error: dict) -> Pair:
    title = f"{place}. {ERROR_KINDS[error['kind']][0]}: margin {error['margin']:+.2f}, {error['subset']}"
    captions = tuple(
        f"{side.capitalize()}: reward {error[f'{side}_reward']:.2f}, {error[f'{side}_tokens']} tokens"
        for side in ("chosen", "rejected")
    )
    texts = error["chosen"].strip(), error["rejected"].strip()
    return Pair(title, error["prompt"].strip(), captions, texts, folded=True)

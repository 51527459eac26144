"""The part of a report on held-out preference pairs, ranked by a reward model or by a policy's implicit reward.

describe_preferences(run)  ->  [Heading("Held-out preference pairs"), Text(...), ...], or [] without pairs
"""

from rlhf_exp.report.columns import Column, at, fill
from rlhf_exp.report.page import NOTES, TEXTS, Block, Callout, Figures, Heading, Pair, Table, Text
from rlhf_exp.report.plots import plot_calibration
from rlhf_exp.report.summary import RANKING_FIGURES
from rlhf_exp.runs.figures import percent
from rlhf_exp.runs.load import Run

ERROR_KINDS: dict[str, tuple[str, str]] = TEXTS["error kinds"]
"""Name and rule of each kind."""


def describe_preferences(run: Run) -> list[Block]:
    """Blocks from the figures down to the pairs that the model ranked wrongly."""
    section = run.preference("trained")
    if not section:
        return []
    blocks: list[Block] = [Heading("Held-out preference pairs")]
    if not run.trains_scorer:
        rows = [[figure.name, figure.cell(section)] for figure in RANKING_FIGURES]
        blocks += [Table(["", "trained"], rows), Text(NOTES["implicit"])]
    blocks += [_compare_with_length(section), Text(NOTES["calibration"])]
    blocks.append(Figures([plot_calibration(section["calibration"])]))
    blocks += [_accuracy_table(run, "chosen is, in tokens", "by_length"), _accuracy_table(run, "subset", "by_subset")]
    return [*blocks, *_list_errors(run)]


def _compare_with_length(section: dict) -> Callout:
    """Whether the model ranks better than a rule that knows only the lengths."""
    longer, accuracy, rule = section["longer_wins"], section["accuracy"], "longer"
    if longer["value"] < 0.5:
        low, high = (None if longer[end] is None else 1 - longer[end] for end in ("high", "low"))
        longer, rule = {"value": 1 - longer["value"], "low": low, "high": high}, "shorter"
    text = f"Always taking the {rule} answer is right in {percent(longer)}, the model in {percent(accuracy)}"
    kind, title, end = "warning", "Not clearly better than length alone.", f" of {section['n']} pairs."
    if None in (longer["low"], accuracy["low"]):
        kind, title = "info", "Length alone."
    elif accuracy["low"] > longer["high"]:
        kind, title = "ok", "Better than length alone."
    elif accuracy["high"] < longer["low"]:
        title = "Worse than length alone."
    else:
        end = f": the intervals overlap, so {section['n']} pairs do not show that the model knows more than length."
    return Callout(kind, title, text + end)


def _accuracy_table(run: Run, title: str, key: str) -> Table:
    """Accuracy by kind of pair; without a baseline for a policy, since its implicit rewards are all 0 there."""
    baseline = {entry["label"]: entry["accuracy"] for entry in run.preference("baseline").get(key, [])}
    before = [Column("baseline", lambda entry: baseline.get(entry["label"]), percent)] if baseline else []
    columns = [Column(title, at("label")), Column("n", at("n")), *before, Column("trained", at("accuracy"), percent)]
    return fill(columns, run.preference("trained").get(key, []))


def _list_errors(run: Run) -> list[Block]:
    counts, shown = run.errors.get("counts"), run.errors.get("shown", [])
    if not counts:
        return []
    rows = [[*ERROR_KINDS[kind], str(n)] for kind, n in counts.items()]
    blocks: list[Block] = [Heading("Wrongly ranked pairs"), Table(["kind", "rule, the first that fits", "pairs"], rows)]
    if shown:
        blocks.append(Text(f"{len(shown)} of them, worst first, to open one by one. Their texts may offend."))
    for place, error in enumerate(shown, start=1):
        title = f"{place}. {ERROR_KINDS[error['kind']][0]}: margin {error['margin']:+.2f}, {error['subset']}"
        captions = tuple(
            f"{side.capitalize()}: reward {error[f'{side}_reward']:.2f}, {error[f'{side}_tokens']} tokens"
            for side in ("chosen", "rejected")
        )
        texts = error["chosen"].strip(), error["rejected"].strip()
        blocks.append(Pair(title, error["prompt"].strip(), captions, texts, folded=True))
    return blocks

"""The report of one run, as blocks.

describe_run(load_run(run_dir))  ->  [Heading(...), Text(...), ...]
"""

from rlhf_exp.evaluation.metrics import OUTCOMES
from rlhf_exp.report.baselines import describe_baselines
from rlhf_exp.report.columns import MEMORY, Column, at, fill, join_notes, list_columns
from rlhf_exp.report.curves import plot_run
from rlhf_exp.report.groups import Groups
from rlhf_exp.report.page import NOTES, TEXTS, Block, Callout, Code, Figures, Heading, Pair, Table, Text
from rlhf_exp.report.plots import plot_accuracy
from rlhf_exp.report.probes import describe_probes
from rlhf_exp.report.summary import (
    RANKING_FIGURES,
    best_sentence,
    status_sentence,
    summary_note,
    summary_table,
    title,
    verdict,
)
from rlhf_exp.report.words import explain_change
from rlhf_exp.runs.figures import duration, number, percent
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.settings import flatten
from rlhf_exp.stats import wilson

COSTS = (
    Column("peak memory", at("peak_memory_mb"), "{:,.0f} MB".format),
    *(Column(key.replace("_", " "), at(key), "{:,}".format) for key in ("steps", "prompt_tokens", "completion_tokens")),
)
"""Figures of run.json that are shown after the time of each phase."""

KINDS = {1: ("Better after training", 3), -1: ("Worse after training", 2), 0: ("Equally good, or not graded", 2)}
"""Samples by the sign of the change: the title, and how many are shown."""
SHOWN_ALONE, COMPARED = 5, 20

ERROR_KINDS: dict[str, tuple[str, str]] = TEXTS["error kinds"]
"""Name and rule of each kind of wrongly ranked pairs."""

N = Column("n", at("n"))
CALIBRATION = (Column("predicted", at("predicted"), percent), Column("observed", at("observed"), percent), N)

QUANTILES = (
    Column("quantile", at("share"), "{:.0%}".format),
    *(Column(f"reward, {side}", at(side), number(".2f")) for side in ("chosen", "rejected")),
    *(Column(f"size of the margin, {side} pairs", at(side), number(".2f")) for side in ("right", "wrong")),
)


def describe_run(run: Run) -> list[Block]:
    """Blocks from the verdict down to the command; each part that has no data says so."""
    name = f"{run.info['name']}: " if run.info.get("name") else ""
    blocks: list[Block] = [Heading(f"{name}{run.info.get('algo')} on {run.info.get('task')}", 1), Text(title(run))]
    if sentence := status_sentence(run):
        blocks.append(Callout("error" if run.status == "failed" else "warning", "Not finished.", sentence))
    blocks.append(Callout(*verdict(run), ""))
    if run.trains and (sentence := explain_change([run])):
        blocks.append(Text(sentence))
    if sentence := best_sentence(run):
        blocks.append(Text(f"Kept: {sentence}."))
    blocks += _describe_figures(run) + describe_baselines(run) + describe_preferences(run)
    blocks += describe_probes(run)
    blocks += [Heading("Health checks"), *describe_findings(run)]
    if run.trains:
        plots = plot_run(run)
        blocks += [Heading("Training curves"), Figures(plots) if plots else Text("No training metrics were logged.")]
    if not run.trains_scorer:  # a reward model generates nothing
        blocks += describe_samples(run)
    if run.facts:
        blocks += [Heading("Data"), fact_table(run.facts)]
    costs = [[phase, duration(spent)] for phase, spent in run.info.get("seconds", {}).items()]
    costs += [[cost.name, cost.cell(run.info)] for cost in COSTS if cost.read(run.info)]
    parts = list_columns([run], MEMORY)
    costs += [[f"memory, {part.name}", f"{part.cell(run)} MB"] for part in parts]
    blocks += [Heading("Time and memory"), Table(["", ""], costs), *([Text(join_notes(parts))] if parts else [])]
    return blocks + [Heading("How to reproduce this run"), *_describe_origin(run)]


def describe_preferences(run: Run) -> list[Block]:
    """On held-out preference pairs, ranked by a reward model or by a policy's implicit reward: from the figures down to
    the pairs that were ranked wrongly; empty without pairs."""
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
    if quantiles := section.get("quantiles"):  # absent in older runs
        blocks.append(fill(QUANTILES, quantiles))
    return [*blocks, Text(NOTES["preferences"]), *_list_errors(run)]


def describe_samples(run: Run) -> list[Block]:
    """The first completion of some rows, before and after training, and a table of changes if the task grades them."""
    blocks: list[Block] = [Heading("Samples"), Text(NOTES["samples"])]
    if not run.trains:
        first = [row for row in run.samples if row["decoding"] == "sampled" and row["sample"] == 0][:SHOWN_ALONE]
        return [*blocks, *(Pair(row["id"], row["prompt"], (_caption("Completion", row),)) for row in first)]
    if changes := run.evaluation.get("paired", {}).get("changes"):
        counts = [Column(f"{name} after", lambda old, name=name: at(old, name)(changes)) for name in OUTCOMES]
        blocks.append(fill([Column("", "{} before".format), *counts], OUTCOMES))
    pairs = run.paired_samples()
    for kind, (name, most) in KINDS.items():
        for before, after in [pair for pair in pairs if _find_change(*pair) == kind][:most]:
            blocks.append(Pair(name, before["prompt"], (_caption("Before", before), _caption("After", after))))
    return blocks


def compare_samples(groups: Groups) -> list[Block]:
    """The first completions of the same COMPARED held-out rows: of each start model, and of a run of each setting."""
    found = {label: {(b["id"], b["prompt"]): (b, a) for b, a in of[0].paired_samples()} for label, of in groups.items()}
    shared = [row for row in next(iter(found.values()), {}) if all(row in rows for rows in found.values())][:COMPARED]
    blocks: list[Block] = [Heading("Samples"), Text(NOTES["compared samples"])] if shared else []
    for row in shared:
        starts = {rows[row][0]["completion"]: _caption("start model", rows[row][0]) for rows in found.values()}
        sides = [*starts.values(), *(_caption(label, rows[row][1]) for label, rows in found.items())]
        blocks.append(Pair(row[0], row[1], tuple(sides), folded=True))
    return blocks


def describe_findings(run: Run) -> list[Block]:
    """A remark for each finding of diagnosis.json, or that there is none."""
    if not run.diagnosis:
        return [Text("The run was not diagnosed.")]
    ignored = ", ".join(run.diagnosis.get("ignored", []))
    blocks: list[Block] = [Text(f"Found, but muted by monitor.ignore: {ignored}.")] if ignored else []
    for finding in run.diagnosis["findings"]:
        steps = f", steps {finding['steps'][0]} to {finding['steps'][1]}" if finding["steps"] else ""
        remedy = f" To try: {finding['remedy']}" if finding["remedy"] else ""
        sure = f" How sure: {finding['sureness']['text']}." if "sureness" in finding else ""
        text = f"{finding['evidence'][:1].upper()}{finding['evidence'][1:]}. Likely cause: {finding['cause']}.{remedy}"
        text += sure
        name = f"{finding['severity'].capitalize()}: {finding['name'].replace('_', ' ')}{steps}."
        blocks.append(Callout(finding["severity"], name, text))
    if len(remedies := run.diagnosis.get("remedies", [])) > 1:  # absent in older runs
        blocks.append(Text(f"To try together: {' '.join(remedies)}"))
    if not run.diagnosis["findings"]:
        blocks.append(Callout("ok", "Healthy.", f"No {'other ' if ignored else ''}check found anything."))
    if checked := run.diagnosis.get("checked"):  # absent in older runs
        blocks.append(Text(f"{len(checked)} rules were checked: {', '.join(checked).replace('_', ' ')}."))
    if changed := run.diagnosis.get("changed"):
        blocks.append(Text(f"Measurably changed, which need not be harm: {'; '.join(changed)}."))
    return blocks


def fact_table(facts: dict) -> Table:
    """data.json as a list; counts of 0 are left out."""
    found = [(name.replace("_", " "), value) for name, value in flatten(facts, separator=", ").items() if value]
    return Table(["", ""], [[name, f"{value:,}" if isinstance(value, int) else str(value)] for name, value in found])


def _find_change(before: dict, after: dict) -> int:
    """1, 0 or -1: by whether the completions are correct; without a grader by their rewards."""
    if "outcome" in before and "outcome" in after:
        old, new = before["outcome"] == "correct", after["outcome"] == "correct"
    else:
        old, new = before.get("reward") or 0.0, after.get("reward") or 0.0
    return (new > old) - (new < old)


def _describe_figures(run: Run) -> list[Block]:
    if "baseline" not in run.evaluation:
        return []
    blocks: list[Block] = [Heading("Before and after training" if run.trains else "Measurements"), summary_table(run)]
    blocks.append(Text(summary_note(run)))
    accuracies = [run.evaluation.get(side, {}).get("accuracy") for side in ("baseline", "trained")]
    return [*blocks, Figures([plot_accuracy([("", *accuracies)])])] if run.trains and any(accuracies) else blocks


def _describe_origin(run: Run) -> list[Block]:
    info = run.info
    facts = [f"{key.replace('_', ' ')} {info.get(key)}" for key in ("git_commit", "device", "started")]
    facts += [f"{name} {version}" for name, version in info.get("versions", {}).items()]
    overrides = f"Overrides: {' '.join(run.overrides) or 'none'}."
    return [Code(info.get("command") or "no command was recorded"), Text(overrides), Text(f"{'; '.join(facts)}.")]


def _caption(when: str, sample: dict) -> tuple[str, str]:
    """What is said of a completion, and the completion."""
    parts = [sample["outcome"]] if "outcome" in sample else []
    parts += [f"reward {sample['reward']:.3g}"] if sample.get("reward") is not None else []
    parts.append(f"{sample['tokens']} tokens{', cut off' if sample['truncated'] else ''}")
    return f"{when}: {', '.join(parts)}", sample["completion"]


def _list_parts(section: dict) -> list[dict]:
    """Label, n and accuracy of all pairs, by length and by subset."""
    by_length = [row | {"label": f"chosen answer {row['label']} tokens"} for row in section.get("by_length", [])]
    whole = {"label": "all", "n": section.get("n"), "accuracy": section.get("accuracy")}
    return [whole, *by_length, *section.get("by_subset", []), *section.get("by_trait", [])]


def _list_errors(run: Run) -> list[Block]:
    counts = run.errors.get("counts")
    if not counts:
        return []
    total, shown = sum(counts.values()), run.errors.get("shown", [])
    rows = [[*ERROR_KINDS[kind], str(n), percent(wilson(n, total)) if total else "-"] for kind, n in counts.items()]
    head = ["kind", "rule, the first that fits", "pairs", "share"]
    blocks: list[Block] = [Heading("Wrongly ranked pairs"), Table(head, rows)]
    blocks.append(Text(f"{len(shown)} of {total}, worst first, to open one by one. Their texts may offend."))
    for place, error in enumerate(shown, start=1):
        title = f"{place}. {ERROR_KINDS[error['kind']][0]}: margin {error['margin']:+.2f}, {error['subset']}"
        sides = _read_side(error, "chosen"), _read_side(error, "rejected")
        blocks.append(Pair(title, error["prompt"].strip(), sides, folded=True))
    return blocks


def _read_side(error: dict, side: str) -> tuple[str, str]:
    caption = f"{side.capitalize()}: reward {error[f'{side}_reward']:.2f}, {error[f'{side}_tokens']} tokens"
    return caption, error[side].strip()

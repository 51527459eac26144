"""The report of one run, as blocks.

describe_run(load_run(run_dir))  ->  [Heading(...), Text(...), ...]
"""

from collections.abc import Iterable
from pathlib import Path

from rlhf_exp.analysis.report.baselines import describe_baselines
from rlhf_exp.analysis.report.columns import MEMORY, Column, at, fill, join_notes, list_columns
from rlhf_exp.analysis.report.curves import HEADING, plot_run, show_curves
from rlhf_exp.analysis.report.data import describe_data
from rlhf_exp.analysis.report.page import NOTES, Block, Callout, Code, Figures, Heading, Table, Text, footnote
from rlhf_exp.analysis.report.plots import plot_accuracy
from rlhf_exp.analysis.report.samples import describe_errors, describe_samples
from rlhf_exp.analysis.report.summary import (
    RANKING_FIGURES,
    best_sentence,
    describe_status,
    describe_summary,
    title,
    verdict,
)
from rlhf_exp.analysis.report.words import explain_change
from rlhf_exp.findings import tell_remedies
from rlhf_exp.runs.figures import duration, number, percent, points
from rlhf_exp.runs.load import Run, load_run, read_each

COSTS = (
    Column("peak memory", at("peak_memory_mb"), "{:,.0f} MB".format),
    *(Column(key.replace("_", " "), at(key), "{:,}".format) for key in ("steps", "prompt_tokens", "completion_tokens")),
    Column("completions of training", at("completions_mb"), "{:,.2f} MB".format),
)
"""Figures of run.json that are shown after the time of each phase."""

N = Column("n", at("n"))
CALIBRATION = (Column("predicted", at("predicted"), percent), Column("observed", at("observed"), percent), N)

QUANTILES = (
    Column("quantile", at("share"), "{:.0%}".format),
    *(Column(f"reward, {side}", at(side), number(".2f")) for side in ("chosen", "rejected")),
    *(Column(f"size of the margin, {side} pairs", at(side), number(".2f")) for side in ("right", "wrong")),
)

SET_FIGURES = {
    "accuracy": (Column("before", at("baseline", "accuracy"), percent),
                 Column("after", at("trained", "accuracy"), percent),
                 Column("difference", at("paired", "difference"), points)),
    "reward": (Column("before", at("baseline", "reward", "mean"), number(".3f")),
               Column("after", at("trained", "reward", "mean"), number(".3f")),
               Column("difference", at("paired", "reward", "mean"), number("+.3f"))),
}  # fmt: skip
"""Of an evaluation set."""


def describe_run(run: Run) -> list[Block]:
    """Blocks from the verdict down to the command; each part that has no data says so."""
    name = f"{run.info['name']}: " if run.info.get("name") else ""
    blocks: list[Block] = [Heading(f"{name}{run.info.get('algo')} on {run.info.get('task')}", 1), Text(title(run))]
    blocks += describe_status(run)
    if not (run.trains or run.evaluation):  # nothing but data: of rlhf_exp.describe
        return [*blocks, *describe_data(run.facts, folded=False), *_describe_origin(run)]
    blocks += [verdict(run), *describe_health(run)]
    if run.trains and (change := explain_change([run])):
        blocks.append(Text(change))
    if best := best_sentence(run):
        blocks.append(Text(f"Kept: {best}."))
    blocks += _describe_figures(run) + describe_preferences(run)
    if run.trains:
        curves = show_curves({"": [run]}, plot_run(run)) if run.metrics else Text("No training metrics were logged.")
        blocks += [HEADING, curves]
    if not run.trains_scorer:  # a reward model generates nothing
        blocks += describe_samples(run)
    blocks += describe_baselines(run) + describe_sets(run)
    blocks.append(Heading("Health checks", folded=not (run.diagnosis.get("findings") or run.alarms)))
    blocks += describe_findings(run)
    blocks += describe_data(run.facts)
    costs = [[phase, duration(spent)] for phase, spent in run.info.get("seconds", {}).items()]
    costs += [[cost.name, cost.cell(run.info)] for cost in COSTS if cost.read(run.info)]
    parts = list_columns([run], MEMORY)
    costs += [[f"memory, {part.name}", f"{part.cell(run)} MB"] for part in parts]
    blocks += [Heading("Time and memory", folded=True), Table(["", ""], costs)]
    blocks += [footnote(join_notes(parts))] if parts else []
    return blocks + _describe_origin(run)


def load_runs(run_dirs: Iterable[Path]) -> list[Run]:
    """Those of the runs that can be described, which finds a damaged file; the others are left out with a line.

    Raises:
        ConfigError: there is none.
    """

    def load(path: Path) -> Run:
        describe_run(run := load_run(path))
        return run

    return read_each(run_dirs, load)


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
    if quantiles := section.get("quantiles"):
        blocks.append(fill(QUANTILES, quantiles))
    return [*blocks, footnote(NOTES["preferences"]), *describe_errors(run)]


def describe_sets(run: Run) -> list[Block]:
    """The accuracy and the reward on each evaluation set; empty if there are none."""
    rows = []
    for name, found in run.evaluation.get("sets", {}).items():
        for figure, columns in SET_FIGURES.items():
            if columns[0].read(found):
                rows.append([name, figure, N.cell(found["baseline"]), *(column.cell(found) for column in columns)])
    head = ["set", "figure", "n", "before", "after", "difference"]
    return [Heading("Further evaluation sets"), Table(head, rows)] if rows else []


def describe_health(run: Run) -> list[Block]:
    """One remark: what the diagnosis found, by name."""
    if not run.diagnosis:
        return []
    names = [f"{found['name'].replace('_', ' ')} ({found['severity']})" for found in run.diagnosis["findings"]]
    checked = run.diagnosis.get("checked")
    rules = f"; {len(checked)} rules were checked" if checked else ""
    found = f"{'; '.join(names) or 'nothing found'}{rules}."
    return [Callout(run.diagnosis["health"], f"Health: {run.diagnosis['health']}.", f"{found[:1].upper()}{found[1:]}")]


def describe_findings(run: Run) -> list[Block]:
    """A remark for each finding of diagnosis.json, or that there is none; of a run without it the alarms so far."""
    if not run.diagnosis:
        return [Text("The run has not been diagnosed."), *map(_describe_finding, run.alarms)]
    ignored = ", ".join(run.diagnosis.get("ignored", []))
    blocks: list[Block] = [Text(f"Found, but muted by monitor.ignore: {ignored}.")] if ignored else []
    if told := tell_remedies(run.diagnosis):
        blocks.append(Text(f"To try first: {told}"))
    blocks += map(_describe_finding, run.diagnosis["findings"])
    if not run.diagnosis["findings"]:
        blocks.append(Callout("ok", "Healthy.", f"No {'other ' if ignored else ''}check found anything."))
    if checked := run.diagnosis.get("checked"):
        blocks.append(Text(f"{len(checked)} rules were checked: {', '.join(checked).replace('_', ' ')}."))
    if changed := run.diagnosis.get("changed"):
        blocks.append(Text(f"Measurably changed, which need not be harm: {'; '.join(changed)}."))
    return blocks


def _describe_figures(run: Run) -> list[Block]:
    if "baseline" not in run.evaluation:
        return []
    blocks = [Heading("Before and after training" if run.trains else "Measurements"), *describe_summary(run)]
    accuracies = [run.evaluation.get(side, {}).get("accuracy") for side in ("baseline", "trained")]
    return [*blocks, Figures([plot_accuracy([("", *accuracies)])])] if run.trains and any(accuracies) else blocks


def _describe_finding(finding: dict) -> Callout:
    steps = f", steps {finding['steps'][0]} to {finding['steps'][1]}" if finding["steps"] else ""
    remedy = f" To try: {finding['remedy']}" if finding["remedy"] else ""
    sure = f" How sure: {finding['sureness']['text']}." if "sureness" in finding else ""
    evidence = f"{finding['evidence'][:1].upper()}{finding['evidence'][1:]}"
    text = f"{evidence}. Likely cause: {finding['cause']}.{remedy}{sure}"
    name = f"{finding['severity'].capitalize()}: {finding['name'].replace('_', ' ')}{steps}."
    return Callout(finding["severity"], name, text)


def _describe_origin(run: Run) -> list[Block]:
    info = run.info
    facts = [f"{key.replace('_', ' ')} {info.get(key)}" for key in ("git_commit", "device", "started")]
    facts += [f"{name} {version}" for name, version in info.get("versions", {}).items()]
    overrides = f"Overrides: {' '.join(run.overrides) or 'none'}."
    command = Code(info.get("command") or "no command was recorded")
    return [Heading("How to reproduce this run"), command, Text(overrides), Text(f"{'; '.join(facts)}.")]


def _list_parts(section: dict) -> list[dict]:
    """Label, n and accuracy of all pairs, by length and by subset."""
    by_length = [row | {"label": f"chosen answer {row['label']} tokens"} for row in section.get("by_length", [])]
    whole = {"label": "all", "n": section.get("n"), "accuracy": section.get("accuracy")}
    return [whole, *by_length, *section.get("by_subset", []), *section.get("by_trait", [])]

"""The report of one run, as blocks.

describe_run(load_run(run_dir))  ->  [Heading(...), Text(...), ...]
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

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
    tell_changes,
    title,
    verdict,
)
from rlhf_exp.findings import tell_remedies
from rlhf_exp.runs.figures import duration, number, percent, points
from rlhf_exp.runs.load import Run, load_run, read_each
from rlhf_exp.runs.records import SIDES, Finding, Ranking

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
    name = f"{run.info.name}: " if run.info.name else ""
    blocks: list[Block] = [Heading(f"{name}{run.info.algo} on {run.info.task}", 1), Text(title(run))]
    blocks += describe_status(run)
    if not (run.trains or run.evaluation.baseline):  # nothing but data: of rlhf_exp.describe
        return [*blocks, *describe_data(run.facts, folded=False), *_describe_origin(run)]
    blocks += [verdict(run), *describe_health(run)]
    if run.trains and (change := tell_changes(run)):
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
    blocks.append(Heading("Health checks", folded=not (run.diagnosis.findings or run.alarms)))
    blocks += describe_findings(run)
    blocks += describe_data(run.facts)
    costs = [[phase, duration(spent)] for phase, spent in run.info.seconds.items()]
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
    known = {part["label"]: part for part in _list_parts(run.preference("baseline") or Ranking())}
    before = Column("baseline", lambda part: at(part["label"], "accuracy")(known), percent)
    right = [Column("share ranked rightly", at("label")), N, before, Column("trained", at("accuracy"), percent)]
    rule = {"label": "by a rule: the longer answer", "n": section.n, "accuracy": section.longer_wins}
    blocks += [fill(right, [*_list_parts(section), rule]), fill(CALIBRATION, section.calibration)]
    if section.quantiles:
        blocks.append(fill(QUANTILES, section.quantiles))
    return [*blocks, footnote(NOTES["preferences"]), *describe_errors(run)]


def describe_sets(run: Run) -> list[Block]:
    """The accuracy and the reward on each evaluation set; empty if there are none."""
    rows = []
    for name, found in run.evaluation.sets.items():
        for figure, columns in SET_FIGURES.items():
            if columns[0].read(found):
                rows.append([name, figure, N.cell(found.baseline), *(column.cell(found) for column in columns)])
    head = ["set", "figure", "n", "before", "after", "difference"]
    return [Heading("Further evaluation sets"), Table(head, rows)] if rows else []


def describe_health(run: Run) -> list[Block]:
    """One remark: what the diagnosis found, by name."""
    health, checked = run.diagnosis.health, run.diagnosis.checked
    if not health:
        return []
    names = [f"{found.name.replace('_', ' ')} ({found.severity})" for found in run.diagnosis.findings]
    rules = f"; {len(checked)} rules were checked" if checked else ""
    text = f"{'; '.join(names) or 'nothing found'}{rules}."
    return [Callout(health, f"Health: {health}.", f"{text[:1].upper()}{text[1:]}")]


def describe_findings(run: Run) -> list[Block]:
    """A remark for each finding of diagnosis.json, or that there is none; of a run without it the alarms so far."""
    found = run.diagnosis
    if not found.health:
        return [Text("The run has not been diagnosed."), *map(_describe_finding, run.alarms)]
    ignored = ", ".join(found.ignored)
    blocks: list[Block] = [Text(f"Found, but muted by monitor.ignore: {ignored}.")] if ignored else []
    if told := tell_remedies(found):
        blocks.append(Text(f"To try first: {told}"))
    blocks += map(_describe_finding, found.findings)
    if not found.findings:
        blocks.append(Callout("ok", "Healthy.", f"No {'other ' if ignored else ''}check found anything."))
    if found.checked:
        blocks.append(Text(f"{len(found.checked)} rules were checked: {', '.join(found.checked).replace('_', ' ')}."))
    if found.changed:
        blocks.append(Text(f"Measurably changed, which need not be harm: {'; '.join(found.changed)}."))
    return blocks


def _describe_figures(run: Run) -> list[Block]:
    if run.evaluation.baseline is None:
        return []
    blocks = [Heading("Before and after training" if run.trains else "Measurements"), *describe_summary(run)]
    accuracies = [at(side, "accuracy")(run.evaluation) for side in SIDES]
    return [*blocks, Figures([plot_accuracy([("", *accuracies)])])] if run.trains and any(accuracies) else blocks


def _describe_finding(finding: Finding) -> Callout:
    steps = f", steps {finding.steps[0]} to {finding.steps[1]}" if finding.steps else ""
    remedy = f" To try: {finding.remedy}" if finding.remedy else ""
    sure = f" How sure: {finding.sureness['text']}." if finding.sureness else ""
    evidence = f"{finding.evidence[:1].upper()}{finding.evidence[1:]}"
    text = f"{evidence}. Likely cause: {finding.cause}.{remedy}{sure}"
    name = f"{finding.severity.capitalize()}: {finding.name.replace('_', ' ')}{steps}."
    return Callout(finding.severity, name, text)


def _describe_origin(run: Run) -> list[Block]:
    info = run.info
    facts = [f"git commit {info.git_commit}", f"device {info.device}", f"started {info.started}"]
    facts += [f"{name} {version}" for name, version in info.versions.items()]
    overrides = f"Overrides: {' '.join(run.overrides) or 'none'}."
    command = Code(info.command or "no command was recorded")
    return [Heading("How to reproduce this run"), command, Text(overrides), Text(f"{'; '.join(facts)}.")]


def _list_parts(section: Ranking) -> list[dict[str, Any]]:
    """Label, n and accuracy of all pairs, by length and by subset."""
    by_length = [part.model_copy(update={"label": f"chosen answer {part.label} tokens"}) for part in section.by_length]
    whole = {"label": "all", "n": section.n, "accuracy": section.accuracy}
    return [whole, *(part.model_dump() for part in (*by_length, *section.by_subset, *section.by_trait))]

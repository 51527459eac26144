"""The report of one run, as blocks.

describe_run(load_run(run_dir))  ->  [Heading(...), Text(...), ...]
"""

from collections.abc import Iterable
from os.path import relpath
from pathlib import Path
from typing import Any

from rlhf_exp.analysis.report.baselines import describe_baselines
from rlhf_exp.analysis.report.columns import Column, at, fill
from rlhf_exp.analysis.report.curves import HEADING, plot_run, show_curves
from rlhf_exp.analysis.report.data import describe_data
from rlhf_exp.analysis.report.page import NOTES, TEXTS, Block, Callout, Code, Columns, Heading, Table, Text, footnote
from rlhf_exp.analysis.report.progress import describe_progress
from rlhf_exp.analysis.report.samples import describe_errors, describe_samples
from rlhf_exp.analysis.report.summary import (
    RANKING_FIGURES,
    best_sentence,
    describe_health,
    describe_status,
    describe_summary,
    explain,
    list_changes,
    title,
    verdict,
)
from rlhf_exp.findings import tell_remedies
from rlhf_exp.runs.figures import duration, number, percent, points, write_name
from rlhf_exp.runs.load import Run, load_run, read_each
from rlhf_exp.runs.records import Finding, Ranking
from rlhf_exp.runs.settings import read_key, read_typed

COSTS = (
    Column("peak memory", at("peak_memory_mb"), "{:,.0f} MB".format),
    *(Column(key.replace("_", " "), at(key), "{:,}".format)
      for key in ("steps", "prompt_tokens", "completion_tokens", "parameters")),
)  # fmt: skip
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


def describe_run(run: Run, out: Path | None = None) -> list[Block]:
    """Blocks from the verdict down to the data; each part that has no data says so. `out`: the folder of the page, from
    which it links to the run's files; by default the run's own."""
    name, place = f"{run.info.name}: " if run.info.name else "", "/".join(run.path.absolute().parts[-2:])
    blocks: list[Block] = [Heading(f"{name}{run.info.algo} on {run.info.task}", 1), Text(f"{title(run)}, in {place}")]
    blocks += describe_status(run)
    setting = _describe_setting(run, out or run.path)
    if not (run.trains or run.evaluation.baseline):  # nothing but data: of rlhf_exp.describe
        return [*blocks, *describe_data(run.facts, folded=False), *setting]
    changes: list[Block] = [Heading("What else changed", 3), *facts] if (facts := list_changes(run)) else []
    if best := best_sentence(run):
        changes.append(Text(f"Kept: {best}."))
    blocks += [Columns([[verdict(run)], [*describe_health(run)]]), Columns([describe_progress(run), changes])]
    blocks += [*setting, *_describe_figures(run), *describe_preferences(run)]
    if not run.trains_scorer:  # a reward model generates nothing
        blocks += describe_samples(run)
    if run.trains:
        curves = show_curves({"": [run]}, plot_run(run)) if run.metrics else Text("No training metrics were logged.")
        blocks += [HEADING, curves]
    blocks += describe_baselines(run) + describe_sets(run)
    blocks.append(Heading("Health checks", folded=not (run.diagnosis.findings or run.alarms)))
    blocks += describe_findings(run)
    costs = [[phase, duration(spent)] for phase, spent in run.info.seconds.items()]
    costs += [[cost.name, cost.cell(run.info)] for cost in COSTS if cost.read(run.info)]
    blocks += [Heading("Time and memory", folded=True), Table(["", "value"], costs)]
    return blocks + describe_data(run.facts)


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
    """The accuracy and the reward of each task of a mixture, and on each evaluation set; empty if there are none."""
    blocks: list[Block] = []
    others = {name: found for name, found in run.evaluation.sets.items() if name not in run.parts}
    for heading, sets in (("Each task of the mixture", run.parts), ("Further evaluation sets", others)):
        rows = [[name, figure, N.cell(found.baseline), *(column.cell(found) for column in columns)]
                for name, found in sets.items()
                for figure, columns in SET_FIGURES.items() if columns[0].read(found)]  # fmt: skip
        head = ["name", "figure", "n", "before", "after", "difference"]
        blocks += [Heading(heading), Table(head, rows)] if rows else []
    return blocks


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
    return blocks


def _describe_figures(run: Run) -> list[Block]:
    if run.evaluation.baseline is None:
        return []
    return [Heading("Before and after training" if run.trains else "Measurements"), *describe_summary(run)]


def _describe_finding(finding: Finding) -> Callout:
    steps = f", steps {finding.steps[0]} to {finding.steps[1]}" if finding.steps else ""
    sure = f"\nHow sure: {finding.sureness['text']}." if finding.sureness else ""
    name = f"{finding.severity.capitalize()}: {finding.name.replace('_', ' ')}{steps}."
    return Callout(finding.severity, name, f"{explain(finding)}{sure}")


def _describe_setting(run: Run, out: Path) -> list[Block]:
    """What was run, how to repeat it, and the files of the run's folder."""
    info, typed = run.info, read_typed(run.overrides)
    rows = {key: read_key(run.config, key) for key in TEXTS["settings"]}
    rows |= {key: typed[key] for key in typed if key not in rows and f"{key}.name" not in rows}
    shown = [[key, _write_setting(value)] for key, value in rows.items() if value not in (None, [], {})]
    own = [row for row in shown if {row[0], row[0].removesuffix(".name")} & typed.keys()]
    others = [row for row in shown if row not in own]
    table = Table(["setting", "value"], own + others, marked=tuple(range(len(own))))
    facts = [f"git commit {info.git_commit}", f"device {info.device}", f"started {info.started}"]
    facts += [f"{name} {version}" for name, version in info.versions.items()]
    files = [[name, what] for name, what in TEXTS["files"].items() if (run.path / name).is_file()]
    links = [relpath(run.path / name, out) for name, _ in files]
    repeat: list[Block] = [Heading("How to repeat it", 3), Code(info.command or "no command was recorded")]
    repeat += [Text(f"{'; '.join(facts)}.", "Versions and device"), Heading("Files", 3)]
    repeat.append(Table(["file", "what it holds"], files, links=links))
    note = "In bold: what this run's command sets. The others follow from these or are defaults; .hydra/config.yaml has"
    note += " every key."
    return [Heading("What was run"), Columns([[table, Text(note)] if shown else [], repeat])]


def _write_setting(value: Any) -> str:
    """A value of the config; of weights those that are set."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items() if one is not None)
    return write_name(value)


def _list_parts(section: Ranking) -> list[dict[str, Any]]:
    """Label, n and accuracy of all pairs, by length and by subset."""
    by_length = [part.model_copy(update={"label": f"chosen answer {part.label} tokens"}) for part in section.by_length]
    whole = {"label": "all", "n": section.n, "accuracy": section.accuracy}
    return [whole, *(part.model_dump() for part in (*by_length, *section.by_subset, *section.by_trait))]

"""The report of one run, as blocks.

describe_run(load_run(run_dir), out)  ->  [Heading(...), Text(...), ...]; the plots are in out/plots
"""

from pathlib import Path

from rlhf_exp.report import curves, plots
from rlhf_exp.report.frontier import draw_frontier
from rlhf_exp.report.page import Block, Callout, Code, Figures, Heading, Table, Text
from rlhf_exp.report.policies import describe_policies
from rlhf_exp.report.preferences import describe_preferences
from rlhf_exp.report.samples import describe_samples
from rlhf_exp.report.summary import (
    INTERVAL_NOTE,
    SUMMARY_NOTE,
    list_figures,
    loss_note,
    several_note,
    summary_head,
    summary_rows,
)
from rlhf_exp.report.tables import Column, at, duration, fact_tables, join_notes, seconds_per_step, title
from rlhf_exp.report.validation import choose_kind
from rlhf_exp.report.verdict import accuracy_name, best_sentence, status_sentence, verdict, win_sentence
from rlhf_exp.runs.load import Run

COSTS = (
    Column("training, per step", seconds_per_step, "{:.3g} s".format),
    Column("peak memory", at("peak_memory_mb"), "{:,.0f} MB".format),
    *(Column(key.replace("_", " "), at(key), "{:,}".format) for key in ("steps", "prompt_tokens", "completion_tokens")),
)
"""Figures of run.json that are shown after the time of each phase."""


def describe_run(run: Run, out: Path) -> list[Block]:
    """Blocks from the verdict down to the command; each part that has no data says so."""
    name = f"{run.info['name']}: " if run.info.get("name") else ""
    blocks: list[Block] = [Heading(f"{name}{run.info.get('algo')} on {run.info.get('task')}", 1), Text(title(run))]
    if sentence := status_sentence(run):
        blocks.append(Callout("error" if run.status == "failed" else "warning", "Not finished.", sentence))
    kind, sentence = verdict(run)
    blocks.append(Callout(kind, sentence, ""))
    if sentence := best_sentence(run):
        blocks.append(Text(f"Kept: {sentence}."))
    blocks += _measured(run, out)
    blocks += describe_policies(run)
    blocks += describe_preferences(run, out)
    blocks += [Heading("Health checks"), *describe_findings(run)]
    drawn = curves.draw_run(run, out)
    if (kind := choose_kind([run])) and (picture := draw_frontier({"": [run]}, kind, out)):
        drawn.append(picture)
    if run.trains:
        blocks += [Heading("Training curves"), Figures(drawn) if drawn else Text("No training metrics were logged.")]
    if not run.trains_scorer:  # a reward model generates nothing
        blocks += describe_samples(run)
    if run.facts:
        blocks += [Heading("Data"), *fact_tables(run.facts)]
    costs = _cost_rows(run)
    blocks += [Heading("Time and memory"), Table(["", ""], costs) if costs else Text("Nothing was recorded.")]
    return blocks + [Heading("How to reproduce this run"), *_origin(run)]


def describe_findings(run: Run) -> list[Block]:
    """A remark for each finding of diagnosis.json, or that there is none."""
    if not run.diagnosis:
        return [Text("The run was not diagnosed.")]
    findings = run.diagnosis["findings"]
    return [_finding(finding) for finding in findings] or [Callout("ok", "Healthy.", "No check found anything.")]


def _measured(run: Run, out: Path) -> list[Block]:
    if "baseline" not in run.evaluation:
        return []
    notes = [
        SUMMARY_NOTE if run.trains else INTERVAL_NOTE,
        several_note(run),
        join_notes(list_figures(run)),
        loss_note(run),
    ]
    blocks: list[Block] = [
        Heading("Before and after training" if run.trains else "Measurements"),
        Table(summary_head(run), summary_rows(run)),
    ]
    if sentence := win_sentence(run):
        blocks.append(Text(f"Win rate of the trained model by reward: {sentence}."))
    blocks.append(Text(" ".join(filter(None, notes))))
    accuracies = [run.evaluation.get(side, {}).get("accuracy") for side in ("baseline", "trained")]
    if run.trains and any(accuracies):
        blocks.append(Figures([plots.draw_accuracy([("", *accuracies)], out, accuracy_name(run))]))
    return blocks


def _finding(finding: dict) -> Callout:
    steps = f", steps {finding['steps'][0]} to {finding['steps'][1]}" if finding["steps"] else ""
    name = finding["name"].replace("_", " ")
    evidence = finding["evidence"][:1].upper() + finding["evidence"][1:]
    text = f"{evidence}. Likely cause: {finding['cause']}."
    text += " To try:" if finding["remedy"] else " No setting of this run would correct it."
    return Callout(
        finding["severity"], f"{finding['severity'].capitalize()}: {name}{steps}.", text, finding["remedy"] or ""
    )


def _cost_rows(run: Run) -> list[list[str]]:
    """Time by phase, memory and tokens, as far as run.json holds them."""
    cached = {"baseline": "baseline (from the cache)"} if run.info.get("baseline_cached") else {}
    rows = [[cached.get(phase, phase), duration(spent)] for phase, spent in run.info.get("seconds", {}).items()]
    return rows + [[cost.name, cost.cell(run.info)] for cost in COSTS if cost.read(run.info)]


def _origin(run: Run) -> list[Block]:
    info = run.info
    overrides = " ".join(run.overrides) or "none"
    versions = [f"{name} {version}" for name, version in info.get("versions", {}).items()]
    facts = [f"{key.replace('_', ' ')} {info[key]}" for key in ("git_commit", "device") if info.get(key)]
    return [
        Code(info.get("command") or "no command was recorded"),
        Text(f"Overrides: {overrides}."),
        Text("; ".join([*facts, *versions, f"started {info.get('started', 'at an unknown time')}"]) + "."),
    ]

"""The report of one run, as blocks.

describe_run(load_run(run_dir))  ->  [Heading(...), Text(...), ...]
"""

from collections.abc import Iterator
from typing import Any

from rlhf_exp.report.columns import Column, at
from rlhf_exp.report.curves import plot_run
from rlhf_exp.report.learning import choose_kind, plot_frontier
from rlhf_exp.report.page import Block, Callout, Code, Figures, Heading, Table, Text
from rlhf_exp.report.plots import plot_accuracy
from rlhf_exp.report.policies import describe_policies
from rlhf_exp.report.preferences import describe_preferences
from rlhf_exp.report.samples import describe_samples
from rlhf_exp.report.summary import seconds_per_step, summary_note, summary_table, title
from rlhf_exp.report.verdict import accuracy_name, best_sentence, status_sentence, verdict, win_sentence
from rlhf_exp.runs.figures import duration
from rlhf_exp.runs.load import Run

COSTS = (
    Column("training, per step", seconds_per_step, "{:.3g} s".format),
    Column("peak memory", at("peak_memory_mb"), "{:,.0f} MB".format),
    *(Column(key.replace("_", " "), at(key), "{:,}".format) for key in ("steps", "prompt_tokens", "completion_tokens")),
)
"""Figures of run.json that are shown after the time of each phase."""


def describe_run(run: Run) -> list[Block]:
    """Blocks from the verdict down to the command; each part that has no data says so."""
    name = f"{run.info['name']}: " if run.info.get("name") else ""
    blocks: list[Block] = [Heading(f"{name}{run.info.get('algo')} on {run.info.get('task')}", 1), Text(title(run))]
    if sentence := status_sentence(run):
        blocks.append(Callout("error" if run.status == "failed" else "warning", "Not finished.", sentence))
    blocks.append(Callout(*verdict(run), ""))
    if sentence := best_sentence(run):
        blocks.append(Text(f"Kept: {sentence}."))
    blocks += _describe_figures(run) + describe_policies(run) + describe_preferences(run)
    blocks += [Heading("Health checks"), *describe_findings(run)]
    if run.trains:
        plots = plot_run(run)
        if (kind := choose_kind([run])) and (plot := plot_frontier({"": [run]}, kind)):
            plots.append(plot)
        blocks += [Heading("Training curves"), Figures(plots) if plots else Text("No training metrics were logged.")]
    if not run.trains_scorer:  # a reward model generates nothing
        blocks += describe_samples(run)
    if run.facts:
        blocks += [Heading("Data"), *fact_tables(run.facts)]
    cached = {"baseline": "baseline (from the cache)"} if run.info.get("baseline_cached") else {}
    costs = [[cached.get(phase, phase), duration(spent)] for phase, spent in run.info.get("seconds", {}).items()]
    costs += [[cost.name, cost.cell(run.info)] for cost in COSTS if cost.read(run.info)]
    blocks += [Heading("Time and memory"), Table(["", ""], costs) if costs else Text("Nothing was recorded.")]
    return blocks + [Heading("How to reproduce this run"), *_describe_origin(run)]


def describe_findings(run: Run) -> list[Block]:
    """A remark for each finding of diagnosis.json, or that there is none."""
    if not run.diagnosis:
        return [Text("The run was not diagnosed.")]
    blocks: list[Block] = []
    for finding in run.diagnosis["findings"]:
        kind, remedy = finding["severity"], finding["remedy"]
        steps = f", steps {finding['steps'][0]} to {finding['steps'][1]}" if finding["steps"] else ""
        evidence = finding["evidence"][:1].upper() + finding["evidence"][1:]
        end = "To try:" if remedy else "No setting of this run would correct it."
        text = f"{evidence}. Likely cause: {finding['cause']}. {end}"
        name = finding["name"].replace("_", " ")
        blocks.append(Callout(kind, f"{kind.capitalize()}: {name}{steps}.", text, remedy or ""))
    return blocks or [Callout("ok", "Healthy.", "No check found anything.")]


def fact_tables(facts: dict) -> list[Table]:
    """data.json as tables: one with a column for each of the parts that `read` names, and a list of the rest.

    Counts of 0 are left out.
    """
    parts = list(facts.get("read", {}))
    by_part, plain = Table(["", *parts, "all"], []), Table(["", ""], [])
    for label, value in _flatten(facts, parts):
        if isinstance(value, dict):
            counts = [value.get(part, 0) for part in parts]
            by_part.rows.extend([[label, *(f"{n:,}" for n in (*counts, sum(counts)))]] if any(counts) else [])
        elif value not in (0, None, {}):
            plain.rows.append([label, f"{value:,}" if isinstance(value, int) else str(value)])
    return [table for table in (by_part, plain) if table.rows]


def _flatten(facts: dict, parts: list[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(name, value), with nested names joined by commas; a mapping whose keys are parts is one value."""
    for name, value in facts.items():
        label = f"{prefix}{name.replace('_', ' ')}"
        if isinstance(value, dict) and not (parts and set(value) <= set(parts)):
            yield from _flatten(value, parts, f"{label}, ")
        else:
            yield label, value


def _describe_figures(run: Run) -> list[Block]:
    if "baseline" not in run.evaluation:
        return []
    blocks: list[Block] = [Heading("Before and after training" if run.trains else "Measurements"), summary_table(run)]
    if sentence := win_sentence(run):
        blocks.append(Text(f"Win rate of the trained model by reward: {sentence}."))
    blocks.append(Text(summary_note(run)))
    accuracies = [run.evaluation.get(side, {}).get("accuracy") for side in ("baseline", "trained")]
    if run.trains and any(accuracies):
        blocks.append(Figures([plot_accuracy([("", *accuracies)], accuracy_name(run))]))
    return blocks


def _describe_origin(run: Run) -> list[Block]:
    info = run.info
    versions = [f"{name} {version}" for name, version in info.get("versions", {}).items()]
    facts = [f"{key.replace('_', ' ')} {info[key]}" for key in ("git_commit", "device") if info.get(key)]
    return [
        Code(info.get("command") or "no command was recorded"),
        Text(f"Overrides: {' '.join(run.overrides) or 'none'}."),
        Text("; ".join([*facts, *versions, f"started {info.get('started', 'at an unknown time')}"]) + "."),
    ]

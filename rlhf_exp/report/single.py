"""The report of one run, as blocks.

describe_run(load_run(run_dir))  ->  [Heading(...), Text(...), ...]
"""

from collections.abc import Iterator
from typing import Any

from rlhf_exp.evaluation.metrics import OUTCOMES
from rlhf_exp.report.baselines import describe_baselines
from rlhf_exp.report.columns import Column, at, fill
from rlhf_exp.report.curves import plot_run
from rlhf_exp.report.learning import choose_kind, plot_frontier
from rlhf_exp.report.page import NOTES, Block, Callout, Code, Figures, Heading, Pair, Table, Text
from rlhf_exp.report.plots import plot_accuracy
from rlhf_exp.report.preferences import describe_preferences
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


# Kind of change, and how many are shown. By outcome: whether the completions before and after are correct.
BY_OUTCOME = {
    (False, True): ("Became correct", 3),
    (True, False): ("No longer correct", 2),
    (True, True): ("Correct before and after", 1),
    (False, False): ("Not correct before or after", 1),
}
BY_REWARD = {1: ("Reward rose", 3), -1: ("Reward fell", 2), 0: ("Equal reward", 1)}  # by the sign of the change
IN_ORDER: dict[Any, tuple[str, int]] = {None: ("Before and after", 5)}
SHOWN_ALONE = 5


def describe_run(run: Run) -> list[Block]:
    """Blocks from the verdict down to the command; each part that has no data says so."""
    name = f"{run.info['name']}: " if run.info.get("name") else ""
    blocks: list[Block] = [Heading(f"{name}{run.info.get('algo')} on {run.info.get('task')}", 1), Text(title(run))]
    if sentence := status_sentence(run):
        blocks.append(Callout("error" if run.status == "failed" else "warning", "Not finished.", sentence))
    blocks.append(Callout(*verdict(run), ""))
    if sentence := best_sentence(run):
        blocks.append(Text(f"Kept: {sentence}."))
    blocks += _describe_figures(run) + describe_baselines(run) + describe_preferences(run)
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


def describe_samples(run: Run) -> list[Block]:
    """The first completion of each row, and a table of changes if the task grades them."""
    if not run.trains:
        first = [row for row in run.samples if row["decoding"] == "sampled" and row["sample"] == 0][:SHOWN_ALONE]
        shown = [Pair(row["id"], row["prompt"], (_caption("Completion", row),), (row["completion"],)) for row in first]
        return [Heading("Samples"), Text(f"Shown are the first {len(first)} held-out rows."), *shown]
    pairs = run.paired_samples()
    blocks: list[Block] = [Heading("Samples before and after training")]
    if not pairs:
        return [*blocks, Text("No samples from before and after were recorded.")]
    note, rule = "shown in order", IN_ORDER
    kinds: list[Any] = [None] * len(pairs)
    if all("outcome" in sample for pair in pairs for sample in pair):
        note, rule = "shown by outcome", BY_OUTCOME
        kinds = [tuple(sample["outcome"] == "correct" for sample in pair) for pair in pairs]
        if changes := run.evaluation.get("paired", {}).get("changes"):  # folders of earlier versions have none
            counts = [Column(f"{name} after", lambda old, name=name: at(old, name)(changes)) for name in OUTCOMES]
            blocks.append(fill([Column("", "{} before".format), *counts], OUTCOMES))
    elif all(sample.get("reward") is not None for pair in pairs for sample in pair):
        note, rule = "shown by reward", BY_REWARD
        kinds = [(after["reward"] > before["reward"]) - (after["reward"] < before["reward"]) for before, after in pairs]
    blocks.append(Text(NOTES[note]))
    for kind, (name, most) in rule.items():
        for before, after in [pair for pair, its in zip(pairs, kinds, strict=True) if its == kind][:most]:
            captions = _caption("Before", before), _caption("After", after)
            blocks.append(Pair(name, before["prompt"], captions, (before["completion"], after["completion"])))
    return blocks


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


def _caption(when: str, sample: dict) -> str:
    parts = [sample["outcome"]] if "outcome" in sample else []
    parts += [f"reward {sample['reward']:.3g}"] if sample.get("reward") is not None else []
    parts.append(f"{sample['tokens']} tokens{', cut off' if sample['truncated'] else ''}")
    return f"{when}: {', '.join(parts)}"

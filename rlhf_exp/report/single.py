"""The report of one run, as blocks.

describe_run(load_run(run_dir), out)  ->  [Heading(...), Text(...), ...]; the plots lie in out/plots
"""

from pathlib import Path

from rlhf_exp.report import curves, plots
from rlhf_exp.report.page import Block, Callout, Code, Figures, Heading, Table, Text
from rlhf_exp.report.preferences import describe_preferences
from rlhf_exp.report.samples import describe_samples
from rlhf_exp.report.summary import (
    DISTINCT_NOTE,
    KL_NOTE,
    SAMPLED_KL,
    SAMPLED_KL_NOTE,
    SCORER_NOTE,
    SEVERAL_NOTE,
    SUMMARY_HEAD,
    SUMMARY_NOTE,
    loss_note,
    summary_rows,
)
from rlhf_exp.report.tables import cost_rows, fact_tables, title
from rlhf_exp.report.verdict import accuracy_name, status_sentence, verdict, win_sentence
from rlhf_exp.runs.load import Run


def describe_run(run: Run, out: Path) -> list[Block]:
    """Blocks from the verdict down to the command; each part that has no data says so."""
    blocks: list[Block] = [Heading(f"{run.info.get('algo')} on {run.info.get('task')}", 1), Text(title(run))]
    if sentence := status_sentence(run):
        blocks.append(Callout("error" if run.status == "failed" else "warning", "Not finished.", sentence))
    kind, sentence = verdict(run)
    blocks.append(Callout(kind, sentence, ""))
    blocks += _measured(run, out)
    blocks += describe_preferences(run, out)
    blocks += [Heading("Health"), *_findings(run)]
    drawn = curves.draw_run(run, out)
    blocks += [Heading("Training"), Figures(drawn) if drawn else Text("No training metrics were logged.")]
    if run.info.get("algo") != "reward_model":  # which writes nothing
        blocks += describe_samples(run)
    if run.facts:
        blocks += [Heading("Data"), *(Table(head, rows) for head, rows in fact_tables(run.facts))]
    costs = cost_rows(run)
    blocks += [Heading("Time and memory"), Table(["", ""], costs) if costs else Text("Nothing was recorded.")]
    return blocks + [Heading("How to run it again"), *_origin(run)]


def _measured(run: Run, out: Path) -> list[Block]:
    if "baseline" not in run.evaluation:
        return []
    rows = summary_rows(run)
    labels = {row[0] for row in rows}
    notes = {"loss": SCORER_NOTE, "KL": KL_NOTE, SAMPLED_KL: SAMPLED_KL_NOTE, "distinct-1 / -2": DISTINCT_NOTE}
    completions = run.evaluation["baseline"].get("completions", 1)
    several = [SEVERAL_NOTE.format(completions=completions)] if completions > 1 else []
    parts = [SUMMARY_NOTE, *several, *(text for label, text in notes.items() if label in labels), loss_note(run)]
    note = " ".join(part for part in parts if part)
    blocks: list[Block] = [Heading("Before and after"), Table(SUMMARY_HEAD, rows)]
    if sentence := win_sentence(run):
        blocks.append(Text(f"Win rate of the trained model by reward: {sentence}."))
    blocks.append(Text(note))
    accuracies = [run.evaluation.get(side, {}).get("accuracy") for side in ("baseline", "trained")]
    if any(accuracies):
        blocks.append(Figures([plots.draw_accuracy([("", *accuracies)], out, accuracy_name(run))]))
    return blocks


def _findings(run: Run) -> list[Block]:
    if not run.diagnosis:
        return [Text("The run was not diagnosed.")]
    findings = run.diagnosis["findings"]
    if not findings:
        return [Callout("ok", "Healthy.", "No check found anything.")]
    return [_finding(finding) for finding in findings]


def _finding(finding: dict) -> Callout:
    steps = f", steps {finding['steps'][0]} to {finding['steps'][1]}" if finding["steps"] else ""
    name = finding["name"].replace("_", " ")
    evidence = finding["evidence"][:1].upper() + finding["evidence"][1:]
    text = f"{evidence}. Likely cause: {finding['cause']}."
    text += " To try:" if finding["remedy"] else " No setting of this run mends it."
    return Callout(
        finding["severity"], f"{finding['severity'].capitalize()}: {name}{steps}.", text, finding["remedy"] or ""
    )


def _origin(run: Run) -> list[Block]:
    info = run.info
    overrides = " ".join(run.overrides) or "none"
    versions = [f"{name} {version}" for name, version in info.get("versions", {}).items()]
    facts = [f"git commit {info['git_commit']}"] if info.get("git_commit") else []
    facts += [f"device {info['device']}"] if info.get("device") else []
    return [
        Code(info.get("command") or "no command was recorded"),
        Text(f"Overrides: {overrides}."),
        Text("; ".join([*facts, *versions, f"started {info.get('started', 'at an unknown time')}"]) + "."),
    ]

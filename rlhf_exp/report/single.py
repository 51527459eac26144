"""The report of one run, as blocks.

describe_run(load_run(run_dir), out)  ->  [Heading(...), Text(...), ...]; the plots lie in out/plots
"""

from pathlib import Path

from rlhf_exp.report import plots
from rlhf_exp.report.load import Run
from rlhf_exp.report.page import Block, Callout, Code, Figures, Heading, Pair, Table, Text
from rlhf_exp.report.tables import (
    OUTCOMES,
    SUMMARY_HEAD,
    SUMMARY_NOTE,
    cost_rows,
    status_sentence,
    summary_rows,
    title,
    verdict,
    win_sentence,
)

# Kind of change, whether the baseline and the trained completion are correct, how many samples are shown.
SAMPLE_RULE = (
    ("Became correct", False, True, 3),
    ("No longer correct", True, False, 2),
    ("Correct before and after", True, True, 1),
    ("Not correct before or after", False, False, 1),
)
SAMPLE_NOTE = (
    "Shown are the first of each kind in the order of the held-out rows: three that became correct, two that "
    "no longer are, one correct before and after, one that neither was."
)


def describe_run(run: Run, out: Path) -> list[Block]:
    """Blocks from the verdict down to the command; each part that has no data says so."""
    blocks: list[Block] = [Heading(f"{run.info.get('algo')} on {run.info.get('task')}", 1), Text(title(run))]
    if sentence := status_sentence(run):
        blocks.append(Callout("error" if run.status == "failed" else "warning", "Not finished.", sentence))
    blocks.append(_verdict(run))
    blocks += _measured(run, out)
    blocks += [Heading("Health"), *_findings(run)]
    curves = plots.draw_run(run, out)
    blocks += [Heading("Training"), Figures(curves) if curves else Text("No training metrics were logged.")]
    blocks += [Heading("Samples"), *_samples(run)]
    costs = cost_rows(run)
    blocks += [Heading("Time and memory"), Table(["", ""], costs) if costs else Text("Nothing was recorded.")]
    return blocks + [Heading("How to run it again"), *_origin(run)]


def _verdict(run: Run) -> Block:
    difference = run.evaluation.get("paired", {}).get("difference")
    kind = "info"
    if difference and difference["low"] is not None:
        kind = "ok" if difference["low"] > 0 else "warning" if difference["high"] < 0 else "info"
    return Callout(kind, verdict(run), "")


def _measured(run: Run, out: Path) -> list[Block]:
    if "baseline" not in run.evaluation:
        return []
    blocks: list[Block] = [Heading("Before and after"), Table(SUMMARY_HEAD, summary_rows(run))]
    if sentence := win_sentence(run):
        blocks.append(Text(f"Win rate of the trained model by reward: {sentence}."))
    blocks.append(Text(SUMMARY_NOTE))
    accuracies = [run.evaluation.get(side, {}).get("accuracy") for side in ("baseline", "trained")]
    return [*blocks, Figures([plots.draw_accuracy([("", *accuracies)], out)])]


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
    text = f"{evidence}. Likely cause: {finding['cause']}. To try:"
    return Callout(finding["severity"], f"{finding['severity'].capitalize()}: {name}{steps}.", text, finding["remedy"])


def _samples(run: Run) -> list[Block]:
    pairs = run.paired_samples()
    if not pairs:
        return [Text("No samples from before and after were recorded.")]
    rows = [
        [
            f"{before} before",
            *(str(sum(_outcomes(pair) == (before, after) for pair in pairs)) for after in OUTCOMES),
        ]
        for before in OUTCOMES
    ]
    blocks: list[Block] = [
        Table(["", *(f"{outcome} after" for outcome in OUTCOMES)], rows),
        Text(SAMPLE_NOTE),
    ]
    for kind, before, after, shown in SAMPLE_RULE:
        chosen = [pair for pair in pairs if tuple(o == "correct" for o in _outcomes(pair)) == (before, after)]
        blocks += [
            Pair(
                kind,
                pair[0]["prompt"],
                (_caption("Before", pair[0]), _caption("After", pair[1])),
                (pair[0]["completion"], pair[1]["completion"]),
            )
            for pair in chosen[:shown]
        ]
    return blocks


def _outcomes(pair: tuple[dict, dict]) -> tuple[str, str]:
    return pair[0]["outcome"], pair[1]["outcome"]


def _caption(when: str, sample: dict) -> str:
    cut = ", cut off" if sample["truncated"] else ""
    return f"{when}: {sample['outcome']}, reward {sample['reward']}, {sample['tokens']} tokens{cut}"


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

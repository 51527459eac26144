"""Writes the short plain-text table that a run prints at its end; in ASCII, so that every terminal shows it.

print(terminal_table(Path("outputs/2026-01-01/12-00-00")))
"""

import textwrap
from pathlib import Path

from rlhf_exp.errors import printable
from rlhf_exp.report.policies import policy_sentence
from rlhf_exp.report.summary import INTERVAL_NOTE, KL_NOTE, summary_head, summary_rows
from rlhf_exp.report.tables import duration, seconds_per_step, title
from rlhf_exp.report.verdict import best_sentence, preference_sentence, status_sentence, verdict, win_sentence
from rlhf_exp.runs.load import Run, load_run, reading


def terminal_table(run_dir: Path) -> str:
    """The run's figures before and after with 95% intervals, its cost, its health, and where the report is.

    Raises:
        NotARun: `run_dir` holds no readable run.
    """
    run = load_run(run_dir)
    with reading(run_dir):
        return printable(_tabulate(run))


def _tabulate(run: Run) -> str:
    lines = [title(run)]
    if sentence := status_sentence(run):
        lines.append(sentence)
    lines.append("")
    if "baseline" in run.evaluation:
        rows = summary_rows(run)
        lines += align([summary_head(run), *rows])
        lines += [INTERVAL_NOTE + (f" {KL_NOTE}" if any(row[0] == "KL" for row in rows) else ""), ""]
    lines.append(verdict(run).sentence)
    judged = {"difference", "win_rate"} & set(run.evaluation.get("paired", {}))
    facts = [
        ["win rate", win_sentence(run)],
        ["trivial", policy_sentence(run)],
        ["preferences", preference_sentence(run) if judged else None],  # else the verdict's
        ["training", _training(run)],
        ["kept", best_sentence(run)],
        ["time", _phases(run)],
        ["peak memory", f"{run.info['peak_memory_mb']:,.0f} MB" if run.info.get("peak_memory_mb") else None],
        ["report", str(run.path / "report.html") if (run.path / "report.html").exists() else None],
        ["health", _health(run)],
    ]
    lines += [f"{label:<12} {text}" for label, text in facts if text]
    for finding in run.diagnosis.get("findings", []):
        text = f"{finding['severity']} {finding['name']}: {finding['evidence']};"
        text += f" try {finding['remedy']}" if finding["remedy"] else " no setting of this run would correct it"
        lines += textwrap.wrap(text, 100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


def align(rows: list[list[str]]) -> list[str]:
    """Lines of a table: the first column aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]


def _training(run: Run) -> str | None:
    if not (per_step := seconds_per_step(run.info)):
        return None
    return f"{run.info['steps']} steps in {duration(run.info['seconds']['train'])}, {per_step:.3g} s per step"


def _phases(run: Run) -> str:
    phases = run.info.get("seconds", {}).items()
    text = ", ".join(f"{phase} {duration(spent)}" for phase, spent in phases)
    return text + (" (baseline from the cache)" if run.info.get("baseline_cached") else "")


def _health(run: Run) -> str | None:
    if not run.diagnosis:
        return None
    n = len(run.diagnosis["findings"])
    return f"{run.diagnosis['health']}, {n} finding{'' if n == 1 else 's'}" + (":" if n else "")

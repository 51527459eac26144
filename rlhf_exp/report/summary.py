"""The figures of one run before and after training, for the terminal, the pages and the model card.

summary_table(run)  ->  Table(["", "baseline", ...], [["accuracy", "25.2% [21.6, 29.1]", "46.1% [41.8, 50.4]", ...]])
terminal_table(Path("outputs/2026-01-01/12-00-00"))  ->  what a run prints at its end
"""

import textwrap
from pathlib import Path

from rlhf_exp.errors import printable
from rlhf_exp.report.baselines import baseline_sentence
from rlhf_exp.report.columns import Column, at, join_notes
from rlhf_exp.report.page import NOTES, TEXTS, Table, align
from rlhf_exp.report.verdict import best_sentence, status_sentence, verdict
from rlhf_exp.runs.figures import duration, number, percent, points, write_name
from rlhf_exp.runs.load import Run, load_run, refusing_damage

WRITERS = {"%": percent, "counts": lambda counts: " / ".join(map(str, counts.values()))}
"""How figures are written that are no plain numbers."""


def _make_column(name: str, path: str, form: str, has_difference: bool = False) -> Column:
    """A figure of a section of evaluation.json, as report_texts.yaml declares it."""
    column = Column(name, at(*path.split(".")), WRITERS.get(form) or number(form))
    return column._replace(write_difference=points if form == "%" else number(f"+{form}")) if has_difference else column


POLICY_FIGURES, RANKING_FIGURES, SCORER_FIGURES = (
    [_make_column(*figure) for figure in TEXTS["sections"][name]] for name in ("policy", "ranking", "scorer")
)


def summary_table(run: Run) -> Table:
    """A row for each figure: baseline, trained and the difference; if nothing is trained, the measurement."""
    before, after, paired = _read_sides(run)
    if not run.trains:
        return Table(["", "measured"], [[figure.name, figure.cell(before)] for figure in _list_figures(run)])
    rows = [[f.name, f.cell(before), f.cell(after), f.write_difference(f.read(paired))] for f in _list_figures(run)]
    return Table(["", "baseline", "trained", "difference"], rows)


def summary_note(run: Run) -> str:
    """What explains the table."""
    left_out = run.evaluation["baseline"].get("loss_left_out")
    why_not = f" Held-out loss is left out: {left_out}." if left_out else ""
    return f"{NOTES['summary']} {join_notes(_list_figures(run))}{why_not}"


def terminal_table(run_dir: Path) -> str:
    """The run's figures before and after with 95% intervals, its cost, its health, and where the report is. All but
    the texts of a run is ASCII, so that every terminal shows it.

    Raises:
        NotARun: `run_dir` holds no readable run.
    """
    run = load_run(run_dir)
    with refusing_damage(run_dir):
        return printable(_tabulate(run))


def title(run: Run) -> str:
    """algo=grpo loss_type=grpo task=countdown model=tiny max_tokens=64 seed=0 name=my-run tags=a,b: finished"""
    keys = ("algo", "loss_type", "task", "model", "max_tokens", "seed", "name", "tags")
    return f"{' '.join(f'{key}={name}' for key in keys if (name := write_name(run.info.get(key))))}: {run.status}"


def _read_sides(run: Run) -> tuple[dict, dict, dict]:
    """The figures of the start model, of the trained one, and their paired differences."""
    before, after, paired = (run.evaluation.get(part, {}) for part in ("baseline", "trained", "paired"))
    return before, after | {"win_rate": paired.get("win_rate")}, paired | {"accuracy": paired.get("difference")}


def _list_figures(run: Run) -> list[Column]:
    """The figures that were measured before or after training, with a row of pass@k for each k."""
    sides = _read_sides(run)[:2]
    several = sorted({int(k) for side in sides for k in side.get("pass_at_k", {})})
    passes = [_make_column(f"pass@{k}", f"pass_at_k.{k}", "%") for k in several if k > 1]  # pass@1 is the accuracy
    figures = [*RANKING_FIGURES, *SCORER_FIGURES] if run.trains_scorer else [*POLICY_FIGURES, *passes]
    return [figure for figure in figures if any(figure.cell(side) != "-" for side in sides)]


def _tabulate(run: Run) -> str:
    info, findings = run.info, run.diagnosis.get("findings", [])
    lines = [line for line in (title(run), status_sentence(run)) if line] + [""]
    if "baseline" in run.evaluation:
        table = summary_table(run)
        lines += [*align([table.head, *table.rows]), "In brackets: 95% intervals.", ""]
    page = run.path / "report.html"
    facts = {
        "baselines": baseline_sentence(run),
        "kept": best_sentence(run),
        "time": ", ".join(f"{phase} {duration(spent)}" for phase, spent in info.get("seconds", {}).items()),
        "peak memory": info.get("peak_memory_mb") and f"{info['peak_memory_mb']:,.0f} MB",
        "report": page if page.exists() else None,
        "health": run.diagnosis and f"{run.diagnosis['health']}, {len(findings)} finding{'s' * (len(findings) != 1)}",
    }
    lines += [verdict(run).sentence, *(f"{label:<12} {text}" for label, text in facts.items() if text)]
    for finding in findings:
        remedy = f"; try {finding['remedy']}" if finding["remedy"] else ""
        text = f"{finding['severity']} {finding['name']}: {finding['evidence']}{remedy}"
        lines += textwrap.wrap(text, 100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)

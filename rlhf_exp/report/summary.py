"""The figures of one run before and after training, for the terminal, the pages and the model card.

summary_table(run)  ->  Table(["", "baseline", ...], [["accuracy", "25.2% [21.6, 29.1]", "46.1% [41.8, 50.4]", ...]])
terminal_table(Path("outputs/2026-01-01/12-00-00"))  ->  what a run prints at its end
"""

import textwrap
from pathlib import Path

from rlhf_exp.algorithms import DEMONSTRATIONS, PAIRS
from rlhf_exp.errors import printable
from rlhf_exp.report.baselines import baseline_sentence
from rlhf_exp.report.columns import Column, at, join_notes
from rlhf_exp.report.page import NOTES, TEXTS, Table, align
from rlhf_exp.report.verdict import best_sentence, preference_sentence, status_sentence, verdict, win_sentence
from rlhf_exp.runs.figures import duration, number, percent, points, write_name
from rlhf_exp.runs.load import Run, load_run, refusing_damage

LOSS_NOTES = {DEMONSTRATIONS: NOTES["loss of demonstrations"], PAIRS: NOTES["loss of pairs"]}
WRITERS = {
    "%": percent,
    "counts": lambda counts: " / ".join(map(str, counts.values())),
    "distinct": lambda found: f"{found['1']:.3f} / {found['2']:.3f}",
    "use": lambda side: f"{100 * side['utilisation']:.1f}% of {side['max_tokens']}" if "utilisation" in side else "-",
}
"""How figures are written that are no plain numbers."""


def _make_column(name: str, path: str, form: str, has_difference: bool = False) -> Column:
    """A figure of a section of evaluation.json, as report_texts.yaml declares it."""
    column = Column(name, at(*path.split(".")) if path else lambda side: side, WRITERS.get(form) or number(form))
    return column._replace(write_difference=points if form == "%" else number(f"+{form}")) if has_difference else column


POLICY_FIGURES, RANKING_FIGURES, SCORER_FIGURES = (
    [_make_column(*figure) for figure in TEXTS["sections"][name]] for name in ("policy", "ranking", "scorer")
)


def summary_table(run: Run) -> Table:
    """A row for each figure: baseline, trained and the difference; if nothing is trained, the measurement."""
    figures = _list_figures(run)
    if not run.trains:
        return Table(["", "measured"], [[figure.name, figure.cell(run.evaluation["baseline"])] for figure in figures])
    paired = run.evaluation.get("paired", {})
    paired = {**paired, "accuracy": paired.get("difference")}
    rows = [[f.name, *map(f.cell, _read_sides(run)), f.write_difference(f.read(paired))] for f in figures]
    return Table(["", "baseline", "trained", "difference"], rows)


def summary_note(run: Run) -> str:
    """What explains the table."""
    first = NOTES["summary" if run.trains else "intervals"]
    return " ".join(filter(None, [first, _several_note(run), join_notes(_list_figures(run)), _loss_note(run)]))


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


def seconds_per_step(info: dict) -> float | None:
    """From run.json; None for a run that did not train."""
    seconds, steps = info.get("seconds", {}).get("train"), info.get("steps")
    return seconds / steps if seconds and steps else None


def _list_figures(run: Run) -> list[Column]:
    """The figures that were measured before or after training."""
    sides = _read_sides(run)
    figures = (*RANKING_FIGURES, *SCORER_FIGURES) if run.trains_scorer else (*_list_accuracies(sides), *POLICY_FIGURES)
    if not run.trains:  # the KL to itself is 0
        figures = tuple(figure for figure in figures if not figure.name.startswith("KL"))
    return [figure for figure in figures if any(figure.cell(side) != "-" for side in sides)]


def _list_accuracies(sides: list[dict]) -> list[Column]:
    """The accuracies: two readings if the answer's form counts (gsm8k), and a row of pass@k for each k."""
    readings = {"accuracy": "accuracy"}
    if any("lenient_accuracy" in side for side in sides):
        readings = {"accuracy": "accuracy, strict", "lenient_accuracy": "accuracy, lenient"}
    several = sorted({int(k) for side in sides for k in side.get("pass_at_k", {})})
    return [
        *(_make_column(name, key, "%", True) for key, name in readings.items()),
        *(_make_column(f"greedy {name}", f"greedy.{key}", "%", True) for key, name in readings.items()),
        *(_make_column(f"pass@{k}", f"pass_at_k.{k}", "%") for k in several if k > 1),  # pass@1 is the accuracy
        *(_make_column(f"majority@{k}", "majority_at_k", "%") for k in several[-1:]),
    ]


def _read_sides(run: Run) -> list[dict]:
    return [run.evaluation.get(which, {}) for which in ("baseline", "trained")]


def _several_note(run: Run) -> str:
    """A note on the completions of each row; empty if there is one."""
    sides = _read_sides(run)
    before, after = (side.get("completions") for side in sides)
    if max(before or 1, after or 1) == 1:
        return ""
    own = f" of the start model and {after} of the trained one" if before != after is not None else ""
    text = NOTES["several"].format(completions=f"{before} completions{own}")
    return f"{text} {NOTES['pass']}" if any("pass_at_k" in side for side in sides) else text


def _loss_note(run: Run) -> str:
    """A note on what the held-out loss and its intervals are, or why there is none; may be empty."""
    baseline = run.evaluation["baseline"]
    if "loss_left_out" in baseline:
        return f"Held-out loss is left out: {baseline['loss_left_out']}."
    of_what = LOSS_NOTES.get(run.algorithm.learns_from) if run.algorithm and not run.trains_scorer else None
    if "loss" not in baseline or not of_what:
        return ""
    text = f"{of_what}; its intervals, that of the difference too, are Student's t."
    left_out = baseline.get("loss_rows", {}).get("left_out")
    return f"{text} {left_out} rows are not in it: their prompts fill algo.args.max_length." if left_out else text


def _tabulate(run: Run) -> str:
    lines = [line for line in (title(run), status_sentence(run)) if line] + [""]
    if "baseline" in run.evaluation:
        table = summary_table(run)
        lines += align([table.head, *table.rows])
        kl = [TEXTS["figures"]["KL"]] if any(row[0] == "KL" for row in table.rows) else []
        lines += [" ".join([NOTES["intervals"], *kl]), ""]
    info, findings = run.info, run.diagnosis.get("findings", [])
    judged = {"difference", "win_rate"} & set(run.evaluation.get("paired", {}))
    training = seconds_per_step(info)
    cached = " (baseline from the cache)" if info.get("baseline_cached") else ""
    page = run.path / "report.html"
    facts = {
        "win rate": win_sentence(run),
        "baselines": baseline_sentence(run),
        "preferences": preference_sentence(run) if judged else None,  # else the verdict's
        "training": training
        and f"{info['steps']} steps in {duration(info['seconds']['train'])}, {training:.3g} s per step",
        "kept": best_sentence(run),
        "time": ", ".join(f"{phase} {duration(spent)}" for phase, spent in info.get("seconds", {}).items()) + cached,
        "peak memory": info.get("peak_memory_mb") and f"{info['peak_memory_mb']:,.0f} MB",
        "report": page if page.exists() else None,
        "health": run.diagnosis
        and f"{run.diagnosis['health']}, {len(findings)} finding{'s' * (len(findings) != 1)}{':' * bool(findings)}",
    }
    lines += [verdict(run).sentence, *(f"{label:<12} {text}" for label, text in facts.items() if text)]
    for finding in findings:
        text = f"{finding['severity']} {finding['name']}: {finding['evidence']};"
        text += f" try {finding['remedy']}" if finding["remedy"] else " no setting of this run would correct it"
        lines += textwrap.wrap(text, 100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)

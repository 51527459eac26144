"""The figures of one run before and after training, and in a sentence what it achieved, for the terminal, the pages and
the model card. The verdict is by the first of these that was measured: held-out accuracy, the win rate by reward, the
accuracy of the implicit reward.

summary_table(run)  ->  Table(["", "baseline", ...], [["accuracy", "25.2% [21.6, 29.1]", "46.1% [41.8, 50.4]", ...]])
verdict(run)  ->  Callout("ok", "Held-out accuracy rose: 22.1% before and 38.5% after, ...")
terminal_table(Path("outputs/2026-01-01/12-00-00"))  ->  what a run prints at its end
"""

import math
import sys
import textwrap
from pathlib import Path

from rlhf_exp.analysis.frame import FEWEST, read
from rlhf_exp.analysis.report.baselines import baseline_sentence
from rlhf_exp.analysis.report.columns import TESTED, Column, at, average, join_notes, list_rewards
from rlhf_exp.analysis.report.page import NOTES, TEXTS, Block, Callout, Table, footnote
from rlhf_exp.analysis.stats import DIFFERENCES, LEVELS, SHARES, Interval, crossed_interval
from rlhf_exp.analysis.stats.planning import plan_rows
from rlhf_exp.errors import paint, printable
from rlhf_exp.findings import tell_remedies
from rlhf_exp.runs.figures import align, begin, duration, number, percent, points, write_name
from rlhf_exp.runs.load import Run, load_run, refusing_damage
from rlhf_exp.runs.records import SEVERITIES, Finding, Paired, Section

WRITERS = {"%": percent, "counts": lambda counts: " / ".join(map(str, counts.values()))}
"""How figures are written that are no plain numbers."""


COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}
VERDICTS = ("ok", "info", "error")
MOST_CHANGES = 3
ONE_SEED = "This is one seed, and another may differ."
CHANGED = ("rose", "did not measurably change", "fell")
OFTEN = ("more often than", "not measurably more often than", "less often than")


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
    if (teacher := run.evaluation.teacher) is not None:
        rows = [[*row, f.cell(teacher)] for row, f in zip(rows, _list_figures(run), strict=True)]
    for reward in list_rewards([run]):
        sides = [reward.write(average(run, model, reward.name)) for model in ("baseline", "trained")]
        rows.append([reward.name, *sides, reward.write_difference(average(run, "gain", reward.name))])
    return Table(["", "baseline", "trained", "difference", *["teacher"] * (teacher is not None)], rows)


def describe_summary(run: Run) -> list[Block]:
    """The table, and what explains it."""
    left_out = at("baseline", "loss_left_out")(run.evaluation)
    why_not = f" Held-out loss is left out: {left_out}." if left_out else ""
    return [summary_table(run), footnote(f"{NOTES['summary']} {join_notes(_list_figures(run))}{why_not}")]


def terminal_table(run_dir: Path) -> str:
    """The answer in three sentences (the verdict, what else changed, the health), which are green, yellow or red; then
    the figures before and after, the time, and where the report is. All but the texts of a run is ASCII, so that every
    terminal shows it.

    Raises:
        NotARun: `run_dir` holds no readable run.
    """
    run = load_run(run_dir)
    with refusing_damage(run_dir):
        facts = "; ".join(f"{fact.title} {fact.text}" for fact in list_changes(run))
        facts = facts.replace("→", "->").replace("; No", "; no")
        changes = [Callout("", "What else changed:", f"{facts}.")] if facts else []
        answer = [verdict(run), *changes, *describe_health(run)]
        head = [line for line in (title(run), _write_status(run)) if line]
        return "\n".join([*map(printable, head), "", *map(_write_remark, answer), "", printable(_tabulate(run))])


def verdict(run: Run) -> Callout:
    """The sentence as a title, and what the start model reaches without training; its kind is ok for better, error for
    worse, and info if the interval includes no change."""
    before, after, paired = _read_sides(run)
    untrained = f"Without training {found}." if (found := baseline_sentence(run)) else ""
    if not run.trains:
        accuracy = f"{percent(before.accuracy)} on {before.n} rows"
        return Callout("info", f"Held-out accuracy is {accuracy}; nothing was trained.")
    if (difference := paired.difference) and before.accuracy and after.accuracy:
        place = _judge(difference, 0)
        sides = f"{100 * before.accuracy['value']:.1f}% before and {100 * after.accuracy['value']:.1f}% after"
        sentence = f"Held-out accuracy {CHANGED[place]}: {sides}, a difference of {points(difference)} points on"
        plan = _plan(difference, paired.n) if place == 1 else ""
        gains = {name: at("paired", "difference")(found) for name, found in run.parts.items()}
        each = "; ".join(f"{name} {points(gain)}" for name, gain in gains.items() if gain)
        more = " ".join(filter(None, (each and f"By task, in points: {each}.", plan, untrained)))
        return Callout(VERDICTS[place], f"{sentence} {paired.n:,} rows.", f"{more} {ONE_SEED}".strip())
    if rate := paired.win_rate:
        place = _judge(rate, 0.5)
        sentence = f"By reward the trained model wins {OFTEN[place]} it loses: {percent(rate)} of {paired.n}"
        return Callout(VERDICTS[place], f"{sentence} held-out rows against the start model (a tie is half a win).")
    if (section := after.preference) and section.accuracy:
        place = _judge(section.accuracy, 0.5)
        sentence = f"The implicit reward puts the chosen answer first {OFTEN[place]} chance: in"
        return Callout(VERDICTS[place], f"{sentence} {percent(section.accuracy)} of {section.n} held-out pairs.")
    when = "is measured when training has ended" if run.status == "running" else "was not measured"
    return Callout("info", f"Held-out accuracy after training {when}.")


def list_changes(run: Run) -> list[Callout]:
    """What else changed from the start model to the trained one, by 95% intervals over the held-out rows: the first
    figures that did, and the names of those that did not; empty without sampled completions."""
    changed, unchanged = list[Callout](), list[str]()
    for name, (unit, what, *path) in TEXTS["changes"].items():
        column = TESTED[name]
        before, gain = (read(run, model, str(column.rows)) for model in ("baseline", "gain"))
        if before is None or gain is None or len(gain) < FEWEST:
            continue
        is_share = column.kind is SHARES
        difference = at(*path[0].split("."))(run.evaluation) if path else None
        if not difference or difference["low"] is None:
            difference = crossed_interval(gain.to_numpy()[None], DIFFERENCES if is_share else LEVELS)
        if _judge(difference, 0) == 1:
            unchanged.append(name)
        else:
            start, end = column.write(before.mean()), column.write(before.mean() + gain.mean())
            told = f"{what} ({column.write_difference(difference)}{' points' if is_share else ''})"
            changed.append(Callout("fact", f"{start} → {end} {unit}", told))
    same = [Callout("fact", "No clear change", f"in {', '.join(unchanged)}")] if unchanged else []
    return changed[:MOST_CHANGES] + same


def describe_health(run: Run) -> list[Callout]:
    """The worst finding with its cause and what to try, and the names of the others; of a run that goes on its alarms.
    Empty if nothing was checked. It is red where the verdict is."""
    found = run.diagnosis
    findings = sorted(found.findings if found.health else run.alarms, key=lambda one: SEVERITIES.index(one.severity))
    if not findings and not found.health:
        return []
    if not findings:
        return [Callout("ok", "Health: ok.", f"{len(found.checked) or 'The'} checks found nothing.")]
    worst, *others = findings
    also = f"\nAlso found: {', '.join(one.name.replace('_', ' ') for one in others)}." if others else ""
    kind = found.health or worst.severity
    told = explain(worst.model_copy(update={"remedy": tell_remedies(found) or worst.remedy}), also)
    colour = "error" if verdict(run).kind == "error" else kind
    return [Callout(colour, f"Health: {kind}, {worst.name.replace('_', ' ')}.", told)]


def explain(finding: Finding, also: str = "") -> str:
    """What was seen, the likely cause and what to try, a line each; `also`: the line before the last."""
    remedy = f"\nTo try: {finding.remedy}" if finding.remedy else ""
    return f"{begin(finding.evidence)}.\nLikely cause: {finding.cause}.{also}{remedy}"


def best_sentence(run: Run) -> str | None:
    """The policy of step 40, the best of 9 measurements: accuracy 45.3% on 128 validation rows"""
    if not (best := run.info.best):
        return None
    write = percent if best.metric.endswith("accuracy") else number(".3f")
    figure = f"{best.metric.partition('/')[2]} {write(best.value)}"
    measured = len(run.series(best.metric)[0])
    rows = run.config.get("eval", {}).get("every_rows")
    return f"the policy of step {best.step}, the best of {measured} measurements: {figure} on {rows} validation rows"


def describe_status(run: Run, title: str = "Not finished.") -> list[Block]:
    """A remark of why the run has not finished; empty for a finished run."""
    kind = "error" if run.status == "failed" else "warning"
    return [Callout(kind, title, sentence)] if (sentence := _write_status(run)) else []


def title(run: Run) -> str:
    """algo=grpo loss_type=grpo task=countdown model=tiny max_tokens=64 seed=0 name=my-run tags=a,b: finished"""
    keys = ("algo", "loss_type", "task", "model", "max_tokens", "seed", "name", "tags")
    return f"{' '.join(f'{key}={name}' for key in keys if (name := write_name(getattr(run.info, key))))}: {run.status}"


def _write_status(run: Run) -> str | None:
    if run.status == "finished":
        return None
    error = " ".join(str(run.info.error or "no reason was recorded").split())[:500].rstrip(".")
    reached = f"The last logged step is {run.metrics[-1]['step']}." if run.metrics else "No step was logged."
    if run.status == "running":
        return f"This run is still running, or was killed before it could say so. {reached}"
    return f"This run {'was ' if run.status == 'stopped' else ''}{run.status}: {error}. {reached}"


def _read_sides(run: Run) -> tuple[Section, Section, Paired]:
    """The figures of the start model, of the trained one, and their paired differences."""
    found = run.evaluation
    before, after, paired = found.baseline or Section(), found.trained or Section(), found.paired or Paired()
    won, gained = {"win_rate": paired.win_rate}, {"accuracy": paired.difference}
    return before, after.model_copy(update=won), paired.model_copy(update=gained)


def _list_figures(run: Run) -> list[Column]:
    """The figures that were measured before or after training, with a row of pass@k for each k."""
    sides = _read_sides(run)[:2]
    several = sorted({int(k) for side in sides for k in side.pass_at_k})
    passes = [_make_column(f"pass@{k}", f"pass_at_k.{k}", "%") for k in several if k > 1]  # pass@1 is the accuracy
    figures = [*RANKING_FIGURES, *SCORER_FIGURES] if run.trains_scorer else [*POLICY_FIGURES, *passes]
    return [figure for figure in figures if any(figure.cell(side) != "-" for side in sides)]


def _judge(interval: Interval, null: float) -> int:
    """0 for an interval that is above `null`, 1 if it includes it, 2 if it is below."""
    low, high = interval["low"], interval["high"]
    if low is not None and low > null:
        return 0
    return 2 if high is not None and high < null else 1


def _plan(difference: Interval, n: int) -> str:
    """What these rows could have shown; empty without an interval."""
    low, high = difference["low"], difference["high"]
    if low is None or high is None or not math.isfinite(high - low):
        return ""
    shown, needed = plan_rows(difference, n)
    text = f"So many rows show a difference of {100 * shown:.1f} points in 4 of 5 such runs"
    return f"{text}; the observed one takes {needed:,} rows." if needed else f"{text}."


def _write_remark(remark: Callout) -> str:
    """The remark as lines in the colour of its kind."""
    text = printable(f"{remark.title} {remark.text}".strip())
    lines = textwrap.wrap(text, 100, subsequent_indent="  ", break_on_hyphens=False)
    return paint("\n".join(lines), COLOURS.get(remark.kind), sys.stdout)


def _tabulate(run: Run) -> str:
    info, page = run.info, run.path / "report.html"
    lines = []
    if run.evaluation.baseline:
        table = summary_table(run)
        lines += [*align([table.head, *table.rows], range(1, len(table.head))), "In brackets: 95% intervals.", ""]
    facts = {
        "kept": best_sentence(run),
        "time": ", ".join(f"{phase} {duration(spent)}" for phase, spent in info.seconds.items()),
        "peak memory": info.peak_memory_mb and f"{info.peak_memory_mb:,.0f} MB",
        "report": page if page.exists() else None,
    }
    return "\n".join([*lines, *(f"{label:<12} {text}" for label, text in facts.items() if text)])

"""Shows sampling baselines beside the start and the trained model, of one run or of the settings of a comparison.

describe_baselines(run)    # blocks for the report
compare_baselines(groups)  # the same for a comparison
baseline_sentence(run)     # a line for the terminal
"""

from statistics import fmean
from typing import Any

from rlhf_exp.analysis.frame import join, read
from rlhf_exp.analysis.report.columns import Column, at, fill
from rlhf_exp.analysis.report.page import NOTES, Block, Heading, footnote
from rlhf_exp.analysis.stats import DIFFERENCES, crossed_interval
from rlhf_exp.runs.figures import Figure, number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.records import Baseline, Figures

HEADING, NOTE = Heading("Sampling baselines"), footnote(NOTES["baselines"])
ACCURACY, MINUS = Column("accuracy", at("accuracy"), percent), Column("trained minus it", at("trained_minus"), points)
OWN = (
    Column("policy", at("title")), ACCURACY, MINUS,
    Column("truncated", at("truncation_rate"), percent), Column("mean tokens", at("mean_tokens"), number(".1f")),
)  # fmt: skip
COMPARED = (Column("setting", at("setting")), Column("best baseline", at("title")), ACCURACY, MINUS)


def describe_baselines(run: Run) -> list[Block]:
    """A table of the start model, the best of each family, and the trained model; empty if none was measured."""
    families = run.evaluation.baselines
    if not families:
        return []
    difference, trained = at("paired", "difference")(run.evaluation), run.evaluation.trained
    rows = [_entitle(run.evaluation.baseline, "start model", trained_minus=difference)]
    rows += [_entitle(figures, _name(family, figures)) for family, figures in families.items()]
    rows += [_entitle(trained, "trained model")] if trained else []
    return [HEADING, fill(OWN, rows), NOTE]


def compare_baselines(groups: dict[str, list[Run]]) -> list[Block]:
    """For each setting whose runs have baselines the best of these, and by how much the setting is ahead of it."""
    rows = []
    for label, group in groups.items():
        if all(run.evaluation.baselines for run in group):
            family, figures = find_best(group[0])
            lead = {"setting": label, "trained_minus": _measure_lead(group, family)}
            rows.append(_entitle(figures, _name(family, figures), **lead))
    return [HEADING, fill(COMPARED, rows), NOTE] if rows else []


def baseline_sentence(run: Run) -> str | None:
    """What the start model reaches at best by another way of sampling; None if none was measured."""
    if not run.evaluation.baselines:
        return None
    family, figures = find_best(run)
    ahead = f"; trained minus that: {points(figures.trained_minus)} points" if figures.trained_minus else ""
    return f"the start model reaches {percent(figures.accuracy)} if only its sampling is changed ({family}){ahead}"


def find_best(run: Run) -> tuple[str, Baseline]:
    """The family whose best has the highest accuracy on validation rows: on the rows that are reported the highest
    would be too high."""
    families = run.evaluation.baselines.items()
    return max(families, key=lambda item: item[1].validation[item[1].policy])


def _measure_lead(group: list[Run], family: str) -> Figure:
    """Trained minus a baseline; without an interval where a run lacks the figures of each row."""
    leads = [at("baselines", family, "trained_minus", "value")(run.evaluation) for run in group]
    if None in leads:
        return None
    sides = [(read(run, "trained", "accuracy"), read(run, family, "accuracy")) for run in group]
    rows = join([None if own is None or other is None else (own - other).dropna() for own, other in sides])
    return fmean(leads) if rows is None else crossed_interval(rows, DIFFERENCES)


def _name(family: str, figures: Baseline) -> str:
    return figures.policy if figures.policy.startswith(family) else f"{family}: {figures.policy}"


def _entitle(figures: Figures | None, title: str, **more: Any) -> Figures:
    """The figures as a row of a table."""
    return (figures or Figures()).model_copy(update={"title": title, **more})

"""Shows sampling baselines beside the start and the trained model, of one run or of the settings of a comparison.

describe_baselines(run)    # blocks for the report
compare_baselines(groups)  # the same for a comparison
baseline_sentence(run)      # a line for the terminal
"""

from statistics import fmean
from typing import Any

from rlhf_exp.report import columns
from rlhf_exp.report.page import NOTES, Block, Heading, Text
from rlhf_exp.runs.figures import Figure, number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import DIFFERENCES, crossed_interval

HEADING = Heading("Sampling baselines")
NAME, ACCURACY = columns.Column("", columns.at("title")), columns.Column("accuracy", columns.at("accuracy"), percent)
LENGTH = columns.Column("mean tokens", columns.at("mean_tokens"), number(".1f"))
OWN = (
    *(NAME, ACCURACY, columns.Column("trained minus it", columns.at("trained_minus"), points)),
    *(columns.Column("truncated", columns.at("truncation_rate"), percent), LENGTH),
)
COMPARED = (NAME, ACCURACY, LENGTH, columns.Column("minus the best baseline", columns.at("lead"), points))


def describe_baselines(run: Run) -> list[Block]:
    """A table of the start model, the best of each family, and the trained model; empty if none was measured."""
    families = run.evaluation.get("baselines")
    if not families:
        return []
    rows = _list_baselines(run)
    rows[0]["trained_minus"] = run.evaluation.get("paired", {}).get("difference")
    if "trained" in run.evaluation:
        rows.append(run.evaluation["trained"] | {"title": "trained model"})
    tried = sum(len(figures["validation"]) for figures in families.values())
    return [HEADING, columns.fill(OWN, rows), Text(NOTES["baselines"].format(tried=tried))]


def compare_baselines(groups: dict[str, list[Run]]) -> list[Block]:
    """A table of the start model, the best of each family, and the settings whose runs share them; one table for
    each start model."""
    shared: dict[str, dict[str, list[Run]]] = {}
    for label, group in groups.items():
        if all(run.evaluation.get("baselines") for run in group):
            families = group[0].evaluation["baselines"].items()
            measured = str([(family, of["policy"], of["n"], of["accuracy"]) for family, of in families])
            shared.setdefault(measured, {})[label] = group
    blocks: list[Block] = []
    for settings in shared.values():
        [run, *_] = next(iter(settings.values()))
        best = _find_best(run.evaluation["baselines"])
        rows = _list_baselines(run)
        for label, group in settings.items():
            accuracy, length = (columns.mean_over_seeds(group, column) for column in (columns.TRAINED, columns.TOKENS))
            lead = _measure_lead(group, best)
            rows.append({"title": label, "accuracy": accuracy, "mean_tokens": length, "lead": lead})
        name = _name(best, run.evaluation["baselines"][best])
        blocks += [columns.fill(COMPARED, rows), Text(NOTES["compared baselines"].format(best=name))]
    return [HEADING, *blocks] if blocks else []


def baseline_sentence(run: Run) -> str | None:
    """The held-out accuracy of the best sampling baseline, and its family; None if none was measured."""
    families = run.evaluation.get("baselines")
    if not families:
        return None
    family = _find_best(families)
    figures = families[family]
    ahead = f"; trained minus it {points(figures['trained_minus'])}" if "trained_minus" in figures else ""
    return f"{percent(figures['accuracy'])}, {family}, best on validation rows{ahead}"


def _list_baselines(run: Run) -> list[dict[str, Any]]:
    """The figures of the start model, and of the best of each family."""
    families = run.evaluation["baselines"].items()
    found = [figures | {"title": _name(family, figures)} for family, figures in families]
    return [run.evaluation["baseline"] | {"title": "start model"}, *found]


def _find_best(families: dict[str, Any]) -> str:
    """The family whose best has the highest accuracy on validation rows: on the rows that are reported the highest
    would be too high."""
    return max(families, key=lambda family: families[family]["validation"][families[family]["policy"]])


def _measure_lead(group: list[Run], family: str) -> Figure:
    """Trained minus a baseline; without an interval where a run lacks the figures of each row."""
    leads = [run.evaluation["baselines"].get(family, {}).get("trained_minus") for run in group]
    if not all(leads):
        return None
    rows = columns.align(group, columns.subtract(columns.CORRECT, _of_family(family)))
    return fmean(lead["value"] for lead in leads) if rows is None else crossed_interval(rows, DIFFERENCES)


def _of_family(family: str) -> columns.Reader:
    """Of each held-out row the accuracy of the best of a family."""

    def read(run: Run) -> columns.ByRow:
        found = [row for row in run.policies if row.get("family") == family]
        return dict(zip(found[0]["id"], found[0]["accuracy"], strict=True)) if found else {}

    return read


def _name(family: str, figures: dict[str, Any]) -> str:
    return figures["policy"] if figures["policy"].startswith(family) else f"{family}: {figures['policy']}"

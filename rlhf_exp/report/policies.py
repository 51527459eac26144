"""Shows a run's trivial policies beside the start and the trained model.

describe_policies(run)    # blocks for the report
policy_sentence(run)      # a line for the terminal
"""

from typing import Any

from rlhf_exp.report.page import Block, Heading, Text
from rlhf_exp.report.tables import Column, at, fill, number, percent, points
from rlhf_exp.runs.load import Run

NOTE = (
    "Each of these policies has the weights of the start model and is sampled in another way: what training gains"
    " beyond them is what it learned. {tried} were tried on validation rows; of each family the best one there is"
    " measured on the held-out rows. Differences are paired over the same rows, in percentage points."
)
COLUMNS = (
    Column("", at("title")),
    Column("accuracy", at("accuracy"), percent),
    Column("trained minus it", at("trained_minus"), points),
    Column("truncated", at("truncation_rate"), percent),
    Column("mean tokens", at("mean_tokens"), number(".1f")),
)


def describe_policies(run: Run) -> list[Block]:
    """A table of the start model, the best policy of each family, and the trained model; empty if none was measured."""
    families = run.evaluation.get("baselines")
    if not families:
        return []
    start = run.evaluation["baseline"] | {"trained_minus": run.evaluation.get("paired", {}).get("difference")}
    rows = [start | {"title": "start model"}]
    rows += [figures | {"title": _name(family, figures)} for family, figures in families.items()]
    if "trained" in run.evaluation:
        rows.append(run.evaluation["trained"] | {"title": "trained model"})
    tried = sum(len(figures["validation"]) for figures in families.values())
    return [Heading("Trivial policies"), fill(COLUMNS, rows), Text(NOTE.format(tried=tried))]


def policy_sentence(run: Run) -> str | None:
    """The family of the trivial policy with the highest held-out accuracy; None if none was measured."""
    families = run.evaluation.get("baselines")
    if not families:
        return None
    family, figures = max(families.items(), key=lambda item: item[1]["accuracy"]["value"])
    ahead = f"; trained minus it {points(figures['trained_minus'])}" if "trained_minus" in figures else ""
    return f"at best {percent(figures['accuracy'])}, {family}{ahead}"


def _name(family: str, figures: dict[str, Any]) -> str:
    return figures["policy"] if figures["policy"].startswith(family) else f"{family}: {figures['policy']}"

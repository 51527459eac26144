"""Shows trivial policies beside the start and the trained model, of one run or of the settings of a comparison.

describe_policies(run)    # blocks for the report
compare_policies(groups)  # the same for a comparison
policy_sentence(run)      # a line for the terminal
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rlhf_exp.report.columns import CORRECT, TOKENS, TRAINED, mean_over_seeds
from rlhf_exp.report.page import Block, Heading, Table, Text
from rlhf_exp.report.rows import align, of_policy, subtract
from rlhf_exp.report.tables import Column, at, fill
from rlhf_exp.runs.figures import number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import DIFFERENCES, crossed_interval

NOTE = (
    "Each of these policies has the weights of the start model and is sampled in another way: what training gains"
    " beyond them is what it learned. {tried} were tried on validation rows; of each family the best one there is"
    " measured on the held-out rows. Differences are paired over the same rows, in percentage points."
)
COMPARED_NOTE = (
    "Each of these policies has the weights of the start model and is sampled in another way; of each family the one"
    " that was best on validation rows. The last column is paired over the same rows, in percentage points."
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


def compare_policies(groups: dict[str, list[Run]]) -> list[Block]:
    """A table of the start model, the best policy of each family, and the settings whose runs share them; one table for
    each start model."""
    shared: dict[str, dict[str, list[Run]]] = {}
    for label, group in groups.items():
        if all(run.evaluation.get("baselines") for run in group):
            shared.setdefault(_freeze(group[0].evaluation), {})[label] = group
    blocks: list[Block] = []
    for settings in shared.values():
        evaluation = next(iter(settings.values()))[0].evaluation
        families = evaluation["baselines"]
        best = _find_best(families)
        sections = {"start model": evaluation["baseline"]}
        sections |= {_name(family, figures): figures for family, figures in families.items()}
        rows = [
            [name, percent(one["accuracy"]), number(".1f")(one["mean_tokens"]), "-"] for name, one in sections.items()
        ]
        for label, group in settings.items():
            figures = TRAINED.write(mean_over_seeds(group, TRAINED)), TOKENS.write(mean_over_seeds(group, TOKENS))
            rows.append([label, *figures, _write_lead(group, best)])
        table = Table(["", "accuracy", "mean tokens", "minus the best policy"], rows)
        blocks += [table, Text(f"{COMPARED_NOTE} The best policy on validation rows: {_name(best, families[best])}.")]
    return [Heading("Trivial policies"), *blocks] if blocks else []


def policy_sentence(run: Run) -> str | None:
    """The held-out accuracy of the best trivial policy, and its family; None if none was measured."""
    families = run.evaluation.get("baselines")
    if not families:
        return None
    family = _find_best(families)
    figures = families[family]
    ahead = f"; trained minus it {points(figures['trained_minus'])}" if "trained_minus" in figures else ""
    return f"{percent(figures['accuracy'])}, {family}, best on validation rows{ahead}"


def _find_best(families: dict[str, Any]) -> str:
    """The family whose policy has the highest accuracy on validation rows: on the rows that are reported the highest
    would be too high."""
    return max(families, key=lambda family: families[family]["validation"][families[family]["policy"]])


def _write_lead(group: Sequence[Run], family: str) -> str:
    """Trained minus a policy; without an interval where a run lacks the figures of each row."""
    leads = [run.evaluation["baselines"].get(family, {}).get("trained_minus") for run in group]
    if not all(leads):
        return "-"
    rows = align(list(group), subtract(CORRECT, of_policy(family)))
    return points(fmean(lead["value"] for lead in leads) if rows is None else crossed_interval(rows, DIFFERENCES))


def _freeze(evaluation: dict[str, Any]) -> str:
    families = evaluation["baselines"].items()
    return str([(family, figures["policy"], figures["n"], figures["accuracy"]) for family, figures in families])


def _name(family: str, figures: dict[str, Any]) -> str:
    return figures["policy"] if figures["policy"].startswith(family) else f"{family}: {figures['policy']}"

"""Says by rules, from the numbers alone, which differences hold, what each setting cost, which runs are unhealthy, and
what explains a change from the start model to the trained one.

describe_in_words({"ppo": [run, run], "grpo": [run, run]}, tests)  ->  [Heading("In words"), Text(...), ...]
explain_change([run, run])  ->  "Of the start model's completions 76.0% fail, 33.0% after training (-43.0 [...]); ..."
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rlhf_exp.analysis.frame import stack
from rlhf_exp.analysis.report import columns
from rlhf_exp.analysis.report.columns import TESTED, mean_over_seeds
from rlhf_exp.analysis.report.groups import MANY, Groups, keep_measured
from rlhf_exp.analysis.report.page import TEXTS, Block, Callout, Heading, Text
from rlhf_exp.analysis.report.pairwise import Tests, find_about, summarise_tests, write_size
from rlhf_exp.analysis.stats import DIFFERENCES, LEVELS, SHARES, crossed_interval
from rlhf_exp.analysis.stats.planning import plan_rows
from rlhf_exp.runs.load import Run

CLOSE = 1.05
"""Costs that differ by a smaller factor are about the same."""


def describe_in_words(groups: Groups, tests: dict[str, Tests]) -> list[Block]:
    """What the numbers say, a sentence or two per subject and setting; of more than MANY settings the first and the
    last are explained. `groups` are sorted by result; runs that were not measured count for their health alone."""
    measured = keep_measured(groups)
    sentences = summarise_tests(measured, tests, find_about(measured, tests))
    labels = list(measured) if len(measured) <= MANY else [list(measured)[0], list(measured)[-1]]
    explained = [(label, explain_change(measured[label], label, tests)) for label in labels]
    texts = [Text(f"{label}. {text}", f"What changed with {label}") for label, text in explained if text]
    return [Heading("In words"), *sentences, *_describe_costs(measured), _describe_health(groups), *texts]


def explain_change(group: list[Run], label: str = "", tests: Mapping[str, Tests] | None = None) -> str:
    """What changed from the start model to the trained one: by the tests, and for a setting that was not tested by the
    interval. Empty without sampled completions."""
    tests = tests or {}
    changed: list[str] = []
    unchanged: list[str] = []
    for name, what in TEXTS["changes"].items():
        column = TESTED[name]
        assert column.rows
        before, gains = (stack(group, model, column.rows) for model in ("baseline", "gain"))
        if before is None or gains is None:
            continue
        difference: Any = crossed_interval(gains, DIFFERENCES if column.kind is SHARES else LEVELS)
        found = [contrast for contrast in tests[name].starts if contrast.first == label] if name in tests else []
        power = found[0].detectable if found else plan_rows(difference, gains.shape[1])[0]
        if found[0].significant if found else difference["low"] > 0 or difference["high"] < 0:
            start, end = (column.write(before.mean() + gain) for gain in (0, gains.mean()))
            changed.append(f"{what.format(start)}, {end} after training ({column.write_difference(difference)})")
        else:
            unchanged.append(f"{name} ({'80% power for ' * (not unchanged)}{write_size(column, power)})")
    sentences = [f"Of the start model's completions {'; '.join(changed)}."] if changed else []
    sentences += [f"No measurable change in {', '.join(unchanged)}."] if unchanged else []
    return " ".join(sentences)


def _describe_costs(measured: Groups) -> list[Block]:
    """Each cost of the cheapest setting, and how many times it the others cost; of many only the dearest."""
    sentences = []
    for column in columns.COST:
        found = ((mean, label) for label, group in measured.items() if (mean := mean_over_seeds(group, column)))
        means = sorted((pair for pair in found if pair[0]["value"] > 0), key=lambda pair: pair[0]["value"])
        if len(means) > 1 and (name := TEXTS["cost sentences"].get(column.name)):
            least, cheapest = means[0]
            ratios = [(mean["value"] / least["value"], label, column.write(mean)) for mean, label in means]
            listed = [f"{label} {ratio:.1f} times that ({mean})" for ratio, label, mean in ratios if ratio >= CLOSE]
            rest = ", ".join(listed if len(measured) <= MANY else listed[-1:]) or "the others about the same"
            sentences.append(f"{name}: least {column.write(least)} ({cheapest}); {rest}.")
    return [Text(" ".join(sentences))] if sentences else []


def _describe_health(groups: Groups) -> Callout:
    """Which findings accuse how many runs of which settings, and which runs did not finish."""
    found: dict[str, Counter[str]] = {}
    for label, run in [(label, run) for label, group in groups.items() for run in group]:
        names = [found.name for found in run.diagnosis.findings if found.severity != "info"]
        for name in names + [run.status] * (run.status != "finished"):
            found.setdefault(name.replace("_", " "), Counter())[label] += 1
    parts = []
    for name, of in sorted(found.items(), key=lambda item: -item[1].total()):
        where = "; ".join(f"{label} {count} of {len(groups[label])}" for label, count in of.items())
        parts.append(f"{name} in {of.total()} ({where if len(groups) <= MANY else f'of {len(of)} settings'})")
    text = ", ".join(parts) or "no check accuses any"
    return Callout("warning" if parts else "ok", "Health.", f"Of {sum(map(len, groups.values()))} runs: {text}.")

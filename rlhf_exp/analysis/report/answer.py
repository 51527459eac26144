"""Says in words what several runs answer: which settings differ and by how much, at which cost, which runs are sick,
and what it would take to tell the others apart.

tests = compare_figures({"ppo": [run, run], "grpo": [run, run]})   ->  {"held-out accuracy": Tests(TRAINED, ...), ...}
describe_answer(groups, tests, about)                ->  [Heading("Answer"), Text("Held-out accuracy ..."), ...]
tabulate_tests(tests, ["held-out accuracy"])         ->  [Heading(...), Table(...), ...]

A difference has one interval, at the level that all comparisons of its figure share, and one verdict: whether that
interval includes 0.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from rlhf_exp.analysis.frame import stack_settings
from rlhf_exp.analysis.report import columns
from rlhf_exp.analysis.report.columns import REWARD, TESTED, TRAINED, Column, fill, mean_over_seeds
from rlhf_exp.analysis.report.groups import MANY, Groups, find_varied, name_rewards
from rlhf_exp.analysis.report.page import NOTES, TEXTS, Block, Callout, Heading, Text, footnote
from rlhf_exp.analysis.stats import (
    DIFFERENCES,
    LEVEL,
    LEVELS,
    SHARES,
    START,
    Contrast,
    Interval,
    as_interval,
    compare_settings,
)
from rlhf_exp.analysis.stats.collapse import find_collapsed
from rlhf_exp.analysis.stats.intervals import standard_error
from rlhf_exp.runs.figures import percent

FAR_BELOW = 10
"""A difference this many times below what was detectable is too small to matter, if neither more seeds nor more rows
would detect it."""
CLOSE = 1.05
"""Costs that differ by a smaller factor are about the same."""
WORDS = {1: "higher", 0: "no clear difference", -1: "lower"}


class Tests(NamedTuple):
    """The contrasts of one figure; `untested`: the settings with one seed, or without the figures of each row."""

    column: Column
    contrasts: list[Contrast]
    untested: list[str]

    @property
    def starts(self) -> list[Contrast]:
        return [contrast for contrast in self.contrasts if contrast.second == START]

    @property
    def pairs(self) -> list[Contrast]:
        return [contrast for contrast in self.contrasts if contrast.second != START]


def compare_figures(groups: Groups, named: str | None = None) -> dict[str, Tests]:
    """The contrasts of all figures of TESTED that some runs have; {} if no group has two seeds. Those of the first, by
    which settings are sorted, have a family-wise error of 5%, and so have those of all others together (Bonferroni)."""
    if max(map(len, groups.values()), default=0) < 2:
        return {}
    runs = [run for group in groups.values() for run in group]
    rewards = name_rewards(runs)
    known = {name: column for name, column in TESTED.items()
             if any(map(column.read, runs)) and (column is not REWARD or len(rewards) == 1)}  # fmt: skip
    if not known:
        return {}
    main, *others = known
    tests = {main: compare(groups, known[main], named)}
    pairs = tests[main].pairs
    first = pairs[0].first if pairs else next(iter(groups))
    further = [name for name in others if stack_settings(groups, known[name].model, str(known[name].rows))]
    for name in further:
        tests[name] = compare(groups, known[name], named, first, LEVEL / len(further))
    return tests


def compare(
    groups: Groups, column: Column, named: str | None = None, centre: str | None = None, level: float = LEVEL
) -> Tests:
    """The contrasts of all groups that have the figure of each row, and at least two seeds; `named`, `centre` and
    `level` are as of `compare_settings`, the first two where they are tested."""
    assert column.rows
    trained = stack_settings(groups, column.model, column.rows)
    tested = {label: groups[label] for label in trained}
    gains = stack_settings(tested, "gain", column.rows) if column.has_start else {}
    present = [label for label, group in groups.items() if any(map(column.read, group))]
    if not trained or (len(trained) == 1 and not gains):
        return Tests(column, [], present)
    named, centre = (label if label in trained else None for label in (named, centre))
    kind = DIFFERENCES if column.kind is SHARES else LEVELS
    contrasts = compare_settings(trained, gains, named, kind, centre, level)
    return Tests(column, contrasts, [label for label in present if label not in trained])


def find_about(groups: Groups, tests: dict[str, Tests]) -> list[str]:
    """The figures that the settings' differences are about, and those in which settings differ."""
    varied = find_varied(groups)
    about = {name for name, key in TEXTS["about"].items() if any(re.search(key, one) for one in varied)}
    about |= {name for name, found in tests.items() if any(pair.verdict for pair in found.pairs)}
    return [name for name in TESTED if name in about]


def describe_answer(groups: Groups, measured: Groups, tests: dict[str, Tests], about: Collection[str]) -> list[Block]:
    """The sentences on the runs that were `measured`, and the health of all."""
    return [
        Heading("Answer"),
        *summarise_tests(measured, tests, about),
        *_describe_costs(measured),
        _describe_health(groups),
    ]


def summarise_tests(groups: Groups, tests: dict[str, Tests], about: Collection[str]) -> list[Block]:
    """Which settings differ, a sentence a block: from the start model in the first figure, and from the best setting
    (or the named one) in this and in those of `about`; and what would tell the others apart from it."""
    if not tests:
        return []
    name, main = next(iter(tests.items()))
    sentences = []
    if main.starts:
        where = f"{main.starts[0].rows} rows and {min(contrast.seeds for contrast in main.starts)} seeds or more"
        sentences.append(f"{name} against the start model, on {where}: {_tell(main, main.starts)}")
    for figure in [name, *(key for key in about if key in tests and key != name)]:
        if pairs := tests[figure].pairs:
            first = pairs[0].first
            mean = mean_over_seeds(groups[first], tests[figure].column)
            level = tests[figure].column.write(mean and mean["value"])
            sentences.append(f"{figure} against {first} ({level}): {_tell(tests[figure], pairs)}")
    if alike := [pair for pair in main.pairs if not pair.verdict]:
        needed = "; ".join(f"{pair.second} {_write_needed(pair)}" for pair in alike[:MANY])
        sentences.append(f"to find such a difference in {name} in 4 of 5 repetitions takes: {needed}")
    if main.untested:
        sentences.append(f"not tested, for one seed, or no figures of rows that all share: {', '.join(main.untested)}")
    return [Text(f"{text[0].upper()}{text[1:]}.") for text in sentences]


def tabulate_tests(tests: dict[str, Tests], shown: Collection[str]) -> list[Block]:
    """A table for each of `shown` that was tested; all but the first are folded, and of many settings all."""
    blocks: list[Block] = []
    for name, found in tests.items():
        if found.contrasts and name in shown:
            table = fill(_list_cells(found.column), found.contrasts)
            is_open = not blocks and len(found.pairs) < MANY
            blocks += [Text(f"Differences in {name}"), table] if is_open else [table._replace(folded=name)]
    return [Heading("Which settings differ"), *blocks, footnote(NOTES["tests"])] if blocks else []


def describe_collapsed(groups: Groups) -> str | None:
    """Names the runs whose accuracy is far below the other seeds of their setting; None if there are none."""
    kept = {label: [(run, TRAINED.read(run)) for run in group if TRAINED.read(run)] for label, group in groups.items()}
    error = max((standard_error(figure) for pairs in kept.values() for _, figure in pairs), default=0.0)
    collapsed = find_collapsed(
        {label: [figure["value"] for _, figure in pairs] for label, pairs in kept.items()}, error
    )
    named = []
    for label, place in collapsed:
        run, figure = kept[label][place]
        named.append(f"{label}, seed {run.info.seed}: {percent(figure)}")
    return f"Far below the other seeds of their setting, and in its mean: {'; '.join(named)}." if named else None


def write_size(column: Column, size: float) -> str:
    """A difference without a sign; in words if no two shares can differ so much."""
    return "more than 100 points" if column.kind is SHARES and size > 1 else column.write_difference(size).lstrip("+")


def _tell(tests: Tests, contrasts: Sequence[Contrast]) -> str:
    """Which settings are higher, not clearly different, and lower, with the differences; of many settings the names."""
    to_start = contrasts[0].second == START
    parts = []
    for verdict, words in WORDS.items():
        listed = []
        for contrast in contrasts:
            if (contrast.verdict if to_start else -contrast.verdict) == verdict:
                interval = contrast.interval if to_start else _turn(contrast.interval)
                label = contrast.first if to_start else contrast.second
                listed.append(label if len(contrasts) >= MANY else f"{label} {tests.column.write_difference(interval)}")
        if listed:
            parts.append(f"{words} with {', '.join(listed)}")
    return "; ".join(parts)


def _turn(interval: Interval) -> Interval:
    """The interval of the second minus the first."""
    low, high = interval["low"], interval["high"]
    return as_interval(-interval["value"], None if high is None else -high, None if low is None else -low)


def _list_cells(column: Column) -> tuple[Column, ...]:
    """The columns of a table of contrasts."""
    return (
        Column("settings", lambda contrast: f"{contrast.first} - {contrast.second}"),
        Column("difference", lambda contrast: contrast.interval, column.write_difference),
        Column("verdict", lambda contrast: WORDS[contrast.verdict]),
        Column("would show", lambda contrast: write_size(column, contrast.detectable)),
        Column("would take", lambda contrast: None if contrast.verdict else _write_needed(contrast)),
    )


def _write_needed(contrast: Contrast) -> str:
    """What would detect the observed difference in 80%."""
    needed = ((contrast.seeds_needed, "seeds"), (contrast.rows_needed, "rows"))
    listed = " or ".join(f"{n:,} {what}" for n, what in needed if n is not None)
    tiny = FAR_BELOW * abs(contrast.estimate.value) < contrast.detectable
    return listed or ("too small to matter here" if tiny else "more of both")


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

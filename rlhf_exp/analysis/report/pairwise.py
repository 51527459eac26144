"""Tests which settings differ significantly, each from the start model, and each from the best or a named one, and
says so in sentences and tables.

tests = run_figures({"ppo": [...], "grpo": [...]})   ->  {"held-out accuracy": Tests(TRAINED, contrasts, ...), ...}
summarise_tests(groups, tests, about)                ->  [Text("ppo against grpo: no measurable ..."), ...]
tabulate_tests(tests, ["held-out accuracy"])         ->  [Heading(...), Table(...), ...]
"""

import re
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from rlhf_exp.analysis.frame import stack_settings
from rlhf_exp.analysis.report.columns import (
    RANKING,
    REWARD,
    TESTED,
    TRAINED,
    Column,
    fill,
    mean_over_seeds,
)
from rlhf_exp.analysis.report.groups import MANY, Groups, find_varied
from rlhf_exp.analysis.report.page import NOTES, TEXTS, Block, Heading, Text, footnote
from rlhf_exp.analysis.stats import START, Contrast, as_interval, compare_settings
from rlhf_exp.analysis.stats.collapse import find_collapsed
from rlhf_exp.analysis.stats.contrasts import bound_spreads, measure_spreads, shared_deviation
from rlhf_exp.analysis.stats.intervals import standard_error
from rlhf_exp.runs.figures import percent

FAR_BELOW = 10
"""A difference this many times below what was detectable is too small to matter, if neither more seeds nor more rows
would detect it."""

NAMED = 4
"""So few settings that differ are named."""

Scores = dict[str, np.ndarray]


class Tests(NamedTuple):
    """Of one figure.

    Attributes:
        untested: the settings with one seed, or without the figures of each row.
        spread: how the seeds spread.
        tiers: of more settings than MANY, the best first: those that differ significantly from the first of their tier
            are in a later one.
    """

    column: Column
    contrasts: list[Contrast]
    untested: list[str]
    spread: str = ""
    tiers: tuple[list[str], ...] = ()

    @property
    def starts(self) -> list[Contrast]:
        return [contrast for contrast in self.contrasts if contrast.second == START]

    @property
    def pairs(self) -> list[Contrast]:
        return [contrast for contrast in self.contrasts if contrast.second != START]


def run_figures(groups: Groups, named: str | None = None) -> dict[str, Tests]:
    """The tests of all figures of TESTED that some runs have; {} if no group has two seeds. Those of the first, by
    which settings are sorted, have a family-wise error of 5%, and so have those of all others together (Bonferroni)."""
    if max(map(len, groups.values()), default=0) < 2:
        return {}
    rewards = {str({**run.config.get("reward", {}), "random": None}) for group in groups.values() for run in group}
    tests: dict[str, Tests] = {}
    for name, column in TESTED.items():
        if column is not REWARD or len(rewards) == 1:
            centre = None if column in RANKING else next(iter(groups))  # what no other figure has chosen is as sorted
            centre = next((found.contrasts[-1].first for found in tests.values() if found.contrasts), centre)
            found = run_tests(groups, column, named, centre)
            tests |= {name: found} if found.contrasts or (found.untested and not tests) else {}
    for name in (further := list(tests)[1:]):
        adjusted = [c._replace(adjusted=min(1.0, c.adjusted * len(further)), level=c.level / len(further))
                    for c in tests[name].contrasts]  # fmt: skip
        tests[name] = tests[name]._replace(contrasts=adjusted)
    return tests


def run_tests(groups: Groups, column: Column, named: str | None = None, centre: str | None = None) -> Tests:
    """The contrasts of all groups that have the figure of each row, and at least two seeds.

    Args:
        named, centre: as of `compare_settings`, where they are tested; tiers are listed without both.
    """
    assert column.rows
    trained = stack_settings(groups, column.model, column.rows)
    tested = {label: groups[label] for label in trained}
    gains = stack_settings(tested, "gain", column.rows) if column.has_start else {}
    present = [label for label, group in groups.items() if any(map(column.read, group))]
    if not trained or (len(trained) == 1 and not gains):
        return Tests(column, [], present)
    bounded = column.write is percent
    named, centre = (label if label in trained else None for label in (named, centre))
    contrasts = compare_settings(trained, gains, named, bounded, centre)
    tiers = _list_tiers(trained, gains, bounded) if not (named or centre) and len(trained) > MANY else ()
    untested = [label for label in present if label not in trained]
    return Tests(column, contrasts, untested, _describe_spread(trained, column), tuple(tiers))


def find_about(groups: Groups, tests: dict[str, Tests]) -> list[str]:
    """The figures that the settings' differences are about, and those in which settings differ significantly."""
    varied = find_varied(groups)
    found = {name for name, key in TEXTS["about"].items() if any(re.search(key, of) for of in varied)}
    found |= {name for name, of in tests.items() if any(contrast.significant for contrast in of.pairs)}
    return [name for name in TESTED if name in found]


def summarise_tests(groups: Groups, tests: dict[str, Tests], about: Collection[str]) -> list[Block]:
    """In words which settings differ significantly, a sentence a block: from the start model in the first figure, and
    from the best one in this and in those of `about`."""
    if not tests:
        return []
    name, main = next(iter(tests.items()))
    many, texts = len(main.starts or main.pairs) > MANY, list[Block]()
    if main.starts:
        seeds, rows = min(c.seeds for c in main.starts), main.starts[0].rows
        lead = f"{name[:1].upper()}{name[1:]} against the start model, {rows} rows and {seeds} seeds"
        more = " or more" * any(c.seeds > seeds for c in main.starts)
        texts.append(Text(f"{lead}{more}. {_list_gains(main, many)}"))
    texts += [Text(_write_tiers(name, main))] if main.tiers else []
    if many and main.pairs:
        further = [key for key in about if key in tests and tests[key].pairs and key != name]
        shown = further if main.tiers else [name, *further]
        texts += [Text(_write_range(groups, key, tests[key])) for key in shown]
    else:
        pairs = [_compare_pair(groups, tests, about, pair) for pair in main.pairs]
        texts += [Text(text, text.partition(";")[0]) for text in pairs]  # its first part says the most
    if main.untested:
        why = "Not tested, for one seed, or no figures of rows that all share"
        texts.append(Text(f"{why}: {', '.join(main.untested)}."))
    return texts


def tabulate_tests(tests: dict[str, Tests], shown: Collection[str]) -> list[Block]:
    """A table for each of `shown` that was tested; all but the first are folded, and of many settings all."""
    blocks: list[Block] = []
    for name, found in tests.items():
        if found.contrasts and name in shown:
            table, title = fill(_list_cells(found.column), found.contrasts), f"Tests in {name}. {found.spread}"
            is_open = not blocks and len(found.pairs) < MANY
            blocks += [Text(title), table] if is_open else [table._replace(folded=title)]
    return [Heading("Which settings differ significantly"), *blocks, footnote(NOTES["tests"])] if blocks else []


def describe_collapsed(groups: Groups) -> str | None:
    """Names the runs whose accuracy is far below the other seeds of their setting; None if there are none."""
    kept = {label: [(run, TRAINED.read(run)) for run in group if TRAINED.read(run)] for label, group in groups.items()}
    error = max((standard_error(figure) for pairs in kept.values() for _, figure in pairs), default=0.0)
    found = find_collapsed({label: [figure["value"] for _, figure in pairs] for label, pairs in kept.items()}, error)
    named = []
    for label, place in found:
        run, figure = kept[label][place]
        named.append(f"{label}, seed {run.info.seed}: {percent(figure)}")
    return f"Far below the other seeds of their setting, and in its mean: {'; '.join(named)}." if named else None


def _list_gains(tests: Tests, many: bool) -> str:
    """Which settings are above the start model, not measurably different, and below; of many only their names."""
    parts = []
    for words, sign in (("Higher", 1), ("No measurable change", 0), ("Lower", -1)):
        found = [c for c in tests.starts if c.significant * np.sign(c.interval["value"]) == sign]
        listed = "; ".join(f"{c.first} {_write_contrast(tests, c)}" for c in found)
        power = f" ({write_power(tests.column, found)})" if found and not sign else ""
        names = ", ".join(c.first for c in found)
        share = f"{words} with {len(found)} of {len(tests.starts)} settings{power}"
        text = f"{share}: {names}." if many else f"{words}: {listed}."
        parts += [text] if found else []
    return " ".join(parts)


def _write_tiers(name: str, tests: Tests) -> str:
    """best: a, b (not separable); then c, d"""
    first, *others = map(", ".join, tests.tiers)
    alike = [pair for pair in tests.pairs if pair.second in tests.tiers[0]]
    text = f"By {name}, best: {first}{f' (not separable, {write_power(tests.column, alike)})' if alike else ''}"
    return "; then ".join([text, *others]) + "."


def _write_range(groups: Groups, name: str, tests: Tests) -> str:
    """Of many settings the least and the most of a figure, and how many differ from the best or the named one; of NAMED
    or fewer, which do, and how far."""
    low, *_, high = sorted(mean["value"] for group in groups.values() if (mean := mean_over_seeds(group, tests.column)))
    found = [f"{pair.second} {_write_contrast(tests, pair, -1)}" for pair in tests.pairs if pair.significant]
    text = f"{len(found)} differ" if found else f"none differs measurably ({write_power(tests.column, tests.pairs)})"
    listed = f": {'; '.join(found)}" if 0 < len(found) <= NAMED else ""
    ends = f"{tests.column.write(low)} to {tests.column.write(high)}"
    first = tests.pairs[0].first
    return f"{name[:1].upper()}{name[1:]}: {ends}; of {len(tests.pairs)} others {text} from {first}{listed}."


def _compare_pair(groups: Groups, tests: dict[str, Tests], about: Collection[str], pair: Contrast) -> str:
    """A setting against the best one: the first figure, those that differ, and those of `about` that do not."""
    found = {name: c for name, of in tests.items() for c in of.pairs if (c.first, c.second) == pair[:2]}
    costs, parts = any(contrast.significant for contrast in found.values()), []
    for place, (name, contrast) in enumerate(found.items()):
        written = _write_contrast(tests[name], contrast, -1)
        if contrast.significant:
            sides = (mean_over_seeds(groups[label], tests[name].column) for label in (pair.second, pair.first))
            second, first = (tests[name].column.write(side and side["value"]) for side in sides)
            parts.append(f"{name} {second} against {first} ({written})")
        elif place == 0 or name in about:
            what = "cost" if costs and place == 0 else "difference"
            parts.append(f"no measurable {what} in {name} ({written})")
    return f"{pair.second} against {pair.first}: {'; '.join(parts)}."


def _write_contrast(tests: Tests, contrast: Contrast, sign: int = 1) -> str:
    """The difference, with `sign` -1 the second minus the first; and what would have been found, if it is not."""
    ends: Any = contrast.interval  # which has both
    low, high = sorted((sign * ends["low"], sign * ends["high"]))
    written = tests.column.write_difference(as_interval(sign * ends["value"], low, high))
    return written if contrast.significant else f"{written}, {write_power(tests.column, [contrast])}"


def write_power(column: Column, contrasts: Collection[Contrast]) -> str:
    """The difference that 80% power would have shown, of several contrasts the least and the greatest."""
    low, *_, high = (write_size(column, size) for size in sorted([contrast.detectable for contrast in contrasts] * 2))
    return f"80% power for {low}{f' to {high}' if high != low else ''}"


def write_size(column: Column, size: float) -> str:
    """A difference without a sign; in words if no two shares can differ so much."""
    return "more than 100 points" if column.write is percent and size > 1 else column.write_difference(size).lstrip("+")


def _list_tiers(trained: Scores, gains: Scores, bounded: bool) -> list[list[str]]:
    """Each tier's first has the highest mean of those left; the others are not significantly below it."""
    left, tiers = sorted(trained, key=lambda label: -trained[label].mean()), []
    while left:
        found = compare_settings(trained, gains, bounded=bounded, centre=left[0])
        below = {c.second for c in found if c.first == left[0] and c.significant}
        tiers.append([label for label in left if label not in below])
        left = [label for label in left if label in below]
    return tiers


def _list_cells(column: Column) -> tuple[Column, ...]:
    """The columns of a table of contrasts."""
    write = column.write_difference
    return (
        Column("settings", lambda c: f"{c.first} - {c.second}"),
        Column("difference", lambda c: c.interval, write),
        Column("p", lambda c: c.p, _write_p),
        Column("p, adjusted", lambda c: c.adjusted, _write_p),
        Column("verdict", lambda c: "significant" if c.significant else "not significant"),
        Column("80% power", lambda c: write_size(column, c.detectable)),
        Column("would take", lambda c: None if c.significant else _write_needed(c)),
    )


def _describe_spread(trained: Scores, column: Column) -> str:
    """The standard deviation of the seeds' own effect, and which settings are far above it."""
    spreads = measure_spreads(trained)
    deviation = column.write_difference(shared_deviation(spreads)).lstrip("+")
    far = ", ".join(label for label, bound in bound_spreads(spreads).items() if bound < 1)
    return f"Standard deviation over seeds, without sampling: {deviation}, over all settings." + (
        f" Far above the others', and therefore with a limited part in theirs: {far}." if far else ""
    )


def _write_needed(contrast: Contrast) -> str:
    """What would detect the observed difference in 80%."""
    needed = ((contrast.seeds_needed, "seeds"), (contrast.rows_needed, "rows"))
    listed = " or ".join(f"{n:,} {what}" for n, what in needed if n is not None)
    tiny = FAR_BELOW * abs(contrast.estimate.value) < contrast.detectable
    return listed or ("too small to matter here" if tiny else "more of both")


def _write_p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"

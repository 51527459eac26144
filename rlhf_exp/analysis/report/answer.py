"""Says in words what several runs answer, a sentence a question: what cannot be compared, which setting is best and by
how much, at which cost, which runs are sick, and what these runs cannot tell.

tests = compare_figures({"ppo": [run, run], "grpo": [run, run]})   ->  {"held-out accuracy": Tests(TRAINED, ...), ...}
describe_answer(groups, measured, tests, about)      ->  Answer([Callout("ok", "Best.", "grpo: ..."), ...], [...], ...)
tabulate_tests(tests, ["held-out accuracy"])         ->  [Heading(...), Table(...), ...]

A difference has one interval, at the level that all comparisons of its figure share, and one verdict: whether that
interval includes 0.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import chain
from statistics import median
from typing import NamedTuple

from rlhf_exp.analysis.frame import read, stack_settings
from rlhf_exp.analysis.report import columns
from rlhf_exp.analysis.report.columns import RANKING, REWARD, TESTED, TRAINED, Column, at, fill, mean_over_seeds
from rlhf_exp.analysis.report.effects import compare_keys
from rlhf_exp.analysis.report.groups import MANY, Groups, find_varied, join_groups, list_ranked
from rlhf_exp.analysis.report.page import NOTES, TEXTS, Block, Callout, Heading, Text, footnote
from rlhf_exp.analysis.stats import (
    DIFFERENCES,
    LEVEL,
    LEVELS,
    SHARES,
    START,
    Contrast,
    Interval,
    compare_settings,
    exact,
)
from rlhf_exp.analysis.stats.collapse import find_collapsed
from rlhf_exp.analysis.stats.intervals import standard_error
from rlhf_exp.runs.figures import begin, percent, write_name
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.settings import flatten

FAR = 10
"""Differences of which only this many times as large ones as usual would show are told apart from the others."""
FAR_BELOW = 10
"""A difference this many times below what was detectable is too small to matter, if neither more seeds nor more rows
would detect it."""
FEW = 2
"""So many differences without a verdict are named, and so many findings of a setting."""
MOST_FIGURES = 3
"""So many figures have their differences in a sentence, so many differences that are not clear have their sizes there,
and so many values of a setting are told."""
MOST_SIZES = 6
"""So many clear differences have their sizes in a sentence."""
CLOSE = 1.05
"""Costs that differ by a smaller factor are about the same."""
TOO_SMALL = "too small to be found"
WORDS = {1: "higher", 0: "no clear difference", -1: "lower"}
SIDES = {1: "above", 0: "not clearly different from", -1: "below"}
AGAINST_START, COST, MORE, HEALTH = "Against the start model.", "Cost.", "To know more.", "Health."
"""Titles of remarks."""
LOST = "interval too wide to judge"


class Answer(NamedTuple):
    """Remarks.

    Attributes:
        main: what each varied key changes, what cannot be compared, which setting is the best and what the settings
            gained (first, if none is clearly the best), and what is sick.
        rest: what the best costs, and what cannot be told.
        more: the answers to further questions.
    """

    main: list[Block]
    rest: list[Block]
    more: list[Block]


class Tests(NamedTuple):
    """The contrasts of one figure.

    Attributes:
        untested: the settings with one seed, or without the figures of each row.
        named: the setting that the user compares the others with.
    """

    column: Column
    contrasts: list[Contrast]
    untested: list[str]
    named: str | None = None

    @property
    def starts(self) -> list[Contrast]:
        return [contrast for contrast in self.contrasts if contrast.second == START]

    @property
    def pairs(self) -> list[Contrast]:
        return [contrast for contrast in self.contrasts if contrast.second != START]

    @property
    def gains(self) -> dict[str, Interval]:
        """Of each setting the difference to the start model, with the interval that decides."""
        return {start.first: start.interval for start in self.starts}

    @property
    def lost(self) -> list[Contrast]:
        """Those without a verdict of which hardly any difference would have one, since so few seeds differ so much: no
        two shares differ by more than 1."""
        most = 1.0 if self.column.kind is SHARES else math.inf
        most = min(most, FAR * median(contrast.detectable for contrast in self.contrasts))
        wild = {one.first for one in self.starts if one.detectable > most}
        return [one for one in self.contrasts
                if not one.verdict and (one.detectable > most or wild & {one.first, one.second})]  # fmt: skip

    def differs_from_all(self, label: str, others: int) -> bool:
        """Whether a setting differs from each of so many others."""
        found = [pair for pair in self.pairs if label in (pair.first, pair.second) and pair.verdict]
        return 0 < others == len(found)


def compare_figures(groups: Groups, named: str | None = None) -> dict[str, Tests]:
    """The contrasts of all figures of TESTED that some runs have; {} if no group has two seeds. Those of the first, by
    which settings are sorted, have a family-wise error of 5%, and so have those of all others together (Bonferroni)."""
    if max(map(len, groups.values()), default=0) < 2:
        return {}
    runs = join_groups(groups)
    ranked = list_ranked(runs)
    possible = TESTED | {column.name: column for column in columns.list_rewards(runs)}
    known = {name: column for name, column in possible.items()
             if (column in ranked if column in RANKING else any(map(column.read, runs)))}  # fmt: skip
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
    kind = DIFFERENCES if column.kind is SHARES else column.kind or LEVELS
    contrasts = compare_settings(trained, gains, named, kind, centre, level)
    return Tests(column, contrasts, [label for label in present if label not in trained], named)


def find_main(tests: dict[str, Tests]) -> Tests | None:
    """Those of the first figure, by which settings are sorted."""
    return next(iter(tests.values()), None)


def _find_ranked(tests: dict[str, Tests]) -> Tests | None:
    """As `find_main`, if settings are sorted by it: more of another figure, such as of truncation, is no better."""
    main = find_main(tests)
    return main if main and main.column in RANKING else None


def find_about(groups: Groups, tests: dict[str, Tests]) -> list[str]:
    """The figures that the settings' differences are about, and those in which settings differ."""
    varied = find_varied(groups)
    about = {name for name, key in TEXTS["about"].items() if any(re.search(key, one) for one in varied)}
    about |= {name for name, found in tests.items() if any(pair.verdict for pair in found.pairs)}
    return [name for name in TESTED if name in about]


def describe_answer(groups: Groups, measured: Groups, tests: dict[str, Tests], about: Collection[str]) -> Answer:
    """A remark for each question: on the runs that were `measured`, and on the health of all. Of several tasks no
    setting is the best."""
    is_one_task = len({run.info.task for run in join_groups(measured)}) == 1
    best = [*_tell_best(measured, tests)] if is_one_task else []
    pairs, starts = [*_tell_pairs(tests)] if is_one_task else [], [*_tell_starts(measured, tests)]
    others, costs = ([*_tell_others(tests, about)], [*_tell_costs(measured, tests)]) if is_one_task else ([], [])
    keys = [*_tell_keys(measured, tests)] if is_one_task else []
    gains, further = (pairs, starts) if any(found.named for found in tests.values()) else (starts, pairs)
    first = [*best, *gains] if any(block.kind == "ok" for block in best) else [*gains, *best]
    main = [*keys, *_tell_limits(groups, measured), *first, _tell_health(groups, measured)]
    return Answer(main, [*costs, *_tell_unclear(tests)], [*further, *others])


def tell_judge(judge: str, without: Sequence[str]) -> Iterator[Block]:
    """Which evaluation set the answer is by, where it is not by the runs' own measurements."""
    if judge:
        left = f"; {', '.join(without)} was not measured by it" if without else ""
        told = "the runs learned from different rewards, so that they are compared by the evaluation set"
        yield Callout("info", f"By {judge}.", begin(_close([f"{told} {judge}, whose reward is one for all{left}"])))


def tabulate_tests(tests: dict[str, Tests], shown: Collection[str]) -> list[Block]:
    """A table for each of `shown` that was tested; all but the first are folded, and of many settings all."""
    blocks: list[Block] = []
    for name, found in tests.items():
        if found.contrasts and name in shown:
            table = fill(_list_cells(found.column), found.contrasts)
            is_open = not blocks and len(found.starts) < MANY
            blocks += [Text(f"Differences in {name}"), table] if is_open else [table._replace(folded=name)]
    return [Heading("Which settings differ"), *blocks, footnote(NOTES["tests"])] if blocks else []


def describe_collapsed(groups: Groups) -> str:
    """Names the runs whose accuracy is far below the other seeds of their setting; empty if there are none."""
    kept = {label: [(run, TRAINED.read(run)) for run in group if TRAINED.read(run)] for label, group in groups.items()}
    error = max((standard_error(figure) for pairs in kept.values() for _, figure in pairs), default=0.0)
    collapsed = find_collapsed(
        {label: [figure["value"] for _, figure in pairs] for label, pairs in kept.items()}, error
    )
    named = []
    for label, place in collapsed:
        run, figure = kept[label][place]
        named.append(f"{mark(label)}, seed {run.info.seed}: {percent(figure)}")
    return (
        f" Collapsed, far below the other seeds of the setting, and in its mean: {'; '.join(named)}." if named else ""
    )


def write_size(column: Column, size: float) -> str:
    """A difference without a sign; in words if no two shares can differ so much."""
    if column.kind is SHARES:
        return "more than 100 points" if size > 1 else f"{column.write_difference(size).lstrip('+')} points"
    return column.write_difference(size).lstrip("+")


def _tell_limits(groups: Groups, measured: Groups) -> Iterator[Block]:
    """What differs between these runs besides what a comparison is about, and which of them have no evaluation."""
    runs = join_groups(measured)
    limits = _find_limits(runs)
    parts = [f"{key} differs ({', '.join(of)}): {TEXTS['limits'][key]}" for key, of in limits.items()]
    parts += ["gains allow for that, levels do not"] if {"model", "max_tokens"} & limits.keys() else []
    if any(map(REWARD.read, runs)) and REWARD not in list_ranked(runs):
        parts.append("settings learned from different rewards, so that their rewards are not compared")
    sampled = [read(run, "trained", "accuracy" if run.trains_scorer else "tokens") for run in runs]
    rows = {frozenset(figure.index) for figure in sampled if figure is not None}
    if len(rows) > 1:
        shared = len(frozenset.intersection(*rows))
        parts.append(f"held-out rows differ: {shared:,} are shared by all, and differences are of shared rows alone")
    if missing := ["/".join(run.path.parts[-2:]) for run in join_groups(groups) if not run.evaluation.trained]:
        rest = f" and {len(missing) - MANY} more" if len(missing) > MANY else ""
        parts.append(f"left out, since they were not evaluated: {', '.join(missing[:MANY])}{rest}")
    if parts:
        yield Callout("warning", "Caution.", begin(_close(parts)))


def _find_limits(runs: list[Run]) -> dict[str, list[str]]:
    """The values of what makes runs hard to compare, such as their start models, of which these have several."""
    found = {key: list(dict.fromkeys(write_name(getattr(run.info, key)) for run in runs)) for key in TEXTS["limits"]}
    return {key: values for key, values in found.items() if len(values) > 1}


def _tell_best(groups: Groups, tests: dict[str, Tests]) -> Iterator[Callout]:
    """The highest setting, against the others, or those against the named one."""
    if not (ranked := list_ranked(join_groups(groups))):
        return
    column = ranked[0]
    name = next(name for name, tested in TESTED.items() if tested is column)
    main = tests.get(name)
    pairs, best = main.pairs if main and not main.named else [], _find_first(groups, main)
    means = {label: mean_over_seeds(group, column) for label, group in groups.items()}
    assert (mean := means[best])
    level = column.write(exact(mean["value"]))  # its interval is wide beside that of the gain, which decides
    if main is None or not main.contrasts:
        why = "whether it is better cannot be told: a test needs two seeds of a setting, and rows that all share"
        yield Callout("info", "Highest.", f"{mark(best)}, with a {name} of {level}; {why}.")
        return
    of_best = [pair for pair in pairs if pair.first == best]
    seeds = len(groups[best])
    where = f"{seeds} seed{'s' * (seeds > 1)}, {main.contrasts[0].rows} rows"
    if best in main.gains and _find_limits(join_groups(groups)):
        where += f"; {_write(main, main.gains[best])} over its own start"
    levels = {label: mean["value"] for label, mean in means.items() if mean}
    unsure = [label for label in levels if levels[label] > levels[best]]
    is_best = not unsure and all(pair.verdict for pair in of_best)
    is_nearly = not unsure and len(of_best) > FEW and sum(not pair.verdict for pair in of_best) == 1
    highest = "Of those that can be judged the highest is " if unsure else "The highest is "
    highest = "" if is_best or is_nearly else highest
    kl = mean_over_seeds(groups[best], columns.KL)
    drift = f" at a KL of {columns.KL.write(exact(kl['value']))} nats" if kl else ""
    parts = [f"{highest}{mark(best)}{_tell_choice(groups, best)}, with a {name} of {level}{drift} ({where})"]
    told = [pair for pair in of_best if pair.second not in unsure]
    parts += [f"it is {_tell(main, told)}"] if told else []
    if unsure:
        shown = ", ".join(f"{mark(label)} ({_tell_unsure(groups[label], column)})" for label in unsure[:FEW])
        more = f" and {len(unsure) - FEW} more" if len(unsure) > FEW else ""
        parts.append(f"higher on average, but not to be judged: {shown}{more}")
    title = "Best." if is_best else "Above all but one." if is_nearly else "Which is best is not clear."
    yield Callout("ok" if of_best and is_best else "info", title if of_best else "Highest.", _close(parts))


def _tell_unsure(group: list[Run], column: Column) -> str:
    """The seeds of a setting with a higher mean that was not tested, or whose seeds lie far apart."""
    values = [column.write(exact(found["value"])) for run in group if (found := column.read(run))]
    return f"{', '.join(values)} in its {len(values)} seeds" if len(values) > 1 else f"{values[0]}, one seed"


def _find_first(groups: Groups, main: Tests | None) -> str:
    """The setting that the others are compared with: surely the highest, or without contrasts of pairs the highest."""
    return main.pairs[0].first if main and main.pairs and not main.named else next(iter(groups), "")


def _tell_choice(groups: Groups, label: str) -> str:
    """` (learning_rate=0.0005, top_p=1)`: the values of a setting that most others do not have, and its label does not
    tell; nothing if they are many."""
    found = {name: flatten(group[0].config) for name, group in groups.items()}
    own = []
    for key in find_varied(groups):
        values = [write_name(of.get(key)) for of in found.values()]
        value = write_name(found[label].get(key))
        if value and "/" not in value and value not in label and 2 * values.count(value) <= len(values):
            own.append(f"{key.rpartition('.')[2]}={value}")
    return f" ({', '.join(own)})" if 0 < len(own) <= MOST_FIGURES else ""


def _tell_pairs(tests: dict[str, Tests]) -> Iterator[Block]:
    """The first figure of all settings against that of the named one, or the clear differences between the others."""
    main = _find_ranked(tests)
    if main is None or not main.pairs:
        return
    if main.named:
        yield Callout("info", f"Against {mark(main.named)}.", begin(_close([_tell(main, main.pairs)])))
    elif clear := [pair for pair in main.pairs if pair.verdict and pair.first != main.pairs[0].first]:
        yield Callout("info", "The others.", _close([f"{mark(pair.first)} is {_tell(main, [pair])}" for pair in clear]))


def _tell_keys(groups: Groups, tests: dict[str, Tests]) -> Iterator[Block]:
    """What each varied key changes by itself, where several were varied, the clear differences first."""
    main = _find_ranked(tests)
    if main is None or main.named:
        return
    # Of levels a budget's effect on the start model would be counted too.
    by_gain = bool(_find_limits(join_groups(groups))) and main.column.has_start
    column = main.column._replace(model="gain") if by_gain else main.column
    found = sorted(compare_keys(groups, column).items(), key=lambda item: not any(one.verdict for one in item[1]))
    parts = [
        f"{key.removeprefix('algo.args.')}: {mark(effects[0].first)} is {_tell(main, effects)}"
        for key, effects in found
    ]
    if parts:
        gains = "; gains are compared, since start models or budgets differ" * by_gain
        more = "each takes all settings that differ in that key alone, which tell more than one setting does"
        yield Callout("info", "What mattered.", f"{_close(parts)} {begin(more)}{gains}.")


def _tell_starts(groups: Groups, tests: dict[str, Tests]) -> Iterator[Block]:
    """The first figure of all settings against that of the start model, also of those that one seed leaves untested."""
    main = _find_ranked(tests)
    if main and main.starts:
        is_ok = any(start.verdict > 0 for start in main.starts)
        gain = columns.GAINS.get(main.column.name)
        single = {label: groups[label][0] for label in main.untested if len(groups[label]) == 1}
        gains = {label: gain.read(run) for label, run in single.items()} if gain else {}
        alone = ", ".join(f"{mark(label)} ({_write(main, found)})" for label, found in gains.items() if found)
        told = begin(_close([_tell(main, main.starts)])) + (f" Of one seed, and not tested: {alone}." if alone else "")
        if main.column is TRAINED and not _find_limits(runs := join_groups(groups)):
            start = mean_over_seeds(runs, columns.BASELINE)
            told += f" The start model has {columns.BASELINE.write(start)}." if start else ""
        yield Callout("ok" if is_ok else "info", AGAINST_START, told)


def _tell_others(tests: dict[str, Tests], about: Collection[str]) -> Iterator[Block]:
    """The clear differences in further figures that the best or the named setting has, of many the first; and in which
    figures it has none."""
    parts, unclear = [], []
    main = _find_ranked(tests)
    for name, found in tests.items():
        if found is main:
            continue
        pairs = [pair for pair in found.pairs if found.named or pair.first == found.pairs[0].first]
        if clear := [pair for pair in pairs if pair.verdict and name in about]:
            shown = clear[: FEW if len(clear) <= FEW else 1]
            more = f", and {len(clear) - 1} more differ" if len(clear) > FEW else ""
            parts.append(f"{name}: {'' if found.named else f'{mark(pairs[0].first)} is '}{_tell(found, shown)}{more}")
        elif pairs and name in about:
            unclear.append(name)
    hidden = len(parts) - MOST_FIGURES
    tables = f"{hidden} more figure{' differs' if hidden == 1 else 's differ'}, in the tables below"
    parts[MOST_FIGURES:] = [tables] if hidden > 0 else []
    parts += [f"no clear difference in {', '.join(unclear)}"] if unclear else []
    if parts:
        yield Callout("info", "In other figures.", begin(_close(parts)))


def _tell_costs(groups: Groups, tests: dict[str, Tests]) -> Iterator[Block]:
    """What the best setting costs, beside the cheapest."""
    best, parts = _find_first(groups, find_main(tests)), []
    for column in columns.COST:
        means = {label: mean["value"] for label, group in groups.items() if (mean := mean_over_seeds(group, column))}
        if (name := TEXTS["cost sentences"].get(column.name)) and len(means) > 1 and means.get(best):
            cheapest = min(means, key=means.__getitem__)
            ratio = means[best] / (means[cheapest] or means[best])
            told = f"{ratio:.1f} times the least ({mark(cheapest)})" if ratio >= CLOSE else "about the least"
            parts.append(f"{column.write(means[best])} {name}, {told}")
    if parts:
        yield Callout("info", COST, f"A run of {mark(best)} takes {'; '.join(parts)}.")


def _tell_health(groups: Groups, measured: Groups) -> Callout:
    """How many runs of which settings have findings, and the most frequent of these; which runs collapsed."""
    named = {label: [_list_findings(run) for run in group] for label, group in groups.items()}
    counts = {label: sum(map(bool, of)) for label, of in named.items()}
    sick = sorted((label for label in counts if counts[label]), key=counts.__getitem__, reverse=True)
    parts = []
    for label in sick[:MANY]:
        names = [name for name, _ in Counter(chain.from_iterable(named[label])).most_common()]
        more = [f"{len(names) - FEW} more"] if len(names) > FEW else []
        parts.append(f"{mark(label)} in {counts[label]} of {len(named[label])} ({', '.join(names[:FEW] + more)})")
    parts += [f"{len(sick) - MANY} more settings"] if len(sick) > MANY else []
    clean = [mark(label) for label in counts if not counts[label]]
    free = f", none in {' and '.join(clean)}" if 0 < len(clean) <= MOST_FIGURES else ""
    collapsed, runs, n = describe_collapsed(measured), sum(map(len, named.values())), sum(counts.values())
    told = (
        f" {n} {'has' if n == 1 else 'have'} findings{free}: {', '.join(parts)}"
        if parts
        else ": no check found anything"
    )
    return Callout("warning" if parts or collapsed else "ok", HEALTH, f"Of {runs} runs{told}.{collapsed}")


def _list_findings(run: Run) -> list[str]:
    """Its warnings and errors, and its status if it did not finish."""
    names = [found.name for found in run.diagnosis.findings if found.severity != "info"]
    return [name.replace("_", " ") for name in names + [run.status] * (run.status != "finished")]


def _tell_unclear(tests: dict[str, Tests]) -> Iterator[Block]:
    """How large differences of the first figure must be to have a verdict, and what those without one would take."""
    name, main = next(iter(tests), ""), _find_ranked(tests)
    if main is None:
        return
    parts = []
    if unclear := [contrast for contrast in (*main.pairs, *main.starts) if not contrast.verdict]:
        size = write_size(main.column, median(one.detectable for one in (main.pairs or unclear)))
        between = "between settings" if main.pairs else "to the start model"
        parts.append(f"gaps in {name} {between} below about {size} may go unseen with these seeds and rows")
        asked = [pair for pair in main.pairs if not pair.verdict] or unclear
        plans = [(one, _write_needed(one).replace("seeds", "seeds of each")) for one in asked]
        shown = [f"{needed} would tell {mark(one.first)} from {mark(one.second)}"
                 for one, needed in plans if needed != TOO_SMALL][:FEW]  # fmt: skip
        parts += shown or [f"those observed are {TOO_SMALL}"]
    if main.untested:
        parts.append(
            f"not tested, for one seed, or no figures of rows that all share: {', '.join(map(mark, main.untested))}"
        )
    if parts:
        yield Callout("info", MORE, begin(_close(parts)))


def _tell(tests: Tests, contrasts: Sequence[Contrast]) -> str:
    """`above ppo (+3.0 [+1.0, +5.0]), rloo (...); below dpo (...)`: of contrasts with one first setting; of those with
    the start or the named one `above it: ppo (...); ...`. Of many the names alone, if all are alike their number."""
    to_one = contrasts[0].second in (START, tests.named)
    parts = []
    of_all = tests.lost
    lost = [contrast for contrast in contrasts if contrast in of_all]
    for verdict, side in SIDES.items():
        alike = [contrast for contrast in contrasts if contrast.verdict == verdict and contrast not in lost]
        if len(alike) == len(contrasts) > (MOST_SIZES if verdict else MOST_FIGURES):
            others = f"{side} {'all' if verdict else 'any of the'} {len(alike)} others"
            return f"{side} it: all {len(alike)} settings" if to_one else others
        is_short = len(contrasts) <= MOST_FIGURES or (verdict != 0 and len(alike) <= MOST_SIZES)
        listed = []
        for contrast in alike:
            label = contrast.first if to_one else contrast.second
            listed.append(f"{mark(label)} ({_write(tests, contrast.interval)})" if is_short else mark(label))
        if not verdict and len(listed) > MOST_FIGURES:
            listed = [f"{len(listed)} settings"]
        parts += [f"{side}{' it:' if to_one else ''} {', '.join(listed)}"] if listed else []
    names = [mark(contrast.first if to_one else contrast.second) for contrast in lost]
    return "; ".join([*parts, f"{LOST}: {', '.join(names)}"] if names else parts)


def mark(label: str) -> str:
    """The name of a setting as pages show names, so that no word of a sentence is mistaken for one."""
    return f"`{label}`"


def _write(tests: Tests, difference: Interval) -> str:
    """With its unit."""
    return f"{tests.column.write_difference(difference)}{' points' if tests.column.kind is SHARES else ''}"


def _list_cells(column: Column) -> tuple[Column, ...]:
    """The columns of a table of contrasts."""
    return (
        Column("settings", "{0.first} - {0.second}".format),
        Column("difference", at("interval"), column.write_difference),
        Column("verdict", at("verdict"), WORDS.__getitem__),
        Column("detectable", at("detectable"), partial(write_size, column)),
        Column("needed", lambda contrast: None if contrast.verdict else _write_needed(contrast)),
    )


def _write_needed(contrast: Contrast) -> str:
    """What would detect the observed difference in 80%."""
    needed = ((contrast.seeds_needed, "seeds"), (contrast.rows_needed, "rows"))
    listed = " or ".join(f"{n:,} {what}" for n, what in needed if n is not None)
    tiny = FAR_BELOW * abs(contrast.estimate.value) < contrast.detectable
    return listed or (TOO_SMALL if tiny else "more of both")


def _close(parts: Sequence[str]) -> str:
    return f"{'; '.join(parts)}."

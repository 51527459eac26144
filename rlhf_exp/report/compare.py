"""The report over several runs: one row per run, one row per setting over its seeds, and their curves.

describe_runs([load_run(path) for path in paths], out)  ->  blocks; the plots are in out/plots
tabulate_study(runs)  ->  the table over seeds that the terminal shows

A setting is the config without the seed (groups.py).
"""

import math
import os
import textwrap
from operator import itemgetter
from pathlib import Path

from rlhf_exp.report import columns, curves, plots
from rlhf_exp.report.aggregates import describe_aggregates
from rlhf_exp.report.columns import lacks_rows, list_columns, mean_over_seeds, read_start
from rlhf_exp.report.groups import UnknownSetting, find_shared, group_runs, sort_runs
from rlhf_exp.report.learning import describe_learning
from rlhf_exp.report.noise import describe_noise, tabulate_noise
from rlhf_exp.report.page import Block, Callout, Figures, Heading, Table, Text
from rlhf_exp.report.pairwise import describe_collapsed, describe_differences, run_tests, summarise_tests
from rlhf_exp.report.policies import compare_policies
from rlhf_exp.report.tables import Column, duration, fill, join_notes
from rlhf_exp.report.terminal import align
from rlhf_exp.report.verdict import accuracy_name, status_sentence
from rlhf_exp.runs.figures import write_name
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import START

SEEDS_NOTE = (
    "Means over seeds with 95% intervals, which join seeds, held-out rows and the sampling of both sides (crossed"
    " random effects); one seed has none. The interval of a start model that was measured once is over rows and"
    " sampling; those of costs are Student's t over seeds. A seed that was run twice counts once, the later one."
)
NO_ROWS_NOTE = (
    "A mean of several seeds without brackets: the figures of each row are missing (samples.jsonl, preferences.jsonl)."
)
ONE_SEED_NOTE = "One seed for each setting: no interval over seeds; the baseline's is over the held-out rows."

ACCURACIES = {"held-out accuracy": columns.TRAINED, "held-out pair accuracy": columns.PAIRS_TRAINED}

LABELS = tuple(Column(key, lambda run, key=key: write_name(run.info.get(key)) or None) for key in ("name", "tags"))
"""What the user calls a run."""

ABOUT_ALL = 0.98
"""Of `train_tokens`: runs that ended with fewer are named."""

Groups = dict[str, list[Run]]


def describe_runs(runs: list[Run], out: Path, named: str | None = None) -> list[Block]:
    """Blocks for runs, ordered by method, and within a method as given. The settings are compared with the one that is
    `named`, or with the best.

    Raises:
        UnknownSetting: no setting is called so.
    """
    runs = sort_runs(runs)
    groups = group_runs(runs)
    names = _names(runs)
    shared = ", ".join(f"{name}={value}" for name, value in find_shared(runs).items() if value)
    text = f"Shared by all: {shared}." if shared else "No main setting is shared by all."
    blocks: list[Block] = [Heading(f"{len(runs)} runs compared", 1), Text(text)]
    if measured := _measured(groups):
        if named and named not in measured:
            raise UnknownSetting(f"no setting is called {named!r}; these are: {', '.join(map(repr, measured))}")
        rewards = {"reward": columns.REWARD} if _share_rewards(measured) else {}
        blocks += _over_seeds(measured, runs, out)
        blocks += compare_policies(measured)
        blocks += [Callout("warning", "Collapsed seeds.", text) for text in _collapsed(measured)]
        blocks += describe_differences(measured, ACCURACIES | rewards, named)
        blocks += describe_aggregates(measured, columns.TRAINED, out)
        blocks += _rewards(measured, out)
        for title, costs in (("Cost", columns.COST), ("Forward passes per update", columns.PASSES)):
            if shown := list_columns(_flatten(measured), costs):
                blocks += [Heading(title), _table(measured, shown), Text(join_notes(shown))]
        blocks += [Callout("warning", "Unequal training.", text) for text in _find_short(measured)]
    blocks += describe_noise(runs)
    blocks += [Heading("Every run"), _runs_table(groups, names)]
    blocks.append(Text("In brackets: 95% intervals over the held-out rows."))
    blocks += [
        Callout("error" if run.status == "failed" else "warning", f"{names[run.path]}.", sentence)
        for run in runs
        if (sentence := status_sentence(run))
    ]
    blocks += describe_learning(measured, out)
    if drawn := curves.draw_runs(groups, out):
        blocks += [Heading("Training curves"), Figures(drawn)]
    return blocks


def tabulate_study(runs: list[Run]) -> str:
    """A row per setting, with its seeds and the main figures over them, as plain text."""
    measured = _measured(group_runs(sort_runs(runs)))
    alone = tabulate_noise(runs)
    if not measured:
        return "\n".join(alone) or "No run was measured."
    table = _table(measured, list_columns(_flatten(measured), columns.SHORT))
    lines = align([table.head, *table.rows])
    if max(map(len, measured.values())) < 2:
        return "\n".join([*lines, "One seed for each setting: no intervals.", *alone])
    lines.append("In brackets: 95% intervals over seeds, held-out rows and sampling.")
    told = [
        summarise_tests(run_tests(measured, column), name, column)
        for name, column in ACCURACIES.items()
        if any(map(column.read, _flatten(measured)))
    ]
    told += [f"Collapsed seeds. {text}" for text in _collapsed(measured)]
    told += [f"Unequal training. {text}" for text in _find_short(measured)]
    told += [NO_ROWS_NOTE] if any(lacks_rows(group, columns.SHORT) for group in measured.values()) else []
    return "\n".join(
        [*lines, *(line for text in told for line in textwrap.wrap(text, 100, break_on_hyphens=False)), *alone]
    )


def _collapsed(measured: Groups) -> list[str]:
    found = (describe_collapsed(measured, column) for column in ACCURACIES.values())
    return [text for text in found if text]


def _find_short(measured: Groups) -> list[str]:
    """A sentence on each setting whose runs had no steps left before they had trained on `train_tokens`."""
    told = []
    for label, group in measured.items():
        found = [(run.config.get("train_tokens"), columns.TRAINED_TOKENS.read(run)) for run in group]
        shares = [(tokens["value"] / wanted, wanted) for wanted, tokens in found if wanted and tokens]
        if shares and min(shares)[0] < ABOUT_ALL:
            least = math.floor(100 * min(shares)[0])
            told.append(
                f"{label} ended at max_steps before train_tokens={shares[0][1]:,}, with {least}% of them at least: more"
                " steps make the methods comparable."
            )
    return told


def _flatten(groups: Groups) -> list[Run]:
    return [run for group in groups.values() for run in group]


def _measured(groups: Groups) -> Groups:
    """The runs whose trained model was measured; for each seed the latest one."""
    kept: Groups = {}
    for label, group in groups.items():
        measured = sorted(
            (run for run in group if "trained" in run.evaluation), key=lambda r: str(r.info.get("started"))
        )
        of_seed = {(run.info.get("seed"), str(run.config.get("reward", {}).get("random"))): run for run in measured}
        kept |= {label: list(of_seed.values())} if of_seed else {}
    return kept


def _over_seeds(measured: Groups, runs: list[Run], out: Path) -> list[Block]:
    """The table of outcomes for a graded task, or of other measurements; accuracies as dots."""
    kept = _flatten(measured)
    graded = any("counts" in run.evaluation["trained"] and not run.trains_scorer for run in kept)
    shown = list_columns(kept, columns.OUTCOME if graded else columns.MEASURED)
    seeds = SEEDS_NOTE if max(map(len, measured.values())) > 1 else ONE_SEED_NOTE
    blocks: list[Block] = [Heading("Results over seeds"), _table(measured, shown)]
    lacking = f" {NO_ROWS_NOTE}" if any(lacks_rows(group, shown) for group in measured.values()) else ""
    blocks.append(Text(f"{seeds}{lacking} {join_notes(shown)}"))
    sides = columns.SIDES if any(map(columns.TRAINED.read, kept)) else columns.PAIRS_SIDES
    dots = [(label, *(mean_over_seeds(group, side) for side in sides)) for label, group in measured.items()]
    if dots := [row for row in dots if row[1] or row[2]]:
        names = {accuracy_name(run) for run in runs}
        name = names.pop() if len(names) == 1 else "Held-out accuracy"
        blocks.append(Figures([plots.draw_accuracy(dots, out, name)]))
    return blocks


def _rewards(measured: Groups, out: Path) -> list[Block]:
    """Reward and KL of the settings and the start model, as a table and as a plot of one against the other."""
    shown = list_columns(_flatten(measured), columns.REWARDS)
    if columns.REWARD not in shown or columns.KL not in shown:
        return []
    table = _table(measured, shown)
    starts = {_freeze(section): run for run in _flatten(measured) if (section := run.evaluation.get("baseline"))}
    if len(starts) == 1:  # measured once, the same for all
        start = next(iter(starts.values()))
        table.rows.insert(0, [START, "-", *(column.write(read_start(start, column)) for column in shown)])
    planes = {}
    for label, group in measured.items():
        points = [(columns.KL.read(run), columns.REWARD.read(run)) for run in group]
        if both := [(kl["value"], reward["value"]) for kl, reward in points if kl and reward]:
            planes[label] = ((mean_over_seeds(group, columns.KL), mean_over_seeds(group, columns.REWARD)), both)
    levels = [level for run in starts.values() if (level := read_start(run, columns.REWARD))]
    return [
        Heading("Reward and KL to the start model"),
        table,
        Text(f"{join_notes(shown)} {START.capitalize()}: before training, with intervals over the held-out rows."),
        Figures([plots.draw_plane(planes, levels, out)])
        if _share_rewards(measured)
        else Text("The settings have different rewards, which cannot be compared."),
    ]


def _share_rewards(measured: Groups) -> bool:
    return len({str({**run.config.get("reward", {}), "random": None}) for run in _flatten(measured)}) == 1


def _freeze(section: dict) -> str:
    return str([section.get("n"), section.get("accuracy"), section.get("reward"), section.get("mean_tokens")])


def _table(measured: Groups, shown: list[Column]) -> Table:
    """A row for each setting: its seeds, and the means over them."""
    means = [column._replace(read=lambda row, c=column: mean_over_seeds(row[1], c)) for column in shown]
    return fill([Column("setting", itemgetter(0)), Column("seeds", lambda row: len(row[1])), *means], measured.items())


def _names(runs: list[Run]) -> dict[Path, str]:
    """Each run's folder, without the part that all paths share."""
    common = os.path.commonpath([run.path.absolute().parent for run in runs])
    return {run.path: run.path.absolute().relative_to(common).as_posix() for run in runs}


def _runs_table(groups: Groups, names: dict[Path, str]) -> Table:
    labels = {run.path: label for label, group in groups.items() for run in group}
    labelled = [label for label in LABELS if any(map(label.read, _flatten(groups)))]
    shown = [
        Column("run", lambda run: names[run.path]),
        *labelled,
        Column("setting", lambda run: labels[run.path]),
        Column("seed", lambda run: run.info.get("seed")),
        *list_columns(_flatten(groups)),
        Column("training", lambda run: run.info.get("seconds", {}).get("train"), duration),
        Column("health", lambda run: run.diagnosis.get("health") if run.status == "finished" else run.status),
    ]
    return fill(shown, _flatten(groups))

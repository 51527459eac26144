"""The report over several runs: one row per run, one row per setting over its seeds, and their curves.

describe_runs([load_run(path) for path in paths])  ->  blocks
tabulate_study(runs)  ->  the table over seeds that the terminal shows

A setting is the config without the seed (groups.py).
"""

import math
import os
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from rlhf_exp.report import columns, pairwise
from rlhf_exp.report.baselines import compare_baselines
from rlhf_exp.report.columns import Column, fill, join_notes, lacks_rows, list_columns, mean_over_seeds, read_start
from rlhf_exp.report.curves import plot_runs
from rlhf_exp.report.groups import UnknownSetting, find_shared, group_runs, sort_runs
from rlhf_exp.report.learning import describe_learning
from rlhf_exp.report.noise import describe_noise
from rlhf_exp.report.page import NOTES, Block, Callout, Figures, Heading, Table, Text
from rlhf_exp.report.plots import plot_accuracy, plot_plane
from rlhf_exp.report.verdict import accuracy_name, status_sentence
from rlhf_exp.runs.figures import duration, write_name
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import START

ACCURACIES = {"held-out accuracy": columns.TRAINED, "held-out pair accuracy": columns.PAIRS_TRAINED}

ABOUT_ALL = 0.98
"""Of `train_tokens`: runs that ended with fewer are named."""

Groups = dict[str, list[Run]]


def describe_runs(runs: list[Run], named: str | None = None) -> list[Block]:
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
        blocks += _describe_settings(measured, named)
    blocks += describe_noise(runs)
    blocks += [Heading("Every run"), _runs_table(groups, names)]
    blocks.append(Text("In brackets: 95% intervals over the held-out rows."))
    for run in runs:
        if sentence := status_sentence(run):
            blocks.append(Callout("error" if run.status == "failed" else "warning", f"{names[run.path]}.", sentence))
    blocks += describe_learning(measured)
    if plots := plot_runs(groups):
        blocks += [Heading("Training curves"), Figures(plots)]
    return blocks


def tabulate_study(runs: list[Run]) -> list[Block]:
    """A row per setting, with its seeds and the main figures over them, and what the tests say."""
    measured = _measured(group_runs(sort_runs(runs)))
    alone = describe_noise(runs)
    if not measured:
        return alone or [Text("No run was measured.")]
    table = _table(measured, list_columns(_flatten(measured), columns.SHORT))
    if max(map(len, measured.values())) < 2:
        return [table, Text("One seed for each setting: no intervals."), *alone]
    told = ["In brackets: 95% intervals over seeds, held-out rows and sampling."]
    remarks = [block for block in _describe_settings(measured) if isinstance(block, Callout)]
    told += [f"{remark.title} {remark.text}".strip() for remark in remarks]
    return [table, *map(Text, [*told, *_note_rows(measured, columns.SHORT)]), *alone]


def _describe_settings(measured: Groups, named: str | None = None) -> list[Block]:
    runs = _flatten(measured)
    blocks = _over_seeds(measured) + compare_baselines(measured)
    for column in ACCURACIES.values():
        if text := pairwise.describe_collapsed(measured, column):
            blocks.append(Callout("warning", "Collapsed seeds.", text))
    rewards = {"reward": columns.REWARD} if _share_rewards(runs) else {}
    blocks += pairwise.describe_differences(measured, ACCURACIES | rewards, named)
    blocks += pairwise.describe_aggregates(measured, columns.TRAINED)
    blocks += _rewards(measured)
    for heading, costs in (("Cost", columns.COST), ("Forward passes per update", columns.PASSES)):
        if shown := list_columns(runs, costs):
            blocks += [Heading(heading), _table(measured, shown), Text(join_notes(shown))]
    return blocks + _find_short(measured)


def _find_short(measured: Groups) -> list[Callout]:
    """A remark on each setting whose runs had no steps left before they had trained on `train_tokens`."""
    found = []
    for label, group in measured.items():
        read = [(run.config.get("train_tokens"), columns.TRAINED_TOKENS.read(run)) for run in group]
        shares = [(tokens["value"] / wanted, wanted) for wanted, tokens in read if wanted and tokens]
        if shares and min(shares)[0] < ABOUT_ALL:
            text = f"{label} ended at max_steps before train_tokens={shares[0][1]:,}, with"
            text += f" {math.floor(100 * min(shares)[0])}% of them at least: more steps make the methods comparable."
            found.append(Callout("warning", "Unequal training.", text))
    return found


def _note_rows(measured: Groups, shown: Sequence[Column]) -> list[str]:
    return [NOTES["no rows"]] if any(lacks_rows(group, shown) for group in measured.values()) else []


def _flatten(groups: Groups) -> list[Run]:
    return [run for group in groups.values() for run in group]


def _measured(groups: Groups) -> Groups:
    """The runs whose trained model was measured; for each seed the latest one."""
    kept: Groups = {}
    for label, group in groups.items():
        measured = [run for run in group if "trained" in run.evaluation]
        measured.sort(key=lambda run: str(run.info.get("started")))
        of_seed = {(run.info.get("seed"), str(run.config.get("reward", {}).get("random"))): run for run in measured}
        kept |= {label: list(of_seed.values())} if of_seed else {}
    return kept


def _over_seeds(measured: Groups) -> list[Block]:
    """The table of outcomes for a graded task, or of other measurements; accuracies as dots."""
    runs = _flatten(measured)
    graded = any("counts" in run.evaluation["trained"] and not run.trains_scorer for run in runs)
    shown = list_columns(runs, columns.OUTCOME if graded else columns.MEASURED)
    notes = [NOTES["seeds" if max(map(len, measured.values())) > 1 else "one seed"], *_note_rows(measured, shown)]
    blocks: list[Block] = [Heading("Results over seeds"), _table(measured, shown)]
    blocks.append(Text(" ".join([*notes, join_notes(shown)])))
    sides = (columns.ACCURACY if any(map(columns.TRAINED.read, runs)) else columns.PAIRS)[:2]
    dots = [(label, *(mean_over_seeds(group, side) for side in sides)) for label, group in measured.items()]
    if dots := [row for row in dots if any(row[1:])]:
        names = {accuracy_name(run) for run in runs}
        blocks.append(Figures([plot_accuracy(dots, names.pop() if len(names) == 1 else "Held-out accuracy")]))
    return blocks


def _rewards(measured: Groups) -> list[Block]:
    """Reward and KL of the settings and the start model, as a table and as a plot of one against the other."""
    runs = _flatten(measured)
    shown = list_columns(runs, columns.REWARDS)
    if columns.REWARD not in shown or columns.KL not in shown:
        return []
    table = _table(measured, shown)
    sections = [(run, run.evaluation["baseline"]) for run in runs if run.evaluation.get("baseline")]
    starts = {str([s.get(k) for k in ("n", "accuracy", "reward", "mean_tokens")]): run for run, s in sections}
    if len(starts) == 1:  # measured once, the same for all
        start = next(iter(starts.values()))
        table.rows.insert(0, [START, "-", *(column.write(read_start(start, column)) for column in shown)])
    note = f"{join_notes(shown)} {START.capitalize()}: before training, with intervals over the held-out rows."
    blocks: list[Block] = [Heading("Reward and KL to the start model"), table, Text(note)]
    if not _share_rewards(runs):
        return [*blocks, Text("The settings have different rewards, which cannot be compared.")]
    planes: dict = {}
    for label, group in measured.items():
        points = [(columns.KL.read(run), columns.REWARD.read(run)) for run in group]
        if both := [(kl["value"], reward["value"]) for kl, reward in points if kl and reward]:
            planes[label] = ((mean_over_seeds(group, columns.KL), mean_over_seeds(group, columns.REWARD)), both)
    levels = [level for run in starts.values() if (level := read_start(run, columns.REWARD))]
    return [*blocks, Figures([plot_plane(planes, levels)])]


def _share_rewards(runs: list[Run]) -> bool:
    return len({str({**run.config.get("reward", {}), "random": None}) for run in runs}) == 1


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
    runs = _flatten(groups)
    own = [Column(key, lambda run, key=key: write_name(run.info.get(key)) or None) for key in ("name", "tags")]
    shown = [
        Column("run", lambda run: names[run.path]),
        *(column for column in own if any(map(column.read, runs))),
        Column("setting", lambda run: labels[run.path]),
        Column("seed", lambda run: run.info.get("seed")),
        *list_columns(runs),
        Column("training", lambda run: run.info.get("seconds", {}).get("train"), duration),
        Column("health", lambda run: run.diagnosis.get("health") if run.status == "finished" else run.status),
    ]
    return fill(shown, runs)

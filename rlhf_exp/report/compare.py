"""The report over several runs: one row a run, one row a setting over its seeds, curves over each other.

describe_runs([load_run(path) for path in paths], out)  ->  blocks; the plots lie in out/plots
study_rows(runs)  ->  the table over seeds that the terminal shows
"""

import os
from pathlib import Path

from rlhf_exp.report import curves, plots
from rlhf_exp.report.columns import (
    BASELINE,
    COST,
    KL,
    MEASURED,
    OUTCOME,
    PAIRS_BASELINE,
    PAIRS_TRAINED,
    PASSES,
    REWARD,
    REWARDS,
    TRAINED,
    Column,
    list_columns,
    mean_over_seeds,
    read_start,
)
from rlhf_exp.report.groups import find_shared, group_runs, sort_runs
from rlhf_exp.report.page import Block, Callout, Figures, Heading, Table, Text
from rlhf_exp.report.pairwise import NOTE, START, compare_groups, tell_apart
from rlhf_exp.report.tables import duration, number, points
from rlhf_exp.report.verdict import accuracy_name, status_sentence
from rlhf_exp.runs.load import Run

SEEDS_NOTE = (
    "Means over seeds with 95% t intervals; one seed has none. A seed that was run twice counts once, the later one."
)
ONE_SEED_NOTE = "One seed for each setting: no interval over seeds; the baseline's is over the held-out rows."
SHORT = ("trained", "difference", "pairs, trained", "pairs, difference", "win rate", "reward", "KL")
"""Of the columns over seeds, those that a terminal has room for."""


def describe_runs(runs: list[Run], out: Path) -> list[Block]:
    """Blocks for runs, which stand by method and else in the order given."""
    runs = sort_runs(runs)
    groups = group_runs(runs)
    measured = _measured(groups)
    names = _names(runs)
    shared = ", ".join(f"{name}={value}" for name, value in find_shared(runs).items() if value)
    text = f"Shared by all: {shared}." if shared else "No main setting is shared by all."
    blocks: list[Block] = [Heading(f"{len(runs)} runs compared", 1), Text(text)]
    if measured:
        blocks += _over_seeds(measured, runs, out)
        blocks += _told_apart(measured)
        blocks += _rewards(measured, out)
        blocks += _cost(measured)
    columns = list_columns(runs)
    blocks += [Heading("Every run"), _runs_table(groups, names, columns)]
    blocks.append(Text("In brackets: 95% intervals over the held-out rows."))
    blocks += [
        Callout("error" if run.status == "failed" else "warning", f"{names[run.path]}.", sentence)
        for run in runs
        if (sentence := status_sentence(run))
    ]
    if drawn := curves.draw_runs(groups, out):
        blocks += [Heading("Training"), Figures(drawn)]
    return blocks


def study_rows(runs: list[Run]) -> list[list[str]]:
    """Head and rows: one setting each, its seeds, and the main figures over them; empty where none was measured."""
    measured = _measured(group_runs(sort_runs(runs)))
    kept = [run for group in measured.values() for run in group]
    columns = [column for column in list_columns(kept) if column.name in SHORT]
    table = _table(measured, columns)
    return [table.head, *table.rows] if table.rows else []


def _measured(groups: dict[str, list[Run]]) -> dict[str, list[Run]]:
    return {label: kept for label, group in groups.items() if (kept := _one_run_a_seed(group))}


def _one_run_a_seed(group: list[Run]) -> list[Run]:
    measured = [run for run in group if "trained" in run.evaluation]
    measured.sort(key=lambda run: str(run.info.get("started")))
    return list(
        {(run.info.get("seed"), str(run.config.get("reward", {}).get("random"))): run for run in measured}.values()
    )


def _over_seeds(measured: dict[str, list[Run]], runs: list[Run], out: Path) -> list[Block]:
    """The graded task's table of outcomes, or whatever was measured; accuracies as dots."""
    kept = [run for group in measured.values() for run in group]
    graded = any("counts" in run.evaluation["trained"] and run.info.get("algo") != "reward_model" for run in kept)
    columns = list_columns(kept, OUTCOME if graded else MEASURED)
    notes = ["Correct, partial and failed count held-out completions."] if graded else []
    seeds = SEEDS_NOTE if max(map(len, measured.values())) > 1 else ONE_SEED_NOTE
    text = " ".join([seeds, *(column.note for column in columns if column.note), *notes])
    blocks: list[Block] = [Heading("Over seeds"), _table(measured, columns), Text(text)]
    sides = (BASELINE, TRAINED) if any(TRAINED.read(run) for run in kept) else (PAIRS_BASELINE, PAIRS_TRAINED)
    dots = [(label, *(mean_over_seeds(group, side) for side in sides)) for label, group in measured.items()]
    if dots := [row for row in dots if row[1] or row[2]]:
        blocks.append(Figures([plots.draw_accuracy(dots, out, _accuracy_names(runs))]))
    return blocks


def _told_apart(measured: dict[str, list[Run]]) -> list[Block]:
    """Which settings differ by more than their seeds do; nothing where no setting has two seeds."""
    if len(measured) < 2 or max(map(len, measured.values())) < 2:
        return []
    blocks: list[Block] = [Heading("Which can be told apart")]
    for column, name, write in (
        (TRAINED, "held-out accuracy", points),
        (PAIRS_TRAINED, "held-out pair accuracy", points),
        (REWARD, "reward", lambda found: number(found, "+.3f")),
    ):
        if column is REWARD and not _share_rewards(measured):
            continue
        pairs = compare_groups(measured, column)
        if not pairs:
            continue
        blocks.append(Callout("info", tell_apart(pairs, name), ""))
        if column in (TRAINED, PAIRS_TRAINED):
            rows = [
                [f"{pair.first} - {pair.second}", write(pair.difference), _p(pair.p), _p(pair.adjusted),
                 "not tested" if pair.p is None else "told apart" if pair.told_apart else "not told apart"]
                for pair in pairs
            ]  # fmt: skip
            blocks.append(Table(["", "difference, points", "p", "p, adjusted", ""], rows))
    return [*blocks, Text(NOTE)] if len(blocks) > 1 else []


def _rewards(measured: dict[str, list[Run]], out: Path) -> list[Block]:
    """Reward and KL with the start model beside the settings, and the plane of the two."""
    kept = [run for group in measured.values() for run in group]
    columns = list_columns(kept, REWARDS)
    if REWARD not in columns or KL not in columns:
        return []
    table = _table(measured, columns)
    starts = {_freeze(section): run for run in kept if (section := run.evaluation.get("baseline"))}
    if len(starts) == 1:  # measured once, alike for all
        start = next(iter(starts.values()))
        cells = [column.write(read_start(start, column)) for column in columns]
        table.rows.insert(0, [START, "-", *cells])
    dots = {
        label: [
            (kl["value"], reward["value"]) for run in group if (kl := KL.read(run)) and (reward := REWARD.read(run))
        ]
        for label, group in measured.items()
    }
    means = {label: (mean_over_seeds(group, KL), mean_over_seeds(group, REWARD)) for label, group in measured.items()}
    points_of = {label: (means[label], dots[label]) for label in measured if dots[label]}
    levels = [level for run in starts.values() if (level := read_start(run, REWARD))]
    notes = " ".join(column.note for column in columns if column.note)
    return [
        Heading("Reward and KL"),
        table,
        Text(f"{notes} {START.capitalize()}: before training, with intervals over the held-out rows."),
        Figures([plots.draw_plane(points_of, levels, out)])
        if _share_rewards(measured)
        else Text("The settings have different rewards, which are not to be compared."),
    ]


def _share_rewards(measured: dict[str, list[Run]]) -> bool:
    rewards = [run.config.get("reward", {}) for group in measured.values() for run in group]
    return len({str({**reward, "random": None}) for reward in rewards}) == 1


def _cost(measured: dict[str, list[Run]]) -> list[Block]:
    kept = [run for group in measured.values() for run in group]
    blocks: list[Block] = []
    for title, listed in (("Cost", COST), ("Passes per update", PASSES)):
        if columns := list_columns(kept, listed):
            notes = " ".join(column.note for column in columns if column.note)
            blocks += [Heading(title), _table(measured, columns), Text(notes)]
    return blocks


def _table(measured: dict[str, list[Run]], columns: list[Column]) -> Table:
    rows = [
        [label, str(len(group)), *(column.write(mean_over_seeds(group, column)) for column in columns)]
        for label, group in measured.items()
    ]
    return Table(["setting", "seeds", *(column.name for column in columns)], rows)


def _freeze(section: dict) -> str:
    return str([section.get("n"), section.get("accuracy"), section.get("reward"), section.get("mean_tokens")])


def _p(value: float | None) -> str:
    return "-" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def _accuracy_names(runs: list[Run]) -> str:
    names = {accuracy_name(run) for run in runs}
    return names.pop() if len(names) == 1 else "Held-out accuracy"


def _names(runs: list[Run]) -> dict[Path, str]:
    """Each run's folder, from where the paths part."""
    common = os.path.commonpath([run.path.absolute().parent for run in runs])
    return {run.path: run.path.absolute().relative_to(common).as_posix() for run in runs}


def _runs_table(groups: dict[str, list[Run]], names: dict[Path, str], columns: list[Column]) -> Table:
    rows = []
    for label, group in groups.items():
        for run in group:
            figures = [column.write(column.read(run)) for column in columns]
            health = run.diagnosis.get("health", "-") if run.status == "finished" else run.status
            train = duration(run.info.get("seconds", {}).get("train"))
            rows.append([names[run.path], label, str(run.info.get("seed")), *figures, train, health])
    return Table(["run", "setting", "seed", *(column.name for column in columns), "training", "health"], rows)

"""Curves on validation rows against their cost and against the KL, and the dates of falls."""

import numpy as np
import pytest

from rlhf_exp.report.learning import describe_learning
from rlhf_exp.report.page import Figures, Table
from rlhf_exp.runs.folder import write_jsonl
from rlhf_exp.runs.load import load_run
from rlhf_exp.stats import SHARES, crossed_interval

ROWS = 40


def add_validation(folder, accuracies, by_row=True):
    """A measurement at step 0, and one after every second step of 100 tokens. The right rows are the first ones."""
    right = [[1] * round(ROWS * accuracy) + [0] * (ROWS - round(ROWS * accuracy)) for accuracy in accuracies]
    rows = [{"step": 0, "validation/accuracy": accuracies[0], "validation/kl": 0.0}]
    for i, accuracy in enumerate(accuracies[1:], start=1):
        spent = {"trained_tokens": 100 * i, "sampled_tokens": 0, "step_seconds": 0.5 * i}
        rows.append({"step": 2 * i, "validation/accuracy": accuracy, "validation/kl": 0.7 * i, **spent})
    write_jsonl(folder / "metrics.jsonl", rows)
    if by_row:
        names = [f"row {i}" for i in range(ROWS)]
        lines = [{"step": 2 * i, "id": names, "accuracy": values} for i, values in enumerate(right)]
        write_jsonl(folder / "validation.jsonl", lines)
    return load_run(folder)


@pytest.fixture
def groups(tmp_path, make_run):
    runs = {
        "grpo": [[0.2, 0.3, 0.5], [0.2, 0.4, 0.4]],
        "dr_grpo": [[0.2, 0.2, 0.2, 0.6], [0.2, 0.2, 0.2, 0.8]],
    }

    def make_one(label, seed, accuracies):
        return add_validation(make_run(tmp_path / f"{label}{seed}", seed, label), accuracies)

    return {
        label: [make_one(label, seed, accuracies) for seed, accuracies in enumerate(group)]
        for label, group in runs.items()
    }


@pytest.mark.parametrize(
    ("seeds", "step"),
    [
        ([[0.6, 0.6, 0.1, 0.1], [0.6, 0.5, 0.1, 0.1]], 4),  # clearly below from the second measurement on
        ([[0.6, 0.1, 0.6, 0.1]], 6),  # it recovered once; of one seed by its rows
        ([[0.6, 0.1, 0.1, 0.6]], None),  # and at the end
        ([[0.6, 0.575, 0.575, 0.575]], None),  # one row of 40 is no fall
    ],
)
def test_a_fall_has_the_date_from_which_on_accuracy_stays_clearly_below_the_start(tmp_path, make_run, seeds, step):
    group = [add_validation(make_run(tmp_path / f"{i}", i, "grpo"), found) for i, found in enumerate(seeds)]
    tables = [block for block in describe_learning({"falls": group}) if isinstance(block, Table)]
    assert [table.rows for table in tables] == ([[["falls", str(step)]]] if step else [])


def test_the_fall_of_a_reward_is_no_difference_of_shares(tmp_path, make_run):
    """Rows that are added to the differences of two shares once hid a fall on few rows."""
    folder = make_run(tmp_path / "0", 0, "brevity")
    rewards = {0: [1.0] * 4, 2: [0.1, 0.12, 0.09, 0.11]}
    write_jsonl(
        folder / "metrics.jsonl",
        [{"step": step, "validation/reward": np.mean(found), "step_seconds": step} for step, found in rewards.items()],
    )
    names = [f"row {i}" for i in range(4)]
    write_jsonl(
        folder / "validation.jsonl",
        [{"step": step, "id": names, "reward": found} for step, found in rewards.items()],
    )
    [table] = [block for block in describe_learning({"falls": [load_run(folder)]}) if isinstance(block, Table)]
    assert table.rows == [["falls", "2"]]


def test_curves_stand_at_what_was_spent_and_join_seeds_and_rows(groups):
    [plot] = [plot for block in describe_learning(groups) if isinstance(block, Figures) for plot in block.plots]
    trained, seconds, kl = plot.panels  # nothing was sampled
    assert [line.label for line in trained.lines] == ["grpo", "dr_grpo"]
    assert trained.lines[0].x == pytest.approx([0, 100, 200]) and seconds.lines[0].x == pytest.approx([0, 0.5, 1])
    assert kl.lines[0].x == pytest.approx([0, 0.7, 1.4])
    assert trained.lines[0].y == pytest.approx([20, 35, 45])
    # At the first measurement 12 rows are right in both seeds, four in the second, and 24 in none.
    found = crossed_interval(np.array([[1.0] * 12 + [0.0] * 28, [1.0] * 16 + [0.0] * 24]), SHARES)
    assert trained.lines[0].band[:, 1] == pytest.approx([100 * found["low"], 100 * found["high"]])


def test_without_the_rows_a_curve_has_no_band_and_a_fall_no_date(tmp_path, make_run):
    run = add_validation(make_run(tmp_path / "0", 0, "grpo"), [0.6, 0.1, 0.1], by_row=False)
    _, figures = describe_learning({"falls": [run, run]})
    line = figures.plots[0].panels[0].lines[0]
    assert line.band == pytest.approx(np.array([line.y, line.y]))

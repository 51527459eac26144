"""Curves on validation rows against their cost and against the KL, and the area under them."""

import numpy as np
import pytest

from rlhf_exp.report.learning import area, describe_learning
from rlhf_exp.report.page import Figures, Table, Text
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
def make_groups(tmp_path, make_run):
    runs = {
        "grpo": [[0.2, 0.3, 0.5], [0.2, 0.4, 0.4]],
        "dr_grpo": [[0.2, 0.2, 0.2, 0.6], [0.2, 0.2, 0.2, 0.8]],
    }

    def make_one(label, seed, accuracies, by_row):
        return add_validation(make_run(tmp_path / f"{label}{seed}", seed, label), accuracies, by_row)

    def make_groups(by_row=True):
        return {
            label: [make_one(label, seed, accuracies, by_row) for seed, accuracies in enumerate(group)]
            for label, group in runs.items()
        }

    return make_groups


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
    table = read_table(describe_learning({"falls": group}))
    dates = [row[table.head.index("below the start from step")] for row in table.rows] if step else [None]
    assert dates == [str(step) if step else None]
    assert ("below the start from step" in table.head) == bool(step)


def test_without_the_rows_a_fall_has_no_date(tmp_path, make_run):
    run = add_validation(make_run(tmp_path / "0", 0, "grpo"), [0.6, 0.1, 0.1], by_row=False)
    assert "below the start from step" not in read_table(describe_learning({"falls": [run]})).head


def read_table(blocks):
    return next(block for block in blocks if isinstance(block, Table))


def test_the_area_is_that_of_the_piecewise_linear_curve():
    places, curve = np.array([0.0, 10, 20]), np.array([0.2, 0.4, 0.4])
    assert area(places, curve, 20) == pytest.approx((0.3 * 10 + 0.4 * 10) / 20)
    assert area(places, curve, 15) == pytest.approx((0.3 * 10 + 0.4 * 5) / 15)
    assert area(np.array([0.0, 10]), np.array([0.0, 1.0]), 5) == pytest.approx(0.25)


def test_areas_are_up_to_the_cost_that_all_runs_reached_and_join_seeds_and_rows(make_groups):
    blocks = describe_learning(make_groups())
    table = read_table(blocks)
    assert table.head == ["setting", "seeds", "tokens trained on", "seconds inside steps"]  # nothing was sampled
    # Rows that are right from the start on, from the first measurement on, only at the last one, and never.
    first = [1.0] * 8 + [0.75] * 4 + [0.25] * 8 + [0.0] * 20
    second = [1.0] * 8 + [0.75] * 8 + [0.0] * 24
    found = crossed_interval(np.array([first, second]), SHARES)
    assert found["value"] == pytest.approx(((0.25 + 0.4) / 2 + (0.3 + 0.4) / 2) / 2)
    written = [f"{100 * found[end]:.1f}" for end in ("value", "low", "high")]
    assert table.rows[0][:3] == ["grpo", "2", "{}% [{}, {}]".format(*written)]
    assert table.rows[1][2].startswith("20.0% [")
    plots = [plot.name for block in blocks if isinstance(block, Figures) for plot in block.plots]
    assert plots == ["learning"]


def test_without_the_rows_areas_have_no_interval_and_the_report_says_why(make_groups):
    blocks = describe_learning(make_groups(by_row=False))
    assert read_table(blocks).rows[1][2] == "20.0%"
    assert "validation.jsonl" in next(block for block in blocks if isinstance(block, Text)).text

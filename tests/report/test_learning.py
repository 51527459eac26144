"""Curves on validation rows against their cost, and the area under them."""

import json

import pytest

from rlhf_exp.report.learning import area, describe_learning
from rlhf_exp.report.page import Table
from rlhf_exp.runs.load import load_run
from rlhf_exp.stats import mean_interval


def add_validation(folder, accuracies, tokens=100):
    """A measurement at step 0, and one after every second step of 100 tokens."""
    rows = [{"step": 0, "time_s": 0.0, "validation/accuracy": accuracies[0]}]
    for i, accuracy in enumerate(accuracies[1:], start=1):
        rows.append({"step": 2 * i, "time_s": 1.0, "trained_tokens": tokens * i, "sampled_tokens": 0,
                     "step_seconds": 0.5 * i, "validation/accuracy": accuracy})  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_run(folder)


@pytest.fixture
def groups(tmp_path, make_run):
    runs = {
        "grpo": [[0.2, 0.3, 0.5], [0.2, 0.4, 0.4]],
        "dr_grpo": [[0.2, 0.2, 0.2, 0.6], [0.2, 0.2, 0.2, 0.8]],
    }
    return {
        label: [add_validation(make_run(tmp_path / f"{label}{seed}", loss_type=label, seed=seed), values)
                for seed, values in enumerate(group)]
        for label, group in runs.items()
    }  # fmt: skip


def test_the_area_is_that_of_the_piecewise_linear_curve():
    assert area([0, 10, 20], [0.2, 0.4, 0.4], 20) == pytest.approx((0.3 * 10 + 0.4 * 10) / 20)
    assert area([0, 10, 20], [0.2, 0.4, 0.4], 15) == pytest.approx((0.3 * 10 + 0.4 * 5) / 15)
    assert area([0, 10], [0.0, 1.0], 5) == pytest.approx(0.25)


def test_areas_are_up_to_the_cost_that_all_runs_reached(groups, tmp_path):
    blocks = describe_learning(groups, tmp_path)
    [table] = [block for block in blocks if isinstance(block, Table)]
    assert table.head == ["setting", "seeds", "tokens trained on", "seconds inside steps"]  # nothing was sampled
    found = mean_interval([100 * (0.25 + 0.4) / 2, 100 * (0.3 + 0.4) / 2])
    assert table.rows[0][:3] == ["grpo", "2", f"{found['value']:.1f}% [{found['low']:.1f}, {found['high']:.1f}]"]
    assert table.rows[1][2] == "20.0%"
    assert (tmp_path / "plots" / "learning.png").exists()


def test_the_curves_can_be_drawn(groups, tmp_path, drawn):
    describe_learning(groups, tmp_path)
    assert (tmp_path / "plots" / "learning.png").stat().st_size > 10_000


def test_without_measurements_in_training_there_is_no_part(tmp_path, make_run):
    assert describe_learning({"grpo": [load_run(make_run(tmp_path / "run"))]}, tmp_path) == []

"""Curves on validation rows against their cost and against the KL."""

from dataclasses import replace

import numpy as np
import pytest

from rlhf_exp.analysis.report.learning import describe_learning
from rlhf_exp.analysis.report.page import Figures
from rlhf_exp.analysis.stats import SHARES, crossed_interval
from rlhf_exp.runs.load import load_run
from rlhf_exp.runs.records import Measurement

ROWS = 40


@pytest.fixture
def measure(run_dir):
    """measure([0.2, 0.3]): a run with an accuracy at step 0, and one after every second step of 100 tokens; the right
    rows are the first ones."""

    def measure(accuracies, by_row=True):
        metrics, validation = [], []
        for i, accuracy in enumerate(accuracies):
            spent = {"trained_tokens": 100 * i, "sampled_tokens": 0, "step_seconds": 0.5 * i} if i else {}
            metrics.append({"step": 2 * i, "validation/accuracy": accuracy, "validation/kl": 0.7 * i, **spent})
            right = [int(row < round(ROWS * accuracy)) for row in range(ROWS)]
            validation.append(Measurement(step=2 * i, id=[f"row {row}" for row in range(ROWS)], accuracy=right))
        return replace(load_run(run_dir), metrics=metrics, validation=validation if by_row else [])

    return measure


def test_curves_stand_at_what_was_spent_and_join_seeds_and_rows(measure):
    runs = {"grpo": [[0.2, 0.3, 0.5], [0.2, 0.4, 0.4]], "dr_grpo": [[0.2, 0.2, 0.2, 0.6], [0.2, 0.2, 0.2, 0.8]]}
    groups = {label: [measure(accuracies) for accuracies in group] for label, group in runs.items()}
    [plot] = [plot for block in describe_learning(groups) if isinstance(block, Figures) for plot in block.plots]
    trained, seconds, kl = plot.panels  # nothing was sampled
    assert [line.label for line in trained.lines] == ["grpo", "dr_grpo"]
    assert trained.lines[0].x == pytest.approx([0, 100, 200]) and seconds.lines[0].x == pytest.approx([0, 0.5, 1])
    assert kl.lines[0].x == pytest.approx([0, 0.7, 1.4])
    assert trained.lines[0].y == pytest.approx([20, 35, 45])
    # At the first measurement 12 rows are right in both seeds, four in the second, and 24 in none.
    found = crossed_interval(np.array([[1.0] * 12 + [0.0] * 28, [1.0] * 16 + [0.0] * 24]), SHARES)
    assert trained.lines[0].band[:, 1] == pytest.approx([100 * found["low"], 100 * found["high"]])


def test_without_the_rows_a_curve_has_no_band(measure):
    _, figures = describe_learning({"falls": [measure([0.6, 0.1, 0.1], by_row=False)] * 2})
    line = figures.plots[0].panels[0].lines[0]
    assert line.band == pytest.approx(np.array([line.y, line.y]))

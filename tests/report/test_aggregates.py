import numpy as np
import pytest

from rlhf_exp.report.columns import TRAINED
from rlhf_exp.report.groups import group_runs
from rlhf_exp.report.page import Figures, Table
from rlhf_exp.report.pairwise import collect_scores, describe_aggregates
from rlhf_exp.report.plots import draw
from rlhf_exp.runs.load import load_run


@pytest.fixture
def make(tmp_path, make_run, edit_info):
    """Runs of two losses at each of these budgets, with as many seeds."""

    def build(budgets, seeds, losses=("grpo", "dr_grpo")):
        runs = []
        for loss in losses:
            for budget in budgets:
                for seed in range(seeds):
                    path = make_run(tmp_path / f"{loss}{budget}{seed}", seed, loss, 0.3 if loss == "grpo" else 0.1)
                    edit_info(path, max_tokens=budget)
                    runs.append(load_run(path))
        return runs

    return build


def test_budgets_are_strata_of_a_method(make):
    runs = make((32, 64), 2)
    strata, scores = collect_scores(group_runs(runs), TRAINED)
    assert strata == ["countdown at 32 tokens", "countdown at 64 tokens"]
    assert list(scores) == ["grpo", "dr_grpo"] and scores["grpo"].shape == (2, 2)
    assert scores["grpo"][:, 0] == pytest.approx([TRAINED.read(run)["value"] for run in runs[:2]])


def test_a_method_that_lacks_a_run_is_left_out(make):
    runs = make((32, 64), 2)
    assert list(collect_scores(group_runs(runs[:-1]), TRAINED)[1]) == ["grpo"]


def test_the_table_has_the_mean_of_the_middle_half_and_who_is_better(make, tmp_path, drawn):
    blocks = describe_aggregates(group_runs(make((32, 64), 2)), TRAINED)
    [table] = [block for block in blocks if isinstance(block, Table)]
    assert table.head == ["method", "interquartile mean", "grpo is better"]
    assert [row[0] for row in table.rows] == ["grpo", "dr_grpo"]
    assert table.rows[0][2] == "-" and table.rows[1][2].startswith("100.0%")
    [plot] = [plot for block in blocks if isinstance(block, Figures) for plot in block.plots]
    assert draw(plot, tmp_path) == tmp_path / "plots" / "profiles.png"
    assert np.isfinite(float(table.rows[0][1].split("%")[0]))

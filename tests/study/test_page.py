from pathlib import Path
from types import SimpleNamespace

import pytest

from rlhf_exp.report.page import Figures, Table
from rlhf_exp.study.page import _divide, describe_alone


def make_run(arm, seed, rows):
    samples = [{"id": str(row), "prompt": "add"} for row in rows]
    return SimpleNamespace(path=Path(arm, seed), trains_scorer=False, preferences=[], sampled=lambda which: samples)


def test_runs_are_compared_on_the_rows_of_their_arm_and_apart_where_the_study_says_so():
    arms = (("falls", [1, 2]), ("mended", [1, 2]), ("better", [1, 2]), ("kl", [1, 2]), ("a", [1, 2]), ("other", [3]))
    runs = [make_run(arm, seed, rows) for arm, rows in arms for seed in "01"]
    runs[-1] = make_run("other", "1", [4])  # an arm that draws its own rows for each seed
    labels = {run.path: run.path.parts[0] for run in runs}
    against = dict.fromkeys(["falls", "mended", "better"], "falls")
    stages = {path: SimpleNamespace(apart=arm == "kl", against=against.get(arm)) for path, arm in labels.items()}
    families = _divide(stages, runs, labels)
    assert [list(dict.fromkeys(labels[run.path] for run in family)) for family in families] == [
        ["a"],
        ["other"],
        ["falls", "mended", "better"],
        ["kl"],
    ]


def make_measured(arm, start, reward, kl=None, ids="abc"):
    """A run with a reward and, if it trained, a KL of each row; the model that it started from."""
    samples = [{"id": row, "prompt": "add", "reward": reward + i, "outcome": "correct"} for i, row in enumerate(ids)]
    trained = [sample | {"kl": kl} for sample in samples]
    return SimpleNamespace(
        path=Path(arm), trains_scorer=False, config={"model": {"path": start}},
        sampled={"baseline": samples, "trained": trained}.get,
        evaluation={"trained": {"kl": {"mean": {"value": kl, "low": None, "high": None}}}},
    )  # fmt: skip


def test_models_measured_alone_have_the_kl_to_the_first_of_them_if_they_were_trained_from_it():
    judged = {"start": "sft", "ppo": "ppo", "dpo": "dpo", "then_ppo": "then_ppo"}
    groups = {arm: [make_measured(f"judged_{arm}", path, 0.5)] for arm, path in judged.items()}
    makers = {"start": ("random", 300.0), "ppo": ("sft", 2.0), "dpo": ("sft", 4.0), "then_ppo": ("dpo", 8.0)}
    found = {Path(f"judged_{arm}"): make_measured(arm, *of[:1], 0.5, of[1]) for arm, of in makers.items()}
    blocks = describe_alone(groups, found)
    [table] = [block for block in blocks if isinstance(block, Table)]
    assert [(row[0], row[-1]) for row in table.rows] == [
        ("start", "0.00"), ("ppo", "2.00"), ("dpo", "4.00"), ("then_ppo", "-"),
    ]  # fmt: skip
    [plot] = next(block for block in blocks if isinstance(block, Figures)).plots
    assert [(line.label, *line.x, *line.y) for line in plot.panels[0].lines] == [
        ("start", pytest.approx(1.5), 0.0), ("ppo", pytest.approx(1.5), 2.0), ("dpo", pytest.approx(1.5), 4.0),
    ]  # fmt: skip
    [table] = [block for block in describe_alone(groups, {}) if isinstance(block, Table)]
    assert table.head == ["arm", "seeds", "accuracy", "reward"] and len(table.rows[0]) == 4
    groups["ppo"] = [make_measured("judged_ppo", "ppo", 0.5, ids="xyz")]  # on other rows: no place beside the others
    assert not any(isinstance(block, Figures) for block in describe_alone(groups, found))

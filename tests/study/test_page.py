from pathlib import Path
from types import SimpleNamespace

from rlhf_exp.study.page import _divide


def make_run(arm, seed, rows):
    samples = [{"id": str(row), "prompt": "add"} for row in rows]
    return SimpleNamespace(path=Path(arm, seed), trains_scorer=False, preferences=[], sampled=lambda which: samples)


def test_runs_are_compared_on_the_rows_of_their_arm_and_apart_where_the_study_says_so():
    runs = [make_run(arm, seed, rows) for arm, rows in (("a", [1, 2]), ("b", [1, 2]), ("other", [3]), ("kl", [1, 2]))
            for seed in "01"]  # fmt: skip
    runs[5] = make_run("other", "1", [4])  # an arm that draws its own rows for each seed
    labels = {run.path: run.path.parts[0] for run in runs}
    stages = {arm: SimpleNamespace(jobs=[SimpleNamespace(arm=arm)], apart=arm == "kl") for arm in labels.values()}
    families = _divide(SimpleNamespace(stages=stages), runs, labels)
    assert [[labels[run.path] for run in family] for family in families] == [
        ["a", "a", "b", "b"],
        ["other"] * 2,
        ["kl"] * 2,
    ]

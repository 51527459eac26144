from pathlib import Path
from types import SimpleNamespace

from rlhf_exp.analysis.report.page import Table
from rlhf_exp.analysis.study.page import _divide, describe_alone
from rlhf_exp.runs.records import Completion
from tests.analysis.study.test_claims import make_run as make_whole_run


def make_run(arm, seed, rows):
    samples = [Completion(id=str(row), prompt="add") for row in rows]
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


def test_models_measured_alone_have_their_own_figures():
    samples = [Completion(which="baseline", id=row, reward=0.5 + i, outcome="correct") for i, row in enumerate("abc")]
    run = make_whole_run(0, [], samples=samples)
    [table] = [block for block in describe_alone({"start": [run]}) if isinstance(block, Table)]
    assert table.head == ["arm", "seeds", "accuracy", "reward"]
    assert [cell.split()[0] for cell in table.rows[0]] == ["start", "1", "100.0%", "1.500"]

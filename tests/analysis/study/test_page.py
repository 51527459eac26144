from pathlib import Path
from types import SimpleNamespace

from rlhf_exp.analysis.report.page import Table
from rlhf_exp.analysis.study.page import _divide, describe_alone, write_study
from rlhf_exp.analysis.study.stages import Job, Stage, Study
from rlhf_exp.runs.records import Completion
from tests.analysis.report.conftest import _make_run as write_run
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


def test_a_study_ends_with_its_answer_and_has_its_claims_on_a_page_of_their_own(tmp_path):
    def make_jobs(stage="", **gains):
        jobs = []
        for loss, gain in gains.items():
            for seed in range(3):
                overrides = ["max_tokens=64", f"loss_type={loss}", f"seed={seed}"]
                jobs.append(Job(overrides, tmp_path / "out" / f"{loss}-{seed}", f"{stage}{loss}", str(seed), {}))
                write_run(jobs[-1].folder, seed, loss, gain)
        return jobs

    claims = tmp_path / "claims.yaml"
    claims.write_text(
        "a-1:\n  says: It gains.\n  metric: accuracy\n  contrast: [grpo, start]\n  expect: higher\n"
        "a-2:\n  says: It is nice.\n  not_tested: looks\n"
    )
    stages = {
        "all": Stage("all", [], make_jobs(grpo=0.4, bnpo=0.0)),
        "remedies": Stage(
            "remedies", [], make_jobs("remedies ", sapo=0.0, cispo=0.4), apart=True, against="remedies sapo"
        ),
    }
    (tmp_path / "out" / "tables").mkdir()
    (tmp_path / "out" / "tables" / "000_stale.csv").touch()
    page, answer = write_study(
        Study(
            claims,
            "Two losses",
            "Which is best?",
            claims,
            tmp_path / "out",
            stages,
            ["gains"],
            "python -m rlhf_exp study losses",
        )
    )
    told = (tmp_path / "out" / "report.md").read_text()
    beside = "Separate comparison of `remedies`: against `sapo`."
    assert f"{beside} Above it: `cispo` (" in answer and f"**{beside}**" in told
    assert "Best. `grpo`, with a held-out accuracy of " in answer and "**Best.** `grpo`" in told
    assert told.count("\n> **") == 5 and "What else was seen" in page.read_text()
    assert len(told.split()) < 900 and told.count("](plots/") == 1
    assert '<a href="claims.html">' in page.read_text() and "It gains." not in page.read_text()
    assert "| a-1 | supported | It gains. |" in (tmp_path / "out" / "claims.md").read_text()
    tables = {path.name[4:]: path.read_text() for path in (tmp_path / "out" / "tables").iterdir()}
    assert "stale.csv" not in tables
    assert "python -m rlhf_exp study losses" in told and "python -m rlhf_exp study losses" in page.read_text()
    assert (
        tables["stages.csv"].splitlines()[1].startswith("grpo,3 of 3,")
        and tables["stages.csv"].count("loss_type=") == 4
    )
    assert tables["results_over_seeds.csv"].startswith("setting,seeds,difference,")
    assert "supported" in tables["the_hand_made_study_and_these_runs.csv"]

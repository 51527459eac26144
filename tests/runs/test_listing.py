import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_exp.runs.__main__ import main
from rlhf_exp.runs.listing import list_runs
from tests.runs.building import held, leave_run

GAIN = {"value": 0.25, "low": 0.2, "high": 0.3}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Write runs below outputs/ as far as the listing reads them."""
    monkeypatch.chdir(tmp_path)

    def write(place, gain=0.25, config=None, **info):
        folder = tmp_path / "outputs" / place
        facts = {"algo": "grpo", "loss_type": "grpo", "task": "countdown", "model": "tiny", "seed": 0, "steps": 110,
                 "started": "2026-01-02T03:04:05+00:00"}  # fmt: skip
        leave_run(folder, config=config or {"eval": {"rows": 64}}, **(facts | info))
        sections = {
            "baseline": {"accuracy": {"value": 0.2, "low": 0.15, "high": 0.25}},
            "trained": {"accuracy": {"value": 0.2 + gain, "low": 0.3, "high": 0.6}},
            "paired": {"difference": GAIN | {"value": gain}},
        }
        (folder / "evaluation.json").write_text(json.dumps(sections))
        return folder

    return write


def table(capsys, *arguments):
    assert main(list(arguments)) == 0
    return capsys.readouterr().out.splitlines()


def names(capsys, *arguments):
    """The folders that are listed."""
    assert main([*arguments, "--json"]) == 0
    return [row["run"].removeprefix("outputs/") for row in json.loads(capsys.readouterr().out)]


def test_a_run_is_a_line_with_its_settings_and_figures(here, capsys):
    here("countdown/grpo/a", name="my-run", tags=["x", "y"], loss_type="dr_grpo")
    head, line, count = table(capsys)
    assert head.split() == ["name", "tags", "task", "algo", "model", "seed", "status", "steps", "accuracy", "gain",
                            "began", "(UTC)", "run"]  # fmt: skip
    assert line.split()[:10] == ["my-run", "x,y", "countdown", "grpo/dr_grpo", "tiny", "0", "finished", "110", "45.0%",
                                 "[30.0,"]  # fmt: skip
    assert "+25.0 [+20.0, +30.0]" in line and line.endswith("outputs/countdown/grpo/a")
    assert count == "1 of 1 runs: 1 finished"


def test_runs_lie_at_any_depth_and_nothing_inside_a_run_or_a_hidden_folder_is_one(here, capsys):
    here("a", started="1")
    here("a/samples", started="0")
    here(".jobs_x/b")  # such folders may vanish: a sweep's other processes remove them while rank 0 looks for runs
    here("sweeps/s/00_seed-0", started="2")
    (here("countdown/grpo/b", started="3").parents[2] / "latest").symlink_to("countdown/grpo/b")
    assert names(capsys) == ["a", "sweeps/s/00_seed-0", "countdown/grpo/b"]
    assert names(capsys, "outputs/sweeps", "outputs/a") == ["sweeps/s/00_seed-0", "a"]
    assert names(capsys, "outputs/a") == ["a"]


def test_runs_that_cannot_be_read_are_listed_as_such(here, capsys):
    here("torn").joinpath("run.json").write_text('{"sta')
    here("list").joinpath("run.json").write_text("[1]")
    here("figures").joinpath("evaluation.json").write_text('{"trained": 3')
    here("config").joinpath(".hydra/config.yaml").write_text("a: [")
    lines = table(capsys)[1:-1]
    shown = sorted(line.split("outputs/")[1] for line in lines)
    assert shown[:2] == ["config", "figures"]
    assert shown[2].startswith("list: run.json: ") and shown[3].startswith("torn: run.json: ")
    assert names(capsys, "--filter", "eval.rows=64", "--filter", "status=finished") == ["figures"]


def test_a_running_run_holds_its_folder_and_a_killed_one_does_not(here, capsys):
    here("left", status="running")
    with held(here("held", status="running")):
        found = {Path(run["run"]).name: run["status"] for run in list_runs(Path("outputs"))}
    assert found == {"held": "running", "left": "killed"}


FILTERS = {
    "status=finished": "ab", "status!=finished": "c", "tag=abl*": "a", "tags=ablation seed=0": "a", "name=f*": "b",
    "eval.rows=64": "ac", "algo.args.beta=1e-1": "b", "algo.args.beta=null": "ac", "task.baselines=true": "b",
    "gain>0.1": "ac", "gain<=.1 steps>=110": "b",
}  # fmt: skip


@pytest.mark.parametrize(("filters", "kept"), FILTERS.items())
def test_runs_are_selected_by_label_figure_and_any_key(here, capsys, filters, kept):
    here("a", tags=["ablation", "x"])
    config = {"algo": {"args": {"beta": 0.1}}, "task": {"baselines": True}, "eval": {"rows": 32}}
    here("b", 0.1, config, name="first", seed=1)
    here("c", status="failed")
    assert names(capsys, *(part for text in filters.split() for part in ("--filter", text))) == list(kept)


def test_runs_are_sorted_by_time_or_by_a_key(here, capsys):
    here("a", 0.3, started="2026-01-03")
    here("b", 0.1, started="2026-01-02", config={"eval": {"rows": 100}})
    here("c", 0.2, started="2026-01-01").joinpath("evaluation.json").unlink()
    assert names(capsys) == ["c", "b", "a"]
    assert names(capsys, "--sort", "gain") == ["c", "b", "a"]
    assert names(capsys, "--sort", "accuracy", "--filter", "gain>0") == ["b", "a"]
    assert names(capsys, "--sort", "eval.rows")[-1] == "b"


def test_the_columns_are_what_was_typed_and_differs(here, capsys):
    for name, typed in {"a": ["reward=outcome"], "b": ["reward=overlong", "+algo.args.beta=0.1"]}.items():
        overrides = [*typed, f"run.name={name}", "eval.rows=64", "algo=grpo"]
        (here(name) / ".hydra" / "overrides.yaml").write_text(json.dumps(overrides))
    shared, head, *lines, _ = table(capsys)
    assert shared == "all: task=countdown algo=grpo model=tiny"
    assert head.split()[:4] == ["seed", "reward", "algo.args.beta", "status"]
    assert [line.split()[:3] for line in lines] == [["0", "outcome", "-"], ["0", "overlong", "0.1"]]


def test_refused_runs_are_hidden_until_they_are_asked_for(here, capsys):
    here("a")
    here("b", status="refused")
    assert names(capsys) == ["a"] and names(capsys, "--refused") == ["a", "b"]
    assert names(capsys, "--filter", "status=refused") == ["b"]
    assert table(capsys)[-1] == "1 of 2 runs: 1 finished; 1 refused: --refused shows them"


MISTAKES = {
    "nope": "nope: no such folder", "outputs/empty": "outputs/empty: no run in it",
    "--filter stauts=x": "--filter stauts=x: no such key; did you mean status?",
    "--filter lr=1": "--filter lr=1: no such key; did you mean algo.args.learning_rate?",
    "--filter finished": "--filter finished: must be KEY=VALUE", "--filter gain>much": "--filter gain>much: much is no",
    "--sort accurcy": "--sort accurcy: no such key; did you mean accuracy?", "--jsn": "unrecognized arguments: --jsn",
    "--out x": "--out: has no effect without --compare", "--yes": "--yes: has no effect without --prune",
    "--prune --json": "--prune: cannot be combined with --compare or --json",
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "line"), MISTAKES.items())
def test_a_mistake_is_one_line(here, capsys, tmp_path, arguments, line):
    here("a")
    (tmp_path / "outputs" / "empty").mkdir()
    assert main(arguments.split()) == 2
    [shown] = capsys.readouterr().err.splitlines()
    assert shown.startswith(f"rlhf_exp runs: {line}")


def test_runs_are_listed_without_torch(here):
    here("a")
    code = "import sys; from rlhf_exp.runs.__main__ import main; main(['--filter', 'eval.rows=64'])\n"
    code += "assert not {'torch', 'scipy', 'hydra'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)

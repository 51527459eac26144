import json
import os
import subprocess
import sys

import pytest

from rlhf_exp.runs.__main__ import main
from tests.runs.building import held, leave_run


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Write runs below outputs/ as far as the listing reads them."""
    monkeypatch.chdir(tmp_path)

    def write(place, trained=0.45, config=None, **info):
        folder = tmp_path / "outputs" / place
        facts = {"algo": "grpo", "task": "countdown", "model": "tiny", "max_tokens": 48,
                 "seed": 0, "steps": 110, "started": "2026-01-02T03:04:05+00:00",
                 "seconds": {"load": 1.0, "train": 239.0}}  # fmt: skip
        leave_run(folder, config=config or {"eval": {"rows": 64}}, **(facts | info))
        figures = {"baseline": 0.2, "trained": trained}
        sections = {side: {"accuracy": {"value": share, "low": 0.1, "high": 0.6}} for side, share in figures.items()}
        (folder / "evaluation.json").write_text(json.dumps(sections))
        (folder / "diagnosis.json").write_text('{"health": "ok"}')
        return folder

    return write


def table(capsys, *arguments):
    assert main(list(arguments)) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def statuses(capsys, *arguments):
    return dict(line.removeprefix("outputs/").split()[:2] for line in table(capsys, *arguments)[1:-1])


def names(capsys, *arguments):
    """The folders that are listed."""
    return [*statuses(capsys, *arguments)]


def test_a_run_is_a_line_with_its_settings_and_figures(here, capsys):
    here("countdown/grpo/a")
    here("b", started="2027", seed=None, status="failed", seconds={}).joinpath("evaluation.json").unlink()
    assert table(capsys) == [
        "folder status algo task model max_tokens seed steps accuracy health time",
        "outputs/countdown/grpo/a finished grpo countdown tiny 48 0 110 20.0% -> 45.0% ok 240 s",
        "outputs/b failed grpo countdown tiny 48 - 110 - ok -",
        "2 runs: 1 finished, 1 failed",
    ]


def test_runs_lie_at_any_depth_and_nothing_inside_a_run_or_a_hidden_folder_is_one(here, capsys):
    here("a", started="1")
    here("a/samples", started="0")
    here(".jobs_x/b")  # such folders may vanish: a sweep's other processes remove them while rank 0 looks for runs
    here("sweeps/s/00_seed-0", started="2")
    (here("countdown/grpo/b", started="3").parents[2] / "latest").symlink_to("countdown/grpo/b")
    assert names(capsys) == ["a", "sweeps/s/00_seed-0", "countdown/grpo/b"]
    assert names(capsys, "outputs/sweeps", "outputs/a", "outputs/a") == ["a", "sweeps/s/00_seed-0"]


def test_runs_that_cannot_be_read_are_listed_as_such(here, capsys):
    here("torn").joinpath("run.json").write_text('{"sta')
    here("list").joinpath("run.json").write_text("[1]")
    here("figures").joinpath("evaluation.json").write_text('{"trained": 3}')
    here("config").joinpath(".hydra/config.yaml").write_text("a: [")
    here("whole")
    shown = [line.partition(" broken")[0] for line in table(capsys)[1:-1]]
    begins = ["figures: evaluation.json: ", "list: run.json: ", "torn: run.json: ", "config finished", "whole finished"]
    assert [text for text, begin in zip(shown, begins, strict=True) if not text.startswith(f"outputs/{begin}")] == []


def test_a_running_run_holds_its_folder_and_a_killed_one_does_not(here, capsys):
    here("left", status="running")
    with held(here("held", status="running")):
        assert statuses(capsys) == {"held": "running", "left": "killed"}


MISTAKES = {
    "nope": "nope: no such folder", "outputs/empty": "outputs/empty: no run in it",
    "--sort seed": "unrecognized arguments: --sort",
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "line"), MISTAKES.items())
def test_a_mistake_is_one_line(here, capsys, tmp_path, arguments, line):
    here("a")
    (tmp_path / "outputs" / "empty").mkdir()
    assert main(arguments.split()) == 2
    [shown] = capsys.readouterr().err.splitlines()
    assert shown.startswith(f"rlhf_exp runs: {line}")


def test_a_reader_that_has_gone_ends_no_command(here):
    """As `| head -1`, which closes the pipe after its line."""
    here("a")
    read_end, write_end = os.pipe()
    os.close(read_end)
    code = "import sys; from rlhf_exp.runs.__main__ import main; status = main(sys.argv[1:])\n"
    code += "assert not {'torch', 'scipy', 'hydra'} & set(sys.modules)\nsys.exit(status)"
    done = subprocess.run([sys.executable, "-c", code], stdout=write_end, stderr=subprocess.PIPE, text=True)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")

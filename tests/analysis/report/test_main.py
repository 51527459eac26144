import pytest

from rlhf_exp.analysis.report.__main__ import main


def test_one_run_writes_into_its_own_folder_and_prints_the_table(run_dir, capsys):
    assert main([str(run_dir)]) == 0
    printed = capsys.readouterr().out
    assert "accuracy" in printed and printed.endswith(f"written: {run_dir / 'report.html'}\n")


def test_settings_are_compared_with_a_named_one(tmp_path, capsys, make_run):
    for job in range(4):
        make_run(tmp_path / "sweep" / str(job), job % 2, ("grpo", "dr_grpo")[job // 2])
    assert main([str(tmp_path / "sweep"), "--against", "grpo"]) == 0
    text = (tmp_path / "sweep" / "report.md").read_text()
    assert "| dr_grpo - grpo |" in text and "\nAgainst `grpo`. " in capsys.readouterr().out
    for folder in ("2", str(tmp_path / "sweep" / "3")):  # of a run of dr_grpo
        assert main([str(tmp_path / "sweep"), "--against", folder]) == 0
        assert "| grpo - dr_grpo |" in (tmp_path / "sweep" / "report.md").read_text()
    assert main([str(tmp_path / "sweep"), "--against", "gpro"]) == 2
    line = "no setting is called 'gpro'; these are: 'dr_grpo', 'grpo'; did you mean grpo?\n"
    assert capsys.readouterr().err.endswith(line)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [("absent", "absent: no such folder; "), ("run --ot x", "unrecognized arguments: --ot x"),
     ("", "the following arguments are required: DIR"), ("run other", "2 runs to compare: say where the report goes"),
     ("run --against grpo", "--against grpo: compares several runs, and run is one run"),
     ("run --out run/run.json", "run/run.json: the report cannot be written (File exists)")],
)  # fmt: skip
def test_a_mistake_is_answered_in_one_line(run_dir, tmp_path, monkeypatch, capsys, arguments, message, make_run):
    make_run(tmp_path / "other", seed=1)
    monkeypatch.chdir(tmp_path)
    assert main(arguments.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"rlhf_exp report: {message}") and error.count("\n") == 1

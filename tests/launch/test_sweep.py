from rlhf_exp.launch.sweep import report_study


def test_a_folder_without_two_runs_has_no_study_to_report(tmp_path, capsys):
    report_study(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.json").write_text('{"status": "running"}')
    report_study(tmp_path)
    assert capsys.readouterr().out == ""

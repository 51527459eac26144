import json

import pytest

from rlhf_exp.runs.load import NotARun, find_runs, load_run


def test_an_older_folders_completions_without_number_and_decoding_are_paired(run_dir, edit_samples):
    edit_samples(run_dir, lambda row: (row.pop("sample"), row.pop("decoding")))
    assert len(load_run(run_dir).paired_samples()) == 128


def test_a_last_line_cut_off_by_a_crash_is_left_out(run_dir):
    metrics = run_dir / "metrics.jsonl"
    whole = metrics.read_text()
    metrics.write_text(whole + '{"step": 244, "rew')
    assert load_run(run_dir).metrics[-1]["step"] == 240


@pytest.mark.parametrize("text", ["", '{"sta', "[]", "null"])
def test_of_several_runs_those_with_a_torn_record_are_left_out_with_a_line(tmp_path, capsys, text):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(text if name == "b" else '{"status": "finished"}')
    assert find_runs(tmp_path) == [tmp_path / "a", tmp_path / "c"]
    assert capsys.readouterr().err == f"rlhf_exp: {tmp_path / 'b'}: left out, its run.json is torn\n"


def test_find_runs_sorts_the_jobs_of_a_sweep_as_numbers(tmp_path):
    for name in ("10", "2", "0"):
        (tmp_path / "sweep" / name).mkdir(parents=True)
        (tmp_path / "sweep" / name / "run.json").write_text('{"status": "running"}')
    assert [path.name for path in find_runs(tmp_path / "sweep")] == ["0", "2", "10"]
    assert [path.name for path in find_runs(tmp_path)] == ["0", "2", "10"]
    assert find_runs(tmp_path / "sweep" / "2") == [tmp_path / "sweep" / "2"]


def test_the_link_to_the_latest_run_is_no_run_beside_it(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "grpo" / name).mkdir(parents=True)
        (tmp_path / "grpo" / name / "run.json").write_text('{"status": "running"}')
    (tmp_path / "latest").symlink_to("grpo/b")
    assert find_runs(tmp_path) == [tmp_path / "grpo" / "a", tmp_path / "grpo" / "b"]
    assert find_runs(tmp_path / "latest") == [tmp_path / "latest"]


def test_runs_that_lie_elsewhere_are_found_by_their_links_once_each(tmp_path):
    for place in ("scratch/a", "scratch/sweep/0", "runs/grpo/b"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "run.json").write_text('{"status": "running"}')
    runs = tmp_path / "runs"
    for link, target in (("a", "scratch/a"), ("again", "scratch/a"), ("latest", "runs/grpo/b")):
        (runs / link).symlink_to(tmp_path / target)
    assert find_runs(runs) == [runs / "a", runs / "grpo" / "b"]
    (runs / "a").unlink()
    (runs / "again").unlink()
    (runs / "sweep").symlink_to(tmp_path / "scratch" / "sweep")
    assert find_runs(runs) == [runs / "grpo" / "b", runs / "sweep" / "0"]


def test_what_is_no_run_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for name, line in (("absent", "no such folder; "), ("file", "not a folder; "), ("", "no run.json in it")):
        with pytest.raises(NotARun, match=line):
            find_runs(tmp_path / name)
    (tmp_path / "run.json").write_bytes(b"\xff\xfe")
    with pytest.raises(NotARun, match="run.json: not valid JSON"):
        load_run(tmp_path)


def test_a_completion_may_hold_marks_that_end_a_line_elsewhere(tmp_path, make_run):
    folder = make_run(tmp_path / "run")
    rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().split("\n") if line]
    rows[0]["completion"] = "a\u2028b\u0085c\r\nd"
    (folder / "samples.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    assert load_run(folder).samples[0]["completion"] == "a\u2028b\u0085c\r\nd"

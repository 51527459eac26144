import pytest

from rlhf_exp.runs.files import NotARun
from rlhf_exp.runs.load import find_runs, load_run
from rlhf_exp.runs.records import write_lines


def write_record(folder, text='{"status": "running"}'):
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(text)


def test_find_runs_sorts_the_jobs_of_a_sweep_as_numbers(tmp_path):
    for name in ("10", "2", "0"):
        write_record(tmp_path / "sweep" / name)
    assert [path.name for path in find_runs(tmp_path / "sweep")] == ["0", "2", "10"]
    assert [path.name for path in find_runs(tmp_path)] == ["0", "2", "10"]
    assert find_runs(tmp_path / "sweep" / "2") == [tmp_path / "sweep" / "2"]


def test_runs_that_lie_elsewhere_are_found_by_their_links_once_each(tmp_path):
    for place in ("scratch/a", "scratch/sweep/0", "runs/grpo/b"):
        write_record(tmp_path / place)
    runs = tmp_path / "runs"
    for link, target in (("a", "scratch/a"), ("again", "scratch/a"), ("latest", "runs/grpo/b")):
        (runs / link).symlink_to(tmp_path / target)
    assert find_runs(runs) == [runs / "a", runs / "grpo" / "b"]
    assert find_runs(runs / "latest") == [runs / "latest"]
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


def test_a_completion_may_hold_marks_that_end_a_line_elsewhere(run_dir):
    row = load_run(run_dir).samples[0].model_copy(update={"completion": "a\u2028b\u0085c\r\nd"})
    write_lines(run_dir / "samples.jsonl", [row])
    assert load_run(run_dir).samples == [row]

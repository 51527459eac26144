import json
from pathlib import Path

import pytest

from rlhf_exp.runs.load import NotARun, find_runs, load_run

GOLDEN = Path(__file__).parent / "golden"


def test_the_first_sampled_completions_of_a_row_are_paired():
    pairs = load_run(GOLDEN / "grpo").paired_samples()
    assert len(pairs) == 24
    for before, after in pairs:
        assert (before["which"], after["which"]) == ("baseline", "trained")
        assert before["id"] == after["id"]
        assert {(side["sample"], side["decoding"]) for side in (before, after)} == {(0, "sampled")}


def test_an_older_folders_completions_without_number_and_decoding_are_paired(run_dir, edit_samples):
    edit_samples(run_dir, lambda row: (row.pop("sample"), row.pop("decoding")))
    assert len(load_run(run_dir).paired_samples()) == 128


def test_preferences_are_a_reward_model_s_whole_section_and_a_part_of_a_policy_s(reward_dir, dpo_dir, run_dir):
    reward, dpo = load_run(reward_dir), load_run(dpo_dir)
    assert reward.preference("trained") is reward.evaluation["trained"]
    assert dpo.preference("trained") is dpo.evaluation["trained"]["preference"]
    assert load_run(run_dir).preference("trained") == {}
    assert sum(reward.errors["counts"].values()) == reward.evaluation["trained"]["counts"]["wrong"]


def test_series_leaves_out_rows_without_the_metric(run_dir):
    run = load_run(run_dir)
    steps, values = run.series("probe/kl")
    assert steps == list(range(20, 241, 20))
    assert len(values) == 12
    assert run.series("absent") == ([], [])


def test_a_run_that_has_only_begun_loads(tmp_path):
    (tmp_path / "run.json").write_text('{"status": "running"}')
    run = load_run(tmp_path)
    assert (run.metrics, run.samples, run.overrides) == ([], [], [])
    assert (run.evaluation, run.errors, run.facts, run.diagnosis, run.config) == ({}, {}, {}, {}, {})


def test_a_last_line_cut_off_by_a_crash_is_left_out(run_dir):
    metrics = run_dir / "metrics.jsonl"
    whole = metrics.read_text()
    metrics.write_text(whole + '{"step": 244, "rew')
    assert load_run(run_dir).metrics[-1]["step"] == 240


def test_a_torn_line_of_the_metrics_is_left_out_with_a_line(run_dir, capsys):
    metrics = run_dir / "metrics.jsonl"
    lines = metrics.read_text().splitlines()
    lines[2] = lines[2][:20]
    metrics.write_text("\n".join(lines) + "\n")
    run = load_run(run_dir)
    assert len(run.metrics) == len(lines) - 1 and run.metrics[2]["step"] == json.loads(lines[3])["step"]
    assert capsys.readouterr().err == f"rlhf_exp: {metrics}: 1 torn line left out\n"


def test_a_broken_line_of_the_samples_is_named_with_its_number(run_dir):
    samples = run_dir / "samples.jsonl"
    lines = samples.read_text().splitlines()
    lines[2] = "{nonsense"
    samples.write_text("\n".join(lines) + "\n")
    with pytest.raises(NotARun, match=r"samples\.jsonl, line 3: not valid JSON \(Expecting property name"):
        load_run(run_dir)


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
    assert find_runs(runs) == [runs / "a"]
    (runs / "a").unlink()
    (runs / "again").unlink()
    (runs / "sweep").symlink_to(tmp_path / "scratch" / "sweep")
    assert find_runs(runs) == [runs / "grpo" / "b", runs / "sweep" / "0"]


EXPECTED = r"expected a run folder \(it holds run.json\) or a folder of run folders$"


def test_what_is_no_run_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotARun, match=f"absent: no such folder; {EXPECTED}"):
        find_runs(tmp_path / "absent")
    with pytest.raises(NotARun, match=f"file: not a folder; {EXPECTED}"):
        find_runs(tmp_path / "file")
    with pytest.raises(NotARun, match=f": no run.json in it; {EXPECTED}"):
        find_runs(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "run.json: not valid JSON"),
        (b"[]", "run.json: expected a mapping, found list"),
        (b"\xff\xfe", "run.json: not UTF-8 text"),
        (json.dumps({"other": 1}).encode(), "no run.json with a status in it"),
    ],
)
def test_a_run_json_that_is_none_is_named(tmp_path, content, message):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(NotARun, match=message):
        load_run(tmp_path)


def test_a_completion_may_hold_marks_that_end_a_line_elsewhere(tmp_path, make_run):
    folder = make_run(tmp_path / "run")
    rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().split("\n") if line]
    rows[0]["completion"] = "a\u2028b\u0085c\r\nd"
    (folder / "samples.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    assert load_run(folder).samples[0]["completion"] == "a\u2028b\u0085c\r\nd"

"""The records of run folders: what they read they write again, and what is damaged is one line."""

import json
import math
import pickle
import re
from pathlib import Path

import pytest

from rlhf_exp.runs import records
from rlhf_exp.runs.files import NotARun
from rlhf_exp.runs.records import Completion, Evaluation, Metrics, RunRecord, read, read_lines, read_record
from rlhf_exp.runs.settings import list_settings, read_key

GOLDEN = Path(__file__).parents[1] / "analysis" / "report" / "golden"
KINDS = {
    "run.json": "RunRecord", "evaluation.json": "Evaluation", "diagnosis.json": "Diagnosis", "errors.json": "Errors",
    "samples.jsonl": "Completion", "preferences.jsonl": "Pair", "policies.jsonl": "Policy",
    "validation.jsonl": "Measurement", "metrics.jsonl": "Metrics",
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_file_is_written_again_as_it_was_read(name, tmp_path):
    paths, kind = list(GOLDEN.glob(f"*/{name}")), getattr(records, KINDS[name])
    assert paths
    for path in paths:
        if path.suffix == ".json":
            records.write(tmp_path / name, read(path, kind))
            assert json.loads((tmp_path / name).read_text()) == json.loads(path.read_text())
        else:
            records.write_lines(tmp_path / name, read_lines(path, kind))
            assert [*map(json.loads, (tmp_path / name).open())] == [*map(json.loads, path.open())]


def test_a_figure_that_is_not_finite_is_null_in_the_file(tmp_path):
    loss = {"value": math.nan, "low": None, "high": None}
    records.write(tmp_path / "evaluation.json", Evaluation(baseline={"loss": loss}))
    assert json.loads((tmp_path / "evaluation.json").read_text()) == {"baseline": {"loss": dict.fromkeys(loss)}}
    assert math.isnan(read(tmp_path / "evaluation.json", Evaluation).baseline.loss["value"])


@pytest.mark.parametrize(
    ("name", "kind", "text", "line"),
    [
        ("x.json", Evaluation, '{"trained": {"accuracy": [1]}}', "trained.accuracy=[1]: input should be an object"),
        ("x.json", Evaluation, '{"trained": {"n": "many"}}', "trained.n=many: input should be a valid integer"),
        ("x.json", RunRecord, '{"status": "done"}', "status=done: input should be 'running', 'finished', 'failed'"),
        ("x.json", RunRecord, '{"status": ', "not valid JSON (EOF while parsing a value"),
        ("x.json", RunRecord, "[" * 9_000, "not valid JSON (recursion limit exceeded"),
        ("x.json", dict, "[1]", "input should be"),
        ("x.yaml", dict, "[1]", "input should be a valid dictionary"),
        ("x.yaml", list[str], "- a\n- {b: 1}\n", "1={b: 1}: input should be a valid string"),
        ("x.yaml", dict, "[" * 9_000, "not valid YAML (maximum recursion depth exceeded"),
        ("x.yaml", dict, "a: &a [1]\nb: [*a, *a]\n", "not valid YAML (found an alias"),
        ("x.yaml", dict, "#" * 1_000_001, "cannot be read (it has 1,000,001 bytes; must have at most 1,000,000)"),
    ],
)
def test_a_damaged_file_is_one_line_with_the_key(name, kind, text, line, tmp_path):
    path = tmp_path / name
    assert read(path, kind) == kind()
    path.write_text(text)
    with pytest.raises(NotARun, match=f"^{re.escape(f'{path}: {line}')}") as caught:
        read(path, kind)
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems  # as other processes get it


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ('{"step": 1, "time_s": 1.0}\n{"step": 2, "ti\n{"step": 3, "time_s": 3.0}\n', [1, 3]),
        ('{"step": 1, "time_s": 1.0}\n\0\0\n{"step": 2, "ti', [1]),
        ('{"step": 1, "time_s": 1.0}\n3\n', [1]),
    ],
)
def test_a_torn_line_is_left_out_and_said_once(tmp_path, capsys, text, steps):
    path = tmp_path / "metrics.jsonl"
    assert read_lines(path, Metrics) == []
    path.write_text(text)
    for _ in range(2):
        assert [row.step for row in read_lines(path, Metrics)] == steps
    assert capsys.readouterr().err == f"rlhf_exp: {path}: 1 torn line left out\n"


def test_a_wrong_line_is_named(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b", "tokens": "few"}\n')
    with pytest.raises(NotARun, match="line 2: tokens=few: input should be a valid integer"):
        read_lines(path, Completion)


def test_a_folder_without_a_record_has_no_status_and_one_with_a_torn_record_is_broken(tmp_path):
    assert read_record(tmp_path).status is None
    (tmp_path / "run.json").write_text('{"status": "runn')
    assert read_record(tmp_path).status == "broken"


def test_a_key_of_a_config_is_read_by_its_dots_and_a_reward_without_a_weight_is_no_setting():
    config = {"reward": {"weights": {"outcome": 1.0, "overlong": None}}}
    assert read_key(config, "reward.weights.outcome") == 1.0
    assert [read_key(config, key, 3) for key in ("reward.path", "reward.weights.outcome.x", "eval.rows")] == [3] * 3
    assert list_settings(config) == {"reward.weights.outcome": "1.0"}

"""The records of run folders: what they read they write again, and what is damaged is one line."""

import json
import math
import re
from pathlib import Path

import pytest

from rlhf_exp.runs import records
from rlhf_exp.runs.files import NotARun
from rlhf_exp.runs.records import Completion, Evaluation, RunRecord, read, read_lines, read_record

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
    ("kind", "text", "line"),
    [
        (Evaluation, '{"trained": {"accuracy": [1]}}', "trained.accuracy=[1]: input should be an object"),
        (Evaluation, '{"trained": {"n": "many"}}', "trained.n=many: input should be a valid integer"),
        (RunRecord, '{"status": "done"}', "status=done: input should be 'running', 'finished', 'failed'"),
        (RunRecord, '{"status": ', "not valid JSON (EOF while parsing a value"),
        (RunRecord, "[" * 9_000, "not valid JSON (recursion limit exceeded"),
    ],
)
def test_a_damaged_file_is_one_line_with_the_key(kind, text, line, tmp_path):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(NotARun, match=f"^{re.escape(f'{tmp_path}/x.json: {line}')}"):
        read(tmp_path / "x.json", kind)


def test_torn_lines_are_left_out_and_wrong_ones_are_named(tmp_path, capsys):
    path = tmp_path / "samples.jsonl"
    path.write_text('{"id": "a"}\n\0\0\n{"id": "b", "tok')
    assert [one.id for one in read_lines(path, Completion)] == ["a"]
    assert capsys.readouterr().err == f"rlhf_exp: {path}: 1 torn line left out\n"
    path.write_text('{"id": "a"}\n{"id": "b", "tokens": "few"}\n')
    with pytest.raises(NotARun, match="line 2: tokens=few: input should be a valid integer"):
        read_lines(path, Completion)


def test_a_folder_without_a_record_has_no_status_and_one_with_a_torn_record_is_broken(tmp_path):
    assert read_record(tmp_path).status is None
    (tmp_path / "run.json").write_text('{"status": "runn')
    assert read_record(tmp_path).status == "broken"

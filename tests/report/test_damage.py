"""A damaged file of a run is one line of `report`, `runs` and `resume=`, never a traceback."""

import json
from pathlib import Path

import pytest

from rlhf_exp.errors import ConfigError
from rlhf_exp.report.__main__ import main as report
from rlhf_exp.runs.__main__ import main as list_runs
from rlhf_exp.runs.folder import write_json
from rlhf_exp.runs.settings import recall

DAMAGED = {"cut off": '{"status": "fin', "zeros": "\0" * 99, "a list": "[1, 2]\n", "nested": "[" * 100_000,
           "another object": '{"status": "finished"}\n'}  # fmt: skip
FILES = ("run.json", "evaluation.json", "diagnosis.json", "data.json", "samples.jsonl", "metrics.jsonl")


def is_one_line(command, arguments, capsys):
    status = command(arguments)
    lines = capsys.readouterr().err.splitlines()
    assert "Traceback" not in "".join(lines)
    assert (status, len(lines)) in ((0, 0), (0, 1), (2, 1)), lines
    return status


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_one_line(text, run_dir, tmp_path, capsys):
    for name in FILES:
        whole = (run_dir / name).read_text()
        (run_dir / name).write_text(text)
        is_one_line(report, [str(run_dir)], capsys)
        is_one_line(list_runs, [str(tmp_path)], capsys)
        (run_dir / name).write_text(whole)


@pytest.mark.parametrize("value", ["abc", [1], {"z": 1}, None])
def test_a_value_of_another_type_is_one_line(value, run_dir, capsys):
    """In run.json and evaluation.json, one after the other."""
    found = []
    for name in ("run.json", "evaluation.json"):
        whole = json.loads((run_dir / name).read_text())
        for key in {"algo", "seconds", "inputs", "seed", "status", "baseline", "paired"} & set(whole):
            write_json(run_dir / name, whole | {key: value})
            found.append(is_one_line(report, [str(run_dir)], capsys))
        write_json(run_dir / name, whole)
    assert 2 in found


def test_a_run_without_hydras_own_file_is_recalled(tmp_path):
    (tmp_path / ".hydra").mkdir()
    Path(tmp_path, ".hydra", "overrides.yaml").write_text("- seed=1\n- output_dir=x\n")
    assert recall(str(tmp_path)) == ({}, ["seed=1"])


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("overrides", "{a: 1}", "overrides.yaml: expected a list, found dict"),
        ("overrides", "- [", "overrides.yaml: not valid YAML"),
        ("hydra", "runtime: 3", "a file in it is damaged, or was written by another program (TypeError: "),
    ],
)
def test_damaged_files_of_hydra_are_one_line(name, text, problem, tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "overrides.yaml").write_text("- seed=1\n")
    (tmp_path / ".hydra" / f"{name}.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        recall(str(tmp_path))
    [line] = caught.value.problems
    assert problem in line and str(tmp_path) in line

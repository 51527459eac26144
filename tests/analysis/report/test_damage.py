"""A damaged file of a run is one line of `report`, `runs` and `resume=`, never a traceback."""

import json
import os
import shutil
from importlib import import_module

import pytest
import yaml

from rlhf_exp.analysis.diagnose.__main__ import main as diagnose
from rlhf_exp.calibrate import main as calibrate
from rlhf_exp.commands import COMMANDS
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.__main__ import main as list_runs
from rlhf_exp.runs.settings import recall
from tests.analysis.report.test_golden import GOLDEN


def is_one_line(command, arguments, capsys):
    status = command(arguments)
    lines = capsys.readouterr().err.splitlines()
    assert "Traceback" not in "".join(lines)
    assert (status, len(lines)) in ((0, 0), (0, 1), (2, 1)), lines
    return status


FIGURES = {"value": [1], "low": [1], "high": [1]}
FILES = ("run.json", "evaluation.json", "diagnosis.json", "data.json", "samples.jsonl", "metrics.jsonl",
         "validation.jsonl", ".hydra/config.yaml", ".hydra/overrides.yaml")  # fmt: skip
DAMAGED = {  # what is put in a file's place; None for a folder, ... for a pipe, or a change of the values in it
    "cut off": (FILES, '{"status": "fin'),
    "a folder": (("run.json", "evaluation.json", "metrics.jsonl"), None),
    "a pipe": (("run.json", "samples.jsonl", ".hydra/overrides.yaml"), ...),
    "lists": (("evaluation.json",), {"trained": {"accuracy": FIGURES}, "paired": {"difference": FIGURES}}),
    "values of other types": (("run.json",), {"algo": [1], "seconds": "abc", "seed": {"z": 1}}),
    "a word for a step": (("metrics.jsonl",), '{"step": "x", "loss": 1}\n'),
    "a word for a row": (("validation.jsonl",), '{"step": 1, "id": ["a", "b"], "accuracy": [1, "x"]}\n'),
    "too few rows": (("validation.jsonl",), '{"step": 1, "id": ["a", "b"], "accuracy": [1]}\n'),
}  # fmt: skip


def damage(path, content):
    if isinstance(content, dict):
        content = json.dumps(json.loads(path.read_text()) | content)
    path.unlink(missing_ok=True)
    if content is None:
        path.mkdir()
    elif content is ...:
        os.mkfifo(path)
    else:
        path.write_text(content)


@pytest.mark.parametrize(("name", "content"), [(x, text) for names, text in DAMAGED.values() for x in names])
def test_a_damaged_run_is_a_line_and_hides_no_other(name, content, tmp_path, capsys):
    runs = [shutil.copytree(GOLDEN / "grpo", tmp_path / "runs" / x) for x in ("bad", "good")]
    damage(runs[0] / name, content)
    above = [str(tmp_path / "runs")]
    for command in ("report", "diagnose"):
        is_one_line(import_module(COMMANDS[command]).main, [str(runs[0])], capsys)
    assert list_runs(above) == 0
    listed = capsys.readouterr().out
    assert all(str(run) in listed for run in runs)
    for command, *flags in (("report", "--out", str(tmp_path / "report")), ("diagnose",)):
        assert import_module(COMMANDS[command]).main([*above, *flags]) == 0
        shown = capsys.readouterr()
        assert len(shown.err.splitlines()) <= 1 and (command == "report" or f"{runs[1]}: ok, " in shown.out)
    assert calibrate(above) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_finished_run_without_metrics_is_not_healthy(run_dir, capsys):
    (run_dir / "metrics.jsonl").unlink()
    assert diagnose([str(run_dir)]) == 2
    said = f"{run_dir}: metrics.jsonl holds no row of its 6 steps, from which its health is read\n"
    assert capsys.readouterr().err == f"rlhf_exp diagnose: {said}"


def test_a_run_is_recalled_without_overrides_of_hydra_which_can_run_code(tmp_path):
    (tmp_path / ".hydra").mkdir()
    texts = ["seed=1", "hydra.mode=MULTIRUN", "+hydra.sweeper.params={x: {_target_: os.system}}", "hydra/launcher=x"]
    (tmp_path / ".hydra" / "overrides.yaml").write_text(json.dumps(texts))
    assert recall(str(tmp_path)) == ({}, ["seed=1"])


def test_what_reads_a_run_runs_none_of_the_files_that_its_config_names(run_dir, tmp_path, capsys):
    ran, file = tmp_path / "ran", tmp_path / "mine.py"
    file.write_text(f"open({str(ran)!r}, 'w').close()\n")
    path = run_dir / ".hydra" / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["algo"]["trainer"] = f"{file}:Trainer"
    config["reward"]["functions"] = {"mine": f"{file}:mine"}
    config["task"] |= {"checker": f"{file}:check", "module": str(file), "source": "file", "path": str(file)}
    path.write_text(json.dumps(config))
    for command, *arguments in (["report", run_dir], ["runs", tmp_path], ["diagnose", run_dir], ["calibrate", run_dir]):
        status = import_module(COMMANDS[command]).main([*map(str, arguments)])
        assert status == (2 if command == "calibrate" else 0), capsys.readouterr().err
    assert not ran.exists()


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("overrides", "{a: 1}", "overrides.yaml: input should be a valid list"),
        ("overrides", "- [", "overrides.yaml: not valid YAML"),
        ("hydra", "runtime: 3", "hydra.yaml: runtime=3: input should be a valid dictionary"),
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

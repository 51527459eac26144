"""What a Python program calls, and docs/python.md."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlhf_exp import ConfigError, compose, pipeline, run
from rlhf_exp.config import ROOT, trl_args
from rlhf_exp.dry_run import show
from rlhf_exp.runs.environment import read_command
from rlhf_exp.runs.load import load_run

DOCS = ROOT / "docs" / "python.md"


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """A stand-in for the run, which other tests cover; the list of what was to be run."""
    monkeypatch.chdir(tmp_path)
    started = []

    def record(cfg, folder, args):
        started.append(cfg)
        facts = {"status": "finished", "command": read_command().partition(" rlhf_exp ")[2]}
        (folder / "run.json").write_text(json.dumps(facts))
        return 0

    monkeypatch.setattr(
        trl_args, "build_args", lambda cfg: SimpleNamespace()
    )  # show has taken the real one, as it was imported
    monkeypatch.setattr(pipeline, "run", record)
    return started


def test_a_run_is_written_as_the_command_line_writes_it(runs, command_line, tmp_path):
    overrides = ["algo=rloo", "+algo.args.top_k=7", "run.name=x"]
    done = run(compose(overrides))
    assert done.status == "finished" and re.fullmatch(r"outputs/countdown/rloo/x_[\d_-]+", str(done.path))
    assert done.info["command"] == " ".join(overrides) and done.config["algo"]["args"]["top_k"] == 7
    assert command_line(*overrides, "output_dir=there", cwd=tmp_path).returncode == 0
    of_python, of_shell = (replace(cfg, output_dir="") for cfg in runs)
    assert of_python == of_shell
    assert [*done.overrides, "output_dir=there"] == load_run(Path("there")).overrides
    assert Path("outputs/latest").resolve() == done.path.resolve()


def test_configs_of_the_users_own_and_of_studies(runs, tmp_path):
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    (tmp_path / "mine" / "experiment" / "e.yaml").write_text("# @package _global_\nmax_tokens: 31\n")
    cfg = compose(["experiment=e"], config_dir="mine")
    assert cfg.max_tokens == 31
    of_study = compose(["seed=1"], config_dir="sweeps", config_name="countdown_loss_x_tokens")
    assert (of_study.algo.name, of_study.algo.args["max_steps"]) == ("grpo", 40)
    command = f"-cd {ROOT / 'sweeps'} -cn countdown_loss_x_tokens hydra.mode=RUN seed=1"
    assert run(of_study).info["command"] == command


@pytest.mark.parametrize(
    ("arguments", "line"),
    [({"overrides": ["lr=1"]}, "lr=1: no such key; "), ({"overrides": "seed=-1"}, "seed=-1: must be "),
     ({"config_dir": "nope"}, "-cd nope: no such folder"), ({"overrides": ["resume=nope"]}, "resume=nope: not a run")],
)  # fmt: skip
def test_a_mistake_is_a_config_error_with_the_same_line(runs, arguments, line):
    with pytest.raises(ConfigError) as caught:
        compose(**arguments)
    [problem] = caught.value.problems
    assert problem.startswith(line)


def test_only_what_compose_returned_is_run_and_only_once(runs):
    cfg = compose(["output_dir=there"])
    with pytest.raises(ConfigError, match="a change is an override"):
        run(replace(cfg, max_tokens=3))
    run(cfg)
    with pytest.raises(ConfigError, match="output_dir=there: already holds a run"):
        run(cfg)
    assert len(runs) == 1


def test_an_error_of_a_run_is_raised_as_it_is(runs, monkeypatch):
    def fail(cfg, folder, args):
        raise RuntimeError("boom")

    monkeypatch.setattr(pipeline, "run", fail)
    with pytest.raises(RuntimeError, match="boom") as caught:
        run(compose(["output_dir=there"]))
    assert caught.value.__notes__ == ["rlhf_exp: failed: RuntimeError: boom (traceback in there/error.log)"]
    assert "boom" in Path("there/error.log").read_text()


def test_a_stopped_run_stops_the_program(runs, monkeypatch):
    monkeypatch.setattr(pipeline, "run", lambda cfg, folder, args: 128 + 15)
    with pytest.raises(KeyboardInterrupt):
        run(compose(["output_dir=there"]))


def test_a_dry_run_returns_nothing(runs, monkeypatch):
    shown = []
    monkeypatch.setattr(show, "print_dry_run", shown.append)
    assert run(compose(["dry_run=true"])) is None
    assert len(shown) == 1 and os.listdir() == []


@pytest.mark.slow
@pytest.mark.skipif(not DOCS.is_file(), reason="docs are not installed with the package")
def test_the_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    values, page = {}, DOCS.read_text().replace("max_tokens=48", "max_tokens=8").replace("[3e-4, 1e-3, 3e-3]", "[3e-4]")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, values)
    done = values["done"]
    assert done.status == "finished" and done.info["name"] == "from-python"
    assert len(values["steps"]) == 2 and len(values["runs"]) == 2 and values["page"].is_file()
    assert re.findall("# (.*)", page)[-1] in capsys.readouterr().out

"""Runs the commands of the examples' READMEs as their users do, with two steps."""

import json
import runpy
import shutil
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from rlhf_exp.config import ROOT
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.runs.load import load_run
from rlhf_exp.runs.records import read
from rlhf_exp.tasks.sources import read_table
from rlhf_exp.tasks.tools import Calculator
from tests.test_docs import SHORT, list_commands

EXAMPLES = ROOT / "examples"


@pytest.fixture
def call(tmp_path, command_line, monkeypatch):
    """Run the commands of a README, shortened, in a folder with a copy of the examples."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))

    def call(name):
        for command, _ in list_commands(EXAMPLES / name / "README.md"):
            if command == ["make", "run"]:  # only named
                continue
            assert command[0] == "python", command
            trains = any(word.startswith(("algo=", "task=", "+reward.")) for word in command)
            words = [*command[1:], *(SHORT if trains else [])]
            if words[:2] == ["-m", "rlhf_exp"]:
                done = command_line(*words[2:], cwd=tmp_path)
                assert done.returncode == 0, (command, done.stderr)
            else:
                monkeypatch.setattr(sys, "argv", words)
                runpy.run_path(words[0], run_name="__main__")
        return tmp_path / "outputs", done

    return call


@pytest.mark.slow
def test_own_task(call):
    outputs, _ = call("own_task")
    evaluation = load_run(outputs / "latest").evaluation
    assert evaluation["baseline"]["n"] == evaluation["trained"]["n"] == 16
    assert evaluation["baseline"]["counts"]["partial"] > 0


@pytest.mark.slow
def test_own_reward(call):
    outputs, _ = call("own_reward")
    run = load_run(outputs / "latest")
    assert 0 < run.metrics[0]["rewards/few_attempts/mean"] < 1 and "rewards/multiplies/mean" in run.metrics[0]
    weights = run.config["reward"]["weights"]
    assert (weights["few_attempts"], weights["multiplies"]) == (0.2, 0)
    for sample in run.samples:
        found = sample["rewards"]
        assert found["few_attempts"] == max(0, 1 - 0.1 * sample["completion"].split().count("no"))
        assert sample["reward"] == pytest.approx(sum(weights[name] * value for name, value in found.items()))


@pytest.mark.slow
def test_own_model(call):
    outputs, samples = call("own_model")
    assert read(outputs / "own_model" / "config.json", dict)["model_type"] == "llama"
    sft, grpo = (load_run(outputs / name).info for name in ("own_model_sft", "own_model_grpo"))
    assert (sft["model"], grpo["model"]) == ("outputs/own_model", "own_model_sft/model")
    assert grpo["status"] == "finished"
    assert "Before: " in samples.stdout and "After: " in samples.stdout


@pytest.mark.slow
def test_own_algorithm(call):
    outputs, sweep = call("own_algorithm")
    info = load_run(next(outputs.glob("countdown/rloo/*"))).info
    assert (info["status"], info["steps"]) == ("finished", 2) and "algo.trainer" in info["inputs"]
    assert "positive_rloo" in sweep.stdout and "of 2 jobs did not succeed" not in sweep.stderr
    compared = next(outputs.glob("sweeps/*/report.md")).read_text()
    assert "2 runs compared" in compared and "positive_rloo" in compared


def test_reasoning_gym():
    gym = pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    example = SimpleNamespace(**runpy.run_path(str(EXAMPLES / "reasoning_gym" / "problems.py")))
    rows = example.read(SimpleNamespace(options={"dataset": "string_insertion"}))  # its grader calls eval
    row = rows["train"][0]
    assert len(rows["train"]) > 4 * len(rows["test"]) > 0 and row["question"] in example.prompt(row)
    gold = gym.create_dataset("string_insertion", seed=0, size=example.ROWS)[int(row["id"])]["answer"]
    assert example.grade(f"so <answer>{gold}</answer>", row).outcome == "correct"
    answers = ["", "exit()", "open('/tmp/x', 'w')", "__import__('os').kill(1, 0)"]
    assert [example.grade(f"<answer>{answer}</answer>", row).outcome for answer in answers] == ["failed"] * 4


def test_tools(tmp_path):
    example = SimpleNamespace(**runpy.run_path(str(EXAMPLES / "tools" / "dialogues.py")))
    example.main(str(ASSETS / "tiny"), tmp_path)
    rows, dialogues = (read_table(tmp_path / f"{name}.jsonl") for name in ("rows", "dialogues"))
    splits = {row["question"]: row["split"] for _, row in rows}
    assert Counter(splits.values()) == example.ROWS  # each problem is in one split
    for (_, call), (_, answer) in zip(dialogues, dialogues, strict=True):  # one iterator: two rows each time
        arguments = json.loads(call["completion"].split("\n")[1])["arguments"]
        assert answer["completion"] == f"#### {Calculator().calculate(**arguments)}"
        assert '"name": "calculate"' in call["prompt"][0]["content"] and call["split"] == answer["split"]


@pytest.mark.parametrize(
    ("algo", "trainer", "line"),
    [
        ("rloo", "nowhere.py:Mine", "no such file as nowhere.py"),
        ("rloo", "positive_rloo.py:Mine", "positive_rloo.py has no Mine; it has ["),
        ("grpo", "positive_rloo.py:PositiveRLOOTrainer", "must be a subclass of the trainer of algo=grpo, Variant"),
    ],
)
def test_a_trainer_that_does_not_fit_is_refused_in_one_line(tmp_path, command_line, algo, trainer, line):
    shutil.copy(EXAMPLES / "own_algorithm" / "positive_rloo.py", tmp_path)
    done = command_line(f"algo={algo}", f"algo.trainer={trainer}", *SHORT, "task.baselines=false", cwd=tmp_path)
    assert done.returncode == 2 and f"algo.trainer={trainer}: {line}" in done.stderr

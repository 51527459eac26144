"""Two processes on a CPU, started by torchrun: they do what one does on the same rows, and end together."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench import processes as bench

pytestmark = [pytest.mark.learning, pytest.mark.slow]

ON_CPU = (str(Path(__file__).parent / "on_cpu.py"),)

SMALL = [
    *("device=cpu", "device.threads=1", "eval.rows=16", "eval.cache_dir=null", "task.baselines=false", "max_tokens=12"),
    *("algo.args.per_device_train_batch_size=8", "algo.args.save_steps=2", "keep_checkpoints=true"),
]
GROUP = "algo.args.num_generations=4"
REWARDS = """
import os

calls = 0


def fail_later(prompts, completions, **kwargs):
    global calls
    calls += 1
    if os.environ["RANK"] == "1" and calls == 4:
        raise OSError("the disk of this machine is gone")
    return [0.1 * len(text.split()) for text in completions]


def explode(prompts, completions, **kwargs):
    return [1e38 * (i % 2) for i, text in enumerate(completions)]
"""


def read(path):
    return json.loads(path.read_text())


def refuse_differences(one, other):
    """Two sweeps of `bench.sweep`: the same completions and, but for rounding, the same figures."""
    for name in one:
        found = bench.compare(one[name], other[name])
        # A token whose value lies on the edge of the clip range may fall on either side, and the difference between
        # sampling and scoring is rounding itself.
        unlike = ("clip", "logp_difference")
        logged = {figure: gap for figure, gap in found.logged.items() if not any(word in figure for word in unlike)}
        assert max(logged.values(), default=0.0) < 1e-5, (name, bench.name_largest(logged))
        assert max(found.evaluated.values()) < 1e-5, (name, bench.name_largest(found.evaluated))
        assert found.differing == 0, name
        works = [read(folder / "run.json").get("work", {}) for folder in (one[name], other[name])]
        assert works[0] | {"step_seconds": 0} == works[1] | {"step_seconds": 0}


@pytest.fixture
def in_this_process(command_line, tmp_path, monkeypatch):
    """What bench/processes.py starts as one process runs here, without another import of TRL."""
    start = bench.launch

    def launch(arguments, folder, count, *more):
        if count > 1:
            return start(arguments, folder, count, *more)
        return command_line(*arguments, "hydra/launcher=basic", f"output_dir={folder}", cwd=tmp_path)

    monkeypatch.setattr(bench, "launch", launch)


def test_several_processes_do_what_one_does(in_this_process, tmp_path):
    """One process, against two with whole weights, two agents of torchrun, and two with divided weights."""
    one = bench.sweep(tmp_path, [name for name in bench.CASES if name != "sft_qlora"], 1, "none")
    refuse_differences(one, bench.sweep(tmp_path, list(one), 2, "ddp", ON_CPU))
    agents = bench.sweep(tmp_path / "agents", ["sft", "grpo"], 2, "ddp", ON_CPU, nodes=2)
    refuse_differences({name: one[name] for name in agents}, agents)
    divided = bench.sweep(tmp_path, ["sft", "grpo", "ppo_shared", "grpo_lora"], 2, "fsdp2", ON_CPU)
    refuse_differences({name: one[name] for name in divided}, divided)
    for folder in divided.values():  # which accelerate writes with this engine alone
        assert (folder / "checkpoints/checkpoint-4/pytorch_model_fsdp.bin").exists()


def test_an_error_of_one_process_ends_all_and_is_in_the_folder(tmp_path):
    (tmp_path / "own.py").write_text(REWARDS)
    own = [f"+reward.functions.own={tmp_path}/own.py:fail_later", "+reward.weights.own=1.0"]
    began = time.monotonic()
    done = bench.launch([*SMALL, GROUP, *own, "algo.args.max_steps=50"], tmp_path / "run", 2)
    record = read(tmp_path / "run" / "run.json")
    raised = re.compile(
        rf"process 1: RewardError: reward.functions.own={re.escape(str(tmp_path))}/own.py:fail_later:"
        r" raised OSError in line \d+: the disk of this"
    )
    assert done.returncode != 0 and time.monotonic() - began < 150
    assert record["status"] == "failed" and raised.search(record["error"])
    assert raised.search(done.stderr)
    assert "the disk of this machine is gone" in (tmp_path / "run" / "error-1.log").read_text()
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_loss_that_is_not_finite_stops_all_as_it_stops_one(tmp_path):
    (tmp_path / "own.py").write_text(REWARDS)
    own = [
        f"+reward.functions.own={tmp_path}/own.py:explode",
        "+reward.weights.own=1e3",
        "loss_type=dr_grpo",
        "preflight=off",
    ]
    done = bench.launch([*SMALL, GROUP, *own, "algo.args.max_steps=3"], tmp_path / "run", 2)
    record = read(tmp_path / "run" / "run.json")
    assert done.returncode != 0
    assert record["status"] == "failed" and record["error"].startswith("NonFiniteLoss: ")
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1


RESUMED = [
    *("algo.args.max_steps=4", "algo.args.save_total_limit=2", "train_tokens=100000", "monitor.every_steps=1"),
    *("eval.every=2", "eval.every_rows=8"),
]
CURRICULUM = [GROUP, "algo.args.curriculum_budgets=[8,12]", "algo.args.curriculum_from_steps=[0,3]"]
PPO = ["algo=ppo", "algo.args.critic=separate", "algo.args.steps_per_generation=1"]


def run_and_stop_a_copy(given, tmp_path, entry=bench.ENTRY):
    """A run of four steps, and a copy of it as if it had been stopped after two."""
    whole, part = tmp_path / "whole", tmp_path / "part"
    done = bench.launch([*SMALL, *RESUMED, *given], whole, 2, entry)
    assert done.returncode == 0, done.stderr
    shutil.copytree(whole, part)
    shutil.rmtree(part / "checkpoints" / "checkpoint-4")
    shutil.rmtree(part / "model")
    (part / "run.json").write_text(json.dumps(read(whole / "run.json") | {"status": "stopped"}))
    return whole, part


def resume_and_compare(whole, part, entry=bench.ENTRY):
    done = bench.launch([f"resume={part}"], part, 2, entry)
    assert done.returncode == 0, done.stderr
    found = bench.compare(whole, part)
    assert max(found.logged.values()) == 0 and found.differing == 0 and found.completions == 32
    assert [row["step"] for row in bench.read_lines(part / "validation.jsonl")] == [0, 2, 4]
    assert read(part / "run.json")["processes"] == 2
    assert (part / "completions.jsonl").read_bytes() == (whole / "completions.jsonl").read_bytes()


def test_a_resumed_run_of_two_processes_ends_like_an_uninterrupted_one(tmp_path):
    whole, part = run_and_stop_a_copy(CURRICULUM, tmp_path)
    command = [sys.executable, "-m", "rlhf_exp", f"resume={part}"]
    refused = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert refused.returncode == 2 and "processes=2, here 1, scale=ddp, here none" in refused.stderr
    resume_and_compare(whole, part)


def test_a_resumed_run_with_divided_weights_does_too(tmp_path):
    resume_and_compare(*run_and_stop_a_copy([*PPO, "scale=fsdp2"], tmp_path, ON_CPU), ON_CPU)


def test_the_tokens_end_training_after_the_same_step(in_this_process, tmp_path):
    given = [*SMALL[:-2], GROUP, "algo.args.max_steps=6", "train_tokens=500"]
    rows = "algo.args.per_device_train_batch_size="
    ends = []
    for count in (1, 2):
        done = bench.launch([*given, f"{rows}{16 // count}"], tmp_path / str(count), count)
        assert done.returncode == 0, done.stderr
        ends.append(read(tmp_path / str(count) / "run.json"))
    assert 0 < ends[0]["steps"] == ends[1]["steps"] < 6
    assert ends[0]["work"]["trained_tokens"] == ends[1]["work"]["trained_tokens"] >= 500

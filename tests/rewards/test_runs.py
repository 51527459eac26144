"""Rewards through the command line: every component in training and in the evaluation, and what a user does wrong."""

import json

import pytest

from tests.building import read_jsonl

SMALL = [
    *("max_tokens=24", "eval.rows=8", "eval.completions=2", "device=cpu"),
    *("algo.args.max_steps=2", "algo.args.per_device_train_batch_size=16", "algo.args.num_generations=4"),
    *("device.threads=1", "eval.cache_dir=null", "output_dir=run", "preflight=off"),
]
OURS = ["graduated", "think_format", "length_efficiency", "overlong", "repetition", "self_consistency"]
OURS = [*OURS, "random", "constant"]
FUNCTIONS = """
def tokens(completion_ids, **_):
    return [len(ids) for ids in completion_ids]

def broken(completions, **kwargs):
    return kwargs["nope"]
"""


@pytest.fixture
def launch(command_line, tmp_path):
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    return lambda *overrides: command_line(*SMALL, *overrides, cwd=tmp_path)


def use(name):
    return [f"+reward.functions.{name}=mine.py:{name}", f"+reward.weights.{name}=0.5"]


@pytest.mark.slow
def test_training_and_evaluation_record_every_reward_by_name(tmp_path, launch):
    done = launch(
        "reward=outcome",
        "reward.length_efficiency.tokens=12",
        *(f"+reward.weights.{name}=0.5" for name in OURS),
        *use("tokens"),
    )
    assert done.returncode == 0, done.stderr
    weights = {"outcome": 1.0, **dict.fromkeys([*OURS, "tokens"], 0.5)}
    logged = [row for row in read_jsonl(tmp_path / "run" / "metrics.jsonl") if "reward" in row]
    assert len(logged) == 2
    for row in logged:
        means = {name: row[f"rewards/{name}/mean"] for name in weights}
        assert row["reward"] == pytest.approx(sum(weights[name] * mean for name, mean in means.items()), abs=1e-4)
        assert means["tokens"] == pytest.approx(row["completions/mean_length"])
    samples = read_jsonl(tmp_path / "run" / "samples.jsonl")
    assert len(samples) == 2 * 16
    for sample in samples:
        assert list(sample["rewards"]) == list(weights)
        assert sample["rewards"]["tokens"] == sample["tokens"]
        assert sample["rewards"]["overlong"] == (
            -1.0 if sample["tokens"] == 24 else min(0, (20 - sample["tokens"]) / 4)
        )
        assert sample["reward"] == pytest.approx(sum(weights[n] * value for n, value in sample["rewards"].items()))


def test_a_mistake_of_a_function_is_one_line_with_its_name(tmp_path, launch):
    done = launch(*use("broken"))
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and "reward.functions.broken=mine.py:broken: raised KeyError in line 6: 'nope'" in line
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"
    assert 'in broken\n    return kwargs["nope"]' in (tmp_path / "run" / "error.log").read_text()

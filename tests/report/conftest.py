"""Run folders, shaped as `python -m rlhf_exp` writes them.

`make_run`: grpo on Countdown, with a seed, a loss and a gain. `dpo_dir`: a copy of a golden run. `edit`
changes a JSON file of a run.
"""

import json
import math
import random
import shutil
from pathlib import Path

import pytest

from rlhf_exp.diagnose import diagnose
from rlhf_exp.evaluation.completions import Completion
from rlhf_exp.evaluation.metrics import compare, summarise

GOLDEN = Path(__file__).parent / "golden"
SCORES = {"correct": 1.0, "partial": 0.1, "failed": 0.0}
ROWS, STEPS = 128, 240


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Each synthetic run is made once, and copied where a test wants it."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def make_run(made):
    def make(path, seed=0, loss_type="grpo", gain=0.25):
        source = made / f"{seed}-{loss_type}-{gain}"
        if not source.exists():
            _make_run(source, seed, loss_type, gain)
        return shutil.copytree(source, path)

    return make


@pytest.fixture
def run_dir(tmp_path, make_run):
    return make_run(tmp_path / "run")


@pytest.fixture
def dpo_dir(tmp_path):
    return shutil.copytree(GOLDEN / "dpo", tmp_path / "dpo")


@pytest.fixture
def edit():
    """edit(run_dir, "run.json", status="failed"); a dotted name is a nested key, and Ellipsis removes one."""

    def edit(path, file, changes=(), **more):
        content = json.loads((path / file).read_text())
        for name, value in (dict(changes) | more).items():
            *outer, last = name.split(".")
            place = content
            for key in outer:
                place = place.setdefault(key, {})
            if value is ...:
                place.pop(last, None)
            else:
                place[last] = value
        (path / file).write_text(json.dumps(content))

    return edit


@pytest.fixture
def edit_info(edit):
    return lambda path, **changes: edit(path, "run.json", **changes)


@pytest.fixture
def edit_samples():
    def edit(path, change):
        rows = [json.loads(line) for line in (path / "samples.jsonl").read_text().splitlines()]
        for row in rows:
            change(row)
        _write_lines(path / "samples.jsonl", rows)

    return edit


def _make_run(path, seed, loss_type, gain):
    """A finished run whose accuracy goes from about 0.25 to 0.25 + gain at a budget of 64 tokens."""
    rng = random.Random(f"{seed} {loss_type}")
    metrics = _make_metrics(rng, gain)
    before, after = ([_make_sample(rng, which, up, row) for row in range(ROWS)] for which, up in
                     (("baseline", 0.0), ("trained", gain)))  # fmt: skip
    sides = {"baseline": _read_records(before), "trained": _read_records(after)}
    evaluation = {side: summarise(records, 64) for side, records in sides.items()}
    evaluation["paired"] = compare(*sides.values(), max_tokens=64)
    args = {"seed": seed, "beta": 0.05, "learning_rate": 5e-4, "loss_type": loss_type}
    config = {"seed": seed, "max_tokens": 64, "algo": {"name": "grpo", "args": args}}
    overrides = ["algo=grpo", "task=countdown", f"loss_type={loss_type}", f"seed={seed}"]
    info = {
        "status": "finished", "error": None, "command": " ".join(["python -m rlhf_exp", *overrides]), "algo": "grpo",
        "task": "countdown", "loss_type": loss_type, "model": "tiny", "seed": seed, "max_tokens": 64, "steps": STEPS,
        "prompt_tokens": 614_400, "completion_tokens": 2_457_600, "baseline_cached": False,
        "seconds": {"load": 3.1, "baseline": 11.8, "train": 228.4 + seed, "evaluate": 12.9, "report": 2.2},
        "peak_memory_mb": 1234.5, "device": "cpu", "versions": {"torch": "2.13.0", "trl": "1.16.0"},
        "git_commit": "0123abc", "started": f"2026-01-01T12:0{seed}:00", "finished": "2026-01-01T12:09:00",
    }  # fmt: skip
    (path / ".hydra").mkdir(parents=True)
    found = diagnose(metrics, evaluation, config)
    files = {"run.json": info, "evaluation.json": evaluation, "diagnosis.json": found, ".hydra/config.yaml": config,
             ".hydra/overrides.yaml": overrides}  # fmt: skip
    for name, content in files.items():
        (path / name).write_text(json.dumps(content))  # JSON is YAML
    _write_lines(path / "metrics.jsonl", metrics)
    _write_lines(path / "samples.jsonl", [*before, *after])


def _write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _make_metrics(rng, gain):
    rows = []
    for step in range(4, STEPS + 1, 4):
        x = (1 - math.exp(-3 * step / STEPS)) * rng.gauss(1, 0.02)
        correct = 0.25 + gain * x + rng.gauss(0, 0.025)
        row = {
            "step": step, "time_s": step * 0.95, "loss": rng.gauss(0, 0.01), "grad_norm": 0.6, "reward": correct + 0.05,
            "kl": 0.8 * gain * x, "entropy": 0.9 - 0.3 * x, "completions/mean_length": 36 + 12 * x,
            "completions/clipped_ratio": 0.04 + 0.08 * x, "frac_reward_zero_std": 0.1 + 0.1 * x,
            "outcome/correct": correct, "outcome/partial": 0.4, "outcome/failed": 0.6 - correct,
        }  # fmt: skip
        rows.append(row | ({"probe/kl": 0.7 * gain * x, "probe/entropy": 0.85 - gain * x} if step % 20 == 0 else {}))
    return rows


def _read_records(samples):
    """The completions that the lines of samples.jsonl describe; of their tokens only the number matters."""
    rows = {name: i for i, name in enumerate(dict.fromkeys(sample["id"] for sample in samples))}
    grades = [{key: sample[key] for key in ("outcome", "strict", "lenient") if key in sample} for sample in samples]
    return [
        Completion(
            rows[sample["id"]], sample["sample"], sample["decoding"], [0] * sample["tokens"], sample["truncated"],
            sample["kl"], reward=sample.get("reward"), grade=grade,
        )
        for sample, grade in zip(samples, grades, strict=True)
    ]  # fmt: skip


def _make_sample(rng, which, gain, i):
    outcome = rng.choices(list(SCORES), (0.25 + gain, 0.5 - gain / 2, 0.25 - gain / 2))[0]
    return {
        "which": which, "id": f"row-{i}", "sample": 0, "decoding": "sampled", "prompt": f"use 8 7 {i} make {i + 50} .",
        "completion": "<think> no " * rng.randrange(5, 20), "tokens": rng.randrange(10, 64), "outcome": outcome,
        "truncated": outcome == "failed", "rewards": {"outcome": SCORES[outcome]}, "reward": SCORES[outcome],
        "kl": 0.0 if which == "baseline" else rng.gauss(4, 2),
    }  # fmt: skip

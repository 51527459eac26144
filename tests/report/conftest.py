"""A synthetic run folder, shaped as `python -m rlhf_exp` writes it; `make_run` and `edit_info` are fixtures."""

import json
import math
import random
from pathlib import Path

import pytest

from rlhf_exp.diagnose import diagnose
from rlhf_exp.stats import mean_interval, paired_bootstrap, wilson, win_rate

SCORES = {"correct": 1.0, "partial": 0.1, "failed": 0.0}
ROWS, STEPS = 128, 240


@pytest.fixture
def make_run():
    return _make_run


@pytest.fixture
def edit_info():
    return _edit_info


@pytest.fixture
def run_dir(tmp_path):
    return _make_run(tmp_path / "run")


def _make_run(path: Path, seed: int = 0, loss_type: str = "grpo", gain: float = 0.25) -> Path:
    """Write a finished run whose accuracy goes from about 0.25 to 0.25 + gain at a budget of 64 tokens."""
    rng = random.Random(f"{seed} {loss_type}")
    (path / ".hydra").mkdir(parents=True)
    config = {
        "seed": seed,
        "max_tokens": 64,
        "output_dir": str(path),
        "algo": {
            "name": "grpo",
            "args": {"seed": seed, "beta": 0.05, "learning_rate": 5e-4, "loss_type": loss_type},
        },
    }
    overrides = ["algo=grpo", "task=countdown", f"loss_type={loss_type}", f"seed={seed}"]
    # JSON is YAML.
    (path / ".hydra" / "config.yaml").write_text(json.dumps(config))
    (path / ".hydra" / "overrides.yaml").write_text(json.dumps(overrides))
    metrics = _make_metrics(rng, gain)
    samples = {
        "baseline": _make_samples(rng, "baseline", 0.0),
        "trained": _make_samples(rng, "trained", gain),
    }
    evaluation = {which: _summarise(rows) for which, rows in samples.items()}
    columns = {key: [[row[key] for row in samples[which]] for which in samples] for key in ("outcome", "reward")}
    correct = [[outcome == "correct" for outcome in side] for side in columns["outcome"]]
    evaluation["paired"] = {
        "difference": paired_bootstrap(*correct, seed=0),
        **win_rate(*columns["reward"], seed=0),
    }
    info = {
        "status": "finished", "error": None, "command": " ".join(["python -m rlhf_exp", *overrides]),
        "algo": "grpo", "task": "countdown", "model": "tiny", "loss_type": loss_type,
        "seed": seed, "max_tokens": 64,
        "steps": STEPS, "prompt_tokens": 614_400, "completion_tokens": 2_457_600,
        "seconds": {"load": 3.1, "baseline": 11.8, "train": 228.4 + seed, "evaluate": 12.9, "report": 2.2},
        "peak_memory_mb": 1234.5, "device": "cpu", "versions": {"torch": "2.13.0", "trl": "1.16.0"},
        "git_commit": "0123abc", "started": f"2026-01-01T12:0{seed}:00", "finished": "2026-01-01T12:09:00",
        "baseline_cached": False,
    }  # fmt: skip
    (path / "run.json").write_text(json.dumps(info))
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics))
    (path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for rows in samples.values() for row in rows))
    (path / "evaluation.json").write_text(json.dumps(evaluation))
    (path / "diagnosis.json").write_text(json.dumps(diagnose(metrics, evaluation, config)))
    return path


def _edit_info(path: Path, **changes: object) -> None:
    info = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(info | changes))


def _make_metrics(rng: random.Random, gain: float) -> list[dict]:
    rows = []
    for step in range(4, STEPS + 1, 4):
        x = (1 - math.exp(-3 * step / STEPS)) * rng.gauss(1, 0.02)
        correct = 0.25 + gain * x + rng.gauss(0, 0.025)
        partial = 0.5 - 0.1 * x + rng.gauss(0, 0.02)
        row = {
            "step": step, "time_s": step * 0.95, "loss": rng.gauss(0, 0.01), "grad_norm": 0.6,
            "learning_rate": 5e-4 * (1 - step / STEPS), "reward": correct + 0.1 * partial,
            "kl": 0.8 * gain * x, "entropy": 0.9 - 0.3 * x + rng.gauss(0, 0.02),
            "completions/mean_length": 36 + 12 * x + rng.gauss(0, 0.8),
            "completions/clipped_ratio": max(0.0, 0.04 + 0.08 * x + rng.gauss(0, 0.01)),
            "frac_reward_zero_std": 0.1 + 0.1 * x, "outcome/correct": correct, "outcome/partial": partial,
            "outcome/failed": 1 - correct - partial,
        }  # fmt: skip
        if step % 20 == 0:
            row |= {"probe/kl": 0.7 * gain * x, "probe/entropy": 0.85 - gain * x}
        rows.append(row)
    return rows


def _make_samples(rng: random.Random, which: str, gain: float) -> list[dict]:
    rows = []
    for i in range(ROWS):
        outcome = rng.choices(list(SCORES), (0.25 + gain, 0.5 - gain / 2, 0.25 - gain / 2))[0]
        answer = {"correct": "( 8 * 7 ) - 3", "partial": "8 + 7 * 3", "failed": None}[outcome]
        search = " ".join(f"8 * {k} = {8 * k} - 3 = {8 * k - 3} no" for k in range(2, 3 + rng.randrange(1, 4)))
        tail = f" yes </think> <answer> {answer} </answer>" if answer else ""
        tokens = len((search + tail).split()) + 2
        rows.append({
            "which": which, "id": f"row-{i}", "prompt": f"use 8 7 {i} make {i + 50} .",
            "completion": f"<think> {search}{tail}", "tokens": tokens, "truncated": outcome == "failed",
            "outcome": outcome, "extracted": answer, "rewards": {"outcome": SCORES[outcome]},
            "reward": SCORES[outcome], "kl": 0.0 if which == "baseline" else rng.gauss(4, 2),
        })  # fmt: skip
    return rows


def _summarise(rows: list[dict]) -> dict:
    counts = {outcome: sum(row["outcome"] == outcome for row in rows) for outcome in SCORES}
    tokens = mean_interval([row["tokens"] for row in rows])
    return {
        "n": ROWS,
        "accuracy": wilson(counts["correct"], ROWS),
        "counts": counts,
        "mean_tokens": tokens,
        "utilisation": tokens["value"] / 64,
        "truncation_rate": wilson(sum(row["truncated"] for row in rows), ROWS),
        "reward": {"mean": mean_interval([row["reward"] for row in rows]), "std": 0.4},
        "kl": {"mean": mean_interval([row["kl"] for row in rows]), "std": 2.0},
        "max_tokens": 64,
    }

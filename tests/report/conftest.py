"""Synthetic run folders, shaped as `python -m rlhf_exp` writes them.

`make_run`: grpo on countdown, with several completions a row where asked for. `make_reward_run`: a reward model.
`make_dpo_run`: dpo on a task without a grader. `edit_info` changes run.json.
"""

import json
import math
import random
import shutil
from pathlib import Path

import pytest

from rlhf_exp.diagnose import diagnose
from rlhf_exp.evaluation.completions import Completion
from rlhf_exp.evaluation.metrics import compare
from rlhf_exp.evaluation.preferences import compare_preferences, find_errors, summarise_preferences
from rlhf_exp.stats import mean_interval, share_interval, wilson

SCORES = {"correct": 1.0, "partial": 0.1, "failed": 0.0}
ROWS, STEPS, PAIRS = 128, 240, 200
SUBSETS = ("harmless-base", "helpful-base")


@pytest.fixture(scope="session")
def copy_of(tmp_path_factory):
    """Make each run once, and copy it where a test wants it."""
    place = tmp_path_factory.mktemp("runs")

    def copy_of(make):
        def make_once(path, *args, **settings):
            source = place / "-".join(map(str, (make.__name__, *args, *settings.items())))
            if not source.exists():
                make(source, *args, **settings)
            shutil.copytree(source, path)
            config = path / ".hydra" / "config.yaml"
            config.write_text(config.read_text().replace(json.dumps(str(source)), json.dumps(str(path))))
            return path

        return make_once

    return copy_of


@pytest.fixture
def make_run(copy_of):
    return copy_of(_make_run)


@pytest.fixture
def make_reward_run(copy_of):
    return copy_of(_make_reward_run)


@pytest.fixture
def make_dpo_run(copy_of):
    return copy_of(_make_dpo_run)


@pytest.fixture
def edit_info():
    return _edit_info


@pytest.fixture
def run_dir(tmp_path, make_run):
    return make_run(tmp_path / "run")


@pytest.fixture
def reward_dir(tmp_path, make_reward_run):
    return make_reward_run(tmp_path / "reward_model")


@pytest.fixture
def dpo_dir(tmp_path, make_dpo_run):
    return make_dpo_run(tmp_path / "dpo")


def _make_run(path: Path, seed: int = 0, loss_type: str = "grpo", gain: float = 0.25, completions: int = 1) -> Path:
    """Write a finished run whose accuracy goes from about 0.25 to 0.25 + gain at a budget of 64 tokens.

    With several completions a row it has a greedy one too, and answers that are read strictly and leniently.
    """
    rng = random.Random(f"{seed} {loss_type}")
    args = {"seed": seed, "beta": 0.05, "learning_rate": 5e-4, "loss_type": loss_type}
    metrics = _make_metrics(rng, gain)
    samples = {
        "baseline": _make_samples(rng, "baseline", 0.0, completions),
        "trained": _make_samples(rng, "trained", gain, completions),
    }
    evaluation = {which: _summarise(rows, completions) for which, rows in samples.items()}
    evaluation["paired"] = compare(*(_read_records(samples[which]) for which in ("baseline", "trained")), max_tokens=64)
    info = {"algo": "grpo", "task": "countdown", "loss_type": loss_type, "completion_tokens": 2_457_600}
    _write_folder(path, info, args, metrics, evaluation)
    _write_lines(path / "samples.jsonl", [row for rows in samples.values() for row in rows])
    return path


def _make_reward_run(path: Path, seed: int = 0, skill: float = 1.0) -> Path:
    """Write a finished reward model's run; with `skill` 0 it knows nothing but length."""
    rng = random.Random(f"reward {seed}")
    metrics = []
    for step in range(4, STEPS + 1, 4):
        x = 1 - math.exp(-3 * step / STEPS)
        metrics.append({
            "step": step, "time_s": step * 0.9, "loss": 0.69 - 0.2 * x + rng.gauss(0, 0.02), "grad_norm": 1.0,
            "accuracy": 0.5 + 0.2 * x + rng.gauss(0, 0.03), "margin": x + rng.gauss(0, 0.05),
            "min_reward": -2 - x, "mean_reward": rng.gauss(0, 0.05), "max_reward": 2 + x,
        })  # fmt: skip
    rows = {"baseline": _make_scores(rng, "baseline", 0.0), "trained": _make_scores(rng, "trained", skill)}
    evaluation = {which: summarise_preferences(side) for which, side in rows.items()}
    evaluation["paired"] = compare_preferences(rows["baseline"], rows["trained"])
    info = {"algo": "reward_model", "task": "hh_rlhf", "loss_type": None, "seed": seed, "completion_tokens": 0}
    _write_folder(path, info, {"learning_rate": 1e-5}, metrics, evaluation)
    _write_lines(path / "preferences.jsonl", [*rows["baseline"], *rows["trained"]])
    (path / "errors.json").write_text(json.dumps(find_errors(rows["trained"])))
    facts = {
        "read": dict.fromkeys(SUBSETS, 1200),
        "dropped": {"equal_answers": {"helpful-base": 7}, "duplicate": {}},
        "kept": {"inline_speaker": {"harmless-base": 3, "helpful-base": 2}},
        "limit_tokens": 512,
        "train": {"over_long": 20, "rows": 1800},
    }
    (path / "data.json").write_text(json.dumps(facts))
    return path


def _make_dpo_run(path: Path, seed: int = 0) -> Path:
    """Write a finished run of dpo on a task without a grader: no outcome, no reward, but implicit rewards."""
    rng = random.Random(f"dpo {seed}")
    metrics = []
    for step in range(4, STEPS + 1, 4):
        x = 1 - math.exp(-3 * step / STEPS)
        row = {
            "step": step, "time_s": step * 0.9, "loss": 0.69 - 0.1 * x + rng.gauss(0, 0.02), "grad_norm": 1.0,
            "rewards/accuracies": 0.5 + 0.1 * x + rng.gauss(0, 0.03), "rewards/margins": 0.5 * x,
            "rewards/chosen": -0.3 * x, "rewards/rejected": -0.8 * x, "logps/chosen": -120 - 3 * x,
            "logps/rejected": -118 - 8 * x, "entropy": 2.5 - 0.1 * x, "mean_token_accuracy": 0.45 + 0.01 * x,
        }  # fmt: skip
        metrics.append(row | ({"probe/kl": 0.1 * x, "probe/entropy": 2.4 - 0.1 * x} if step % 20 == 0 else {}))
    samples = {which: _make_samples(rng, which, 0.0, 1) for which in ("baseline", "trained")}
    for row in [row for rows in samples.values() for row in rows]:
        for key in ("outcome", "extracted", "rewards", "reward"):
            del row[key]
    evaluation = {which: _summarise(rows, 1) for which, rows in samples.items()}
    evaluation["paired"] = compare(*(_read_records(samples[which]) for which in ("baseline", "trained")), max_tokens=64)
    rows = _make_scores(rng, "trained", 0.7)
    evaluation["trained"]["preference"] = summarise_preferences(rows)
    info = {"algo": "dpo", "task": "hh_rlhf", "loss_type": ["sigmoid"], "seed": seed, "completion_tokens": 0}
    _write_folder(path, info, {"beta": 0.1, "learning_rate": 1e-6}, metrics, evaluation)
    _write_lines(path / "samples.jsonl", [row for side in samples.values() for row in side])
    _write_lines(path / "preferences.jsonl", rows)
    (path / "errors.json").write_text(json.dumps(find_errors(rows)))
    return path


def _write_folder(path: Path, info: dict, args: dict, metrics: list[dict], evaluation: dict) -> None:
    (path / ".hydra").mkdir(parents=True)
    seed = info.get("seed", args.get("seed", 0))
    config = {
        "seed": seed,
        "max_tokens": 64,
        "output_dir": str(path),
        "algo": {"name": info["algo"], "args": args},
    }
    overrides = [f"algo={info['algo']}", f"task={info['task']}", f"seed={seed}"]
    if isinstance(info["loss_type"], str):
        overrides.insert(2, f"loss_type={info['loss_type']}")
    # JSON is YAML.
    (path / ".hydra" / "config.yaml").write_text(json.dumps(config))
    (path / ".hydra" / "overrides.yaml").write_text(json.dumps(overrides))
    info = {
        "status": "finished", "error": None, "command": " ".join(["python -m rlhf_exp", *overrides]),
        "model": "tiny", "seed": seed, "max_tokens": 64, "steps": STEPS, "prompt_tokens": 614_400,
        "seconds": {"load": 3.1, "baseline": 11.8, "train": 228.4 + seed, "evaluate": 12.9, "report": 2.2},
        "peak_memory_mb": 1234.5, "device": "cpu", "versions": {"torch": "2.13.0", "trl": "1.16.0"},
        "git_commit": "0123abc", "started": f"2026-01-01T12:0{seed}:00", "finished": "2026-01-01T12:09:00",
        "baseline_cached": False, **info,
    }  # fmt: skip
    (path / "run.json").write_text(json.dumps(info))
    _write_lines(path / "metrics.jsonl", metrics)
    (path / "evaluation.json").write_text(json.dumps(evaluation))
    (path / "diagnosis.json").write_text(json.dumps(diagnose(metrics, evaluation, config)))


def _write_lines(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


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


def _read_records(samples: list[dict]) -> list[Completion]:
    """The completions that the lines of samples.jsonl describe; of their tokens only the number matters."""
    rows = {name: i for i, name in enumerate(dict.fromkeys(sample["id"] for sample in samples))}
    return [
        Completion(
            rows[sample["id"]], sample["sample"], sample["decoding"], [0] * sample["tokens"], sample["truncated"],
            sample["kl"], reward=sample.get("reward"),
            grade={key: sample[key] for key in ("outcome", "extracted", "strict", "lenient") if key in sample},
        )
        for sample in samples
    ]  # fmt: skip


def _make_samples(rng: random.Random, which: str, gain: float, completions: int) -> list[dict]:
    if completions == 1:
        alone = {"sample": 0, "decoding": "sampled"}
        return [_make_sample(rng, which, gain, row) | alone for row in range(ROWS)]
    places = [("sampled", i) for i in range(completions)] + [("greedy", 0)]
    samples = []
    for row in range(ROWS):
        for decoding, i in places:
            sample = _make_sample(rng, which, gain, row) | {"sample": i, "decoding": decoding}
            strict = sample["outcome"] == "correct"
            samples.append(sample | {"strict": strict, "lenient": strict or rng.random() < 0.2})
    return samples


def _make_sample(rng: random.Random, which: str, gain: float, i: int) -> dict:
    outcome = rng.choices(list(SCORES), (0.25 + gain, 0.5 - gain / 2, 0.25 - gain / 2))[0]
    answer = {"correct": "( 8 * 7 ) - 3", "partial": "8 + 7 * 3", "failed": None}[outcome]
    search = " ".join(f"8 * {k} = {8 * k} - 3 = {8 * k - 3} no" for k in range(2, 3 + rng.randrange(1, 4)))
    tail = f" yes </think> <answer> {answer} </answer>" if answer else ""
    tokens = len((search + tail).split()) + 2
    return {
        "which": which, "id": f"row-{i}", "prompt": f"use 8 7 {i} make {i + 50} .",
        "completion": f"<think> {search}{tail}", "tokens": tokens, "truncated": outcome == "failed",
        "outcome": outcome, "extracted": answer, "rewards": {"outcome": SCORES[outcome]},
        "reward": SCORES[outcome], "kl": 0.0 if which == "baseline" else rng.gauss(4, 2),
    }  # fmt: skip


def _make_scores(rng: random.Random, which: str, skill: float) -> list[dict]:
    rows = []
    lengths = random.Random("the same pairs for both")
    for i in range(PAIRS):
        tokens = [lengths.randrange(5, 120) for _ in range(2)]
        rewards = [tokens[0] / 100 + skill + rng.gauss(0, 0.7), tokens[1] / 100 + rng.gauss(0, 0.7)]
        rows.append({
            "which": which, "id": f"pair-{i}", "subset": SUBSETS[i % 2], "prompt": f"\n\nHuman: {i}?\n\nAssistant:",
            "chosen": f" Yes, {i}.", "rejected": f" No, {i}.", "chosen_reward": rewards[0],
            "rejected_reward": rewards[1], "margin": rewards[0] - rewards[1],
            "chosen_tokens": tokens[0], "rejected_tokens": tokens[1],
        })  # fmt: skip
    return rows


def _summarise(rows: list[dict], completions: int) -> dict:
    sampled = [row for row in rows if row.get("decoding") != "greedy"]
    tokens = mean_interval([row["tokens"] for row in sampled])
    section = {
        "n": ROWS,
        "mean_tokens": tokens,
        "utilisation": tokens["value"] / 64,
        "truncation_rate": wilson(sum(row["truncated"] for row in sampled), len(sampled)),
        "kl": {"mean": mean_interval([row["kl"] for row in sampled]), "std": 2.0},
        "distinct": {"1": 0.01, "2": 0.1},
        "max_tokens": 64,
    }
    if "outcome" in rows[0]:
        section |= _grade(sampled)
        section["reward"] = {"mean": mean_interval([row["reward"] for row in sampled]), "std": 0.4}
    if completions > 1:
        section |= {"accuracy": _share(sampled, "strict"), "lenient_accuracy": _share(sampled, "lenient")}
        section["pass_at_k"] = {str(k): section["accuracy"] for k in (1, 2, completions)}
        section["majority_at_k"] = section["accuracy"]
        greedy = [row for row in rows if row["decoding"] == "greedy"]
        lenient = wilson(sum(row["lenient"] for row in greedy), ROWS)
        section["greedy"] = {**_grade(greedy), "lenient_accuracy": lenient, "mean_tokens": tokens}
    return section


def _grade(rows: list[dict]) -> dict:
    counts = {outcome: sum(row["outcome"] == outcome for row in rows) for outcome in SCORES}
    return {"accuracy": wilson(counts["correct"], len(rows)), "counts": counts}


def _share(rows: list[dict], key: str) -> dict:
    ids = dict.fromkeys(row["id"] for row in rows)
    of_row = {name: [row[key] for row in rows if row["id"] == name] for name in ids}
    return share_interval([sum(values) / len(values) for values in of_row.values()])

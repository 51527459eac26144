"""Whole runs of the shipped model, small enough for seconds."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from rlhf_exp.runs.files import write_json
from rlhf_exp.runs.load import load_run
from rlhf_exp.runs.records import Finding

SMALL = [
    "max_tokens=24", "algo.args.max_steps=4", "algo.args.save_steps=2", "algo.args.save_total_limit=2",
    "algo.args.per_device_train_batch_size=16", "algo.args.num_generations=8", "eval.rows=32", "monitor.every_steps=2",
    "device=cpu", "device.threads=1", "keep_checkpoints=true",
]  # fmt: skip
TIMES = {"time_s", "step_time", "step_seconds", "train_runtime", "train_samples_per_second", "train_steps_per_second"}


def read_metrics(folder):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in load_run(folder).metrics]


def assert_same_text(folder, other, *names):
    for name in names:
        assert (folder / name).read_text() == (other / name).read_text(), name


@pytest.fixture(scope="module")
def first(workplace):
    """A finished run, in a process of its own; first.txt is what the terminal showed."""
    command = [sys.executable, "-m", "rlhf_exp", *SMALL, "output_dir=first"]
    done = subprocess.run(command, cwd=workplace, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "")
    (workplace / "first.txt").write_text(done.stdout)
    return load_run(workplace / "first")


def test_a_run_measures_sampling_baselines_before_it_trains_and_the_probe_kl_without_a_kl_term(launch, workplace):
    shape = ("hidden_size=16", "intermediate_size=32", "num_hidden_layers=1", "head_dim=4")
    small = ("model=tiny_untrained", *(f"model.init.{size}" for size in shape), "max_tokens=6", "eval.rows=8")
    done = launch(
        *SMALL, *small, "algo.args.max_steps=2", "algo.args.beta=0", "reward=random", "algo.args.learning_rate=0.01",
        "task.baselines=true", "monitor.completions=0", "output_dir=policies",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "\n[baselines] " in done.stdout
    assert "Without training the start model reaches " in " ".join(done.stdout.split())
    run = load_run(workplace / "policies")
    (figures,) = run.evaluation["baselines"].values()
    assert figures.trained_minus
    assert "kl" not in run.logged and run.metrics[-1]["probe/kl"] > 0
    assert not (run.path / "completions.jsonl").exists()


def test_run_json_says_what_ran_and_what_it_cost(first):
    record = first.info
    assert record["status"] == "finished" and record["error"] is None
    assert (record["algo"], record["task"], record["model"], record["seed"]) == ("grpo", "countdown", "tiny", 0)
    assert record["steps"] == 4 and record["prompt_tokens"] == 4 * 16 * 7
    assert record["completion_tokens"] - 4 * 16 == record["work"]["decode_passes"]
    assert set(record["seconds"]) == {"load", "baseline", "preflight", "train", "evaluate", "report"}
    assert (first.path / "completions.jsonl").stat().st_size > 0
    assert record["peak_memory_mb"] > 100 and record["versions"]["trl"]


def test_metrics_have_trls_names_the_outcome_shares_and_the_probe(first):
    assert [row["step"] for row in first.metrics] == list(range(1, 5))
    for row in first.metrics:
        assert {"loss", "reward", "rewards/outcome/mean", "entropy", "kl", "grad_norm"} <= set(row)
        shares = [row[f"outcome/{kind}"] for kind in ("correct", "partial", "failed")]
        assert sum(shares) == pytest.approx(1)
        assert row["rewards/outcome/mean"] == pytest.approx(shares[0] + 0.1 * shares[1], abs=1e-5)
    for name in ("probe/kl", "probe/entropy"):
        steps, values = first.series(name)
        assert steps == [1, 2, 4] and min(values) >= 0


def test_evaluation_and_samples_agree(first):
    evaluation = first.evaluation
    for which in ("baseline", "trained"):
        rows, section = [s for s in first.samples if s["which"] == which], evaluation[which]
        assert len(rows) == section["n"] == 32 == sum(section["counts"].values())
        assert section["accuracy"]["value"] == sum(s["outcome"] == "correct" for s in rows) / 32
        assert section["accuracy"]["low"] <= section["accuracy"]["value"] <= section["accuracy"]["high"]
        assert section["max_tokens"] == 24 and max(s["tokens"] for s in rows) <= 24
    assert evaluation["baseline"]["kl"]["mean"]["value"] == 0 < evaluation["trained"]["kl"]["mean"]["value"]
    for sample in first.samples:
        assert "".join(sample["token_texts"]) == sample["completion"]
        assert len(sample["token_texts"]) == len(sample["token_logprobs"]) == sample["tokens"]
        assert sum(sample.token_kl or []) == pytest.approx(sample["kl"], abs=2e-3)
    paired = evaluation["paired"]
    assert paired["wins"] + paired["losses"] + paired["ties"] == paired["n"] == 32


def test_a_trained_model_that_is_measured_alone_has_the_figures_that_its_run_measured(first, workplace, launch):
    settings = [setting for setting in SMALL if not setting.startswith(("algo.args", "monitor"))]
    done = launch("algo=none", f"model.path={first.path}/model", *settings, "output_dir=alone")
    assert done.returncode == 0, done.stderr
    alone = load_run(workplace / "alone")
    assert alone.evaluation.model_fields_set == {"baseline"}
    for name in ("accuracy", "counts", "mean_tokens", "truncation_rate", "distinct"):
        assert alone.evaluation["baseline"][name] == first.evaluation["trained"][name]
    assert alone.info["seconds"].keys() == {"load", "baseline", "report"}
    assert not any((alone.path / name).exists() for name in ("model", "metrics.jsonl"))
    assert "## Measurements" in (alone.path / "report.md").read_text()
    assert "nothing was trained." in done.stdout


def test_the_terminal_shows_each_stage_once_then_the_figures_and_where_the_report_is(first, workplace):
    shown = (workplace / "first.txt").read_text()
    lines = shown.splitlines()
    assert lines[0] == "grpo on countdown, model tiny, seed 0: first"
    stages = [line.split()[0] for line in lines if line.startswith("[")]
    assert stages == ["[start]", "[load]", "[baseline]", "[preflight]", "[train]", "[evaluate]", "[report]"]
    for word in ("accuracy", "baseline", "trained", "difference", "peak memory", "Health", "report.html"):
        assert word in shown
    assert list((first.path / "plots").glob("*.png"))


def test_the_same_command_gives_the_same_metrics_and_finds_its_baseline_again(first, workplace, launch):
    assert launch(*SMALL, "keep_checkpoints=false", "output_dir=second").returncode == 0
    second = workplace / "second"
    assert read_metrics(second) == read_metrics(first.path)
    assert_same_text(second, first.path, "evaluation.json", "samples.jsonl")
    assert load_run(second).info["baseline_cached"] is True
    assert (second / "model").is_dir() and not (second / "checkpoints").exists()


def test_a_resumed_run_ends_as_an_uninterrupted_one(first, workplace, launch):
    broken = shutil.copytree(first.path, workplace / "broken")
    shutil.rmtree(broken / "model")
    shutil.rmtree(broken / "checkpoints" / "checkpoint-4")
    write_json(broken / "run.json", first.info.model_dump() | {"status": "failed", "error": "killed"})
    done = launch("resume=broken")
    assert done.returncode == 0, done.stderr
    assert load_run(broken).status == "finished"
    assert read_metrics(broken) == read_metrics(first.path)
    assert_same_text(broken, first.path, "completions.jsonl", "samples.jsonl")


@pytest.mark.parametrize(("error", "status"), [("SIGTERM", 143), ("gradient_spike", 3)])
def test_a_signal_or_an_alarm_saves_and_ends_the_run_which_then_resumes_to_the_same_end(
    first, workplace, launch, monkeypatch, error, status
):
    found = Finding(name="gradient_spike", severity="warning", steps=(2, 2), evidence="high")
    alarms = [found] * (error != "SIGTERM")

    def find_alarms(metrics, **facts):
        if not alarms and len(metrics) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return alarms if len(metrics) >= 2 else []

    monkeypatch.setattr("rlhf_exp.train.find_alarms", find_alarms)
    done = launch(*SMALL, "algo.args.save_steps=100", "monitor.stop_on=[gradient_spike]", f"output_dir={error}")
    assert done.returncode == status, done.stderr
    folder = workplace / error
    record = load_run(folder).info
    assert (record["status"], record["error"], record["steps"]) == ("stopped", error, 3)
    said = f"Stopped by {error}; the last checkpoint is of step 3. Resume with: python -m rlhf_exp resume={error}"
    assert said in done.stdout.splitlines()
    assert [path.name for path in (folder / "checkpoints").glob("checkpoint-*")] == ["checkpoint-3"]
    assert (folder / "report.md").is_file() and not (folder / "model").exists()
    done = launch(f"resume={error}")
    assert done.returncode == 0, done.stderr
    assert read_metrics(folder) == read_metrics(first.path)
    assert_same_text(folder, first.path, "samples.jsonl")
    assert [row["step"] for row in load_run(folder).alarms] == [2] * len(alarms)


def test_a_loss_that_is_not_finite_ends_the_run_with_a_line_and_a_readable_folder(workplace, launch):
    # The second pass over a rollout meets a policy that is hundreds of nats away from its reference.
    wild = ["algo.args.learning_rate=1.0", "algo.args.num_iterations=2"]
    done = launch(*SMALL, *wild, "output_dir=nonfinite")
    assert done.returncode == 1
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("rlhf_exp: failed: NonFiniteLoss: "), done.stderr
    assert "try a lower algo.args.learning_rate" in line
    assert "There is no checkpoint to go on from. Start anew with: algo.args.learning_rate=0.001" in done.stdout
    run = load_run(workplace / "nonfinite")
    assert run.status == "failed" and "NonFiniteLoss" in run.info["error"]
    assert run.metrics and run.evaluation and (run.path / "report.html").is_file()
    for found in (run.diagnosis["findings"], run.alarms):
        assert "nonfinite_loss" in [one["name"] for one in found]

"""A search with Optuna: real trials, whose jobs are stand-ins."""

import json
from pathlib import Path

import pytest

from rlhf_exp.launch import sweep
from rlhf_exp.launch.workers import read_objective
from tests.runs.building import leave_run

pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="hydra-optuna-sweeper is not installed")
ARGUMENTS = ["-cd", "sweeps", "-cn", "tune_grpo", "hydra/launcher=basic", "device=cpu"]


def test_the_search_is_given_held_out_accuracy_and_its_best_is_printed(command_line, monkeypatch, tmp_path):
    accuracies = []

    def work(cfg, settings, jobs, again):
        jobs.place(cfg, settings)
        accuracies.append(1 / (1 + abs(cfg.algo.args.learning_rate - 1e-3)))
        if len(accuracies) == 2:
            return 1  # this trial is left out
        leave_run(Path(cfg.output_dir))
        trained = {"accuracy": {"value": accuracies[-1], "low": 0.0, "high": 1.0}}
        Path(cfg.output_dir, "evaluation.json").write_text(json.dumps({"trained": trained}))
        return 0

    monkeypatch.setattr(sweep, "run_job", work)
    monkeypatch.setattr(sweep, "report_study", lambda folder: None)
    trials = ["hydra.sweeper.n_trials=4", "hydra.sweeper.params={algo.args.learning_rate:'interval(1e-4, 1e-2)'}"]
    done = command_line(*ARGUMENTS, *trials, "max_tokens=32", cwd=tmp_path)
    assert done.returncode == 1 and len(accuracies) == 4
    best = max(accuracy for number, accuracy in enumerate(accuracies) if number != 1)
    line, command = [line for line in done.stdout.splitlines() if line.startswith("best ") or "on test rows" in line]
    assert f": {best:.4g} on the rows that it was chosen on" in line
    assert "algo.args.learning_rate=" in command and command.endswith(" eval.split=test")
    assert [path.name[:3] for path in sorted(tmp_path.glob("outputs/tune_grpo/0*"))] == ["00_", "02_", "03_"]


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("eval.split=test", "eval.split=test: a search chooses settings; "),
        ("dry_run=true", "dry_run=true: gives a search nothing to choose by; "),
        ("hydra.sweeper.direction=minimize", "hydra.sweeper.direction: must be maximize; "),
    ],
)
def test_a_search_that_would_not_choose_well_is_refused(command_line, tmp_path, override, line):
    done = command_line(*ARGUMENTS, override, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(f"rlhf_exp: {line}")
    assert not list(tmp_path.glob("outputs/tune_grpo/0*"))


def test_without_an_accuracy_the_objective_is_the_mean_reward(tmp_path):
    leave_run(tmp_path)
    trained = {"reward": {"mean": {"value": -0.5, "low": -1.0, "high": 0.0}, "std": 1.0}}
    (tmp_path / "evaluation.json").write_text(json.dumps({"trained": trained}))
    assert read_objective(tmp_path) == -0.5
    (tmp_path / "evaluation.json").write_text(json.dumps({}))
    assert read_objective(tmp_path) is None


def test_a_search_in_which_every_trial_fails_has_the_status_of_a_failure(command_line, monkeypatch, tmp_path):
    monkeypatch.setattr(sweep, "run_job", lambda cfg, settings, jobs, again: 1)
    done = command_line(*ARGUMENTS, "hydra.sweeper.n_trials=2", cwd=tmp_path)
    assert done.returncode == 1
    of_all = "rlhf_exp: 2 of 2 jobs did not succeed (1: status 1, 2: status 1)"
    assert done.stderr.splitlines()[-2:] == ["rlhf_exp: no trial of the search has succeeded", of_all]

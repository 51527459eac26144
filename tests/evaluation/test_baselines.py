"""Sampling baselines of a small model, on few rows and with a small budget."""

import json
from dataclasses import replace

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation.baselines import list_candidates, measure_baselines, sift
from rlhf_exp.evaluation.completions import EvalSet
from rlhf_exp.evaluation.evaluators import PolicyEvaluator
from rlhf_exp.graders import Grade
from rlhf_exp.models.generation import FORBIDDEN, Policy
from tests.building import UNTRAINED, load_experiment, read_jsonl

RULES = [
    f"* as {which} operation times {weight} if the target exceeds the sum"
    for which in ("the first", "any")
    for weight in (10, 1000)
]
OTHERS = [*RULES, "0.3", "0.5", "0.75", "1.25", "greedy"]


def grade(completion, row):
    """What a model with random weights writes is right, unless it gives up."""
    right = "give" not in completion.split()
    return Grade("correct" if right else "partial", float(right), completion)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """An evaluator that has measured baselines, and as the trained model the start model itself."""
    path = tmp_path_factory.mktemp("run")
    small = [*UNTRAINED, "max_tokens=8", "eval.rows=64", "task.train_rows=8", "eval.completions=2"]
    experiment = load_experiment(path, *small, f"eval.cache_dir={path / 'cache'}")
    (path / "model").symlink_to(experiment.model.path)
    evaluator = PolicyEvaluator(replace(experiment, task=replace(experiment.task, grade=grade)))
    evaluator.measure_start_model()
    evaluator.measure_baselines()
    evaluator.measure_trained_model()
    return evaluator


def test_the_best_on_validation_rows_is_measured_on_the_held_out_rows_and_each_rows_figures_are_kept(measured):
    evaluation = json.loads((measured.experiment.folder.path / "evaluation.json").read_text())
    ((family, figures),) = evaluation["baselines"].items()
    assert (family, figures["policy"]) == (measured.best.policy.family, measured.best.policy.name)
    assert figures["validation"][figures["policy"]] == max(figures["validation"].values()) and figures["n"] == 64
    assert set(figures["validation"]) == {"give forbidden", *OTHERS, *(f"{name}; give forbidden" for name in OTHERS)}
    for name in ("accuracy", "truncation_rate", "mean_tokens", "trained_minus"):
        assert figures[name]["low"] <= figures[name]["value"] <= figures[name]["high"]
    ahead = evaluation["trained"]["accuracy"]["value"] - figures["accuracy"]["value"]
    assert figures["trained_minus"]["value"] == pytest.approx(ahead, abs=1e-12)
    [row] = read_jsonl(measured.experiment.folder.path / "policies.jsonl")
    assert (row["family"], row["policy"]) == (family, figures["policy"])
    assert row["id"] == [held_out["id"] for held_out in measured.experiment.task.eval]
    assert row["accuracy"] == measured.best.correct.tolist()


def test_they_are_sampled_once_for_all_runs_of_a_model(measured, monkeypatch):
    monkeypatch.setattr("rlhf_exp.evaluation.cache.sample_rows", lambda *args, **kwargs: pytest.fail("sampled"))
    experiment = measured.experiment
    of = EvalSet.of(experiment.cfg, experiment.task, experiment.tokenizer)
    again = measure_baselines(experiment.cfg, of, experiment.model, model=None)
    assert again == measured.best


def test_the_better_half_goes_on_to_twice_as_many_rows():
    accuracies = {f"{i}": i / 10 for i in range(5)}
    asked = []

    def measure(policy, rows):
        asked.append((policy.name, rows))
        return accuracies[policy.name] + rows / 1000

    best, tried = sift([Policy("family", name) for name in accuracies], measure, most=200)
    assert best.name == "4"
    assert asked == [*((str(i), 64) for i in range(5)), *((i, 128) for i in "432"), *((i, 200) for i in "43")]
    assert tried == {"0": 0.064, "1": 0.164, "2": 0.328, "3": 0.5, "4": pytest.approx(0.6)}
    asked.clear()
    assert sift([Policy("family", "3"), Policy("family", "2")], measure, most=9)[0].name == "3"
    assert asked == [("3", 9), ("2", 9)]


def test_a_task_without_policies_of_its_own_has_those_of_every_task(measured):
    cfg = compose_config(["task=gsm8k", "task.source=generated", "model=tiny_gpt2"])
    names = [policy.name for policy in list_candidates(cfg, measured.experiment.tokenizer)]
    assert names == ["0.3", "0.5", "0.75", "1.25", "greedy"]
    own = list_candidates(measured.experiment.cfg, measured.experiment.tokenizer)
    assert own[0].family == FORBIDDEN and len(own) == 19

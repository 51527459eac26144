"""Trivial policies of a small model, on few rows and with a small budget."""

import json
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation import trivial
from rlhf_exp.evaluation.evaluators import PolicyEvaluator
from rlhf_exp.evaluation.validation import Validation
from rlhf_exp.experiment import Experiment
from rlhf_exp.graders import Grade
from rlhf_exp.models.loading import load_policy, load_tokenizer, resolve_model
from rlhf_exp.models.policies import FORBIDDEN
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.tasks import load_task

FAMILIES = [FORBIDDEN, "operations reweighted", "fixed rule", "temperature", "greedy"]


SHAPE = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
         "num_key_value_heads": 2, "head_dim": 8}  # fmt: skip


def grade(completion, row):
    """What a model with random weights writes is right, unless it holds a word of the habits."""
    right = not {"give", "check"} & {*completion.split()}
    return Grade("correct" if right else "partial", float(right), completion)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """An evaluator that has measured policies, and as the trained model the start model itself."""
    path = tmp_path_factory.mktemp("run")
    small = ["model=tiny_untrained", *(f"model.init.{key}={value}" for key, value in SHAPE.items())]
    small += ["max_tokens=8", "eval.rows=64", "device=cpu", "task.train_rows=8", "eval.completions=2"]
    cfg = compose_config([*small, f"eval.cache_dir={path / 'cache'}"])
    source = resolve_model(cfg, path)
    (path / "model").symlink_to(source.path)
    tokenizer = load_tokenizer(source)
    task = replace(load_task(cfg, tokenizer), grade=grade)
    evaluator = PolicyEvaluator(Experiment(cfg, RunFolder(path, {}), source, tokenizer, task, []))
    evaluator.measure_start_model()
    evaluator.measure_policies()
    evaluator.measure_trained_model()
    return evaluator


def read(evaluator):
    return json.loads((evaluator.experiment.folder.path / "evaluation.json").read_text())


def start_on_validation(evaluator):
    """The start model's accuracy on the validation rows, of which there are as many as held-out rows."""
    experiment = evaluator.experiment
    once = replace(experiment.cfg.eval, every=1, every_rows=64)
    cfg = replace(experiment.cfg, eval=once)
    task = replace(load_task(cfg, experiment.tokenizer), grade=grade)
    measured = Validation(replace(experiment, cfg=cfg, task=task)).measure(load_policy(experiment.model))
    return fmean(measured["accuracy"])


def test_of_each_family_the_best_on_validation_rows_is_measured_on_the_held_out_rows(measured):
    found = read(measured)["baselines"]
    assert list(found) == FAMILIES
    for figures in found.values():
        assert figures["validation"][figures["policy"]] == max(figures["validation"].values())
        assert figures["n"] == 64
        for name in ("accuracy", "truncation_rate", "mean_tokens", "trained_minus"):
            assert figures[name]["low"] <= figures[name]["value"] <= figures[name]["high"]
    assert set(found[FORBIDDEN]["validation"]) == {
        "give forbidden", "check forbidden", "give and check forbidden",
    }  # fmt: skip
    alone = [name for name in found["temperature"]["validation"] if ";" not in name]
    assert alone == ["0.3", "0.5", "0.75", "1.25"]
    combined = [name.partition("; ")[2] for name in found["temperature"]["validation"] if ";" in name]
    better = max(found[FORBIDDEN]["validation"].values()) > start_on_validation(measured)
    assert combined == [found[FORBIDDEN]["policy"]] * 4 * better


def test_the_figures_of_each_held_out_row_are_kept(measured):
    lines = (measured.experiment.folder.path / "policies.jsonl").read_text().splitlines()
    found = {row["family"]: row for row in map(json.loads, lines)}
    assert list(found) == FAMILIES
    for family, row in found.items():
        assert row["policy"] == measured.policies[family].name
        assert row["id"] == [held_out["id"] for held_out in measured.experiment.task.eval]
        assert fmean(row["accuracy"]) == pytest.approx(measured.policies[family].figures["accuracy"]["value"])


def test_the_trained_model_is_compared_on_the_same_rows(measured):
    figures, trained = read(measured)["baselines"][FORBIDDEN], read(measured)["trained"]
    ahead = trained["accuracy"]["value"] - figures["accuracy"]["value"]
    assert figures["trained_minus"]["value"] == pytest.approx(ahead, abs=1e-12)


def test_greedy_takes_one_completion_a_row_and_is_what_eval_greedy_measures(measured):
    experiment = measured.experiment
    cfg = replace(experiment.cfg, eval=replace(experiment.cfg.eval, greedy=True, completions=1))
    other = PolicyEvaluator(replace(experiment, cfg=cfg, folder=RunFolder(experiment.folder.path / "greedy", {})))
    (experiment.folder.path / "greedy").mkdir()
    other.measure_start_model()
    greedy, chosen = other.baseline["greedy"]["accuracy"]["value"], measured.policies["greedy"]
    assert set(np.unique(chosen.correct)) <= {0.0, 1.0}
    if chosen.name == "greedy":
        assert chosen.figures["accuracy"]["value"] == greedy


def test_policies_are_sampled_once_for_all_runs_of_a_model(measured, monkeypatch):
    monkeypatch.setattr("rlhf_exp.evaluation.cache.sample_held_out", lambda *args, **kwargs: pytest.fail("sampled"))
    again = trivial.measure_policies(measured.experiment, model=None)
    assert trivial.describe_policies(again) == trivial.describe_policies(measured.policies)

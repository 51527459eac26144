"""Before and after of one policy, without the training between: what was saved is the start model itself."""

import json
import math
import shutil

import pytest

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation.evaluators import PolicyEvaluator
from rlhf_exp.models.loading import load_tokenizer, resolve_model
from rlhf_exp.tasks import load_held_out
from tests.building import load_experiment, read_jsonl

SMALL = ["max_tokens=4", "eval.rows=8", "model=tiny_gpt2", "model.init.max_position_embeddings=1024",
         "model.init.hidden_size=16", "model.init.num_hidden_layers=1", "task=hh_rlhf", "task.source=generated",
         "task.train_rows=8"]  # fmt: skip
DPO, SFT = ["algo=dpo", "reward=none"], ["algo=sft", "reward=none"]


def measure(tmp_path, *overrides):
    """evaluation.json, of the start model twice."""
    evaluator = PolicyEvaluator(load_experiment(tmp_path, *SMALL, f"eval.cache_dir={tmp_path / 'cache'}", *overrides))
    evaluator.measure_start_model()
    shutil.copytree(evaluator.experiment.model.path, tmp_path / "model")
    evaluator.measure_trained_model()
    return json.loads((tmp_path / "evaluation.json").read_text())


@pytest.mark.parametrize("algo", [DPO, SFT])
def test_the_loss_that_training_minimises_is_measured_before_and_after(tmp_path, algo):
    found = measure(tmp_path, *algo)
    assert found["baseline"]["loss"]["value"] == pytest.approx(found["trained"]["loss"]["value"], abs=1e-6)
    assert found["paired"]["loss"]["value"] == pytest.approx(0, abs=1e-6)
    if algo is DPO:
        assert found["baseline"]["loss"]["value"] == math.log(2)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ([*DPO, "+algo.args.loss_type=[ipo]"], "with algo.args.loss_type=[ipo] it is not the training loss"),
        # training cuts the answers to it
        ([*DPO, "algo.args.max_length=64"], "with algo.args.max_length=64 it is not the training loss"),
        ([*SFT, "algo.args.completion_only_loss=false"],
         "with algo.args.completion_only_loss=false it is not the training loss"),
        ([*SFT, "algo.args.max_length=8"], "the prompts of all 8 rows fill algo.args.max_length=8"),
    ],
)  # fmt: skip
def test_a_held_out_loss_that_is_not_the_training_loss_is_left_out_with_a_line(tmp_path, capsys, overrides, reason):
    found = measure(tmp_path, *overrides)
    assert found["baseline"]["loss_left_out"] == reason
    assert f"held-out loss: left out, {reason}\n" in capsys.readouterr().out
    assert not any("loss" in found.get(section, {}) for section in ("baseline", "trained", "paired"))


SETS = ["+eval.sets.easy={task: countdown, numbers: [2]}", "+eval.sets.same={}"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """evaluation.json and the samples without sets, and with sets."""
    folder = tmp_path_factory.mktemp("sets")
    found = []
    for name, overrides in {"without": [], "with": SETS}.items():
        made = measure(folder / name, *SFT, f"eval.cache_dir={folder / 'shared'}", *overrides)
        found.append((made, read_jsonl(folder / name / "samples.jsonl")))
    return folder, *found


def test_the_main_figures_and_samples_are_those_of_a_run_without_sets(measured):
    _, (without, samples), (found, all_samples) = measured
    assert {name: section for name, section in found.items() if name != "sets"} == without
    assert [line for line in all_samples if "set" not in line] == samples


def test_a_set_has_the_form_of_the_main_figures_and_is_graded_by_its_task(measured):
    _, (without, _), (found, samples) = measured
    easy, same = found["sets"]["easy"], found["sets"]["same"]
    assert [*easy] == ["baseline", "trained", "paired"] and easy["paired"]["difference"]["value"] == 0
    assert "accuracy" in easy["baseline"] and "accuracy" not in same["baseline"]
    assert same["trained"]["mean_tokens"] == without["trained"]["mean_tokens"]  # the same rows and draws
    lines = [line for line in samples if line.get("set") == "easy" and line["which"] == "trained"]
    assert len(lines) == easy["trained"]["n"] and all(line["prompt"].startswith("use ") for line in lines)


def test_all_rows_of_the_probes_are_held_out_in_the_form_of_the_model(tmp_path):
    template = 'eval.sets.agreement.prompt_template="Human: {question}\\n"'
    cfg = compose_config([*SMALL, *SFT, "eval=probes", "eval.rows=512", template, "device=cpu"])
    tokenizer = load_tokenizer(resolve_model(cfg, tmp_path))
    for name, of in cfg.sets.items():
        rows = load_held_out(of, tokenizer, "test", of.eval.limit).eval
        assert len(rows) == len(read_jsonl(ROOT / "sweeps" / "probes" / f"{name}.jsonl")) >= 15
        assert all(row["prompt"].startswith("Human: ") and row["prompt"].endswith("\n") for row in rows)

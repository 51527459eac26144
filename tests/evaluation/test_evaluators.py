"""Before and after of one policy, without the training between: what was saved is the start model itself."""

import json
import math
import shutil

import pytest

from rlhf_exp.evaluation.evaluators import PolicyEvaluator
from tests.building import load_experiment

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

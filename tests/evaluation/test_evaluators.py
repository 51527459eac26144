"""Before and after of one policy, without the training between: what was saved is the start model itself."""

import json
import math
import shutil

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation.evaluators import PolicyEvaluator
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_tokenizer, resolve_model
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.tasks import load_task

SMALL = ["max_tokens=4", "eval.rows=8", "device=cpu", "model=tiny_gpt2", "model.init.max_position_embeddings=1024",
         "model.init.hidden_size=16", "model.init.num_hidden_layers=1", "task=hh_rlhf", "task.source=generated",
         "task.train_rows=8"]  # fmt: skip
DPO, SFT = ["algo=dpo", "reward=none"], ["algo=sft", "reward=none"]


def measure(tmp_path, *overrides):
    """evaluation.json, of the start model twice."""
    cfg = compose_config([*SMALL, f"eval.cache_dir={tmp_path / 'cache'}", *overrides])
    source = resolve_model(cfg, tmp_path)
    tokenizer = load_tokenizer(source)
    folder, task = RunFolder(tmp_path, {}), load_task(cfg, tokenizer)
    evaluator = PolicyEvaluator(Experiment(cfg, folder, source, tokenizer, task, []))
    evaluator.measure_start_model()
    shutil.copytree(source.path, tmp_path / "model")
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

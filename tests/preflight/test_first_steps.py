"""The checks of the first steps: each fails on a trainer that breaks just what it checks, and else all pass."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rlhf_exp.callbacks.compute import ComputeMeter
from rlhf_exp.errors import ConfigError, FailedCheck
from rlhf_exp.forms import UNPAIR
from rlhf_exp.preflight import FILE, first_steps
from rlhf_exp.preflight.first_steps import FirstSteps
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.trainers import build_trainer
from tests.building import DISTILL_8, QUIET, ROLLOUTS_OF_8, UNTRAINED, build_experiment, reward_length_of_7

PROMPTS = [{"id": str(i), "prompt": f"use {i + 2} 7 3 make 53 ."} for i in range(32)]
PAIRS = [row | {"chosen": " <think> 8 * 7", "rejected": f" <think> {i} + 3"} for i, row in enumerate(PROMPTS)]
UNPAIRED = [row | {"completion": f" <think> {i} * 7", "label": i % 2 == 0} for i, row in enumerate(PROMPTS)]
ROWS = {"sft": UNPAIRED, "dpo": PAIRS, "kto": UNPAIRED, "reward_model": PAIRS}
STEPS = ["++algo.args.max_steps=9", "++algo.args.learning_rate=0.01", "++algo.args.warmup_steps=2"]
EPOCHS = ["algo.args.num_iterations=2", "++algo.args.max_steps=12"]
LORA = ["peft=lora", "peft.lora.r=2"]
BROKEN = Path(__file__).with_name("broken.py")


def make(folder, algo, *overrides):
    """The experiment of a tiny model on 32 rows, with a reward where the algorithm samples."""
    samples = algo in ROLLOUTS_OF_8
    of_algo = {**ROLLOUTS_OF_8, "distill": DISTILL_8}.get(
        algo, [f"algo={algo}", "algo.args.per_device_train_batch_size=8"]
    )
    of_algo = [*of_algo, *["reward=outcome"] * samples, "max_tokens=16"]
    return build_experiment(
        folder, *UNTRAINED, *QUIET, *of_algo, *overrides, rows=ROWS.get(algo, PROMPTS),
        reward=reward_length_of_7 if samples else None,
    )  # fmt: skip


def watch(folder, algo, *overrides):
    """The checks of a short run by name; raises what ended it."""
    experiment = make(folder, algo, *STEPS, *overrides)
    experiment = replace(experiment, folder=RunFolder.create(folder, {}))
    trainer = build_trainer(experiment)
    ComputeMeter().watch(trainer)
    trainer.add_callback(FirstSteps(trainer, experiment))
    ended = None
    try:
        trainer.train()
    except FailedCheck as error:
        ended = str(error)
    return {one["name"]: one for one in json.loads((folder / FILE).read_text())["checks"]}, ended


@pytest.mark.parametrize(
    ("algo", "overrides"),
    [
        *((algo, []) for algo in ("sft", "dpo", "kto", "reward_model", "grpo", "rloo", "ppo", "distill")),
        ("ppo", ["algo.args.critic=separate", "algo.args.critic_warmup_steps=3"]),
        *((algo, LORA) for algo in ("dpo", "ppo")),
        ("grpo", [*EPOCHS, "algo.args.temperature=0.7", "+algo.args.top_p=0.999"]),
        ("grpo", ["generation=trl"]),
        ("dpo", ["algo.args.precompute_ref_log_probs=false"]),
    ],
)
def test_all_checks_pass_on_every_algorithm(tmp_path, algo, overrides):
    checks, error = watch(tmp_path, algo, *overrides)
    assert error is None
    found = {name: check["status"] for name, check in checks.items()}
    expected = dict.fromkeys(("parameters_change", "gradients_are_finite", "policy_is_reference"), "passed")
    expected |= {"policy_is_reference": "skipped"} if algo in ("sft", "reward_model", "distill") else {}
    known = "skipped" if "generation=trl" in overrides or algo == "distill" else "passed"
    online = algo in (*ROLLOUTS_OF_8, "distill")
    expected |= {"sampling_is_the_policy": known} if online else {"rows_teach": "passed"}
    assert found == expected, checks


@pytest.mark.parametrize(
    ("algo", "length", "alike", "found"),
    [
        ("dpo", 12, 32, "preflight, rows_teach: the trainer holds "),
        ("kto", 12, 8, {"held": 64, "left_out": 0, "idle": 16}),
        ("reward_model", "null", 8, {"held": 32, "left_out": 0, "idle": 8}),
        ("reward_model", 12, 8, {"held": 24, "left_out": 8, "idle": 0}),
        ("sft", 7, 0, "algo.args.max_length=7: leaves the trainer none of the "),
        ("sft", 8, 4, {"held": 28, "left_out": 4, "idle": 0}),
    ],
)
def test_rows_that_are_left_out_or_that_teach_nothing_are_counted(tmp_path, monkeypatch, algo, length, alike, found):
    """Of 32 pairs `alike` are the same as far as the length goes, or in full, and longer than the others. Of sft so
    many prompts fill the length."""
    same = {"chosen": " 8 * 7 = 56 ; 7", "rejected": " 8 * 7 = 56 ; 3" if length != "null" else " 8 * 7 = 56 ; 7"}
    pairs = [row | (same if i < alike else {"chosen": " 8", "rejected": " 3"}) for i, row in enumerate(PAIRS)]
    longer = [row | {"prompt": row["prompt"] + " make" * (i < alike)} for i, row in enumerate(PROMPTS)]
    full = [row | {"completion": " 8"} for row in longer]
    monkeypatch.setitem(ROWS, algo, {"kto": UNPAIR.spread(pairs), "sft": full}.get(algo, pairs))
    if isinstance(found, str):
        with pytest.raises(ConfigError, match=f"^{found}"):
            watch(tmp_path, algo, f"algo.args.max_length={length}")
    else:
        check = watch(tmp_path, algo, f"algo.args.max_length={length}")[0]["rows_teach"]
        assert check["status"] == "warned" and check["figures"] == found
        assert check["remedy"] == ("algo.args.max_length=null" if length != "null" else None)


def test_a_model_with_dropout_is_not_compared(tmp_path, monkeypatch):
    make = first_steps.FirstSteps.on_train_begin

    def begin(self, *args, **kwargs):
        self._trainer.model.add_module("dropped", torch.nn.Dropout(0.1))
        make(self, *args, **kwargs)

    monkeypatch.setattr(first_steps.FirstSteps, "on_train_begin", begin)
    checks, error = watch(tmp_path, "grpo")
    skipped = {name for name, check in checks.items() if check["evidence"] == "dropout changes what is compared"}
    assert error is None and skipped == {"policy_is_reference", "sampling_is_the_policy"}


@pytest.mark.parametrize(
    ("algo", "trainer", "overrides", "broken", "said"),
    [
        ("grpo", "Frozen", [], "parameters_change", "does not train model.layers.0.mlp.up_proj"),
        ("grpo", "LeftOut", [], "parameters_change", "does not train model.norm.weight"),
        ("grpo", "Thawed", LORA, "parameters_change", "model.norm.weight must not"),
        ("grpo", "MovingReference", ["algo.args.beta=0.05"], "parameters_change", "reference.model"),
        ("grpo", "OtherReference", ["algo.args.beta=0.05"], "policy_is_reference", "kl is"),
        ("dpo", "OtherReferenceDPO", ["algo.args.precompute_ref_log_probs=false"], "policy_is_reference",
         "should be 0.6931"),
        ("ppo", "OtherRatio", [], "policy_is_reference", "ppo/ratio is 1.105 and should be 1"),
        ("grpo", "Stale", [], "sampling_is_the_policy", "sampling has other weights"),
        ("grpo", "Infinite", [], "gradients_are_finite", "at step 1 model."),
    ],
)  # fmt: skip
def test_a_trainer_that_breaks_one_thing_ends_the_run_by_that_check(tmp_path, algo, trainer, overrides, broken, said):
    checks, error = watch(tmp_path, algo, f"algo.trainer={BROKEN}:{trainer}", *overrides)
    assert checks[broken]["status"] == "failed", checks
    assert [name for name, check in checks.items() if check["status"] == "failed"] == [broken]
    assert error.startswith(f"preflight, {broken}: ") and said in error
    assert error.endswith("; preflight=off skips the checks")

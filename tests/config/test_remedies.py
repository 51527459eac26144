"""Each remedy of a finding is one that the program takes: over all algorithms, through the checks of a run."""

import math
from dataclasses import asdict
from functools import cache

import pytest

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.analysis.diagnose import diagnose
from rlhf_exp.analysis.diagnose.calibration import Calibration
from rlhf_exp.config.checks import choose_remedy, join_remedies
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.runs.records import Evaluation
from tests.analysis.diagnose.cases import ANY_SCORE, HEALTHY, interval, make_evaluation, make_metrics

RUNS = [
    ["algo=grpo"],
    ["algo=grpo", "peft=lora", "loss_type=dr_grpo", "train_tokens=1000"],
    ["algo=grpo", "algo.args.num_generations=128", "algo.args.per_device_train_batch_size=128"],
    ["algo=grpo", "algo.args.num_generations=6", "algo.args.per_device_train_batch_size=18"],
    ["algo=ppo"],
    ["algo=ppo", "algo.args.target_kl=0.5"],
    ["algo=rloo"],
    ["algo=dpo"],
    ["algo=kto"],
    ["algo=sft"],
    ["algo=sft", "algo.args.max_steps=-1", "+algo.args.num_train_epochs=2"],
    ["algo=reward_model", "reward=none"],
]
STARTS = ({"correct": 8, "partial": 12, "failed": 12}, {"correct": 0, "partial": 12, "failed": 20})
"""Held-out outcomes of the start model: one that is sometimes right, and one that never is."""


@cache
def find_all(overrides, room=None):
    """Every finding that two trainings with these settings can have, whose start models differ; each alone, so that it
    has its own remedy."""
    config = asdict(compose_config(["device=cpu", *overrides]))
    algo = config["algo"]["name"] if config["algo"]["name"] in HEALTHY else "dpo"
    algo = "grpo" if ALGORITHMS[config["algo"]["name"]].compares_groups else algo
    found = []
    for counts in STARTS:
        courses = {
            "loss": lambda x: math.nan if x > 0.9 else 0.01,
            "ppo/kl": lambda x: x,
            "outcome/correct": lambda x: 0.0,
            "frac_reward_zero_std": lambda x: 0.99,
            "completions/clipped_ratio": lambda x: 0.05 + 0.8 * x,
        }
        evaluation = make_evaluation(0.0, counts=counts, algo=algo)
        for side, loss in (("baseline", 0.69), ("trained", 0.8)):
            evaluation[side]["loss"] = interval(loss, 0.02)
        metrics = make_metrics(algo, courses | {"validation/accuracy": lambda x: 0.5 - 0.1 * x})
        for name in ("", *ANY_SCORE.scores):
            alone = Calibration({name: [-1e6] * 4}, [], {name: [1, 1]})
            config["monitor"]["ignore"] = [] if name == "nonfinite_loss" else ["nonfinite_loss"]  # that is always there
            several = diagnose(metrics, Evaluation(**evaluation), config, room, calibration=alone).findings
            found += [finding for finding in several if finding.name == name or not name]
    return found


BY_HAND = {
    "reward_model_at_chance", "control_arm", "misses_end_of_text", "wrong_reference",
    "policy_stands_still",
}  # fmt: skip
"""Rules that may know no setting to change."""


@pytest.mark.parametrize("overrides", RUNS, ids=" ".join)
def test_every_remedy_passes_the_checks_of_a_run(overrides):
    findings = find_all(tuple(overrides))
    assert len(findings) >= 4
    assert [finding.name for finding in findings if not finding.remedy and finding.name not in BY_HAND] == []
    for remedy in {finding.remedy for finding in findings} - {None, "algo=sft"}:  # the choice of a group
        build_args(compose_config(["device=cpu", *overrides, remedy]))


def find_remedy(name, overrides, room=None):
    return next(finding.remedy for finding in find_all(tuple(overrides), room) if finding.name == name)


def test_ppo_is_held_by_the_price_of_its_kl_and_dpo_by_its_rate():
    assert find_remedy("kl_drift", ["algo=ppo"]) == "algo.args.init_kl_coef=0.05"
    assert find_remedy("kl_drift", ["algo=ppo", "algo.args.target_kl=0.5"]) == "algo.args.target_kl=0.25"
    assert find_remedy("entropy_collapse", ["algo=dpo"]) == "algo.args.learning_rate=5e-05"


def test_a_group_grows_to_the_nearest_that_the_batch_holds():
    batch = "algo.args.per_device_train_batch_size"
    assert find_remedy("no_reward_variance", ["algo=grpo", "algo.args.num_generations=6", f"{batch}=18"]) == (
        "algo.args.num_generations=9"
    )
    whole = ["algo=grpo", "algo.args.num_generations=128", f"{batch}=128"]
    assert find_remedy("no_reward_variance", whole) == f"{batch}=256"


@pytest.mark.parametrize(("room", "remedy"), [(None, "max_tokens=192"), (150, "max_tokens=150"), (96, None)])
def test_a_larger_budget_stays_within_the_models_context(room, remedy):
    assert find_remedy("truncation", [], room) == remedy


def test_where_no_remedy_passes_there_is_none():
    assert choose_remedy(asdict(compose_config(["algo=dpo"])), ["+algo.args.entropy_coef=0.01"]) is None


@pytest.mark.parametrize(
    ("remedies", "joined"),
    [
        (["max_tokens=64", "algo.args.beta=0.1", "max_tokens=192"], ["max_tokens=64", "algo.args.beta=0.1"]),
        (["reward=outcome", "reward.weights.outcome=0.25"], ["reward=outcome"]),
        (["reward.weights.overlong=0.0625", "reward=outcome"], ["reward.weights.overlong=0.0625"]),
        (["algo.args.num_generations=7", "algo.args.beta=0.1"], ["algo.args.beta=0.1"]),  # no batch holds groups of 7
    ],
)
def test_remedies_are_joined_so_that_the_program_takes_them_together(remedies, joined):
    config = asdict(compose_config(["device=cpu"]))
    found = join_remedies(config, remedies)
    assert found == joined
    build_args(compose_config(["device=cpu", *found]))

"""What a failure of a known kind is called, and what is no failure: tables of constructed runs."""

import math

import pytest

from rlhf_exp.diagnose import diagnose, find_alarms, score_run
from rlhf_exp.diagnose.calibration import Calibration
from rlhf_exp.diagnose.rules import RULES
from tests.diagnose.cases import (
    ANY_SCORE,
    CONFIG,
    HEALTHY,
    by_length,
    find,
    interval,
    make_calibration,
    make_config,
    make_evaluation,
    make_metrics,
)

FLAT = {"difference": 0.0, "win_rate": 0.5}

SILENT = {  # kind of failure: the rule that names it, algorithm, courses, evaluation
    "kl of 80 nats": ("held_out_kl", "grpo", {}, {"kl": {"mean": interval(80, 2)}}),
    "kl on the probe": ("kl_drift", "grpo", {"probe/kl": lambda x: 2 * x}, {}),
    "ppo's own kl": ("kl_drift", "ppo", {"ppo/kl": lambda x: 80 * x}, {}),
    "entropy of own samples": ("entropy_collapse", "grpo", {"entropy": lambda x: max(0.4 - x, 1e-4)}, {}),
    "entropy gone from the first row": ("entropy_collapse", "grpo", {"entropy": lambda x: 1e-4}, {}),
    "entropy explosion": ("entropy_explosion", "grpo", {"entropy": lambda x: 0.4 + 4 * x}, {}),
    "reward without gain": (
        "reward_without_gain",
        "grpo",
        {"reward": lambda x: 0.3 + 0.6 * x},
        FLAT | {"win_rate": 0.3},
    ),
    "correct to failed": (
        "failed_rising",
        "grpo",
        {"outcome/correct": lambda x: 0.3 - 0.25 * x, "outcome/failed": lambda x: 0.1 + 0.7 * x},
        {},
    ),
    "reward falls": ("reward_fell", "grpo", {"reward": lambda x: 0.3 - 0.3 * x}, {}),
    "length 60 to 1": ("length_collapse", "grpo", {"completions/mean_length": lambda x: 60 - 59 * x}, {}),
    "length explosion": ("length_explosion", "grpo", {"completions/mean_length": lambda x: 60 + 300 * x}, {}),
    "distinct-2": ("mode_collapse", "grpo", {"completions/distinct_2": lambda x: 0.3 - 0.29 * x}, {}),
    "distinct-2 on held-out rows": (
        "mode_collapse",
        "grpo",
        {"completions/distinct_2": None},
        {"distinct": {"2": 0.01}},
    ),
    "explained variance": ("explained_variance", "ppo", {"ppo/explained_variance": lambda x: -3.0}, {}),
    "value loss": ("value_loss_spike", "ppo", {"ppo/value_loss": lambda x: 0.1 if x < 0.5 else 1e4}, {}),
    "clip fraction": ("clip_fraction", "ppo", {"ppo/clip_fraction": lambda x: 0.95}, {}),
    "coefficient": ("kl_coefficient_runs_away", "ppo", {"ppo/kl_coef": lambda x: 0.05 * math.exp(6 * x)}, {}),
    "above target": ("kl_above_target", "ppo", {"ppo/kl": lambda x: 12.0 * x}, {}),
    "critic collapse": (
        "critic_collapse",
        "ppo",
        {
            "ppo/explained_variance": lambda x: 0.5 - 3 * max(0, x - 0.5),
            "completions/mean_length": lambda x: 45 - 40 * max(0, x - 0.5),
        },
        {},
    ),
    "gradient times 1e4": ("gradient_spike", "grpo", {"grad_norm": lambda x: 0.5 if x < 0.6 else 5e3}, {}),
    "negative kl": ("negative_kl", "grpo", {"kl_k1": lambda x: -0.2 * x}, {}),
    "negative kl of ppo": ("negative_kl", "ppo", {"kl_k1": None, "ppo/kl": lambda x: -9 * x}, {}),
    "chosen likelihood": ("chosen_falls", "dpo", {"logps/chosen": lambda x: -8 - 100 * x}, {}),
    "format farming": (
        "format_farming",
        "grpo",
        {"outcome/correct": lambda x: 0.3 - 0.2 * x, "outcome/partial": lambda x: 0.5 + 0.4 * x},
        {},
    ),
    "a component": ("one_component_carries_the_reward", "grpo", {"rewards/format/mean": lambda x: 0.3 + 0.7 * x}, {}),
    "over-optimisation": (
        "over_optimisation",
        "grpo",
        {
            "outcome/correct": lambda x: 0.25 + 0.3 * x if x < 0.4 else 0.37 - 0.5 * (x - 0.4),
            "rewards/model/mean": lambda x: 0.3 + 2 * x,
        },
        {},
    ),
    "reward model says nothing": ("reward_model_flat", "grpo", {"rewards/model/std": lambda x: math.exp(-8 * x)}, {}),
    "no signal": ("no_reward_variance", "grpo", {"frac_reward_zero_std": lambda x: 0.99}, {}),
    "always one reward, without groups": ("no_reward_variance", "ppo", {"reward_std": lambda x: 0.0}, {}),
    "reward flat": ("reward_flat", "grpo", {"reward": lambda x: 0.3 - 0.15 * x}, {}),
    "rate too low": ("policy_stands_still", "grpo", {"probe/kl": lambda x: 1e-12}, {}),
    "truncation that costs": (
        "truncation",
        "grpo",
        {"completions/clipped_ratio": lambda x: 0.05 + 0.8 * x, "outcome/correct": lambda x: 0.25 - 0.1 * x},
        {},
    ),
    "sampling apart": (
        "sampled_apart_from_trained",
        "grpo",
        {"sampling/sampling_logp_difference/mean": lambda x: 0.3},
        {},
    ),
    "cut sampling": ("sampled_apart_from_trained", "grpo", {"ratio/mean": lambda x: 0.7}, {}),
    "no reasoning": ("answers_without_reasoning", "grpo", {}, {"cut_reasoning": {"passed": interval(0.9, 0.05)}}),
    "accuracy": ("accuracy_fell", "grpo", {}, {"difference": -0.15}),
    "memory of training rows": ("train_above_held_out", "grpo", {"outcome/correct": lambda x: 0.25 + 0.7 * x}, FLAT),
    "best checkpoint": (
        "best_checkpoint_earlier",
        "grpo",
        {"validation/accuracy": lambda x: 0.3 + 0.3 * min(x, 1 - x)},
        {},
    ),
    "no end token": ("misses_end_of_text", "grpo", {"completions/clipped_ratio": lambda x: 1.0}, {}),
    "a critic without a loss": ("explained_variance", "ppo", {"ppo/explained_variance": lambda x: 0.0}, {}),
    "reward model at chance": ("reward_model_at_chance", "reward_model", {}, {"accuracy": interval(0.5, 0.04)}),
    "labels flipped": ("reward_model_at_chance", "reward_model", {}, {"accuracy": interval(0.2, 0.04)}),
    "length only": ("ranks_by_length", "reward_model", {}, {"by_length": by_length(0.05, 0.95)}),
}
CALIBRATED_ELSEWHERE = {"reward_model_flat"}
"""No healthy run of the constructed calibration has a reward model."""


@pytest.mark.parametrize("kind", SILENT)
def test_each_kind_of_failure_is_named(kind):
    name, algo, courses, changes = SILENT[kind]
    config = make_config(algo, {"learning_rate": 1e-3}, reward={"weights": {"outcome": 1.0, "format": 1.0}})
    config["algo"]["target_kl"] = 3.0
    calibration = make_calibration()
    if name in CALIBRATED_ELSEWHERE:
        calibration = Calibration(calibration.scores | {name: [0.003 * i for i in range(40)]})
    metrics = make_metrics(algo, courses, seed=7)
    report = diagnose(metrics, make_evaluation(algo=algo, **changes), config, calibration=calibration)
    found = {finding["name"]: finding for finding in report["findings"]}
    assert name in found
    assert report["health"] == "warning"
    assert found[name]["score"] > calibration.thresholds[name]
    assert len(found) <= 7


def test_the_table_has_every_rule_that_accuses():
    others = {
        "nonfinite_loss",
        "overfitting",
        "length_bias",
        "reward_apart_from_outcome",
        "wrong_reference",
    }  # tests of their own
    assert {name for name, *_ in SILENT.values()} | others == {of.name for of in RULES if of.severity != "info"}


@pytest.mark.parametrize("algo", HEALTHY)
@pytest.mark.parametrize("seed", [101, 102, 103])
def test_a_healthy_run_is_not_accused(algo, seed):
    assert find(algo, seed=seed) == {}


def peak(x):
    return 3.0 if abs(x - 0.5) < 0.02 else 0.1 * x


WRONGLY_ACCUSED = {
    "one point of the probe": (HEALTHY["grpo"] | {"probe/kl": peak}, {}, 40),
    "one gradient": ({"grad_norm": lambda x: 5e3 if x == 0.5 else 0.5}, {}, 41),
    "format farming of two steps": (
        {"outcome/correct": lambda x: 0.3 - 0.2 * x, "outcome/partial": lambda x: 0.5 + 0.3 * x},
        {"difference": 0.094},
        2,
    ),
    "cut as often at the start": (
        {"completions/clipped_ratio": lambda x: 0.5},
        {"truncation_rate": interval(0.5, 0.04), "begin": {"truncation_rate": interval(0.5, 0.04)}},
        40,
    ),
    "cut more often, and more are right": (
        {"completions/clipped_ratio": lambda x: 0.02 + 0.12 * x, "outcome/correct": lambda x: 0.2 + 0.25 * x},
        {},
        40,
    ),
    "no reward variance early alone": ({"frac_reward_zero_std": lambda x: 0.95 if x < 0.02 else 0.1}, {}, 40),
}


@pytest.mark.parametrize("kind", WRONGLY_ACCUSED)
def test_what_is_harmless_is_not_accused(kind):
    courses, changes, rows = WRONGLY_ACCUSED[kind]
    metrics = make_metrics("grpo", courses, rows=rows)
    report = diagnose(metrics, make_evaluation(**changes), CONFIG, calibration=make_calibration())
    assert [finding["name"] for finding in report["findings"]] == []


STILL = {name: lambda x: 0.5 for name in ("reward", "rewards/constant/mean")}
STILL |= {"frac_reward_zero_std": lambda x: 1.0, "reward_std": lambda x: 0.0, "probe/kl": lambda x: 1e-12}
STILL |= {"outcome/correct": lambda x: 0.25}


def test_a_control_arm_is_judged_as_such():
    config = make_config(reward={"weights": {"constant": 1.0}})
    report = diagnose(make_metrics("grpo", STILL), make_evaluation(**FLAT), config, calibration=make_calibration())
    assert [finding["name"] for finding in report["findings"]] == ["control_arm"]
    assert report["health"] == "ok"
    assert "changed by +0.0 points" in report["findings"][0]["evidence"]
    other = make_config(reward={"weights": {"outcome": 1.0}})
    report = diagnose(make_metrics("grpo", STILL), make_evaluation(**FLAT), other, calibration=make_calibration())
    assert {"no_reward_variance", "policy_stands_still"} <= {finding["name"] for finding in report["findings"]}


@pytest.mark.parametrize(
    ("top_p", "kl", "told"),
    [(0.9, lambda x: -0.02 * x, True), (0.9, lambda x: 0.02 * x, False), (1.0, lambda x: -0.02 * x, False)],
)
def test_a_sampled_kl_below_0_is_explained_by_the_cut_of_sampling_without_accusing(top_p, kl, told):
    config = make_config(args={"top_p": top_p})
    report = diagnose(make_metrics("grpo", {"kl_k1": kl}), make_evaluation(), config, calibration=make_calibration())
    found = {finding["name"]: finding for finding in report["findings"]}
    assert ("sampled_kl_is_cut" in found, report["health"]) == (told, "ok")
    if told:
        assert found["sampled_kl_is_cut"]["remedy"] == "algo.args.top_p=1"
        assert found["sampled_kl_is_cut"]["sureness"]["text"].startswith("no level applies: ")


def test_no_higher_rate_is_proposed_where_no_group_has_signal():
    """budget_too_small: no completion was right, and the rate that it was told to raise broke the mended run."""
    courses = {"probe/kl": lambda x: 1e-12, "frac_reward_zero_std": lambda x: 1.0}
    metrics = make_metrics("grpo", courses)
    found = diagnose(metrics, make_evaluation(**FLAT), make_config(), calibration=make_calibration())["findings"]
    remedies = {finding["name"]: finding["remedy"] for finding in found}
    assert remedies["policy_stands_still"] is None
    assert remedies["no_reward_variance"] is not None


BELOW = {"kl_k1": lambda x: -0.2 * x - 0.001}
APART = BELOW | {"sampling/sampling_logp_difference/mean": lambda x: 0.3}


@pytest.mark.parametrize(
    ("courses", "args", "cause", "remedy"),
    [
        (BELOW, {"top_p": 0.8}, "top_p=0.8", "algo.args.top_p=1"),
        ({"kl_k1": lambda x: -0.2}, {}, "another model", "+algo.args.beta=0.05"),
        (APART, {}, "padding", "+algo.args.beta=0.05"),
    ],
)
def test_the_cause_of_a_negative_kl_is_told_apart(courses, args, cause, remedy):
    finding = find(courses=courses, config=make_config("grpo", args))["negative_kl"]
    assert cause in finding["cause"]
    assert finding["remedy"] == remedy


LONGER = ["algo.args.num_generations=32", "+algo.args.max_steps=800"]


@pytest.mark.parametrize(
    ("correct", "course", "task", "remedies"),
    [
        (0, 0.0, {"name": "countdown"}, ["algo=sft"] * 2),
        (0, 0.0, {"name": "file", "completion_column": "good"}, ["algo=sft"] * 2),
        (0, 0.0, {"name": "file", "completion_column": None}, [None] * 2),
        (1, 0.0, {"name": "countdown"}, LONGER),
        (0, 0.05, {"name": "countdown"}, LONGER),
    ],
)
def test_only_a_start_with_no_right_answer_is_told_to_begin_with_sft(correct, course, task, remedies):
    courses = {"outcome/correct": lambda x: course, "frac_reward_zero_std": lambda x: 0.99}
    evaluation = make_evaluation(**FLAT, counts={"correct": correct, "partial": 4, "failed": 28 - correct})
    report = diagnose(
        make_metrics("grpo", courses), evaluation, CONFIG | {"task": task}, calibration=make_calibration()
    )
    found = {finding["name"]: finding for finding in report["findings"]}
    both = [found[name] for name in ("no_reward_variance", "no_measurable_gain")]
    assert [finding["remedy"] for finding in both] == remedies
    hopeless = [finding["cause"].startswith("the start model has none of 32") for finding in both]
    assert hopeless == [remedies != LONGER] * 2


def test_solved_problems_need_no_more_steps():
    courses = {"outcome/correct": lambda x: 0.95, "frac_reward_zero_std": lambda x: 0.99}
    finding = find(courses=courses, config=CONFIG)["no_reward_variance"]
    assert finding["remedy"] == "+algo.args.max_steps=310"


def test_rewards_that_never_differ_are_no_matter_of_the_group():
    courses = {"frac_reward_zero_std": lambda x: 1.0, "reward_std": lambda x: 0.0}
    config = make_config(args={"num_generations": 8}, reward={"weights": {"mine": 1.0}})
    assert find(courses=courses, config=config)["no_reward_variance"]["remedy"] == "reward=outcome"


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_what_is_not_finite_is_certain(value):
    finding = find(courses={"loss": lambda x: value if x == 1 else 0.01}, config=CONFIG)["nonfinite_loss"]
    assert (finding["severity"], finding["steps"], finding["score"]) == ("error", [400, 400], None)
    assert finding["remedy"] == "algo.args.learning_rate=0.00025"


def make_losses(baseline, trained, width, **paired):
    """An evaluation with held-out losses, of half the given width about each value."""
    sides = {side: {"loss": interval(x, width)} for side, x in {"baseline": baseline, "trained": trained}.items()}
    return sides | ({"paired": {"loss": paired}} if paired else {})


def find_overfitting(evaluation, algo, training, args=None):
    metrics = [{"step": i + 1, "loss": 0.7 if i < 60 else training} for i in range(100)]
    calibration = Calibration({"overfitting": [0.0, 0.0, 0.1, 0.6] * 5})
    report = diagnose(
        metrics, evaluation, make_config(algo, {"learning_rate": 1e-3} | (args or {})), calibration=calibration
    )
    return [finding for finding in report["findings"] if finding["severity"] != "info"]


@pytest.mark.parametrize(
    ("held_out", "training", "found"), [(0.76, 0.06, True), (0.66, 0.06, False), (0.76, 0.58, False)]
)
@pytest.mark.parametrize("algo", ["reward_model", "dpo", "sft"])
def test_a_model_that_remembers_its_rows_overfits(held_out, training, found, algo):
    findings = find_overfitting(make_losses(0.69, held_out, 0.06), algo, training)
    assert [finding["name"] for finding in findings] == ["overfitting"] * found
    if found:
        assert f"its training {'rows' if algo == 'sft' else 'pairs'}" in findings[0]["cause"]
        assert findings[0]["remedy"] == "+algo.args.max_steps=50"
        assert "rose from 0.690 to 0.760, 95% interval 0.700 to 0.820" in findings[0]["evidence"]


@pytest.mark.parametrize(
    ("algo", "args"),
    [
        ("dpo", {"loss_type": ["ipo"]}), ("dpo", {"label_smoothing": 0.1}), ("dpo", {"max_length": 64}),
        ("dpo", {"f_divergence_type": "js_divergence"}), ("sft", {"loss_type": "dft"}), ("sft", {"packing": True}),
        ("sft", {"completion_only_loss": False}), ("sft", {"label_smoothing_factor": 0.1}),
    ],
)  # fmt: skip
def test_a_loss_of_another_form_is_not_held_against_the_held_out_one(algo, args):
    assert find_overfitting(make_losses(0.69, 0.9, 0.1), algo, 0.1, args) == []


@pytest.mark.parametrize(("low", "found"), [(0.005, True), (-0.01, False)])
def test_a_held_out_loss_that_did_not_measurably_rise_is_no_overfitting(low, found):
    evaluation = make_losses(0.30, 0.31, 0.02, value=0.01, low=low, high=0.02 - low)
    assert [finding["name"] for finding in find_overfitting(evaluation, "sft", 0.02)] == ["overfitting"] * found


def test_another_reference_is_named_and_is_no_drift():
    metrics = [row | {"step": i + 1, "kl": 5 - 0.01 * i} for i, row in enumerate(make_metrics("grpo"))]
    scores = make_calibration().scores | {"wrong_reference": [0.0] * 40}
    report = diagnose(metrics, make_evaluation(), make_config(), calibration=Calibration(scores))
    assert [finding["name"] for finding in report["findings"]] == ["wrong_reference"]


@pytest.mark.parametrize(("shift", "found"), [(0, False), (1, True)])
def test_a_reward_of_other_rows_is_named(shift, found):
    outcomes = ["correct", "failed", "failed", "partial"] * 20
    rewards = [float(outcome == "correct") for outcome in outcomes]
    samples = [
        {"which": "baseline", "tokens": 9, "outcome": outcome, "reward": rewards[i - shift]}
        for i, outcome in enumerate(outcomes)
    ]
    calibration = Calibration({"reward_apart_from_outcome": [0.0, 0.1, 0.3, 0.4] * 10})
    report = diagnose(make_metrics("grpo"), {}, make_config(), samples=samples, calibration=calibration)
    assert [finding["name"] for finding in report["findings"]] == ["reward_apart_from_outcome"] * found


@pytest.mark.parametrize(("rate", "remedy"), [(1e-2, "0.001"), (1e-3, "0.00025")])
def test_a_rate_far_from_the_usual_one_is_set_back(rate, remedy):
    config = make_config(args={"learning_rate": rate}, model={"learning_rate": {"grpo": 1e-3}, "parameters": 1000})
    finding = find(courses={"grad_norm": lambda x: 0.5 if x < 0.6 else 5e3}, config=config)["gradient_spike"]
    assert finding["remedy"] == f"algo.args.learning_rate={remedy}"


def test_a_correlation_above_1_by_rounding_is_one_of_1():
    rewards = [1.0] * 7 + [0.1]  # statistics.correlation gives 1.0000000000000002
    samples = [
        {"which": "baseline", "tokens": 9, "reward": reward, "outcome": "correct" if reward == 1 else "failed"}
        for reward in rewards
    ]
    scores = score_run(make_metrics("grpo"), {}, make_config(), samples)
    assert scores["reward_apart_from_outcome"] == 0


def test_a_reward_that_pays_for_length_is_named():
    samples = [
        {"which": which, "id": str(i), "tokens": 10 + i, "outcome": "failed", "reward": (i * 7 % 5 + slope * i) / 40}
        for which, slope in (("baseline", 0), ("trained", 1))
        for i in range(40)
    ]
    calibration = Calibration({"length_bias": [0.01 * i for i in range(20)]})
    report = diagnose([], {}, CONFIG, samples=samples, calibration=calibration)
    assert [finding["name"] for finding in report["findings"]] == ["length_bias"]


def test_a_reward_that_length_explains_before_and_after_has_no_new_bias():
    """Fisher's z, which has no bound, once made a large change of correlations of -0.95 and -1."""
    samples = [
        {"which": which, "id": str(i), "tokens": 10 + i, "outcome": "failed", "reward": noise * (i * 7 % 5) - i}
        for which, noise in (("baseline", 5), ("trained", 0))
        for i in range(40)
    ]
    assert 0 < score_run([], {}, CONFIG, samples)["length_bias"] < 0.2


VALIDATED = make_config("grpo", eval={"every_rows": 128})


def validate(*accuracies):
    """Rows of a run whose validation accuracy is measured at the start, in the middle and at the end."""
    rows = [{"step": 0}, *make_metrics("grpo")]
    for row, accuracy in zip((rows[0], rows[20], rows[40]), accuracies, strict=True):
        row["validation/accuracy"] = accuracy
    return rows


@pytest.mark.parametrize("name", ["accuracy_fell", "over_optimisation"])
def test_validation_rows_confirm_a_fall_of_accuracy(name):
    evaluation = make_evaluation(difference=-0.07)
    steady, falling = (
        score_run(validate(0.25, *later), evaluation, VALIDATED)[name] for later in ((0.25, 0.25), (0.1, 0.03))
    )
    assert falling > 2 * steady + 0.5


def test_a_fall_of_the_test_rows_that_validation_rows_do_not_share_weighs_less():
    evaluation = make_evaluation(difference=-0.07)
    alone = score_run(make_metrics("grpo"), evaluation, VALIDATED)["accuracy_fell"]
    assert score_run(validate(0.25, 0.25, 0.25), evaluation, VALIDATED)["accuracy_fell"] < alone - 0.5


def test_a_fall_has_the_date_of_the_validation_that_shows_it():
    report = diagnose(validate(0.25, 0.1, 0.03), make_evaluation(-0.07), VALIDATED, calibration=make_calibration())
    assert next(found for found in report["findings"] if found["name"] == "accuracy_fell")["steps"] == [200, 400]


def test_a_critic_whose_explained_variance_is_noise_around_0_is_told_from_one_that_says_nothing():
    nothing, noise, wrong = (
        score_run(make_metrics("ppo", {"ppo/explained_variance": course}), {}, make_config("ppo"))["explained_variance"]
        for course in (lambda x: 0.0, lambda x: 0.1 * math.cos(40 * math.pi * x) - 0.01, lambda x: -3.0)
    )
    assert noise < 2 < min(nothing, wrong)


def test_a_finding_shows_three_samples():
    samples = [
        {"which": "trained", "id": f"row {i}", "tokens": 9, "outcome": "partial", "reward": 0.1 * i} for i in range(9)
    ]
    name, algo, courses, _ = SILENT["format farming"]
    assert find(algo, courses, samples=samples)[name]["samples"] == ["row 8", "row 7", "row 6"]


def test_no_change_at_all_is_told_as_such():
    names = ("correct", "partial", "failed")
    changes = {name: dict.fromkeys(names, 0) | {name: 20} for name in names}
    changes["partial"]["failed"] = 4
    paired = {"difference": {"value": 0.0, "low": -0.02, "high": 0.02}, "changes": changes, "n": 64}
    evidence = "not one of 64 held-out rows went from wrong to correct or back"

    def tell():
        return [finding["evidence"] for finding in diagnose([], {"paired": paired}, CONFIG)["findings"]]

    assert tell() == [evidence]
    changes["correct"]["failed"] = changes["failed"]["correct"] = 1
    assert "changed by +0.0 points, 95% interval -2.0" in tell()[0]


def test_what_changed_though_harmless_is_told():
    evaluation = make_evaluation(truncation_rate=interval(0.14, 0.03))
    evaluation["paired"]["truncation_rate"] = interval(0.12, 0.02)
    report = diagnose(make_metrics("grpo", seed=3), evaluation, CONFIG, calibration=make_calibration())
    assert report["health"] == "ok"
    assert any("truncation 2.0% -> 14.0%" in line and "+10.0 to +14.0 points" in line for line in report["changed"])


def test_a_report_says_what_was_checked_and_what_could_not_be():
    metrics = make_metrics("grpo", {"entropy": None, "probe/entropy": None})
    report = diagnose(metrics, {}, CONFIG, calibration=Calibration({"kl_drift": [0.1, 0.2, 0.3, 0.4]}))
    assert report["checked"] == ["kl_drift"]
    assert "gradient_spike" in report["uncalibrated"]
    assert report["missing"]["entropy_collapse"] == ["probe/entropy|entropy"]
    assert "overfitting" not in report["missing"]
    assert "ppo/value_loss" not in str(report["missing"])


def test_a_run_without_metrics_has_no_findings():
    report = diagnose([], {}, CONFIG)
    assert (report["findings"], report["health"], report["changed"]) == ([], "ok", [])


@pytest.mark.parametrize("kind", SILENT)
def test_what_a_running_alarm_says_the_diagnosis_says_too(kind):
    """The course up to a step is the course of the run so far, so that one bound holds for both."""
    _, algo, courses, _ = SILENT[kind]
    metrics, config, calibration = make_metrics(algo, courses, seed=7), make_config(algo), make_calibration()
    whole = {alarm["name"]: alarm["steps"][0] for alarm in find_alarms(metrics, config, calibration=calibration)}
    first = {}
    for rows in range(1, len(metrics) + 1):
        for alarm in find_alarms(metrics[:rows], config, calibration=calibration):
            first.setdefault(alarm["name"], metrics[rows - 1]["step"])
    assert first == whole


def test_how_sure_a_finding_is_comes_from_the_calibration():
    scores = {"reward_fell": [0.01 * i for i in range(30)]}
    calibration = Calibration(scores, [], {"reward_fell": [12, 13]}, parameters=10_000_000)
    metrics = make_metrics("grpo", SILENT["reward falls"][2])
    (finding,) = diagnose(metrics, {}, CONFIG, calibration=calibration)["findings"]
    assert "right in 12 of 13" in finding["sureness"]["text"]
    assert finding["sureness"]["healthy_runs"] == 30
    assert "calibrated on models below 10,000,000" in finding["sureness"]["text"]
    small = CONFIG | {"model": {"parameters": 1e6}}
    (finding,) = diagnose(metrics, {}, small, calibration=calibration)["findings"]
    assert "calibrated on models" not in finding["sureness"]["text"]


def test_findings_are_listed_worst_first():
    courses = SILENT["reward falls"][2] | {"loss": lambda x: math.nan if x > 0.9 else 0.01}
    report = diagnose(make_metrics("grpo", courses), make_evaluation(**FLAT), CONFIG, calibration=ANY_SCORE)
    severities = [finding["severity"] for finding in report["findings"]]
    assert severities == sorted(severities, key=("error", "warning", "info").index)
    assert (severities[0], severities[-1], report["health"]) == ("error", "info", "error")

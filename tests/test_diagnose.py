import math
import re

import pytest

from rlhf_exp.diagnose import diagnose
from rlhf_exp.diagnose.rules import RULES
from tests.config.test_remedies import COLLAPSED

CONFIG = {
    "algo": {"name": "grpo", "args": {"learning_rate": 1e-3, "beta": 0.05, "num_generations": 16}},
    "max_tokens": 64,
}


def make_metrics(courses=None, rows=40):
    """Rows of a healthy run; `courses` replaces those of some keys: functions from 0..1 to the value."""
    courses = {
        "loss": lambda x: 0.01,
        "grad_norm": lambda x: 0.5,
        "outcome/correct": lambda x: 0.25 + 0.2 * x,
        "outcome/partial": lambda x: 0.5 - 0.1 * x,
        "frac_reward_zero_std": lambda x: 0.1,
        "completions/clipped_ratio": lambda x: 0.05,
        "probe/kl": lambda x: 0.2 * x,
        "probe/entropy": lambda x: 1.0 - 0.4 * x,
    } | (courses or {})
    return [
        {"step": 10 * (i + 1)} | {key: course(i / (rows - 1)) for key, course in courses.items()} for i in range(rows)
    ]


def make_evaluation(difference=0.2, truncated=0.05):
    interval = {"value": difference, "low": difference - 0.05, "high": difference + 0.05}
    return {
        "trained": {"truncation_rate": {"value": truncated, "low": 0, "high": 1}},
        "paired": {"difference": interval, "n": 512},
    }


def make_config(algo="grpo", args=None, **values):
    return CONFIG | {"algo": {"name": algo, "args": args or {}}} | values


def find(courses=None, evaluation=None, config=CONFIG):
    return diagnose(make_metrics(courses), make_evaluation() if evaluation is None else evaluation, config)["findings"]


def test_a_run_without_metrics_has_no_findings():
    assert diagnose([], {}, CONFIG) == {"findings": [], "health": "ok"}


FALLS = {"outcome/correct": lambda x: 0.3 - 0.2 * x}
RISES = {"outcome/partial": lambda x: 0.5 + 0.4 * x}
DRIFTS = {"probe/kl": lambda x: x}
EQUAL = {"frac_reward_zero_std": lambda x: 0.9}


@pytest.mark.parametrize(
    ("courses", "evaluation", "found"),
    [
        *(({"loss": lambda x, value=value: value if x == 1 else 0.01}, {},
           ("nonfinite_loss", "error", [400, 400], "algo.args.learning_rate=0.00025", "not finite at step 400"))
          for value in (math.nan, math.inf, None)),
        (DRIFTS, {}, ("kl_drift", "warning", [210, 400], "algo.args.beta=0.1",
                      "reaches 1.00 nats per token, above 0.5 first at step 210")),
        # exp(-4 * 16/39) = 0.194
        ({"probe/entropy": lambda x: 2.0 * math.exp(-4 * x)}, {},
         ("entropy_collapse", "warning", [170, 400], "+algo.args.entropy_coef=0.01", "fell from 2.000 to 0.061 nats")),
        (EQUAL, {}, ("no_reward_variance", "warning", [310, 400], "algo.args.num_generations=32",
                     "90% of the groups had equal rewards, with 43% of the completions correct")),
        (EQUAL | {"outcome/correct": lambda x: 0.9 + 0.1 * x}, {},
         ("no_reward_variance", "warning", [310, 400], "+algo.args.max_steps=310", "90% of the groups")),
        ({"completions/clipped_ratio": lambda x: 0.5}, {},
         ("truncation", "warning", [310, 400], "max_tokens=128",
          "50% of the completions at the end of training and 5% of the held-out ones")),
        ({}, {"truncated": 0.4}, ("truncation", "warning", None, "max_tokens=128", "40%")),
        (FALLS | RISES, {}, ("format_farming", "warning", [10, 400], "algo.args.beta=0.1",
                             "correct fell from 27.7% to 12.3%")),
        ({}, {"difference": -0.1}, ("accuracy_fell", "warning", None, "algo.args.learning_rate=0.0005",
                                    "accuracy changed by -10.0 points, 95% interval -15.0 to -5.0")),
        ({}, {"difference": 0.02}, ("no_measurable_gain", "info", None, "+algo.args.max_steps=800", "+2.0 points")),
        ({}, {}, None),
        ({"frac_reward_zero_std": lambda x: 0.95 if x < 0.6 else 0.5}, {}, None),  # early in training alone
        (FALLS, {}, None),
        (RISES, {}, None),
    ],
)  # fmt: skip
def test_what_deviates_from_a_healthy_run_is_found(courses, evaluation, found):
    report = diagnose(make_metrics(courses), make_evaluation(**evaluation), CONFIG)
    keys = ("name", "severity", "steps", "remedy")
    assert [tuple(finding[key] for key in keys) for finding in report["findings"]] == ([found[:4]] if found else [])
    assert report["health"] == ("ok" if not found or found[1] == "info" else found[1])
    assert not found or found[4] in report["findings"][0]["evidence"]


@pytest.mark.parametrize(("args", "new"), [({"beta": None}, ""), ({}, "+")])
def test_kl_drift_without_beta_asks_for_one(args, new):
    (finding,) = find(DRIFTS, config=make_config(args=args))
    assert finding["remedy"] == f"{new}algo.args.beta=0.05"


@pytest.mark.parametrize("algo", ["sft", "reward_model"])
def test_supervised_training_may_leave_its_start(algo):
    leaves = {"probe/kl": lambda x: 5 * x, "probe/entropy": lambda x: 6 - 5.9 * x}
    assert find(leaves, {}, make_config(algo)) == []


def test_no_change_at_all_is_told_as_such():
    names = ("correct", "partial", "failed")
    changes = {name: dict.fromkeys(names, 0) | {name: 20} for name in names}
    changes["partial"]["failed"] = 4
    paired = {"difference": {"value": 0.0, "low": -0.02, "high": 0.02}, "changes": changes, "n": 64}
    evidence = "not one of 64 held-out rows went from wrong to correct or back"
    assert [finding["evidence"] for finding in find(evaluation={"paired": paired})] == [evidence]
    changes["correct"]["failed"] = changes["failed"]["correct"] = 1
    (finding,) = find(evaluation={"paired": paired})
    assert "changed by +0.0 points, 95% interval -2.0" in finding["evidence"]
    older = {"difference": {"value": 0.0, "low": 0.0, "high": 0.0}, "n": 64}
    assert [finding["evidence"] for finding in find(evaluation={"paired": older})] == [evidence]


def test_one_evaluated_row_has_no_interval_and_no_finding():
    assert find(evaluation={"paired": {"difference": {"value": 0.0, "low": None, "high": None}, "n": 1}}) == []


def test_every_rule_applies_to_a_ruined_run_worst_first():
    findings = find(COLLAPSED, make_evaluation(difference=-0.2))
    others = {"overfitting", "no_measurable_gain"}  # grpo has no held-out loss; the accuracy fell
    assert {finding["name"] for finding in findings} == {find.__name__ for _, find in RULES} - others
    assert [finding["severity"] for finding in findings] == ["error"] + ["warning"] * (len(RULES) - 3)
    for finding in findings:
        assert re.fullmatch(r"\+?[a-z_.]+=[0-9.e-]+", finding["remedy"]), finding["remedy"]
        assert re.search(r"\d", finding["evidence"])


def make_losses(baseline, trained, width, **paired):
    """An evaluation with held-out losses, of half the given width about each value."""
    values = {"baseline": baseline, "trained": trained}
    sides = {side: {"loss": {"value": x, "low": x - width, "high": x + width}} for side, x in values.items()}
    return sides | ({"paired": {"loss": paired}} if paired else {})


@pytest.mark.parametrize(
    ("held_out", "training", "found"), [(0.76, 0.58, True), (0.66, 0.58, False), (0.76, 0.75, False)]
)
@pytest.mark.parametrize("algo", ["reward_model", "dpo", "sft"])
def test_a_model_that_remembers_its_rows_overfits(held_out, training, found, algo):
    metrics = [{"step": i + 1, "loss": 0.7 if i < 60 else training} for i in range(100)]
    config = make_config(algo, {"learning_rate": 1e-3})
    findings = diagnose(metrics, make_losses(0.69, held_out, 0.06), config)["findings"]
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
    found = diagnose([{"step": 1, "loss": 0.1}], make_losses(0.69, 0.9, 0.1), make_config(algo, args))
    assert found["findings"] == []


@pytest.mark.parametrize("algo", ["sft", "reward_model"])
@pytest.mark.parametrize(("low", "found"), [(0.01, True), (-0.01, False)])
def test_a_held_out_loss_that_did_not_measurably_rise_is_no_overfitting(low, found, algo):
    evaluation = make_losses(0.30, 0.31, 0.02, value=0.01, low=low, high=0.03)
    findings = diagnose([{"step": 1, "loss": 0.2}], evaluation, make_config(algo))["findings"]
    assert [finding["name"] for finding in findings] == ["overfitting"] * found


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
    counts = {"correct": correct, "partial": 4, "failed": 28 - correct}
    evaluation = make_evaluation(difference=0.0) | {"baseline": {"counts": counts}}
    found = find(courses, evaluation, CONFIG | {"task": task})
    assert [finding["name"] for finding in found] == ["no_reward_variance", "no_measurable_gain"]
    assert [finding["remedy"] for finding in found] == remedies
    hopeless = [finding["cause"].startswith("the start model has none of 32") for finding in found]
    assert hopeless == [remedies != LONGER] * 2

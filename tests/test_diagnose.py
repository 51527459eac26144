import math
import re

import pytest

from rlhf_exp.diagnose import diagnose
from rlhf_exp.diagnose.rules import RULES

CONFIG = {
    "algo": {"name": "grpo", "args": {"learning_rate": 1e-3, "beta": 0.05, "num_generations": 16}},
    "max_tokens": 64,
}


def make_metrics(rows=40, **series):
    """Rows of a healthy run; a key's value replaces its course: a function from 0..1 to the value."""
    courses = {
        "loss": lambda x: 0.01,
        "grad_norm": lambda x: 0.5,
        "outcome/correct": lambda x: 0.25 + 0.2 * x,
        "outcome/partial": lambda x: 0.5 - 0.1 * x,
        "frac_reward_zero_std": lambda x: 0.1,
        "completions/clipped_ratio": lambda x: 0.05,
        "probe/kl": lambda x: 0.2 * x,
        "probe/entropy": lambda x: 1.0 - 0.4 * x,
    } | {key.replace("__", "/"): course for key, course in series.items()}
    return [
        {"step": 10 * (i + 1)} | {key: course(i / (rows - 1)) for key, course in courses.items()} for i in range(rows)
    ]


def make_evaluation(difference=0.2, truncated=0.05):
    interval = {"value": difference, "low": difference - 0.05, "high": difference + 0.05}
    return {
        "trained": {"truncation_rate": {"value": truncated, "low": 0, "high": 1}},
        "paired": {"difference": interval, "n": 512},
    }


def find_only(metrics, evaluation=None, config=CONFIG):
    findings = diagnose(metrics, make_evaluation() if evaluation is None else evaluation, config)["findings"]
    assert len(findings) == 1, findings
    return findings[0]


def test_a_healthy_run_has_no_findings():
    assert diagnose(make_metrics(), make_evaluation(), CONFIG) == {"findings": [], "health": "ok"}
    assert diagnose([], {}, CONFIG) == {"findings": [], "health": "ok"}


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_nonfinite_loss_is_an_error(value):
    metrics = make_metrics(loss=lambda x: value if x == 1 else 0.01)
    finding = find_only(metrics)
    assert diagnose(metrics, {}, CONFIG)["health"] == "error"
    assert finding["name"] == "nonfinite_loss"
    assert finding["steps"] == [400, 400]
    assert finding["evidence"] == "loss is not finite at step 400"
    assert finding["remedy"] == "algo.args.learning_rate=0.00025"


def test_kl_drift_reports_where_it_began():
    finding = find_only(make_metrics(probe__kl=lambda x: x))
    assert (finding["name"], finding["severity"], finding["steps"]) == ("kl_drift", "warning", [210, 400])
    assert "reaches 1.00 nats per token, above 0.5 first at step 210" in finding["evidence"]
    assert finding["remedy"] == "algo.args.beta=0.1"


@pytest.mark.parametrize(("args", "new"), [({"beta": None}, ""), ({}, "+")])
def test_kl_drift_without_beta_asks_for_one(args, new):
    config = {"algo": {"name": "grpo", "args": args}, "max_tokens": 64}
    assert find_only(make_metrics(probe__kl=lambda x: x), config=config)["remedy"] == f"{new}algo.args.beta=0.05"


def test_entropy_collapse_is_measured_against_the_start():
    finding = find_only(make_metrics(probe__entropy=lambda x: 2.0 * math.exp(-4 * x)))
    assert finding["name"] == "entropy_collapse"
    assert finding["evidence"].startswith("entropy on the probe set fell from 2.000 to 0.061 nats")
    assert finding["steps"][0] == 170  # exp(-4 * 16/39) = 0.194
    assert finding["remedy"] == "+algo.args.entropy_coef=0.01"


@pytest.mark.parametrize("algo", ["sft", "reward_model"])
def test_supervised_training_may_leave_its_start(algo):
    config = {"algo": {"name": algo, "args": {}}, "max_tokens": 64}
    metrics = make_metrics(probe__kl=lambda x: 5 * x, probe__entropy=lambda x: 6 - 5.9 * x)
    assert diagnose(metrics, {}, config)["findings"] == []


def test_equal_rewards_on_hard_problems_ask_for_larger_groups():
    finding = find_only(make_metrics(frac_reward_zero_std=lambda x: 0.9))
    assert finding["name"] == "no_reward_variance"
    assert finding["steps"] == [310, 400]
    assert finding["evidence"] == "90% of the groups had equal rewards, with 43% of the completions correct"
    assert finding["remedy"] == "algo.args.num_generations=32"


def test_equal_rewards_on_solved_problems_ask_to_stop_earlier():
    metrics = make_metrics(frac_reward_zero_std=lambda x: 0.9, outcome__correct=lambda x: 0.9 + 0.1 * x)
    finding = find_only(metrics)
    assert "nearly all solved" in finding["cause"]
    assert finding["remedy"] == "+algo.args.max_steps=310"


def test_equal_rewards_early_in_training_are_no_finding():
    metrics = make_metrics(frac_reward_zero_std=lambda x: 0.95 if x < 0.6 else 0.5)
    assert diagnose(metrics, make_evaluation(), CONFIG)["findings"] == []


def test_truncation_in_training_asks_for_a_larger_budget():
    finding = find_only(make_metrics(completions__clipped_ratio=lambda x: 0.5))
    assert (finding["name"], finding["steps"]) == ("truncation", [310, 400])
    assert "50% of the completions at the end of training and 5% of the held-out ones" in finding["evidence"]
    assert finding["remedy"] == "max_tokens=128"


def test_truncation_on_held_out_rows_alone_names_no_steps():
    finding = find_only(make_metrics(), make_evaluation(truncated=0.4))
    assert (finding["name"], finding["steps"]) == ("truncation", None)


def test_format_farming_needs_both_a_fall_and_a_rise():
    falls = {"outcome__correct": lambda x: 0.3 - 0.2 * x}
    rises = {"outcome__partial": lambda x: 0.5 + 0.4 * x}
    finding = find_only(make_metrics(**falls, **rises))
    assert finding["name"] == "format_farming"
    assert "correct fell from 27.7% to 12.3%" in finding["evidence"]
    assert "rose from 54.6% to 85.4%" in finding["evidence"]
    assert diagnose(make_metrics(**falls), make_evaluation(), CONFIG)["findings"] == []
    assert diagnose(make_metrics(**rises), make_evaluation(), CONFIG)["findings"] == []


def test_accuracy_that_fell_is_a_warning():
    finding = find_only(make_metrics(), make_evaluation(difference=-0.1))
    assert (finding["name"], finding["severity"], finding["steps"]) == ("accuracy_fell", "warning", None)
    assert finding["evidence"] == "held-out accuracy changed by -10.0 points, 95% interval -15.0 to -5.0"
    assert finding["remedy"] == "algo.args.learning_rate=0.0005"


def test_no_measurable_gain_is_information_and_leaves_health_ok():
    evaluation = make_evaluation(difference=0.02)
    finding = find_only(make_metrics(), evaluation)
    assert (finding["name"], finding["severity"]) == ("no_measurable_gain", "info")
    assert finding["remedy"] == "+algo.args.max_steps=800"
    assert diagnose(make_metrics(), evaluation, CONFIG)["health"] == "ok"


def test_no_change_at_all_is_told_as_such():
    names = ("correct", "partial", "failed")
    changes = {name: dict.fromkeys(names, 0) | {name: 20} for name in names}
    changes["partial"]["failed"] = 4
    paired = {"difference": {"value": 0.0, "low": -0.02, "high": 0.02}, "changes": changes, "n": 64}
    evidence = find_only(make_metrics(), {"paired": paired})["evidence"]
    assert evidence == "not one of 64 held-out rows went from wrong to correct or back"
    changes["correct"]["failed"] = changes["failed"]["correct"] = 1
    assert "changed by +0.0 points, 95% interval -2.0" in find_only(make_metrics(), {"paired": paired})["evidence"]
    older = {"paired": {"difference": {"value": 0.0, "low": 0.0, "high": 0.0}, "n": 64}}
    assert find_only(make_metrics(), older)["evidence"] == evidence


def test_one_evaluated_row_has_no_interval_and_no_finding():
    evaluation = {"paired": {"difference": {"value": 0.0, "low": None, "high": None}, "n": 1}}
    assert diagnose(make_metrics(), evaluation, CONFIG)["findings"] == []


def make_ruined_run():
    metrics = make_metrics(
        loss=lambda x: math.nan if x > 0.9 else 0.0,
        probe__kl=lambda x: 3 * x,
        probe__entropy=lambda x: 1.01 - x,
        frac_reward_zero_std=lambda x: 0.99,
        completions__clipped_ratio=lambda x: 0.9,
        outcome__correct=lambda x: 0.3 * (1 - x),
        outcome__partial=lambda x: 0.7 * x,
    )
    return diagnose(metrics, make_evaluation(difference=-0.2), CONFIG)


def test_every_rule_applies_to_a_ruined_run_worst_first():
    findings = make_ruined_run()["findings"]
    others = {"overfitting", "no_measurable_gain"}  # grpo has no held-out loss; the accuracy fell
    assert {finding["name"] for finding in findings} == {find.__name__ for _, find in RULES} - others
    assert [finding["severity"] for finding in findings] == ["error"] + ["warning"] * (len(RULES) - 3)
    for finding in findings:
        assert re.fullmatch(r"\+?[a-z_.]+=[0-9.e-]+", finding["remedy"]), finding["remedy"]
        assert re.search(r"\d", finding["evidence"])


@pytest.mark.parametrize(
    ("held_out", "training", "found"), [(0.76, 0.58, True), (0.66, 0.58, False), (0.76, 0.75, False)]
)
@pytest.mark.parametrize("algo", ["reward_model", "dpo", "sft"])
def test_a_model_that_remembers_its_rows_overfits(held_out, training, found, algo):
    loss = {
        "baseline": {"value": 0.69, "low": 0.68, "high": 0.70},
        "trained": {"value": held_out, "low": held_out - 0.06, "high": held_out + 0.06},
    }
    evaluation = {side: {"loss": interval} for side, interval in loss.items()}
    metrics = [{"step": i + 1, "loss": 0.7 if i < 60 else training} for i in range(100)]
    config = {**CONFIG, "algo": {"name": algo, "args": {"learning_rate": 1e-3}}}
    findings = diagnose(metrics, evaluation, config)["findings"]
    assert [finding["name"] for finding in findings] == ["overfitting"] * found
    if found:
        assert f"its training {'rows' if algo == 'sft' else 'pairs'}" in findings[0]["cause"]
        assert findings[0]["remedy"] == "+algo.args.max_steps=50"
        assert findings[0]["evidence"] == (
            "held-out loss rose from 0.690 to 0.760, 95% interval 0.700 to 0.820, while the training loss fell to 0.580"
        )


@pytest.mark.parametrize(
    ("algo", "args"),
    [
        ("dpo", {"loss_type": ["ipo"]}), ("dpo", {"label_smoothing": 0.1}), ("dpo", {"max_length": 64}),
        ("dpo", {"f_divergence_type": "js_divergence"}), ("sft", {"loss_type": "dft"}), ("sft", {"packing": True}),
        ("sft", {"completion_only_loss": False}), ("sft", {"label_smoothing_factor": 0.1}),
    ],
)  # fmt: skip
def test_a_loss_of_another_form_is_not_held_against_the_held_out_one(algo, args):
    evaluation = {"baseline": {"loss": {"value": 0.69, "low": 0.6, "high": 0.7}},
                  "trained": {"loss": {"value": 0.9, "low": 0.8, "high": 1.0}}}  # fmt: skip
    config = {**CONFIG, "algo": {"name": algo, "args": args}}
    assert diagnose([{"step": 1, "loss": 0.1}], evaluation, config)["findings"] == []


@pytest.mark.parametrize("algo", ["sft", "reward_model"])
@pytest.mark.parametrize(("low", "found"), [(0.01, True), (-0.01, False)])
def test_a_held_out_loss_that_did_not_measurably_rise_is_no_overfitting(low, found, algo):
    evaluation = {"baseline": {"loss": {"value": 0.30, "low": 0.28, "high": 0.32}},
                  "trained": {"loss": {"value": 0.31, "low": 0.29, "high": 0.33}},
                  "paired": {"loss": {"value": 0.01, "low": low, "high": 0.03}}}  # fmt: skip
    config = {**CONFIG, "algo": {"name": algo, "args": {}}}
    findings = diagnose([{"step": 1, "loss": 0.2}], evaluation, config)["findings"]
    assert [finding["name"] for finding in findings] == ["overfitting"] * found


def make_hopeless(correct=0, course=0.0, **evaluation):
    counts = {"correct": correct, "partial": 4, "failed": 28 - correct}
    metrics = make_metrics(outcome__correct=lambda x: course, frac_reward_zero_std=lambda x: 0.99)
    return metrics, make_evaluation(difference=0.0) | {"baseline": {"counts": counts}} | evaluation


@pytest.mark.parametrize(
    ("task", "remedy"),
    [
        ({"name": "countdown"}, "algo=sft"),
        ({"name": "file", "completion_column": "good"}, "algo=sft"),
        ({"name": "file", "completion_column": None}, None),
    ],
)
def test_a_start_with_no_right_answer_is_told_to_begin_with_sft(task, remedy):
    found = diagnose(*make_hopeless(), CONFIG | {"task": task})["findings"]
    assert [finding["name"] for finding in found] == ["no_reward_variance", "no_measurable_gain"]
    for finding in found:
        assert finding["remedy"] == remedy
        assert finding["cause"].startswith("the start model has none of 32 held-out completions right: ")
        assert all(word in finding["cause"] for word in ("algo=sft", "a graded reward", "easier rows"))


@pytest.mark.parametrize(("correct", "course"), [(1, 0.0), (0, 0.05)])
def test_a_start_that_is_sometimes_right_is_told_to_train_longer(correct, course):
    found = diagnose(*make_hopeless(correct, course), CONFIG | {"task": {"name": "countdown"}})["findings"]
    assert [finding["remedy"] for finding in found] == ["algo.args.num_generations=32", "+algo.args.max_steps=800"]

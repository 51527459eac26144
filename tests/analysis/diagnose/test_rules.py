"""What a failure of a known kind is called, and what is no failure: tables of constructed runs."""

import math

import pytest

from rlhf_exp.analysis.diagnose import diagnose, find_alarms, score_run
from rlhf_exp.analysis.diagnose.calibration import Calibration, load_calibration
from rlhf_exp.analysis.diagnose.rules import RULES
from rlhf_exp.analysis.diagnose.signals import Signals
from rlhf_exp.runs.records import Completion, Evaluation
from tests.analysis.diagnose import cases
from tests.analysis.diagnose.cases import CONFIG, HEALTHY, interval, judge, make_config, make_evaluation, make_metrics
from tests.analysis.diagnose.test_shipped import SICK

FLAT = {"difference": 0.0, "win_rate": 0.5}


def score(name, metrics, config, evaluation=None, samples=()):
    return score_run(metrics, evaluation or Evaluation(), config, samples)[name]


def fails(rule, courses=None, algo="grpo", **evaluation):
    """A failure: the rule that names it, the algorithm, and what differs from a healthy run."""
    return rule, algo, courses or {}, evaluation


SILENT = {  # beside the failures of test_shipped.py and those of the archive
    "ppo's own kl": fails("kl_drift", {"ppo/kl": lambda x: 80 * x}, "ppo"),
    "entropy gone from the first row": fails("entropy_collapse", {"entropy": lambda x: 1e-4}),
    "reward falls": fails("reward_fell", {"reward": lambda x: 0.3 - 0.3 * x}),
    "value loss": fails("value_loss_spike", {"ppo/value_loss": lambda x: 0.1 if x < 0.5 else 1e4}, "ppo"),
    "clip fraction": fails("clip_fraction", {"ppo/clip_fraction": lambda x: 0.95}, "ppo"),
    "format farming": fails(
        "format_farming", {"outcome/correct": lambda x: 0.3 - 0.2 * x, "outcome/partial": lambda x: 0.5 + 0.4 * x}
    ),
    "always one reward, without groups": fails("no_reward_variance", {"reward_std": lambda x: 0.0}, "ppo"),
    "rate too low": fails("policy_stands_still", {"probe/kl": lambda x: 1e-12}),
    "cut sampling": fails("sampled_apart_from_trained", {"ratio/mean": lambda x: 0.7}),
    "a critic without a loss": fails("explained_variance", {"ppo/explained_variance": lambda x: 0.0}, "ppo"),
    "labels flipped": fails("reward_model_at_chance", algo="reward_model", accuracy=interval(0.2, 0.04)),
}


@pytest.mark.parametrize("kind", SILENT)
def test_each_kind_of_failure_is_named(kind):
    name, algo, courses, changes = SILENT[kind]
    config = make_config(algo, {"learning_rate": 1e-3}, reward={"weights": {"outcome": 1.0, "format": 1.0}})
    config["algo"]["args"]["target_kl"] = 3.0
    calibration = cases.make_calibration()
    report = judge(courses, algo, make_evaluation(algo=algo, **changes), config, calibration, seed=7)
    assert report.health == "warning"
    assert report.found[name].score > calibration.thresholds[name]
    assert len(report.found) <= 7


def test_the_tables_have_every_rule_that_flags():
    of_their_own = {"nonfinite_loss", "reward_apart_from_outcome", "tool_calls_fail", "wrong_reference"}
    tested = {name for name, *_ in (*SILENT.values(), *SICK.values())} | {*load_calibration().right} | of_their_own
    assert tested == {of.name for of in RULES if of.severity != "info"}


@pytest.mark.parametrize("algo", HEALTHY)
@pytest.mark.parametrize("seed", [101, 102, 103])
def test_a_healthy_run_is_not_flagged(algo, seed):
    report = judge(algo=algo, seed=seed)
    assert report.health == "ok", report.found


def peak(x):
    return 3.0 if abs(x - 0.5) < 0.02 else 0.1 * x


WRONGLY_FLAGGED = {
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


@pytest.mark.parametrize("kind", WRONGLY_FLAGGED)
def test_what_is_harmless_is_not_flagged(kind):
    courses, changes, rows = WRONGLY_FLAGGED[kind]
    assert judge(courses, evaluation=make_evaluation(**changes), rows=rows).found == {}


STILL = {name: lambda x: 0.5 for name in ("reward", "rewards/constant/mean")}
STILL |= {"frac_reward_zero_std": lambda x: 1.0, "reward_std": lambda x: 0.0, "probe/kl": lambda x: 1e-12}
STILL |= {"outcome/correct": lambda x: 0.25}


def test_a_control_arm_is_judged_as_such():
    control, other = (
        judge(STILL, evaluation=make_evaluation(**FLAT), config=make_config(reward={"weights": {name: 1.0}}))
        for name in ("constant", "outcome")
    )
    assert (control.found.keys(), control.health) == ({"control_arm"}, "ok")
    assert "changed by +0.0 points" in control.findings[0].evidence
    assert {"no_reward_variance", "policy_stands_still"} <= other.found.keys()


@pytest.mark.parametrize(
    ("top_p", "kl", "told", "health"),
    [(0.9, lambda x: -0.02 * x, True, "ok"), (0.9, lambda x: 0.02 * x, False, "ok"),
     (1.0, lambda x: -0.02 * x, False, "warning")],
)  # fmt: skip
def test_a_sampled_kl_below_0_is_explained_by_the_cut_of_sampling_without_a_flag(top_p, kl, told, health):
    report = judge({"kl_k1": kl}, config=make_config(args={"top_p": top_p}))
    finding = report.found.get("sampled_kl_is_cut")
    assert (finding is not None, report.health) == (told, health)
    if told:
        assert finding.remedy == "algo.args.top_p=1"
        assert finding.sureness.text.startswith("a remark, ")


BELOW = {"kl_k1": lambda x: -0.2 * x - 0.001}
APART = BELOW | {"sampling/sampling_logp_difference/mean": lambda x: 0.3}
NO_SIGNAL = {"frac_reward_zero_std": lambda x: 0.99}
STANDS = {"probe/kl": lambda x: 1e-12}
CUT = {"completions/clipped_ratio": lambda x: min(1.0, 0.1 + 2 * x)}
SPIKE = {"grad_norm": lambda x: 0.5 if x < 0.6 else 5e3}
USUAL = {"model": {"learning_rate": {"grpo": 1e-3}, "parameters": 1000}}
RATE, STEPS = "algo.args.learning_rate=", "algo.args.max_steps="


def solved(share):
    return {"outcome/correct": lambda x: share}


@pytest.mark.parametrize(
    ("name", "courses", "args", "config", "cause", "remedy"),
    [
        ("negative_kl", BELOW, {"top_p": 0.8}, {}, "top_p=0.8", "algo.args.top_p=1"),
        ("negative_kl", {"kl_k1": lambda x: -0.2}, {}, {}, "another model", "+algo.args.beta=0.05"),
        ("negative_kl", APART, {}, {}, "padding", f"+{RATE}5e-07"),  # which the other finding shares
        # budget_too_small: no completion was right, and the rate that it was told to raise broke the mended run
        ("policy_stands_still", STANDS | {"frac_reward_zero_std": lambda x: 1.0}, {}, {}, "", None),
        ("policy_stands_still", STANDS, {"learning_rate": 1e-3}, USUAL, "the trained parameters take no part", None),
        ("policy_stands_still", STANDS, {"learning_rate": 1e-6}, USUAL, "the learning rate 1e-06 is too low",
         f"{RATE}0.001"),
        ("no_reward_variance", NO_SIGNAL | solved(0.95), {}, {}, "training problems are nearly all solved",
         f"+{STEPS}310"),
        ("no_reward_variance", NO_SIGNAL | solved(0.57), {}, {}, "the completions of a group are too similar", ...),
        ("no_reward_variance", NO_SIGNAL | solved(0.03), {}, {},
         "the problems are too hard, or the completions of a group", ...),
        ("no_reward_variance", {"frac_reward_zero_std": lambda x: min(1.0, 0.2 + x)} | solved(0.57), {}, {},
         "the policy does one thing only", ...),
        ("no_reward_variance", {"frac_reward_zero_std": lambda x: 1.0, "reward_std": lambda x: 0.0},
         {"num_generations": 8}, {"reward": {"weights": {"mine": 1.0}}}, "", "reward=outcome"),
        ("gradient_spike", SPIKE, {"learning_rate": 1e-2}, USUAL, "", f"{RATE}0.001"),  # far from the usual one
        ("gradient_spike", SPIKE, {"learning_rate": 1e-3}, USUAL, "", f"{RATE}0.00025"),
        ("truncation", CUT, {}, {"max_tokens": 32}, "the budget is too small", "max_tokens=64"),
        ("truncation", CUT, {}, {"max_tokens": 32, "reward": {"weights": {"brevity": 1.0}}}, "", None),
    ],
)  # fmt: skip
def test_cause_and_remedy_follow_from_the_settings_and_the_other_series(name, courses, args, config, cause, remedy):
    finding = judge(courses, config=make_config(args=args, **config)).found[name]
    assert cause in finding.cause and remedy in (finding.remedy, ...)


def test_a_rise_that_is_over_is_told_with_its_peak():
    values = [0.38, 0.44, 0.31, 0.9, 1.0, 1.0, 0.0, 0.0, 0.0]
    run = Signals([{"step": i, "cut": value} for i, value in enumerate(values, 1)], Evaluation(), CONFIG)
    assert run.tell("cut", 5) == "cut 0.38 -> 0, peak 1 at step 5"


def test_equal_rewards_of_few_groups_or_at_the_end_of_a_rise_say_little():
    half, risen = {"frac_reward_zero_std": lambda x: 0.5}, {"outcome/correct": None, "reward": lambda x: 0.2 + x}
    args = {"num_generations": 8, "per_device_train_batch_size": 16}
    cases = ((half, args | {"per_device_train_batch_size": 256}), (half, args), (half | risen, args))
    many, few, solved = (
        score("no_reward_variance", make_metrics("grpo", courses), make_config(args=of)) for courses, of in cases
    )
    assert solved < few < many / 2


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
    both = [  # a note has a remedy where nothing flags the run
        judge(courses, evaluation=evaluation, config=CONFIG | {"task": task}, calibration=calibration).found[name]
        for name, calibration in (("no_reward_variance", None), ("no_measurable_gain", Calibration({})))
    ]
    assert [finding.remedy for finding in both] == remedies
    hopeless = [finding.cause.startswith("the start model has none of 32") for finding in both]
    assert hopeless == [remedies != LONGER] * 2


@pytest.mark.parametrize(
    ("rows", "args", "remedy"),
    [
        (40, {"max_steps": 410}, "algo.args.max_steps=820"),  # the last row that is logged is of step 400
        (4, {"max_steps": 110}, "algo.args.max_steps=220"),
        (0, {"max_steps": 110}, "algo.args.max_steps=220"),
        (40, {}, "+algo.args.max_steps=800"),
        (40, {"max_steps": -1, "num_train_epochs": 2}, "algo.args.num_train_epochs=4"),
    ],
)
def test_training_longer_is_longer_than_it_was_planned(rows, args, remedy):
    config = make_config(args={"learning_rate": 1e-3} | args)
    report = judge(evaluation=make_evaluation(**FLAT), config=config, rows=rows, calibration=Calibration({}))
    assert report.found["no_measurable_gain"].remedy == remedy


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_what_is_not_finite_is_certain(value):
    finding = judge({"loss": lambda x: value if x == 1 else 0.01}).found["nonfinite_loss"]
    assert (finding.severity, finding.steps, finding.score) == ("error", (400, 400), None)
    assert finding.remedy == "algo.args.learning_rate=0.00025"


def make_losses(baseline, trained, width, **paired):
    """An evaluation with held-out losses, of half the given width about each value."""
    sides = {side: {"loss": interval(x, width)} for side, x in {"baseline": baseline, "trained": trained}.items()}
    return sides | ({"paired": {"loss": paired}} if paired else {})


def find_overfitting(evaluation, algo, training, args=None):
    metrics = [{"step": i + 1, "loss": 0.7 if i < 60 else training} for i in range(100)]
    calibration = Calibration({"overfitting": [0.0, 0.0, 0.1, 0.6] * 5}, [], {"overfitting": [1, 1]})
    config = make_config(algo, {"learning_rate": 1e-3} | (args or {}))
    report = diagnose(metrics, Evaluation(**evaluation), config, calibration=calibration)
    return [finding for finding in report.findings if finding.severity != "info"]


@pytest.mark.parametrize(
    ("held_out", "training", "found"), [(0.76, 0.06, True), (0.56, 0.06, False), (0.76, 0.58, False)]
)
@pytest.mark.parametrize("algo", ["reward_model", "dpo", "sft"])
def test_a_model_that_remembers_its_rows_overfits(held_out, training, found, algo):
    findings = find_overfitting(make_losses(0.69, held_out, 0.06), algo, training)
    assert [finding.name for finding in findings] == ["overfitting"] * found
    if found:
        assert f"its training {'rows' if algo == 'sft' else 'pairs'}" in findings[0].cause
        assert findings[0].remedy == "+algo.args.max_steps=50"
        assert "went from 0.690 to 0.760, 95% interval 0.700 to 0.820" in findings[0].evidence


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


@pytest.mark.parametrize(("high", "found"), [(0.01, True), (-0.005, False)])
def test_a_held_out_loss_that_fell_measurably_is_no_overfitting(high, found):
    evaluation = make_losses(0.30, 0.29, 0.02, value=-0.01, low=-0.02 - high, high=high)
    assert [finding.name for finding in find_overfitting(evaluation, "sft", 0.02)] == ["overfitting"] * found


def test_another_reference_is_named_and_is_no_drift():
    metrics = [row | {"step": i + 1, "kl": 5 - 0.01 * i} for i, row in enumerate(make_metrics("grpo"))]
    scores = cases.make_calibration().scores | {"wrong_reference": [0.0] * 40}
    report = diagnose(metrics, Evaluation(**make_evaluation()), make_config(), calibration=Calibration(scores))
    assert [finding.name for finding in report.findings] == ["wrong_reference"]


def sample(i, reward, outcome="failed", which="baseline"):
    return Completion(which=which, id=f"row {i}", tokens=10 + i, outcome=outcome, reward=reward)


@pytest.mark.parametrize(("shift", "found"), [(0, False), (1, True)])
def test_a_reward_of_other_rows_is_named(shift, found):
    outcomes = ["correct", "failed", "failed", "partial"] * 20
    samples = [sample(i, float(outcomes[i - shift] == "correct"), outcome) for i, outcome in enumerate(outcomes)]
    calibration = Calibration({"reward_apart_from_outcome": [0.0, 0.1, 0.3, 0.4] * 10})
    report = judge(evaluation={}, calibration=calibration, samples=samples)
    assert list(report.found) == ["reward_apart_from_outcome"] * found


def test_a_correlation_above_1_by_rounding_is_one_of_1():
    # statistics.correlation gives 1.0000000000000002
    samples = [*(sample(i, 1.0, "correct") for i in range(7)), sample(7, 0.1)]
    assert score("reward_apart_from_outcome", make_metrics(), make_config(), samples=samples) == 0


FELL = Evaluation(**make_evaluation(difference=-0.07))
VALIDATED = make_config("grpo", eval={"every_rows": 128})


def validate(*accuracies):
    """Rows of a run whose validation accuracy is measured at the start, in the middle and at the end."""
    rows = [{"step": 0}, *make_metrics("grpo")]
    for row, accuracy in zip((rows[0], rows[20], rows[40]), accuracies, strict=True):
        row["validation/accuracy"] = accuracy
    return rows


@pytest.mark.parametrize("name", ["accuracy_fell", "over_optimisation"])
def test_validation_rows_confirm_a_fall_of_accuracy_or_take_weight_from_it(name):
    alone, steady, falling = (
        score(name, rows, VALIDATED, FELL)
        for rows in (make_metrics("grpo"), validate(0.25, 0.25, 0.25), validate(0.25, 0.1, 0.03))
    )
    assert falling > 2 * steady + 0.5
    assert name != "accuracy_fell" or steady < alone - 0.5


def test_a_fall_has_the_date_of_the_validation_that_shows_it():
    report = diagnose(validate(0.25, 0.1, 0.03), FELL, VALIDATED, calibration=cases.make_calibration())
    assert [found.steps for found in report.findings if found.name == "accuracy_fell"] == [(200, 400)]


def test_a_finding_shows_three_samples():
    name, algo, courses, _ = SILENT["format farming"]
    report = judge(courses, algo, samples=[sample(i, 0.1 * i, "partial", "trained") for i in range(9)])
    assert report.found[name].samples == ["row 8", "row 7", "row 6"]


def test_the_rows_of_one_rollout_are_one_measurement_of_kl():
    """Two passes log one batch's KL twice, and a few odd completions in it are no drift."""
    rows = [{"step": i, "kl": 2.0 if i in (11, 12) else 0.04} for i in range(1, 21)]
    scores = [score("kl_drift", rows, make_config(args={"num_iterations": passes})) for passes in (1, 2)]
    assert scores[0] > 1 and scores[1] < 0.3


@pytest.mark.parametrize("algo", HEALTHY)
def test_the_score_of_a_step_reads_only_rows_up_to_it(algo):
    """So that what an alarm says during training the diagnosis says too, and one bound holds for both."""
    metrics, config = make_metrics(algo, seed=7), make_config(algo)

    def list_courses(rows):
        run = Signals(metrics[:rows], Evaluation(), config)
        return {rule.name: [*found.course] for rule in RULES if (found := rule.apply(run))}

    whole = list_courses(len(metrics))
    for rows in range(1, len(metrics)):
        last = metrics[rows - 1]["step"]
        for name, course in list_courses(rows).items():
            assert course == [(step, score) for step, score in whole[name] if step <= last], name


def test_an_alarm_has_the_step_at_which_it_began():
    config, metrics = make_config(), make_metrics("grpo", {"grad_norm": lambda x: 0.5 if x < 0.6 else 5e3})
    (alarm,) = find_alarms(metrics, config, Evaluation(), calibration=cases.make_calibration())
    began = metrics.index(next(row for row in metrics if row["step"] == alarm.steps[0])) + 1
    assert find_alarms(metrics[: began - 1], config, Evaluation(), calibration=cases.make_calibration()) == []
    (begun,) = find_alarms(metrics[:began], config, Evaluation(), calibration=cases.make_calibration())
    assert alarm.name == begun.name == "gradient_spike"


def test_how_sure_a_finding_is_comes_from_the_calibration():
    scores = {"reward_fell": [0.01 * i for i in range(30)]}
    calibration = Calibration(scores, [], {"reward_fell": [12, 13]}, parameters=10_000_000)
    large, small = (
        judge(SILENT["reward falls"][2], evaluation={}, config=config, calibration=calibration).found
        for config in (CONFIG, CONFIG | {"model": {"parameters": 1e6}})
    )
    sureness = large["reward_fell"].sureness
    assert "right in 12 of 13" in sureness.text and sureness.healthy_runs == 30
    assert "calibrated on models below 10,000,000" in sureness.text
    assert "calibrated on models" not in small["reward_fell"].sureness.text


def test_the_second_half_of_a_run_ends_with_its_budget_of_tokens():
    """400 of 1000 steps are taken: without the budget the run is in its first half."""
    courses = SILENT["rate too low"][2] | {"trained_tokens": lambda x: 1000 * x}
    config = make_config(args={"learning_rate": 1e-3, "max_steps": 1000})
    found = [judge(courses, config=config | budget).found for budget in ({}, {"train_tokens": 1000})]
    assert ["policy_stands_still" in names for names in found] == [False, True]


@pytest.mark.parametrize(("failures", "found"), [(1.5, ["tool_calls_fail"]), (0.9, [])])
def test_tools_whose_calls_fail_are_named(failures, found):
    evaluation = make_evaluation()
    evaluation["trained"] |= {"tool_calls": interval(2, 0.1), "tool_failures": interval(failures, 0.1)}
    report = judge({}, "grpo", evaluation, make_config("grpo", {"learning_rate": 1e-3}), cases.make_calibration())
    assert [name for name in report.found if name == "tool_calls_fail"] == found


@pytest.mark.parametrize(("change", "found"), [(-0.2, ["task_fell"]), (-0.05, []), (0.1, [])])
def test_a_task_that_falls_while_another_rises_is_named(change, found):
    sets = {"gsm8k": {"paired": {"difference": interval(change, 0.05)}}}
    sets["countdown"] = {"paired": {"difference": interval(0.2, 0.05)}}
    evaluation = make_evaluation() | {"sets": sets}
    report = judge({}, "grpo", evaluation, make_config("grpo", {"learning_rate": 1e-3}), cases.make_calibration())
    assert [name for name in report.found if name == "task_fell"] == found
    if found:
        assert "gsm8k by -20.0, countdown by +20.0" in report.found["task_fell"].evidence

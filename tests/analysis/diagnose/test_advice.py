"""What a run is told to change: which remedy comes first, what is not said beside it, settings far from a default."""

from dataclasses import asdict

import pytest

from rlhf_exp.analysis.diagnose import diagnose
from rlhf_exp.analysis.diagnose.advice import advise
from rlhf_exp.analysis.diagnose.calibration import Calibration
from rlhf_exp.analysis.diagnose.signals import Signals
from rlhf_exp.config.compose import compose_config
from rlhf_exp.runs.records import Evaluation
from tests.analysis.diagnose.cases import HEALTHY, judge, make_calibration, make_metrics

RATE, BETA, COEF = "algo.args.learning_rate=", "algo.args.beta=", "algo.args.init_kl_coef="
WARMUP, CRITIC = "algo.args.warmup_steps=", "algo.args.critic_learning_rate="
ADVICE = {
    "the remedy that most findings share": (
        [], [[BETA + "0.1", RATE + "0.0005"], ["max_tokens=192"], [RATE + "0.00025"]],
        [RATE + "0.0005", "max_tokens=192"], [RATE + "0.0005", "max_tokens=192", RATE + "0.0005"],
    ),
    "of one finding its first": ([], [[BETA + "0.1", RATE + "0.0005"]], [BETA + "0.1"], [BETA + "0.1"]),
    "a rate is not raised and lowered": (
        [], [[RATE + "0.0005"], [RATE + "0.002"], [RATE + "0.0005"]], [RATE + "0.0005"], [RATE + "0.0005", None] * 2,
    ),
    "nor is training longer with steps that are smaller": (
        [], [[RATE + "0.0005"], ["algo.args.max_steps=220", BETA + "0.1"]],
        [RATE + "0.0005", BETA + "0.1"], [RATE + "0.0005", BETA + "0.1"],
    ),
    "a rate 30 times the usual is no further raised, and is set back": (
        [RATE + "0.03"], [["algo.args.num_generations=32"], [RATE + "0.06"], [BETA + "0.1", RATE + "0.015"]],
        ["algo.args.num_generations=32", RATE + "0.001"], ["algo.args.num_generations=32", None, RATE + "0.001"],
    ),
    "the usual rate is raised to at most twice that": ([], [[RATE + "0.01", "max_tokens=192"]], ["max_tokens=192"],
                                                       ["max_tokens=192"]),
    "a price of 2,000 times the usual": ([BETA + "100"], [[RATE + "0.00025"]], [BETA + "0.05"], [BETA + "0.05"]),
    "and of a fraction of it": ([BETA + "1e-5"], [[BETA + "0.05", RATE + "0.0005"]], [BETA + "0.05"],
                                [BETA + "0.05"]),
    "a warm-up without an end": (["+" + WARMUP + "10000"], [[RATE + "0.01"]], [WARMUP + "11"], [WARMUP + "11"]),
    "a critic that stands still": (
        ["algo=ppo", CRITIC + "1e-9"], [[CRITIC + "2.5e-10", RATE + "0.00025"]], [CRITIC + "0.005"],
        [CRITIC + "0.005"],
    ),
    "a value loss that has no weight": (["algo=ppo", "algo.args.vf_coef=1e-12"], [[CRITIC + "0.00125"]],
                                        ["algo.args.vf_coef=0.1"], ["algo.args.vf_coef=0.1"]),
    "several settings are all set back": (
        ["algo=ppo", RATE + "3e-3", "algo.args.epsilon=1000"], [[COEF + "0.05", RATE + "0.0015"]],
        [RATE + "0.0005", "algo.args.epsilon=0.2"], [RATE + "0.0005"],
    ),
    "what the config's checks refuse is not said": ([], [["algo.args.num_generations=7", RATE + "0.0005"]],
                                                    [RATE + "0.0005"], [RATE + "0.0005"]),
    "what changes nothing is not said": ([], [[BETA + "0.05", RATE + "0.0005"]], [RATE + "0.0005"], [RATE + "0.0005"]),
    "a reward that the task cannot give": (["task=hh_rlhf", "reward=constant"], [["reward=outcome"]], [], [None]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ADVICE)
def test_remedies_fit_together_and_settings_far_from_their_defaults_come_first(kind):
    overrides, findings, told, answers = ADVICE[kind]
    run = Signals(make_metrics(rows=11), Evaluation(), asdict(compose_config(["device=cpu", *overrides])))
    chosen, found = advise(run, findings)
    assert [change.override for change in chosen] == told
    assert [change and change.override for change in found] == answers[: len(findings)]


COLLAPSE = {"reward": lambda x: 0.3 - 0.3 * x, "outcome/failed": lambda x: 0.1 + 0.8 * x}
RIGHT = {"reward_fell": [11, 11], "failed_rising": [0, 39]}


def test_a_finding_that_never_named_a_cause_is_a_symptom_without_a_remedy():
    calibration = Calibration(make_calibration().scores, [], RIGHT)
    report = judge(COLLAPSE, calibration=calibration, seed=7)
    symptom, cause = (report.found[name] for name in ("failed_rising", "reward_fell"))
    assert (symptom.severity, symptom.symptom, symptom.remedy) == ("warning", True, None)
    assert "it is a symptom" in symptom.sureness.text and not cause.symptom
    assert report.remedies == [cause.remedy]


def test_the_cause_says_how_far_a_setting_is_from_its_default():
    metrics = make_metrics("grpo", HEALTHY["grpo"] | {"probe/kl": lambda x: 4 * x}, seed=7)
    report = judge_config(metrics, [RATE + "0.03"])
    assert report.remedies == [RATE + "0.001"]
    causes = [found.cause for found in report.findings if found.remedy]
    assert sum("algo.args.learning_rate=0.03 is 30 times its default 0.001" in cause for cause in causes) == 1


def judge_config(metrics, overrides):
    config = asdict(compose_config(["device=cpu", *overrides]))
    return diagnose(metrics, Evaluation(), config, calibration=make_calibration())


def test_a_rate_that_a_log_does_not_tell_is_lowered_beside_a_higher_price_of_the_kl():
    run = Signals(make_metrics(), Evaluation(), {"algo": {"name": "grpo", "args": {}}, "foreign": True})
    told = ["+" + BETA + "0.05", "+" + RATE + "5e-07"]
    assert [change.override for change in advise(run, [[text] for text in told])[0]] == told

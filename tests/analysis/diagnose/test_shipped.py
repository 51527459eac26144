"""What the shipped calibration says of series that a user would call sick, or sound, at first sight."""

import pytest

from rlhf_exp.analysis.diagnose.calibration import load_calibration
from tests.analysis.diagnose.cases import interval, judge, make_config, make_evaluation

STEADY = {"outcome/correct": lambda x: 0.25}
FLAT = {"difference": 0.0, "win_rate": 0.5}
SICK = {
    "the reward falls to 0": ("reward_fell", "grpo", {"reward": lambda x: 0.4 * (1 - x)}, {}),
    "2 to 56% are cut off": (
        "truncation", "grpo", STEADY | {"completions/clipped_ratio": lambda x: 0.02 + 0.54 * x}, FLAT),
    "10 to 75% have no answer": (
        "failed_rising", "grpo",
        STEADY | {"outcome/failed": lambda x: 0.1 + 0.65 * x, "outcome/partial": lambda x: 0.65 * (1 - x)}, FLAT),
    "the critic is worse than the mean": (
        "explained_variance", "ppo", {"ppo/explained_variance": lambda x: -1.5}, {}),
    "the sampled KL is negative throughout": ("negative_kl", "grpo", {"kl_k1": lambda x: -0.01 - 0.03 * x}, {}),
    "PPO's sampled KL is negative throughout": (
        "negative_kl", "ppo", {"kl_k1": None, "ppo/kl": lambda x: -0.5 - 2 * x}, {}),
    "the reward rises and held-out rows are lost": (
        "reward_without_gain", "grpo", STEADY | {"reward": lambda x: 0.3 + 0.6 * x},
        {"difference": 0.0, "win_rate": 0.3}),
    "an entropy bonus of 1": ("entropy_explosion", "grpo", {"entropy": lambda x: 0.4 + 0.6 * x}, {}),
    "a rate a hundred times too low": ("policy_stands_still", "grpo", {"probe/kl": lambda x: 4e-6 * (0.1 + x)}, {}),
    "a training loss of 0.006 and a held-out one of 1.06": (
        "overfitting", "sft", {"loss": lambda x: max(1 - 2 * x, 0.006)},
        {"begin": {"loss": interval(1.05, 0.05)}, "loss": interval(1.06, 0.05)}),
    "pairs of equal answers": (
        "pairs_teach_nothing", "dpo", {"rewards/margins": lambda x: 0.0, "grad_norm": lambda x: 3e-6}, {}),
    "a loss that rises tenfold": ("loss_rose", "sft", {"loss": lambda x: 1 + 9 * x}, {}),
}  # fmt: skip
SOUND = {
    "every held-out row is won": (
        "grpo", {"reward": lambda x: 0.3 + 1.5 * x, "outcome/correct": lambda x: 0.25 + 0.4 * x},
        {"difference": 0.4, "win_rate": 1.0, "gain": 3.5}),
    "groups of 4 that learn, 28% of them silent": (
        "grpo", {"frac_reward_zero_std": lambda x: 0.16 + 0.24 * x, "outcome/correct": lambda x: 0.27 + 0.26 * x},
        {"difference": 0.2, "win_rate": 0.6}),
    "KTO's KL, a sum over a given answer": ("kto", {"kl": lambda x: 20 * x}, {}),
    "a warm-up in which no margin shows": ("dpo", {"rewards/margins": lambda x: 0.0}, {}),
    "one step in which PPO clips": ("ppo", {"ppo/clip_fraction": lambda x: 0.3 if x == 1 else 0.01}, {}),
    "an entropy that falls a little": ("grpo", {"entropy": lambda x: 0.4 - 0.1 * x}, {}),
    "an entropy of hundredths that jumps": (
        "grpo", {"probe/entropy": lambda x: 0.042, "entropy": lambda x: JUMPS[int(29 * x)] / 1e4}, {}),
}  # fmt: skip
JUMPS = [
    363, 144, 124, 346, 211, 186, 360, 180, 364, 348, 414, 405, 246, 343, 292, 252, 566, 263, 170, 202, 388, 669, 206,
    491, 556, 249, 157, 166, 480, 381,
]  # fmt: skip
"""Of grpo on GSM8K in miniature, with groups of 8 of the prompts of 8 rows, in 1e-4 nats per token."""
CALM = {"probe/kl": lambda x: 0.002 + 0.05 * x, "probe/entropy": lambda x: 0.4, "entropy": lambda x: 0.4}
"""Of a run's own series; those of the constructed runs drift more than the shipped calibration allows."""


def tell(algo, courses, gain=0.6, **evaluation):
    of = {"sft": "dpo", "kto": "dpo"}.get(algo, algo)
    report = make_evaluation(algo=algo, **evaluation)
    report["baseline"]["reward"] = {"mean": interval(0.3, 0.03), "std": 0.4}
    report["paired"]["reward"] = {"mean": interval(gain * 0.4, 0.02)}
    config = make_config(algo, {"learning_rate": 1e-3, "beta": 0.05}, max_tokens=64)
    return judge(CALM | courses, of, report, config, load_calibration(), seed=3)


@pytest.mark.parametrize("kind", SICK)
def test_a_series_that_is_plainly_sick_is_named(kind):
    name, algo, courses, evaluation = SICK[kind]
    found = tell(algo, courses, **({"gain": 0.0} | evaluation if "win_rate" in evaluation else evaluation)).found
    assert name in found, {name: one.score for name, one in found.items()}


@pytest.mark.parametrize("kind", SOUND)
def test_a_series_that_is_plainly_sound_is_not_flagged(kind):
    algo, courses, evaluation = SOUND[kind]
    report = tell(algo, courses, **evaluation)
    assert report.health == "ok", {name: one.evidence for name, one in report.found.items()}

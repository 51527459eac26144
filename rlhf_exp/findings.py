"""What the alarms of a run and its diagnosis both know, and the keys that choose among findings.

The rules are in diagnose/, which the config must not import; tests/callbacks/test_alarms.py holds both together.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlhf_exp.runs.records import Diagnosis

WATCHED = ("loss", "grad_norm", "probe/kl")
"""Series that must be finite. probe/kl is of the weights after the step."""

FINDINGS = (
    "format_farming", "failed_rising", "truncation", "kl_drift", "held_out_kl", "negative_kl",
    "sampled_apart_from_trained", "entropy_collapse", "entropy_explosion", "policy_stands_still", "clip_fraction",
    "explained_variance", "value_loss_spike", "no_reward_variance", "reward_fell", "control_arm",
    "reward_without_gain", "one_component_carries_the_reward", "over_optimisation", "overfitting", "accuracy_fell",
    "no_measurable_gain", "task_fell", "tool_calls_fail", "chosen_falls", "reward_model_at_chance",
    "ranks_by_length", "nonfinite_loss", "gradient_spike", "loss_rose", "pairs_teach_nothing", "misses_end_of_text",
    "wrong_reference", "reward_apart_from_outcome", "sampled_kl_is_cut",
)  # fmt: skip
"""The names of all findings, for `monitor.stop_on` and `monitor.ignore`."""


def tell_remedies(diagnosis: "Diagnosis") -> str:
    """What a run with several findings is told to try first, and what besides; empty where its finding says all."""
    first, *others = diagnosis.remedies or [""]
    if len(diagnosis.findings) < 2 or not first:
        return ""
    return "; if that is not enough, together with ".join([first, *filter(None, [" ".join(others)])])

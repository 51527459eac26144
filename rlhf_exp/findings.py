"""The names of all findings, for keys that choose among them (`monitor.stop_on`, `monitor.ignore`). The rules that
find them are in diagnose/, which the config must not import; tests/callbacks/test_alarms.py holds both together."""

FINDINGS = (
    "format_farming", "failed_rising", "length_collapse", "length_explosion", "length_bias", "truncation",
    "mode_collapse", "kl_drift", "held_out_kl", "kl_above_target", "kl_coefficient_runs_away", "negative_kl",
    "sampled_apart_from_trained", "entropy_collapse", "entropy_explosion", "policy_stands_still", "clip_fraction",
    "explained_variance", "value_loss_spike", "critic_collapse", "no_reward_variance", "reward_flat", "reward_fell",
    "control_arm", "reward_without_gain", "one_component_carries_the_reward", "over_optimisation",
    "reward_model_flat", "overfitting", "accuracy_fell", "no_measurable_gain", "train_above_held_out",
    "best_checkpoint_earlier", "chosen_falls", "reward_model_at_chance", "ranks_by_length", "nonfinite_loss",
    "gradient_spike",
)  # fmt: skip

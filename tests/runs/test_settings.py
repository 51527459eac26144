"""What counts as another setting."""

from rlhf_exp.runs.settings import list_settings


def test_a_key_that_earlier_runs_lack_is_no_setting_while_it_says_the_same():
    assert list_settings({"task": {"label_noise": 0.0}, "algo": {"trainer": None}}) == {}
    assert list_settings({"task": {"label_noise": 0.1}}) == {"task.label_noise": "0.1"}


def test_a_reward_without_a_weight_is_no_setting():
    assert list_settings({"reward": {"weights": {"outcome": 1.0, "overlong": None}}}) == {
        "reward.weights.outcome": "1.0"
    }

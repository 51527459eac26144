"""What counts as another setting."""

from rlhf_exp.runs.settings import list_settings


def test_a_reward_without_a_weight_is_no_setting():
    assert list_settings({"reward": {"weights": {"outcome": 1.0, "overlong": None}}}) == {
        "reward.weights.outcome": "1.0"
    }

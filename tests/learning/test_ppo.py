import pytest


@pytest.mark.slow
def test_ppo_raises_held_out_accuracy_by_ten_points_and_beyond_its_interval(learn):
    evaluation = learn("ppo", "algo=ppo", "task=countdown", "algo.args.max_steps=160")
    assert evaluation["paired"]["difference"]["value"] > 0.1
    assert evaluation["paired"]["difference"]["low"] > 0.02
    assert evaluation["baseline"]["accuracy"]["high"] < evaluation["trained"]["accuracy"]["value"]

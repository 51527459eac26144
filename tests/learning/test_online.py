import pytest


@pytest.mark.parametrize(("algo", "steps"), [("grpo", 40), ("ppo", 160), ("rloo", 40)])
def test_held_out_accuracy_rises_by_ten_points_and_beyond_its_interval(learn, algo, steps):
    evaluation = learn(algo, f"algo={algo}", "task=countdown", f"algo.args.max_steps={steps}")
    assert evaluation["paired"]["difference"]["value"] > 0.1
    assert evaluation["paired"]["difference"]["low"] > 0.02
    assert evaluation["baseline"]["accuracy"]["high"] < evaluation["trained"]["accuracy"]["value"]

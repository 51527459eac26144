import pytest


@pytest.mark.parametrize(("algo", "steps", "rise"), [("grpo", 40, 0.1), ("ppo", 160, 0.05), ("rloo", 40, 0.05)])
def test_held_out_accuracy_rises_beyond_its_interval(learn, algo, steps, rise):
    evaluation = learn(algo, f"algo={algo}", "task=countdown", f"algo.args.max_steps={steps}", split="test")
    assert evaluation["paired"]["difference"]["value"] > rise
    assert evaluation["paired"]["difference"]["low"] > rise / 5
    assert evaluation["baseline"]["accuracy"]["high"] < evaluation["trained"]["accuracy"]["value"]

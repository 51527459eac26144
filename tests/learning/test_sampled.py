SAMPLED = "task.sampling.rows=1024"


def test_rejection_sampling_raises_held_out_accuracy_beyond_its_interval(learn):
    evaluation = learn("sft", "experiment=countdown_rejection_sampling", "algo.args.max_steps=60", SAMPLED)
    assert evaluation["paired"]["difference"]["low"] > 0.02


def test_dpo_raises_held_out_accuracy_and_ranks_held_out_pairs(learn):
    evaluation = learn("dpo", "algo=dpo", "task=countdown", "algo.args.max_steps=120", SAMPLED)
    assert evaluation["paired"]["difference"]["value"] > 0.02
    assert evaluation["trained"]["preference"]["accuracy"]["low"] > 0.55


def test_kto_ranks_held_out_pairs(learn):
    evaluation = learn("kto", "algo=kto", "task=countdown", "algo.args.max_steps=120", SAMPLED)
    assert evaluation["trained"]["preference"]["accuracy"]["value"] > 0.55
    assert evaluation["paired"]["difference"]["value"] > -0.05  # it gains little, on some seeds nothing


def test_a_reward_model_ranks_held_out_pairs(learn):
    evaluation = learn("reward_model", "algo=reward_model", "task=countdown", "algo.args.max_steps=25", SAMPLED)
    assert evaluation["baseline"]["accuracy"]["high"] < evaluation["trained"]["accuracy"]["low"]
    assert evaluation["trained"]["loss"]["high"] < evaluation["baseline"]["loss"]["low"]

"""The small versions of two experiments, on the shipped models and generated rows, earn more reward after training."""


def test_the_small_version_of_brevity_earns_more_after_training(learn):
    short = ["algo.args.max_steps=240", "eval.rows=64"]
    evaluation = learn("brevity", "experiment=brevity_lr_1e-5_tiny", *short, split="test")
    assert evaluation["paired"]["win_rate"]["low"] > 0.5
    assert evaluation["trained"]["mean_tokens"]["value"] < evaluation["baseline"]["mean_tokens"]["value"]
    assert "accuracy" not in evaluation["trained"] and "difference" not in evaluation["paired"]


def test_the_chain_from_a_reward_model_to_ppo_earns_more_reward(learn):
    learn("chain_rm", "experiment=hh_rlhf_gpt2_reward_model_tiny", "algo.args.max_steps=100", split="test")
    chain = ["experiment=hh_rlhf_gpt2_ppo_tiny", "reward.path=chain_rm", "algo.args.max_steps=160", "eval.rows=128"]
    evaluation = learn("chain_ppo", *chain, split="test")
    assert evaluation["trained"]["reward"]["mean"]["low"] > evaluation["baseline"]["reward"]["mean"]["value"]

"""What each algorithm learns in few steps, on held-out rows."""

import pytest

from rlhf_exp.config import ROOT
from tests.building import build

DATA = ROOT.parent / "shared" / "data"
STORIES, PAIRS = DATA / "models" / "stories260K", DATA / "hh-rlhf"
SAMPLED = ["task=countdown", "task.sampling.rows=512"]
ROLLOUTS = ["algo.args.per_device_train_batch_size=64", "algo.args.max_steps=40"]


@pytest.mark.parametrize(
    ("algo", "steps", "rise"),
    [("grpo", ROLLOUTS, 0.1), ("ppo", ["algo.args.max_steps=80"], 0.05), ("rloo", ROLLOUTS, 0.03)],
)
def test_held_out_accuracy_rises_beyond_its_interval(learn, algo, steps, rise):
    evaluation, _ = learn(algo, f"algo={algo}", "task=countdown", "max_tokens=64", *steps, split="test")
    assert evaluation["paired"]["difference"]["value"] > rise
    assert evaluation["paired"]["difference"]["low"] > rise / 5
    assert evaluation["baseline"]["accuracy"]["high"] < evaluation["trained"]["accuracy"]["value"]


def test_what_the_start_model_samples_teaches_three_algorithms(learn, workplace):
    """Rejection sampling draws the completions; dpo and kto learn from pairs of the same ones."""
    rejection = ["experiment=countdown_rejection_sampling", "algo.args.max_steps=60", *SAMPLED]
    evaluation, _ = learn("sft", *rejection, split="test")
    assert evaluation["paired"]["difference"]["low"] > 0.02
    for algo in ("dpo", "kto"):
        drawn = ["task=countdown", f"task.samples={workplace}/sft/samples", "algo.args.learning_rate=3e-4"]
        evaluation, _ = learn(algo, f"algo={algo}", "algo.args.max_steps=48", *drawn, split="test")
        assert evaluation["paired"]["difference"]["low"] > 0.02, algo
        assert evaluation["trained"]["preference"]["accuracy"]["low"] > 0.5, algo


def test_a_student_nears_its_teacher(learn, workplace):
    """The teacher is the start model after a short sft on the better searches."""
    few = ["task=countdown", "eval.most_rows=128", "max_tokens=64", "algo.args.learning_rate=1e-3"]
    learn("teacher", "algo=sft", *few, "task.traces.skilled_share=1.0", "algo.args.max_steps=40", split="test")
    taught = ["algo=distill", f"teacher.path={workplace}/teacher", "algo.args.max_steps=20"]
    evaluation, losses = learn("student", *few, *taught, "algo.args.per_device_train_batch_size=64", split="test")
    before, after = (evaluation[side]["kl_teacher"]["mean"] for side in ("baseline", "trained"))
    assert after["high"] < before["low"] / 2 and evaluation["paired"]["kl_teacher"]["mean"]["high"] < 0
    assert losses[-1] < losses[0] / 2 and evaluation["teacher"]["n"] == 128


def test_a_reward_model_ranks_held_out_pairs(learn):
    evaluation, _ = learn("reward_model", "algo=reward_model", "algo.args.max_steps=25", *SAMPLED, split="test")
    assert evaluation["baseline"]["accuracy"]["high"] < evaluation["trained"]["accuracy"]["low"]
    assert evaluation["trained"]["loss"]["high"] < evaluation["baseline"]["loss"]["low"]


def test_the_recipe_of_the_shipped_model_learns_at_a_smaller_scale(learn):
    """`algo=sft model=tiny_untrained` in half a minute: the loss falls, and the model writes the format."""
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
             "num_key_value_heads": 2, "head_dim": 32}  # fmt: skip
    overrides = [f"model.init.{key}={value}" for key, value in shape.items()]
    overrides += ["algo.args.max_steps=400", "eval.rows=64", "max_tokens=64"]
    evaluation, losses = learn("recipe", "algo=sft", "task=countdown", "model=tiny_untrained", *overrides, split="test")
    assert losses[-1] < 0.5 * losses[0]
    failed = [evaluation[side]["counts"]["failed"] for side in ("baseline", "trained")]
    assert failed[0] > 48 and failed[1] < failed[0] - 16


# The small versions of two experiments, on the shipped models and generated rows.


def test_the_small_version_of_brevity_earns_more_after_training(learn):
    large = ["algo.args.per_device_train_batch_size=16", "algo.args.gradient_accumulation_steps=1"]  # 64 a rollout
    short = [*large, "algo.args.max_steps=120", "eval.rows=64"]
    evaluation, _ = learn("brevity", "experiment=brevity_lr_1e-5_tiny", *short, split="test")
    assert evaluation["paired"]["win_rate"]["low"] > 0.5
    assert evaluation["trained"]["mean_tokens"]["value"] < evaluation["baseline"]["mean_tokens"]["value"]
    assert "accuracy" not in evaluation["trained"] and "difference" not in evaluation["paired"]


def test_the_chain_from_a_reward_model_to_ppo_earns_more_reward(learn):
    learn("chain_rm", "experiment=hh_rlhf_gpt2_reward_model_tiny", "algo.args.max_steps=100", split="test")
    chain = ["experiment=hh_rlhf_gpt2_ppo_tiny", "reward.path=chain_rm", "algo.args.max_steps=160", "eval.rows=128"]
    evaluation, _ = learn("chain_ppo", *chain, split="test")
    assert evaluation["trained"]["reward"]["mean"]["low"] > evaluation["baseline"]["reward"]["mean"]["value"]


# Real preferences, and a model that was really trained, on stories.

needs_stories = pytest.mark.skipif(not (STORIES.is_dir() and PAIRS.is_dir()), reason=f"needs {STORIES} and {PAIRS}")
REAL = [
    *("task.train_rows=128", "eval.rows=64", "task.max_length=256", "max_tokens=32", f"model.path={STORIES}"),
    *("task=hh_rlhf", "task.source=file", f"task.path={PAIRS}"),
    *("algo.args.per_device_train_batch_size=8", "algo.args.learning_rate=1e-3", "algo.args.max_steps=8"),
]


@needs_stories
def test_sft_learns_the_chosen_answers(learn):
    _, losses = learn("hh_sft", "algo=sft", *REAL, "algo.args.max_steps=16", "algo.args.logging_steps=1")
    assert sum(losses[-4:]) < sum(losses[:4]) - 1, losses


@needs_stories
def test_a_simple_reward_of_a_model_trained_on_text_rises_several_times_over(tmp_path):
    """Reward: how many of the words are `the`, at most one in three."""

    def share(completions, **columns):
        words = [text.lower().split() for text in completions]
        return [min(1 / 3, row.count("the") / max(1, len(row))) for row in words]

    overrides = [f"model.path={STORIES}", "max_tokens=32", "algo.args.max_steps=15", "algo.args.learning_rate=1e-3"]
    overrides += ["algo.args.beta=0", "algo.args.logging_steps=1", "algo.args.save_strategy=no", "device=cpu"]
    overrides += ["reward=outcome", "algo.args.per_device_train_batch_size=64"]
    rows = [{"id": str(i), "prompt": "Once upon a time"} for i in range(200)]
    trainer = build(tmp_path, *overrides, rows=rows, reward=share)
    trainer.train()
    rewards = [row["reward"] for row in trainer.state.log_history if "reward" in row]
    assert rewards[-1] > 5 * rewards[0], rewards

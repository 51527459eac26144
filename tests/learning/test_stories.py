"""Real preferences, and a model that was really trained, on stories."""

import json

import pytest

from rlhf_exp.config import ROOT

DATA = ROOT.parent / "shared" / "data"
STORIES, PAIRS = DATA / "models" / "stories260K", DATA / "hh-rlhf"


@pytest.fixture
def real_pairs():
    for path in (STORIES, PAIRS):
        if not path.is_dir():
            pytest.skip(f"needs {path}")
    small = ["task.train_rows=128", "eval.rows=64", "task.max_length=256", "max_tokens=32", "algo.args.max_steps=8"]
    small += [f"model.path={STORIES}", "task=hh_rlhf", "task.source=file", f"task.path={PAIRS}"]
    return [*small, "algo.args.per_device_train_batch_size=8", "algo.args.learning_rate=1e-3"]


@pytest.mark.parametrize("algo", ["reward_model", "dpo"])
def test_real_preferences_are_learned_from_whatever_comes_of_it(workplace, learn, real_pairs, algo):
    evaluation = learn(f"hh_{algo}", f"algo={algo}", *real_pairs)
    rows = [json.loads(line) for line in (workplace / f"hh_{algo}" / "metrics.jsonl").read_text().splitlines()]
    section = evaluation["trained"] if algo == "reward_model" else evaluation["trained"]["preference"]
    assert (
        section["n"] == 64 and section["accuracy"]["low"] < section["accuracy"]["value"] < section["accuracy"]["high"]
    )
    assert rows[0]["loss"] == pytest.approx(0.69, abs=0.1) and len(rows) == 8


def test_sft_learns_the_chosen_answers(workplace, learn, real_pairs):
    learn("hh_sft", "algo=sft", *real_pairs, "algo.args.max_steps=16", "algo.args.logging_steps=1")
    losses = [json.loads(line)["loss"] for line in (workplace / "hh_sft" / "metrics.jsonl").read_text().splitlines()]
    assert sum(losses[-4:]) < sum(losses[:4]) - 1, losses


def test_a_simple_reward_of_a_model_trained_on_text_rises_several_times_over(tmp_path):
    """Reward: how many of the words are `the`, at most one in three."""
    if not STORIES.is_dir():
        pytest.skip(f"needs {STORIES}")
    from rlhf_exp.config.compose import compose_config
    from rlhf_exp.config.trl_args import build_args
    from rlhf_exp.experiment import Experiment
    from rlhf_exp.models.loading import load_tokenizer
    from rlhf_exp.models.source import locate_start_model
    from rlhf_exp.tasks import Task
    from rlhf_exp.trainers import build_trainer

    def share(completions, **columns):
        words = [text.lower().split() for text in completions]
        return [min(1 / 3, row.count("the") / max(1, len(row))) for row in words]

    overrides = [f"model.path={STORIES}", "max_tokens=32", "algo.args.max_steps=15", "algo.args.learning_rate=1e-3"]
    overrides += ["algo.args.beta=0", "algo.args.logging_steps=1", "algo.args.save_strategy=no", "device=cpu"]
    overrides += ["reward=outcome", "algo.args.per_device_train_batch_size=64"]
    cfg = compose_config([*overrides, f"output_dir={tmp_path}"])
    rows = [{"id": str(i), "prompt": "Once upon a time"} for i in range(200)]
    source = locate_start_model(cfg)
    task, tokenizer = Task("stories", rows, [], None), load_tokenizer(source)
    trainer = build_trainer(Experiment(cfg, None, source, tokenizer, task, [share], build_args(cfg)))
    trainer.train()
    rewards = [row["reward"] for row in trainer.state.log_history if "reward" in row]
    assert rewards[-1] > 5 * rewards[0], rewards

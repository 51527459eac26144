"""Every algorithm learns: few steps, held-out rows, the shipped model and one that was trained on stories."""

import json
import subprocess
import sys

import pytest

from rlhf_exp.config import ROOT

DATA = ROOT.parent / "shared" / "data"
SAMPLED = "task.sampling.rows=512"
STORIES, PAIRS = DATA / "models" / "stories260K", DATA / "hh-rlhf"


def run(folder, name, *overrides):
    """evaluation.json of one run; runs in one folder share what they sample from the start model."""
    command = [sys.executable, "-m", "rlhf_exp", "device=cpu", "eval.split=validation", *overrides]
    done = subprocess.run([*command, f"output_dir={name}"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((folder / name / "evaluation.json").read_text())


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    return tmp_path_factory.mktemp("learning")


@pytest.mark.slow
def test_grpo_raises_held_out_accuracy_by_ten_points_and_beyond_its_interval(workplace):
    evaluation = run(workplace, "grpo", "algo=grpo", "task=countdown", "algo.args.max_steps=40")
    assert evaluation["paired"]["difference"]["value"] > 0.1
    assert evaluation["paired"]["difference"]["low"] > 0.02
    assert evaluation["baseline"]["accuracy"]["high"] < evaluation["trained"]["accuracy"]["value"]


@pytest.mark.slow
def test_rejection_sampling_raises_held_out_accuracy_beyond_its_interval(workplace):
    evaluation = run(workplace, "sft", "experiment=countdown_rejection_sampling", "algo.args.max_steps=60", SAMPLED)
    assert evaluation["paired"]["difference"]["low"] > 0.02


@pytest.mark.slow
def test_dpo_raises_held_out_accuracy_and_ranks_held_out_pairs(workplace):
    evaluation = run(workplace, "dpo", "algo=dpo", "task=countdown", "algo.args.max_steps=60", SAMPLED)
    assert evaluation["paired"]["difference"]["value"] > 0.02
    assert evaluation["trained"]["preference"]["accuracy"]["low"] > 0.55


@pytest.mark.slow
def test_a_reward_model_ranks_held_out_pairs(workplace):
    evaluation = run(
        workplace, "reward_model", "algo=reward_model", "task=countdown", "algo.args.max_steps=25", SAMPLED
    )
    assert evaluation["baseline"]["accuracy"]["high"] < evaluation["trained"]["accuracy"]["low"]
    assert evaluation["trained"]["loss"]["high"] < evaluation["baseline"]["loss"]["low"]


@pytest.fixture
def real_pairs():
    for path in (STORIES, PAIRS):
        if not path.is_dir():
            pytest.skip(f"needs {path}")
    small = ["task.train_rows=128", "eval.rows=64", "task.max_length=256", "max_tokens=32", "algo.args.max_steps=8"]
    small += [f"model.path={STORIES}", "task=hh_rlhf", "task.source=file", f"task.path={PAIRS}"]
    return [*small, "algo.args.per_device_train_batch_size=8", "algo.args.learning_rate=1e-3"]


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["reward_model", "dpo"])
def test_real_preferences_are_learned_from_whatever_comes_of_it(workplace, real_pairs, algo):
    evaluation = run(workplace, f"hh_{algo}", f"algo={algo}", *real_pairs)
    rows = [json.loads(line) for line in (workplace / f"hh_{algo}" / "metrics.jsonl").read_text().splitlines()]
    section = evaluation["trained"] if algo == "reward_model" else evaluation["trained"]["preference"]
    assert (
        section["n"] == 64 and section["accuracy"]["low"] < section["accuracy"]["value"] < section["accuracy"]["high"]
    )
    assert rows[0]["loss"] == pytest.approx(0.69, abs=0.1) and len(rows) == 8


@pytest.mark.slow
def test_grpo_raises_a_simple_reward_of_a_model_trained_on_text_several_times_over(tmp_path):
    """Reward: how many of the words are `the`, at most one in three."""
    if not STORIES.is_dir():
        pytest.skip(f"needs {STORIES}")
    from rlhf_exp.config import compose_config
    from rlhf_exp.models import load_tokenizer
    from rlhf_exp.tasks import Task
    from rlhf_exp.trainers import Parts, build_trainer
    from rlhf_exp.trl_args import build_args

    def share(completions, **columns):
        words = [text.lower().split() for text in completions]
        return [min(1 / 3, row.count("the") / max(1, len(row))) for row in words]

    overrides = [f"model.path={STORIES}", "max_tokens=32", "algo.args.max_steps=15", "algo.args.learning_rate=1e-3"]
    overrides += ["algo.args.beta=0", "algo.args.save_strategy=no", "device=cpu", f"output_dir={tmp_path}"]
    cfg = compose_config([*overrides, "algo.args.per_device_train_batch_size=64"])
    rows = [{"id": str(i), "prompt": "Once upon a time"} for i in range(200)]
    task, tokenizer = Task("stories", rows, [], None), load_tokenizer(cfg, str(STORIES))
    trainer = build_trainer(Parts(cfg, build_args(cfg), str(STORIES), tokenizer, task, [share], None))
    trainer.train()
    rewards = [row["reward"] for row in trainer.state.log_history if "reward" in row]
    assert rewards[-1] > 5 * rewards[0], rewards

"""completions.jsonl of short trainings, of each algorithm that samples."""

from collections import Counter

import pytest

from rlhf_exp.callbacks.completions import CompletionsWriter
from tests.building import DISTILL_8, QUIET, ROLLOUTS_OF_8, UNTRAINED, build, read_jsonl, reward_length

ROWS = [{"id": str(i), "prompt": f"use {i + 2} 7 3 make 53 ."} for i in range(16)]
TWO_STEPS = [
    *("algo.args.max_steps=2", "algo.args.num_iterations=1", "algo.args.logging_steps=1"),
    "reward.weights.outcome=0.5",
]
SMALL = ["reward=outcome", *UNTRAINED, *QUIET, "max_tokens=6"]


def train(folder, *overrides, most=8, rows=ROWS, resume=None):
    """The lines that training has written, and TRL's figures of each step."""
    trainer = build(folder, *SMALL, *overrides, rows=rows, reward=reward_length)
    trainer.processing_class.chat_template = "{% for message in messages %}{{ message.content }} {% endfor %}"
    trainer.add_callback(CompletionsWriter(trainer, folder, most))
    trainer.train(resume_from_checkpoint=resume)
    logged = {row["step"]: row for row in trainer.state.log_history if "reward" in row}
    return read_jsonl(folder / "completions.jsonl"), logged


@pytest.mark.parametrize("algo", ROLLOUTS_OF_8)
def test_the_kept_completions_are_those_that_trls_figures_are_of(algo, tmp_path):
    lines, logged = train(tmp_path, *ROLLOUTS_OF_8[algo], *TWO_STEPS)
    for step in (1, 2):
        rows = [row for row in lines if row["step"] == step]
        assert len(rows) == 8 and {row["rollout"] for row in rows} == {step}
        figures = logged[step]
        assert sum(row["reward"] for row in rows) / 8 == pytest.approx(figures["reward"], abs=1e-5)
        assert sum(row["tokens"] for row in rows) / 8 == figures["completions/mean_length"]
        assert sum(row["truncated"] for row in rows) / 8 == figures["completions/clipped_ratio"]
        for row in rows:
            assert row["rewards"] == {"reward_length": len(row["completion"])}
            assert row["reward"] == 0.5 * len(row["completion"])
            assert row["prompt"] == ROWS[int(row["id"])]["prompt"]
        groups = [[row for row in rows if row["id"] == name] for name in {row["id"] for row in rows}]
        assert all([row["sample"] for row in group] == list(range(len(group))) for group in groups)
        if algo == "ppo":
            assert not any("advantage" in row for row in rows)
        else:
            assert all(sum(row["advantage"] for row in group) == pytest.approx(0, abs=1e-5) for group in groups)


def test_the_completions_of_a_student_have_no_reward(tmp_path):
    lines, _ = train(tmp_path, *DISTILL_8, "algo.args.max_steps=2")
    assert Counter((row["step"], row["rollout"]) for row in lines) == {(1, 1): 8, (2, 2): 8}
    assert all(row["reward"] is None and row["prompt"] == ROWS[int(row["id"])]["prompt"] for row in lines)


@pytest.mark.parametrize(("most", "kept"), [(1, 2), (5, 4), (100, 8)])
def test_groups_stay_whole_and_trls_own_table_is_printed(tmp_path, capsys, most, kept):
    given = ["algo.args.max_steps=1", "+algo.args.log_completions=true"]
    lines, _ = train(tmp_path, *ROLLOUTS_OF_8["grpo"], *given, most=most)
    assert " Step 1 " in capsys.readouterr().out
    assert len(lines) == kept and set(Counter(row["id"] for row in lines).values()) == {2}


def test_a_rollout_of_several_steps_is_written_once(tmp_path):
    lines, _ = train(tmp_path, *ROLLOUTS_OF_8["grpo"], "algo.args.max_steps=4", "algo.args.num_iterations=2")
    assert Counter((row["step"], row["rollout"]) for row in lines) == {(1, 1): 8, (3, 2): 8}


def test_a_prompt_of_messages_is_written_as_in_samples_jsonl(tmp_path):
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "2 + 2 ?"}]
    rows = [{"id": str(i), "prompt": messages} for i in range(4)]
    lines, _ = train(tmp_path, *ROLLOUTS_OF_8["grpo"], "algo.args.max_steps=1", rows=rows)
    assert len(lines) == 8 and all(row["prompt"] == "2 + 2 ?" and row["messages"] == messages for row in lines)
    assert all(isinstance(row["completion"], str) for row in lines)

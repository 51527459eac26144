import json
from hashlib import sha256
from random import Random
from types import SimpleNamespace

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.graders.countdown import grade
from rlhf_exp.tasks import draw_prompts, load_task, loading
from rlhf_exp.tasks.countdown import SPLITS, draw_problems, problem_id, split_of
from tests.graders.test_countdown import solve
from tests.tasks.building import refuse, write_rows

PLAIN = SimpleNamespace(chat_template=None)
CHAT = SimpleNamespace(chat_template="{{ messages }}")


def load(*overrides, tokenizer=PLAIN):
    few = [] if any(text.startswith("eval.rows") for text in overrides) else ["eval.rows=8"]  # drawing takes its time
    return load_task(compose_config([*few, *overrides]), tokenizer)


def test_the_rows_and_the_traces_are_those_that_were_approved():
    cfg = compose_config(["algo=sft", "task.train_rows=300", "eval.rows=100", "device=cpu"])
    rows = load_task(cfg, PLAIN)
    text = json.dumps([rows.train, rows.eval, rows.demonstrations])
    assert sha256(text.encode()).hexdigest()[:16] == "4985603e08ae8913"


@pytest.mark.parametrize("numbers", ["[3]", "[4]", "[3,4]"])
def test_every_generated_problem_fits_the_ranges_and_has_a_solution(numbers):
    cfg = compose_config([f"task.numbers={numbers}", "task.high=25", "task.target_high=60"])
    for given, target in draw_problems(cfg.task, cfg.task.numbers, "test", 40 if numbers == "[3]" else 10, seed=0):
        assert len(given) in cfg.task.numbers
        assert all(1 <= n <= 25 for n in given) and 10 <= target <= 60
        assert any(grade(f"<answer>{e}</answer>", given, target).score == 1.0 for e in solve(given, target))


def test_a_problem_has_one_split_whatever_the_order_of_its_numbers():
    assert split_of([8, 7, 3], 53) == split_of([3, 8, 7], 53)
    shares = {name: 0 for name in SPLITS}
    for a in range(1, 15):
        for b in range(1, 15):
            for target in range(10, 60):
                shares[split_of([a, b, 5], target)] += 1
    total = sum(shares.values())
    for name, buckets in SPLITS.items():
        assert shares[name] / total == pytest.approx(len(buckets) / 100, abs=0.02)


def test_demonstrations_prompts_and_held_out_rows_share_no_problem():
    grpo, sft = load("task.train_rows=2000", "eval.rows=null"), load("algo=sft", "task.train_rows=1000")
    words = [[int(word) for word in row["prompt"].split() if word.isdigit()] for row in sft.train]
    shown = {problem_id(numbers, target) for *numbers, target in words}
    asked, held_out = ({row["id"] for row in rows} for rows in (grpo.train, grpo.eval))
    assert not shown & asked and not shown & held_out and not asked & held_out
    assert len(held_out) == len(grpo.eval) == 1398


def test_chat_models_get_messages_with_the_tags_spelled_out():
    row = load("eval.rows=1", tokenizer=CHAT).eval[0]
    [message] = row["prompt"]
    assert message["role"] == "user" and str(row["target"]) in message["content"]
    assert "<think>" in message["content"] and "<answer>" in message["content"]
    trace = load("algo=sft", "task.train_rows=1", tokenizer=CHAT).train[0]["completion"]
    assert trace[0]["role"] == "assistant" and trace[0]["content"].startswith("<think>")
    assert isinstance(load("eval.rows=1", "task.prompt=plain", tokenizer=CHAT).eval[0]["prompt"], str)


def test_prompts_to_sample_from_are_different_problems_of_the_train_split():
    cfg = compose_config([])
    rows = draw_prompts(cfg, PLAIN, 200)
    assert len({row["id"] for row in rows}) == 200
    assert {split_of(row["numbers"], row["target"]) for row in rows} == {"train"}
    assert rows[:50] == draw_prompts(cfg, PLAIN, 50)
    assert rows[0].keys() == {"id", "prompt", "numbers", "target"}
    assert isinstance(draw_prompts(cfg, CHAT, 1)[0]["prompt"], list)


def test_local_rows_are_read_split_and_deduplicated(tmp_path):
    problems = draw_problems(compose_config([]).task, [3], "train", 60, seed=0)
    problems += draw_problems(compose_config([]).task, [3], "test", 30, seed=0, distinct=True)
    Random(0).shuffle(problems)
    rows = [{"nums": numbers, "target": target} for numbers, target in problems]
    path = write_rows(tmp_path / "rows.jsonl", [*rows, "", rows[0]])
    task = load("task.source=file", f"task.path={path}", "eval.rows=30")
    assert len(task.eval) == 30
    assert {row["id"] for row in task.train} == {problem_id(*p) for p in problems if split_of(*p) == "train"}
    assert task.notes[0].startswith("91 problems read; ")


@pytest.mark.parametrize("row", [{"nums": [1, 2]}, {"nums": [1, -2], "target": 3}, {"nums": [1, 2], "target": 2.5}])
def test_a_broken_local_row_is_refused_with_its_line_number(tmp_path, row):
    path = write_rows(tmp_path / "rows.jsonl", [{"nums": [1, 2, 3], "target": 6}, row])
    assert refuse(load, "task.source=file", f"task.path={path}").startswith(f"{path}, line 2: ")


def test_all_problems_of_a_split_are_taken_once_whatever_the_seed():
    task = compose_config(["task.high=8"]).task
    whole = [draw_problems(task, [3], "test", 1_000, seed, distinct=True, fewer=True) for seed in (0, 1)]
    names = [[problem_id(*problem) for problem in problems] for problems in whole]
    there_are = len(names[0])
    assert set(names[0]) == set(names[1]) and len(set(names[0])) == there_are and names[0] != names[1]
    assert draw_problems(task, [3], "test", there_are, 0, distinct=True) == whole[0]
    assert draw_problems(task, [3], "test", there_are - 1, 0, distinct=True) == whole[0][:-1]
    line = refuse(draw_problems, task, [3], "test", there_are + 1, 0, distinct=True)
    assert f"found {there_are} of {there_are + 1} problems" in line


@pytest.mark.parametrize(
    ("overrides", "rows"),
    [
        (["algo=grpo", "algo.args.max_steps=3", "algo.args.gradient_accumulation_steps=2"], 3 * 16),
        (["algo=grpo", "algo.args.max_steps=3", "algo.args.num_iterations=2"], 2 * 8),
        (["algo=ppo", "algo.args.max_steps=2"], 128),
        (["algo=ppo", "algo.args.max_steps=9", "algo.args.num_iterations=2"], 2 * 128),
        (["algo=ppo", "algo.args.max_steps=5", "+algo.args.generation_batch_size=64"], 3 * 64),
        (["algo=sft", "algo.args.max_steps=7", "algo.args.gradient_accumulation_steps=2"], 7 * 64),
    ],
)
def test_as_many_rows_are_drawn_as_whole_rollouts_need(overrides, rows):
    drop = ["~algo.args.steps_per_generation"] if "+algo.args.generation_batch_size=64" in overrides else []
    assert loading._count_needed(compose_config([*overrides, *drop])) == rows


FEW = ["eval.every_rows=8", "task.sampling.rows=8"]


def test_very_many_steps_draw_a_bounded_number_of_rows_and_say_so(monkeypatch):
    assert loading._count_drawn(compose_config(["algo.args.max_steps=10000000"])) == (loading.MOST_DRAWN, 80_000_000)
    monkeypatch.setattr(loading, "MOST_DRAWN", 50)
    task = load_task(compose_config(["eval.rows=4", *FEW]), PLAIN)
    assert len(task.train) == 50
    assert task.notes == ("training uses 880 rows: 50 are drawn, and then come again",)
    monkeypatch.setattr(loading, "MOST_DRAWN", 1_000)
    longer = load_task(compose_config(["eval.rows=4", *FEW]), PLAIN)
    assert longer.train[:50] == task.train and len(longer.train) == 880


@pytest.mark.parametrize(
    ("typed", "line"),
    [("algo=dpo task.sampling.rows=1000000", "task.sampling.rows=1000000: allowed is 1 to 200,000"),
     ("task.train_rows=10000000", "task.train_rows=10000000: allowed is 1 to 200,000"),
     ("task.numbers=[6] task.high=100 eval.rows=1000000", "eval.rows=1000000: allowed is 1 to 200,000")],
)  # fmt: skip
def test_more_rows_than_are_drawn_is_refused_before_any_is_drawn(typed, line, monkeypatch):
    monkeypatch.setattr("rlhf_exp.tasks.countdown.draw_problems", lambda *args, **kwargs: pytest.fail("drawn"))
    assert refuse(load_task, compose_config(typed.split()), PLAIN).startswith(line)

"""task=mixture: rows of several tasks in given shares, each measured for itself."""

import re
from collections import Counter

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.runs.load import load_run
from rlhf_exp.tasks import draw_prompts, load_task
from tests.tasks.building import build_tokenizer, refuse, write_rows

TWO = "task.of={countdown: {}, gsm8k: {source: generated, largest: 20}}"
EASY = "task.of={countdown: {}, easy: {name: countdown, numbers: [2]}}"
UNGRADED = (
    "task.of={countdown: {}, mine: {name: file, path: examples/own_task/rows.jsonl, prompt_template: '{target}'}}"
)
OF_MINE = (
    "task.of={{countdown: {{}}, mine: {{name: file, {}path: examples/own_task/rows.jsonl,"
    " checker: examples/own_task/check.py:grade}}}}"
)
OF_MODULE = "task.of={countdown: {}, mine: {name: module, module: examples/own_task/near.py}}"
SHARES = "task.shares={countdown: 0.75, gsm8k: 0.25}"


def compose(*overrides):
    return compose_config(["task=mixture", "model=tiny_qwen3", "max_tokens=8", "device=cpu", *overrides])


def load(*overrides):
    return load_task(compose("eval.rows=40", *overrides), build_tokenizer())


def test_the_rows_have_the_shares_and_the_columns_of_their_tasks():
    task = load(TWO, SHARES, "task.train_rows=200")
    assert Counter(row["task"] for row in task.train) == {"countdown": 150, "gsm8k": 50}
    assert {len(row) for row in task.train} == {6} and not {row["id"] for row in task.train} & {
        row["id"] for row in task.eval
    }
    for row in [*task.train, *task.eval]:
        assert row["id"].startswith(f"{row['task']} ") and (row["answer"] is None) == (row["task"] == "countdown")
    assert {row["task"] for row in task.eval} == {"countdown", "gsm8k"}


def test_each_row_is_graded_by_its_own_task():
    task = load(TWO)
    word = next(row for row in task.eval if row["task"] == "gsm8k")
    number = next(row for row in task.eval if row["task"] == "countdown")
    assert task.grade(word["answer"], word).outcome == "correct"
    assert task.grade(word["answer"], number).outcome == "failed"


def test_what_is_held_out_does_not_depend_on_the_seed_of_the_data():
    first, second = (load(TWO, f"task.data_seed={seed}") for seed in (0, 1))
    assert first.eval == second.eval and first.train != second.train


def test_algorithms_learn_from_what_all_parts_give(tmp_path):
    rows = [{"prompt": f"What is {n} + 1?", "answer": f"{n + 1}"} for n in range(300)]
    mine = (
        f"mine: {{name: file, source: file, path: {write_rows(tmp_path / 'rows.jsonl', rows)}, answer_column: answer}}"
    )
    assert {row["completion"] != "" for row in load(TWO, "algo=sft", "reward=none").train} == {True}
    own = f"task.of={{gsm8k: {{source: generated}}, {mine}}}"
    assert not compose(own).task.demonstrates
    task = load(own)
    row = next(row for row in task.eval if row["task"] == "mine")
    assert [task.grade(text, row).outcome for text in (row["answer"], "no")] == ["correct", "failed"]
    cfg = compose(own, "algo=dpo", "reward=none", "task.sampling.rows=8")
    assert {row["task"] for row in draw_prompts(cfg, build_tokenizer(), 8)} == {"gsm8k", "mine"}


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ([], "task.of: needs two parts or more, such as 'task.of={countdown: {}, gsm8k: {source: generated}}'"),
        ([TWO, "task.shares={countdown: 0.7, gsm8k: 0.4}"], "task.shares: must sum to 1, and sum to 1.1"),
        ([TWO, "task.shares={countdown: 0.7, gsm: 0.3}"], "task.shares: must name the parts, countdown, gsm8k; got"),
        (["task.of={countdown: {}, easy: {numbers: [2]}}"], "task.of.easy.name=easy: must be one of 'countdown'"),
        (["task.of={countdown: {}, gsm8k: {lagest: 9}}"], "lagest=9: no such key; did you mean task.of.gsm8k.largest"),
        (["task.of={countdown: {low: 30}, gsm8k: {}}"], "task.of.countdown.low=30: must be at most 20"),
        (["task.of={countdown: {}, gsm8k: {prompt: plain}}"], "task.of.gsm8k.prompt: is the same for all parts; set"),
        ([UNGRADED], "task.of.mine: its answers are not right or wrong; set task.of.mine.answer_column or"),
        (["task.of={countdown: {}, gsm8k: {source: file, path: no.jsonl}}"], "task.of.gsm8k.path=no.jsonl: no such"),
        ([TWO, "+reward.weights.graduated=1"], "reads numbers and target, which task=mixture does not have"),
        (["task.of=countdown"], "task.of=countdown: must be a mapping, as {key: value}"),
        (["task.of={countdown: 0.5}"], "task.of.countdown=0.5: must be a mapping, as {key: value}"),
        ([OF_MINE.format("")], "task.of.mine.prompt_template=null (to name columns:"),
        ([OF_MINE.format("prompt_template: '{target', ")], "task.of.mine.prompt_template='{target': not a template"),
        ([OF_MINE.format("prompt_template: '{target}', answer_column: no, ")], "task.of.mine.answer_column: examples/"),
        ([OF_MINE.format("splits: {train: a, test: b}, ")], "task.of.mine.splits: task.of.mine.path="),
        (["task.of={countdown: {}, gsm8k: {source: hub, hub_id: org/no}}"], "task.of.gsm8k.hub_id=org/no: cannot be"),
        (
            [TWO, "+eval.sets.far={task: file, path: examples/own_task/rows.jsonl}"],
            "eval.sets.far.prompt_template=null",
        ),
        ([OF_MODULE], "task.of.mine.module=examples/own_task/near.py: rows failed (raised KeyError"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line_of_its_own_key(overrides, line, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    told = refuse(load, *overrides)
    assert line in told and not re.search(r"\btask\.(?!of\b|shares|prompt\b)[a-z_]+", told.partition("task=file;")[0])


def test_a_part_without_rows_and_a_column_of_two_types_are_refused_by_name(tmp_path):
    for rows, line in (
        ([{"prompt": f"{n}?", "target": str(n)} for n in range(300)], "the column target has values of two types, int"),
        ([{"prompt": "2?", "answer": "2"}], "task.of.mine: has no rows in its test split"),
    ):
        column = next(name for name in rows[0] if name != "prompt")
        path = write_rows(tmp_path / "rows.jsonl", rows)
        mine = f"mine: {{name: file, source: file, path: {path}, answer_column: {column}}}"
        assert line in refuse(load, f"task.of={{countdown: {{}}, {mine}}}", "eval.rows=null")


def test_a_part_that_draws_too_few_rows_is_refused_by_name():
    far = "far: {name: countdown, target_low: 1000000, target_high: 1000000}"
    assert "task.of.far: " in refuse(load, f"task.of={{countdown: {{}}, {far}}}", "task.train_rows=8")


def test_a_run_measures_each_task_and_all(launch, tmp_path):
    out = tmp_path / "run"
    keys = ["algo=grpo", "task=mixture", EASY, "algo.args.max_steps=1", "eval.rows=32", "preflight=off"]
    small = ["algo.args.per_device_train_batch_size=16", "algo.args.num_generations=4", "task.train_rows=16"]
    assert launch(*keys, *small, f"output_dir={out}").returncode == 0
    run = load_run(out)
    assert {*run.parts} == {"countdown", "easy"}
    assert sum(found.baseline.n for found in run.parts.values()) == run.evaluation.baseline.n == 32
    whole = sum(found.trained.n * found.trained.accuracy["value"] for found in run.parts.values()) / 32
    assert whole == pytest.approx(run.evaluation.trained.accuracy["value"])
    assert "By task, in points: countdown" in (out / "report.md").read_text()

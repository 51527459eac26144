import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.gsm8k import grade
from rlhf_exp.tasks import draw_prompts, load_task
from rlhf_exp.tasks.synthetic import generate_problems
from tests.tasks.building import CHAT_TEMPLATE, build_tokenizer, refuse, write_rows

PLAIN, CHAT = build_tokenizer(context=2048), build_tokenizer(CHAT_TEMPLATE, context=2048)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Overrides that read 400 problems from a file."""
    problems = [{"question": question, "answer": answer} for question, answer in generate_problems(400, seed=9)]
    path = write_rows(tmp_path_factory.mktemp("gsm8k") / "rows.jsonl", problems)
    return ["task.source=file", f"task.path={path}"]


def configure(source, *overrides):
    return compose_config(["task=gsm8k", "model=tiny_qwen3", "eval.rows=20", *source, *overrides])


def load(source, *overrides, tokenizer=PLAIN):
    return load_task(configure(source, *overrides), tokenizer)


def test_a_prompt_row_has_the_question_and_the_whole_gold_answer(rows):
    task = load(rows, "task.train_rows=30")
    for row in [*task.train, *task.eval]:
        assert set(row) == {"id", "prompt", "answer"}
        assert row["prompt"].startswith("Question: ") and row["prompt"].endswith("?\nAnswer:")
        assert task.grade(f" {row['answer']}", row).score == 1.0
        assert task.grade(" #### 0", row).outcome == "partial"
    assert (task.name, len(task.train), len(task.eval), task.pairs) == ("gsm8k", 30, 20, [])


def test_a_demonstration_is_the_gold_answer_without_the_calculators_annotations(rows):
    prompts = {row["prompt"]: row["answer"] for row in load(rows).train}
    task = load(rows, "algo=sft")
    assert len(task.train) == len(prompts) > 250
    for row in task.train:
        assert set(row) == {"prompt", "completion"}
        assert row["completion"].startswith(" ") and "<<" not in row["completion"] and ">>" not in row["completion"]
        assert grade(row["completion"], prompts[row["prompt"]]).strict
        assert " = " in row["completion"] and "\n#### " in row["completion"]


def test_chat_models_are_told_what_the_strict_grader_reads(rows):
    task = load(rows, "task.train_rows=3", tokenizer=CHAT)
    (message,) = task.train[0]["prompt"]
    assert message["role"] == "user" and message["content"].endswith("#### 42")
    assert grade(message["content"], "42").strict
    row = load(rows, "algo=sft", "task.train_rows=3", tokenizer=CHAT).train[0]
    (answer,) = row["completion"]
    assert answer["role"] == "assistant" and answer["content"] == answer["content"].strip()
    plain = load(rows, "algo=sft", "task.train_rows=3", "task.prompt=plain", tokenizer=CHAT).train[0]
    assert plain["completion"] == f" {answer['content']}"


def test_the_seeds_choose_the_rows_and_the_data_seed_leaves_the_held_out_ones_alone(rows):
    first, again = load(rows, "task.train_rows=30"), load(rows, "task.train_rows=30")
    assert (first.train, first.eval) == (again.train, again.eval)
    other = load(rows, "task.train_rows=30", "task.data_seed=1")
    assert other.train != first.train and other.eval == first.eval
    assert load(rows, "task.train_rows=30", "eval.seed=1").eval != first.eval
    assert load(rows, "task.train_rows=60").train[:30] == first.train


def test_more_rows_than_there_are_or_fit_are_refused_with_their_number(rows):
    counts, shortest = load(rows).facts["splits"], min(len(row["prompt"].encode()) for row in load(rows).train)
    fewer = f" has {counts['train']} rows in its train split ("
    assert sum(counts.values()) == 400
    assert f"has {counts['test']} rows in its test split (400 problems read; " in refuse(load, rows, "eval.rows=90")
    assert fewer in refuse(load, rows, "task.train_rows=399")
    line = refuse(draw_prompts, configure(rows), PLAIN, 399)
    assert line.startswith("task.sampling.rows=399: ") and fewer in line
    with pytest.raises(ConfigError) as error:
        load(rows, "max_tokens=230", tokenizer=build_tokenizer(context=240))
    train, test = error.value.problems
    assert f"0 rows of at most 240 tokens in its train split; {counts['train']} are longer" in train
    assert f"the shortest needs {shortest + 230}" in train and "in its test split" in test


def test_rows_longer_than_the_context_are_left_out_and_counted(rows):
    whole, short = load(rows, "max_tokens=100"), build_tokenizer(context=230)
    task = load(rows, "max_tokens=100", tokenizer=short)
    fitting = [row for row in whole.train if len(row["prompt"].encode()) + 100 <= 230]
    assert 0 < len(task.train) == len(fitting) < len(whole.train)
    assert task.train == fitting
    assert len(task.eval) == 20 and all(len(row["prompt"].encode()) + 100 <= 230 for row in task.eval)
    over_long = task.facts["over_long"]
    assert over_long["train"] == len(whole.train) - len(fitting)
    assert whole.facts["over_long"] == {"train": 0, "test": 0} and whole.notes[1].endswith(": none")
    assert f"left out: {over_long['train']} of train, {over_long['test']} of test" in task.notes[1]

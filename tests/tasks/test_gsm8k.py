import pytest

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.gsm8k import grade
from rlhf_exp.tasks import draw_prompts, load_task
from rlhf_exp.tasks.splits import split_of
from rlhf_exp.tasks.synthetic import generate_problems
from tests.tasks.building import CHAT_TEMPLATE, build_tokenizer, make_task, refuse, write_rows

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


def test_chat_models_are_told_what_the_strict_grader_reads(rows):
    task = load(rows, "task.train_rows=3", tokenizer=CHAT)
    (message,) = task.train[0]["prompt"]
    assert message["role"] == "user" and message["content"].endswith("#### 42")
    assert grade(message["content"], "42").strict
    (answer,) = load(rows, "algo=sft", "task.train_rows=3", tokenizer=CHAT).train[0]["completion"]
    plain = load(rows, "algo=sft", "task.train_rows=3", "task.prompt=plain", tokenizer=CHAT).train[0]
    assert plain["completion"] == f" {answer['content']}" and "<<" not in answer["content"]
    assert " = " in answer["content"] and "\n#### " in answer["content"]


def test_the_seeds_choose_the_rows_and_the_data_seed_leaves_the_held_out_ones_alone(rows):
    first, again = load(rows, "task.train_rows=30"), load(rows, "task.train_rows=30")
    assert (first.train, first.eval) == (again.train, again.eval)
    other = load(rows, "task.train_rows=30", "task.data_seed=1")
    assert other.train != first.train and other.eval == first.eval
    assert load(rows, "task.train_rows=30", "eval.seed=1").eval != first.eval
    assert load(rows, "task.train_rows=60").train[:30] == first.train


def test_more_rows_than_there_are_or_fit_are_refused_with_their_number(rows):
    counts, shortest = load(rows).facts["splits"], min(len(row["prompt"].encode()) for row in load(rows).train)
    assert f"has {counts['test']} rows in its test split (400 problems read; " in refuse(load, rows, "eval.rows=90")
    line = refuse(draw_prompts, configure(rows), PLAIN, 399)
    assert line.startswith("task.sampling.rows=399: ") and f" has {counts['train']} rows in its train split (" in line
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
    assert over_long["train"] == len(whole.train) - len(fitting) and whole.facts["over_long"] == {"train": 0, "test": 0}


GSM8K = ROOT.parent / "shared" / "data" / "gsm8k"
PROBLEMS = [{"question": question, "answer": answer} for question, answer in generate_problems(300, seed=5)]
GOOD = '{"question": "How many?", "answer": "#### 18"}'


def read(path, source="file", hub_id="openai/gsm8k"):
    found = make_task("gsm8k", source=source, path=str(path), hub_id=hub_id).rows()
    return found.splits, found.facts


def name_questions(splits):
    return {name: {problem.content for problem in problems} for name, problems in splits.items()}


def test_a_folder_keeps_its_test_part_and_the_same_questions_validate(tmp_path):
    write_rows(tmp_path / "train.jsonl", PROBLEMS[:200])
    assert refuse(read, tmp_path) == f"{tmp_path}/test.jsonl: cannot be read (No such file or directory)"
    write_rows(tmp_path / "test.jsonl", PROBLEMS[200:])
    splits, facts = read(tmp_path)
    found = name_questions(splits)
    assert found["test"] == {row["question"] for row in PROBLEMS[200:]}
    assert found["train"] | found["validation"] == {row["question"] for row in PROBLEMS[:200]}
    assert {split_of(question) for question in found["validation"]} == {"validation"}
    assert facts["read"] == {"train": 200, "test": 100}


def test_repeated_questions_and_those_of_the_test_part_are_dropped_and_counted(tmp_path):
    again = {"question": f" {PROBLEMS[0]['question']}\n", "answer": "Other words.\n#### 5"}
    write_rows(tmp_path / "train.jsonl", [*PROBLEMS[:10], again, PROBLEMS[1], *PROBLEMS[200:203]])
    write_rows(tmp_path / "test.jsonl", [*PROBLEMS[200:210], PROBLEMS[200]])
    splits, facts = read(tmp_path)
    assert (facts["duplicates"], facts["in_both_parts"]) == (3, 3)
    assert sum(map(len, splits.values())) == 20
    found = name_questions(splits)
    assert not (found["train"] | found["validation"]) & found["test"]
    kept = next(p for p in splits["train"] + splits["validation"] if p.content == PROBLEMS[0]["question"])
    assert kept.columns["answer"] == PROBLEMS[0]["answer"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"question": 1', "not JSON ("), (b'{"question": "a", "answer": 18}', "expected {"),
        (b'{"question": "a", "answer": "#### 18\\nI think"}', 'the answer must end with "#### number", got '),
        (b'{"question": "\\ud800", "answer": "#### 1"}', '"question" holds half a character'),
        (b'{"question": "\xff", "answer": "#### 1"}', "not UTF-8 ("),
    ],
)  # fmt: skip
def test_a_broken_row_is_refused_with_its_file_and_line(tmp_path, line, problem):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(f"{GOOD}\n\n".encode() + line + b"\n")
    assert refuse(read, path).startswith(f"{path}, line 3: {problem}")


@pytest.mark.skipif(not GSM8K.exists(), reason="GSM8K is not beside this checkout")
def test_the_published_files_are_read_whole():
    splits, facts = read(GSM8K)
    sizes = {"train": 6844, "validation": 629, "test": 1319}
    assert facts == {"read": {"train": 7473, "test": 1319}, "duplicates": 0, "in_both_parts": 0, "splits": sizes}
    assert {name: len(problems) for name, problems in splits.items()} == sizes

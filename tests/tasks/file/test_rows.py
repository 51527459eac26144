"""task=file: rows with any columns, from every kind of file, for every kind of algorithm."""

import csv
import gzip
import json
from dataclasses import asdict

import pytest
from datasets import Dataset, DatasetDict
from omegaconf import OmegaConf

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.sampled import learn_from

ROWS = [
    {"question": f"What is {n} plus 1?", "answer": str(n + 1), "good": f"It is {n + 1}.", "bad": "No idea.",
     "split": "test" if n % 5 == 0 else "train"}
    for n in range(60)
]  # fmt: skip
TEMPLATE = "task.prompt_template='Question: {question}'"
SMALL = ["task=file", "model=tiny_qwen3", "max_tokens=8", "device=cpu", "eval.rows=null"]


def write(path, rows=ROWS):
    name = path.name
    if name.endswith(".parquet"):
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return path
    with gzip.open(path, "wt", newline="") if name.endswith(".gz") else path.open("w", newline="") as file:
        if ".csv" in name:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "csv", "csv.gz", "parquet"])
def test_every_kind_of_file_gives_the_same_rows(load, tmp_path, suffix):
    path = write(tmp_path / f"rows.{suffix}")
    task = load(path, TEMPLATE, "task.answer_column=answer", "task.checker=numeric")
    row = task.train[0]
    assert set(row) == {"id", "prompt", *ROWS[0]} and row["prompt"] == f"Question: {row['question']}"
    assert len(task.train) + len(task.eval) <= 60 and task.eval
    assert not {row["prompt"] for row in task.train} & {row["prompt"] for row in task.eval}
    same = load(write(tmp_path / "same.jsonl"), TEMPLATE, "task.answer_column=answer", "task.checker=numeric")
    assert same.train == task.train and same.eval == task.eval
    assert task.grade("so 3", {"answer": "3"}).outcome == "correct"


def test_splits_by_column_by_file_and_by_hash_are_disjoint(load, tmp_path):
    by_column = load(write(tmp_path / "rows.jsonl"), TEMPLATE, "task.split_column=split", "reward=brevity")
    assert {row["split"] for row in by_column.eval} == {"test"} and len(by_column.eval) == 12
    folder = tmp_path / "folder"
    folder.mkdir()
    for split in ("train", "test"):
        write(folder / f"{split}.jsonl", [row for row in ROWS if row["split"] == split])
    by_file = load(folder, TEMPLATE, "reward=brevity")
    assert by_file.train == by_column.train and by_file.eval == by_column.eval
    validation = load(folder, TEMPLATE, "reward=brevity", "eval.split=validation")
    assert {row["split"] for row in validation.eval} == {"train"}
    assert not {row["id"] for row in validation.eval} & {row["id"] for row in validation.train}
    write(folder / "validation.jsonl", [{**ROWS[0], "question": "Why?", "split": "validation"}])
    given = load(folder, TEMPLATE, "reward=brevity", "eval.split=validation")
    assert [row["question"] for row in given.eval] == ["Why?"] and len(given.train) == 48


NAMED = [{**row, "part": {"train": 0, "test": "dev"}[row["split"]] if row["question"] != ROWS[1]["question"] else "x"}
         for row in ROWS]  # fmt: skip


@pytest.mark.parametrize("source", ["column", "folder", "hub"])
def test_splits_are_found_by_the_names_that_the_source_has_for_them(load, tmp_path, source, monkeypatch):
    rows = [{**row, "part": str(row["part"])} for row in NAMED]
    parts = {name: [row for row in rows if row["part"] == name] for name in ("0", "dev", "x")}
    if source == "column":
        where = [f"task.path={write(tmp_path / 'rows.jsonl', rows)}", "task.split_column=part"]
    elif source == "folder":
        (tmp_path / "folder").mkdir()
        for name, found in parts.items():
            write(tmp_path / "folder" / f"{name}.csv", found)
        where = [f"task.path={tmp_path / 'folder'}"]
    else:
        data = DatasetDict({name: Dataset.from_list(found) for name, found in parts.items()})
        monkeypatch.setattr("datasets.load_dataset", lambda *args, **kwargs: data)
        where = ["task.source=hub", "task.hub_id=me/mine"]
    task = load(None, TEMPLATE, "reward=brevity", "task.splits={train: 0, test: dev}", *where)
    assert {row["part"] for row in task.eval} == {"dev"} and {row["part"] for row in task.train} == {"0"}
    assert len(task.eval) == 12 and task.facts["splits"]["validation"] > 0
    for names, line in (
        ("{train: 0, test: deb}", "deb|dev"),
        ("{train: 0, test: 0}", "task.splits: must name train, and no name twice"),
        ("{test: dev}", "task.splits: must name train"),
        ("{train: 0, test: [dev]}", "task.splits.test=.dev.: must be text or a whole number or true or false"),
        ("{train: null}", "dev|train"),
    ):
        with pytest.raises(ConfigError, match=line) as refused:
            load(None, TEMPLATE, "reward=brevity", f"task.splits={names}", *where)
        assert len(refused.value.problems) == 1, refused.value.problems


def test_demonstrations_and_pairs_come_from_named_columns(load, tmp_path):
    path = write(tmp_path / "rows.jsonl")
    sft = load(path, TEMPLATE, "algo=sft", "task.completion_column=good", "reward=none")
    assert sft.train[0].keys() == {"prompt", "completion"} and sft.train[0]["completion"].startswith(" It is")
    assert sft.demonstrations and sft.demonstrations[0].keys() == {"prompt", "completion"}
    pairs = ["task.chosen_column=good", "task.rejected_column=bad"]
    dpo = load(path, TEMPLATE, "algo=dpo", *pairs, "reward=none")
    assert dpo.train[0].keys() == {"id", "subset", "prompt", "chosen", "rejected"}
    assert dpo.pairs and not {pair["id"] for pair in dpo.pairs} & {pair["id"] for pair in dpo.train}
    kto = load(path, TEMPLATE, "algo=kto", *pairs, "reward=none")
    assert len(kto.train) == 2 * len(dpo.train) and {row["label"] for row in kto.train} == {True, False}
    scorer = load(path, TEMPLATE, "algo=reward_model", *pairs, "reward=none")
    assert scorer.pairs == dpo.pairs and scorer.eval == []
    with_answers = compose_config([*SMALL, f"task.path={path}", TEMPLATE, "algo=dpo", "task.answer_column=answer"])
    assert with_answers.learns_from_samples


def test_every_algorithm_is_measured_on_the_same_rows(load, tmp_path):
    path = write(tmp_path / "rows.jsonl", [*ROWS, *({**row, "good": "So be it."} for row in ROWS[::2])])
    pairs = ["task.chosen_column=good", "task.rejected_column=bad", "algo=dpo"]
    asked = [
        load(path, TEMPLATE, "task.answer_column=answer", "eval.most_rows=4", *more).eval
        for more in ([], ["algo=sft", "task.completion_column=good"], pairs)
    ]
    assert len(asked[0]) == 4
    for rows in asked[1:]:
        assert [(row["id"], row["prompt"]) for row in rows] == [(row["id"], row["prompt"]) for row in asked[0]]
    both = load(path, TEMPLATE, "reward=none", *pairs)
    ids = [pair["id"] for pair in both.train]
    assert len(set(ids)) == len(ids) and any(own.endswith(" #2") for own in ids)


def test_samples_of_another_template_are_refused(tmp_path, small_tokenizer):
    path = write(tmp_path / "rows.jsonl")
    keys = [*SMALL, f"task.path={path}", TEMPLATE, "task.answer_column=answer", "algo=dpo"]
    cfg = compose_config(keys)
    task = load_task(cfg, small_tokenizer())
    folder = tmp_path / "samples"
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(asdict(cfg))))
    (folder / "evaluation.json").write_text(json.dumps({"baseline": {"split": "train"}}))
    sample = {"id": "1", "prompt": "Question: Why?", "truncated": False}
    both = [sample | {"completion": " a", "outcome": "correct"}, sample | {"completion": " b", "outcome": "failed"}]
    many = [row | {"id": f"{i}"} for i in range(40) for row in both]
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in many))
    assert learn_from(cfg, task, folder).train
    other = compose_config([*keys, "task.prompt_template='{question}'"])
    with pytest.raises(ConfigError, match="was sampled with task.prompt_template=Question: {question}, and here it is"):
        learn_from(other, task, folder)


def test_repeated_rows_count_once_and_messages_are_prompts_of_chat_models(load, tmp_path):
    rows = [{"prompt": [{"role": "user", "content": row["question"]}], "answer": row["answer"]} for row in ROWS]
    path = write(tmp_path / "rows.jsonl", [*rows, *rows[:3]])
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    task = load(path, "task.answer_column=answer", "task.system_prompt='Be brief.'", chat_template=template)
    assert task.facts["dropped"]["repeated"] == 3
    assert task.train[0]["prompt"][0] == {"role": "system", "content": "Be brief."}
    assert task.eval[0]["prompt"][1]["role"] == "user"


def test_training_and_evaluation_see_the_same_values(load, tmp_path):
    rows = [{**row, "answer": n if n % 3 else n + 0.5, **({"level": 1} if n % 2 else {})} for n, row in enumerate(ROWS)]
    task = load(write(tmp_path / "rows.jsonl", rows), TEMPLATE, "task.answer_column=answer", "eval.split=validation")
    for rows in (task.train, task.eval):
        assert [row | {"prompt": None} for row in Dataset.from_list(rows)] == [row | {"prompt": None} for row in rows]
        assert all(isinstance(row["answer"], float) and row["level"] in (1, None) for row in rows)


def test_names_that_training_needs_are_left_out_of_the_columns(load, tmp_path):
    rows = [{**row, "completion": "x", "image": 3} for row in ROWS]
    task = load(write(tmp_path / "rows.jsonl", rows), TEMPLATE, "task.answer_column=answer")
    assert set(task.train[0]) == {"id", "prompt", *ROWS[0]} == set(task.eval[0])


def test_a_text_and_a_message_with_it_are_one_prompt_and_another_template_moves_no_row(load, tmp_path):
    both = [{"prompt": row["question"], "n": 1} for row in ROWS]
    both += [{"prompt": [{"role": "user", "content": row["question"]}], "n": 1} for row in ROWS]
    task = load(write(tmp_path / "both.jsonl", both), "reward=brevity")
    assert task.facts["dropped"]["repeated with other columns"] == sum(task.facts["splits"].values()) == 60
    path = write(tmp_path / "rows.jsonl")
    found = [load(path, f"task.prompt_template='{text}'", "reward=brevity") for text in ("{question}", "Q: {question}")]
    assert {row["question"] for row in found[0].eval} == {row["question"] for row in found[1].eval}


def test_without_test_rows_a_hash_makes_them_of_the_train_rows_alone(load, tmp_path):
    rows = [{**row, "split": "validation" if row["split"] == "test" else "train"} for row in ROWS]
    path = write(tmp_path / "rows.jsonl", rows)
    sides = {split: load(path, TEMPLATE, "task.split_column=split", "reward=brevity", f"eval.split={split}")
             for split in ("validation", "test")}  # fmt: skip
    given = {name: {row["split"] for row in task.eval} for name, task in sides.items()}
    assert given == {"validation": {"validation"}, "test": {"train"}} and len(sides["validation"].eval) == 12
    assert not {row["id"] for row in sides["test"].eval} & {row["id"] for row in sides["test"].train}


def test_a_line_break_can_be_typed(load, tmp_path):
    path = write(tmp_path / "rows.jsonl")
    task = load(path, "task.prompt_template='{question}\\nAnswer:'", "reward=brevity", "task.system_prompt='a\\nb'")
    assert task.train[0]["prompt"].endswith("?\nAnswer:") and task.train[0]["prompt"].startswith("a\nb\n\nWhat")


@pytest.mark.parametrize(
    ("rows", "overrides", "line"),
    [
        (ROWS, ["task.prompt_template='{qestion}'"], "holds no qestion .*; did you mean question?"),
        (ROWS, [TEMPLATE, "task.answer_column=anser"], "task.answer_column: .*holds no anser"),
        (ROWS, ["task.prompt_template='{question'"], "task.prompt_template='{question': expected '}'"),
        (ROWS, ["task.prompt_template=Why"], "must name columns in braces"),
        (ROWS, [], "task.prompt_template=null"),
        ([*ROWS, {**ROWS[0], "split": "train"}], [TEMPLATE, "task.split_column=split"],
         "line 1 .test. and .*line 61 .train. have one prompt"),
        ([{**ROWS[0], "split": "dev"}], [TEMPLATE, "task.split_column=split"], "its splits are dev; say which"),
        ([*ROWS, {"question": "Why?"}], [TEMPLATE, "task.answer_column=answer"], "line 61 holds no answer"),
        ([*ROWS, {"answer": "4"}], [TEMPLATE], "task.prompt_template: .*line 61 holds no question"),
        ([*ROWS, {**ROWS[0], "question": "Why?", "answer": "so"}],
         [TEMPLATE, "task.answer_column=answer", "task.checker=numeric"], "line 61: \"answer\" cannot be compared"),
        ([{**row, "level": "b" if row is ROWS[9] else 1} for row in ROWS], [TEMPLATE],
         "rows.jsonl: the column level cannot be held by a table"),
        ([{**row, "answer": ["3", "4"]} for row in ROWS], [TEMPLATE, "task.answer_column=answer"],
         "line 1: \"answer\" must hold one text or number"),
        ([{**row, "id": 1} for row in ROWS], [TEMPLATE], "has the id 1 of"),
    ],
)  # fmt: skip
def test_bad_rows_are_refused_in_one_line_with_their_place(load, tmp_path, rows, overrides, line):
    path = write(tmp_path / "rows.jsonl", rows)
    reward = [] if any("answer_column" in override for override in overrides) else ["reward=brevity"]
    with pytest.raises(ConfigError, match=line) as refused:
        load(path, *overrides, *reward)
    assert len(refused.value.problems) == 1 and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("task.path=ROWS task.answer_column=answer task.checker=numerc", "task.checker=numerc"),
        ("task.path=ROWS task.checker=numeric", "task.checker=numeric: needs task.answer_column"),
        ("task.path=ROWS task.answer_column=answer task.checker=regex", "task.pattern: belongs to task.checker=regex"),
        ("task.path=ROWS task.chosen_column=good", "task.chosen_column and task.rejected_column: must both be set"),
        ("task.path=ROWS task.source=hub", "task.source=hub: needs task.hub_id"),
        ("task.path=ROWS algo=dpo reward=none", "algo=dpo: needs"), ("task.path=ROWS", "algo=grpo: needs a reward"),
        ("reward=brevity", "task.source=file: needs task.path"),
    ],
)  # fmt: skip
def test_keys_that_do_not_fit_are_refused(tmp_path, typed, line):
    path = write(tmp_path / "rows.jsonl")
    with pytest.raises(ConfigError) as refused:
        compose_config([*SMALL, TEMPLATE, *typed.replace("ROWS", str(path)).split()])
    assert any(problem.startswith(line) for problem in refused.value.problems), refused.value.problems


def test_the_source_is_what_is_named(tmp_path):
    path = write(tmp_path / "rows.jsonl")
    for given, source in (([], "hub"), ([f"task.path={path}"], "file")):
        cfg = compose_config([*SMALL, TEMPLATE, "reward=brevity", "task.hub_id=me/mine", *given])
        assert cfg.task.source == source

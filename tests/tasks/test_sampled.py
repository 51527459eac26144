from types import SimpleNamespace

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.graders.countdown import grade
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.sampled import learn_from
from rlhf_exp.tasks.splits import split_of
from tests.tasks.building import refuse, write_rows

PLAIN, CHAT = (SimpleNamespace(chat_template=template) for template in (None, "{{ messages }}"))
NUMBERS, TARGET = [8, 7, 3], 53
RIGHT = [f"<answer> {e} </answer>" for e in ("( 8 * 7 ) - 3", "( 7 * 8 ) - 3", "- 3 + 8 * 7", "- 3 + 7 * 8")]
WRONG = [f"<answer> {e} </answer>" for e in ("8 + 7 + 3", "8 * 7 * 3", "8 - 7 - 3")]
NONE = "<think> 8 + 7 = 15"


def write_folder(folder, rows, keys="name: countdown", split="train", chat=False):
    """A folder as draw.py writes it; `rows`: the completions of each prompt, cut off where they end in ..."""
    samples = []
    for name, texts in rows.items():
        for i, text in enumerate(texts):
            sample = {
                "which": "baseline", "id": name, "sample": i, "decoding": "sampled", "prompt": f"use 8 7 3 ({name})",
                "completion": text.removesuffix("..."), "truncated": text.endswith("..."),
                "outcome": grade(text, NUMBERS, TARGET).outcome,
            }  # fmt: skip
            if chat:
                sample["messages"] = [{"role": "user", "content": sample["prompt"]}]
            samples.append(sample)
    write_rows(folder / "samples.jsonl", samples)
    write_rows(folder / ".hydra" / "config.yaml", [f"task: {{{keys}}}", "eval: {split: test}"])
    write_rows(folder / "evaluation.json", [{"baseline": {"split": split} if split else {}}])
    return folder


def name_of(split):
    """A row's id whose pairs belong to `split`."""
    return next(f"row {i}" for i in range(10_000) if split_of(f"pairs of row {i}") == split)


TRAIN, TEST, VALIDATION = map(name_of, ("train", "test", "validation"))
BOTH = {name: [RIGHT[0], WRONG[0]] for name in (TRAIN, TEST)}


def learn(folder, *overrides):
    cfg = compose_config([f"task.samples={folder}", "eval.rows=4", *overrides])
    tokenizer = CHAT if cfg.task.prompt == "chat" else PLAIN
    return learn_from(cfg, load_task(cfg, tokenizer), folder)


def test_pairs_join_the_ith_correct_with_the_ith_wrong_completion(tmp_path):
    folder = write_folder(tmp_path / "s", {TRAIN: [WRONG[0], RIGHT[0], NONE, RIGHT[1], RIGHT[2]], TEST: RIGHT + WRONG})
    task = learn(folder, "algo=dpo")
    assert sorted(task.train, key=lambda row: row["id"]) == [
        {"id": f"{TRAIN} #1", "subset": "partial", "prompt": f"use 8 7 3 ({TRAIN})",
         "chosen": f" {RIGHT[0]}", "rejected": f" {WRONG[0]}"},
        {"id": f"{TRAIN} #2", "subset": "failed", "prompt": f"use 8 7 3 ({TRAIN})",
         "chosen": f" {RIGHT[1]}", "rejected": f" {NONE}"},
    ]  # fmt: skip
    assert [row["id"] for row in task.pairs] == [f"{TEST} #1"]  # held out: one a prompt


def test_labelled_completions_need_no_other_side(tmp_path):
    folder = write_folder(tmp_path / "s", {TRAIN: [*WRONG, RIGHT[0], NONE], TEST: RIGHT + WRONG})
    task = learn(folder, "algo=kto", "task.sampling.per_prompt=2")
    assert sorted(task.train, key=lambda row: row["id"]) == [
        {"id": f"{TRAIN} #1", "subset": "correct", "prompt": f"use 8 7 3 ({TRAIN})",
         "completion": f" {RIGHT[0]}", "label": True},
        *({"id": f"{TRAIN} #{i + 2}", "subset": "partial", "prompt": f"use 8 7 3 ({TRAIN})",
           "completion": f" {WRONG[i]}", "label": False} for i in range(2)),
    ]  # fmt: skip
    assert [sorted(row) for row in task.pairs] == [["chosen", "id", "prompt", "rejected", "subset"]]
    assert task.notes[-1].endswith("; 3 labelled completions to train on, 1 pairs held out")


def test_cut_off_and_repeated_completions_are_left_out_and_counted(tmp_path):
    rows = {
        TRAIN: [RIGHT[0], RIGHT[0], WRONG[0], WRONG[0], f"{RIGHT[1]}...", f"{WRONG[1]}..."],
        TEST: [RIGHT[0], WRONG[0]],
        "all correct": [RIGHT[0], RIGHT[1], f"{WRONG[0]}..."],
        "all wrong": [WRONG[0], NONE],
        "cut": [f"{NONE}...", f"{RIGHT[0]}..."],
    }
    task = learn(write_folder(tmp_path / "s", rows), "algo=dpo")
    assert len(task.train) == len(task.pairs) == 1
    assert task.facts["samples"] == {
        "prompts": 5, "with_pairs": 2, "all_correct": 1, "all_wrong": 1, "none_ended": 1, "completions": 15,
        "truncated": 5, "pairs_train": 1, "pairs_test": 1,
    }  # fmt: skip
    assert task.notes == (
        "samples: 5 prompts: 2 with correct and wrong completions, 1 all correct, 1 all wrong, 1 without one that"
        " ended; 5 of 15 completions cut off and left out; 1 pairs to train on, 1 held out",
    )


@pytest.mark.parametrize("name", [".hydra/config.yaml", "evaluation.json", "samples.jsonl"])
@pytest.mark.parametrize("content", ["a: [", "7"])
def test_a_folder_with_a_damaged_file_is_refused(tmp_path, name, content):
    folder = write_folder(tmp_path / "s", BOTH)
    (folder / name).write_text(content)
    assert str(folder) in refuse(learn, folder, "algo=dpo")


@pytest.mark.parametrize(
    ("overrides", "rows", "made", "line"),
    [
        ("algo=dpo", BOTH, {"keys": "name: gsm8k"}, "was sampled with task.name=gsm8k, and here it is countdown"),
        ("algo=dpo", BOTH, {"keys": "prompt_template: Q"}, "was sampled with task.prompt_template=Q, and here it is"),
        ("algo=dpo", BOTH, {"split": None}, "its prompts are held out"),
        ("algo=dpo task.prompt=chat", BOTH, {}, "its prompts are plain text"),
        ("algo=dpo task.prompt=plain", BOTH, {"chat": True}, "its prompts are chat messages"),
        ("algo=dpo", BOTH | {TRAIN: RIGHT}, {}, "no pairs to train on, of 2 prompts: 1 with"),
        ("algo=reward_model", BOTH | {TEST: WRONG}, {}, "no pairs of the test split"),
        ("algo=sft", {TRAIN: WRONG, TEST: WRONG}, {}, "no demonstrations to train on"),
    ],
)  # fmt: skip
def test_samples_that_do_not_fit_are_refused(tmp_path, overrides, rows, made, line):
    folder = write_folder(tmp_path / "s", rows, **made)
    assert refuse(learn, folder, *overrides.split()).startswith(f"task.samples={folder}: {line}")

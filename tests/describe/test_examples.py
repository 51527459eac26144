import re

from rlhf_exp.config.compose import compose_config
from rlhf_exp.describe.rows import load_tokenizer, read_examples
from rlhf_exp.tasks import countdown
from rlhf_exp.tasks import gsm8k as gsm8k_files
from rlhf_exp.tasks.hh_rlhf import DROPPED, KEPT


def read(cfg):
    return read_examples(cfg, load_tokenizer(cfg))


def test_pairs_come_from_the_task_s_reader_with_its_odd_rows(hh_overrides):
    data = read(compose_config(["algo=sft", *hh_overrides]))
    assert f"task.path={data.source}" in hh_overrides and data.answers == ("chosen", "rejected")
    assert (data.read, len(data.examples)) == ({"harmless-base": 3, "helpful-base": 5}, 6)
    assert [odd.kind for odd in data.odd] == [*DROPPED, *KEPT]
    found = {odd.kind: (odd.kept, odd.counts) for odd in data.odd if odd.counts}
    assert found == {
        "empty_rejected": (False, {"helpful-base": 1}),
        "equal_answers": (False, {"harmless-base": 1}),
        "inline_speaker": (True, {"helpful-base": 1}),  # of the rows that stay
    }
    longest = max(data.examples, key=lambda example: example.turns)
    assert (longest.subset, longest.turns) == ("harmless-base", 4)
    assert longest.answers == (" No.", " Yes, of course, go on.")


def test_word_problems_come_with_their_splits_and_answers():
    data = read(compose_config(["algo=sft", "task=gsm8k", "task.source=generated", "model=tiny_gpt2"]))
    assert {example.split for example in data.examples} == {"train", "validation", "test"}
    assert {odd.kind for odd in data.odd} == set(gsm8k_files.DROPPED)
    assert "<<" not in data.examples[0].answers[0]


def test_a_right_answer_and_the_columns_of_graders_go_with_a_row_and_not_with_another_task_s_prompt():
    few = ["algo=none", "task.train_rows=20", "eval.rows=10"]
    last = read(compose_config([*few, "task=countdown"])).examples[-1]
    numbers, target = re.fullmatch(r"use ([\d ]+) make (\d+) \.", last.prompt).groups()
    assert last.known["columns"] == f"numbers: [{numbers.replace(' ', ', ')}]\ntarget: {target}"
    row = {"numbers": [*map(int, numbers.split())], "target": int(target)}
    assert countdown.grade(last.known["right answer"], row).outcome == "correct"
    examples = read(compose_config(["algo=none", "task=brevity", "eval.rows=10", "task.of.train_rows=20"])).examples
    assert not any(example.known or example.answers for example in examples)


def test_a_task_that_draws_its_rows_shows_demonstrations_and_prompts():
    data = read(compose_config(["algo=sft", "task=countdown", "task.train_rows=20", "eval.rows=10"]))
    assert data.read == {"demonstrations": 20, "train": 20, "test": 10}
    assert [len(data.examples[place].answers) for place in (0, 20, 40)] == [1, 0, 0]
    data = read(compose_config(["algo=sft", "task=countdown", "eval.rows=10", "task.numbers=[2]"]))  # without end
    assert data.read["demonstrations"] == data.read["train"] == 4096

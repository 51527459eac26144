from pathlib import Path

import pytest

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.describe.rows import load_tokenizer, read_examples
from rlhf_exp.tasks import gsm8k as gsm8k_files
from rlhf_exp.tasks.hh_rlhf import DROPPED, KEPT

REAL = ROOT.parent / "shared" / "data" / "hh-rlhf"


def read(cfg):
    return read_examples(cfg, load_tokenizer(cfg))


def test_pairs_come_from_the_task_s_reader_with_its_odd_rows(hh_config, hh_folder):
    data = read(hh_config)
    assert (data.source, data.answers, data.read) == (
        str(hh_folder), ("chosen", "rejected"), {"harmless-base": 3, "helpful-base": 5},
    )  # fmt: skip
    assert len(data.examples) == 6
    assert [odd.kind for odd in data.odd] == [*DROPPED, *KEPT]
    found = {odd.kind: (odd.kept, odd.counts) for odd in data.odd if odd.counts}
    assert found == {
        "empty_rejected": (False, {"helpful-base": 1}),
        "equal_answers": (False, {"harmless-base": 1}),
        "inline_speaker": (True, {"helpful-base": 1}),  # of the rows that stay
    }
    longest = max(data.examples, key=lambda example: example.turns)
    assert (longest.subset, longest.turns) == ("harmless-base", 4)
    assert longest.prompt.endswith("\n\nAssistant:")
    assert longest.answers == (" No.", " Yes, of course, go on.")


def test_word_problems_come_with_their_splits_and_answers():
    data = read(compose_config(["algo=sft", "task=gsm8k", "task.source=generated", "model=tiny_gpt2"]))
    assert {example.split for example in data.examples} == {"train", "validation", "test"}
    assert {odd.kind for odd in data.odd} == set(gsm8k_files.DROPPED)
    first = data.examples[0]
    assert "<<" not in first.answers[0]


def test_a_task_that_draws_its_rows_shows_demonstrations_and_prompts():
    data = read(compose_config(["algo=sft", "task=countdown", "task.train_rows=20", "eval.rows=10"]))
    assert data.read == {"demonstrations": 20, "train": 20, "test": 10}
    assert [len(data.examples[place].answers) for place in (0, 20, 40)] == [1, 0, 0]


def test_rows_drawn_without_end_are_bounded():
    data = read(compose_config(["algo=sft", "task=countdown", "eval.rows=10", "task.numbers=[2]"]))
    assert data.read["demonstrations"] == data.read["train"] == 4096


@pytest.mark.skipif(not Path(REAL).is_dir(), reason=f"no {REAL}")
def test_the_real_pairs_are_all_accounted_for():
    path = f"task.path='{REAL}'"
    data = read(compose_config(["algo=sft", "task=hh_rlhf", "task.source=file", path, "model=tiny_gpt2"]))
    dropped = sum(sum(odd.counts.values()) for odd in data.odd if not odd.kept)
    assert sum(data.read.values()) == 8552 == len(data.examples) + dropped
    assert {odd.kind: sum(odd.counts.values()) for odd in data.odd if odd.counts} | {"inline_speaker": 0} == {
        "not_ending_on_assistant": 2, "histories_differ": 17, "empty_chosen": 4, "empty_rejected": 7,
        "equal_answers": 36, "inline_speaker": 0, "same_speaker_twice": 10, "empty_turn": 1,
    }  # fmt: skip

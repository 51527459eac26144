import gzip
import json
from collections import Counter

import pytest

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.hh_rlhf import DROPPED, KEPT, SUBSETS, Pair, parse_pair
from rlhf_exp.tasks.hh_rlhf import _split_pairs as split_pairs
from rlhf_exp.tasks.synthetic import generate_pairs
from rlhf_exp.tasks.task import Item
from tests.tasks.building import CHAT_TEMPLATE, build_tokenizer, make_task, refuse, write_rows

REAL = ROOT.parent / "shared" / "data" / "hh-rlhf"
ASK = "\n\nHuman: Hi!\n\nAssistant:"


def parse(chosen, rejected):
    return parse_pair("FILE, line 1", "helpful-base", None, chosen, rejected)


def configure(path, *overrides):
    return compose_config(["algo=dpo", "task=hh_rlhf", "task.source=file", f"task.path='{path}'", *overrides])


def test_the_prompt_is_the_shared_history_with_the_last_assistant_mark():
    ask = "\n\nHuman:  Hi! \n\nAssistant: Hello.\n\nHuman: And\n\nnow?\n\nAssistant:"
    pair, kinds = parse(f"{ask} Now this. ", f"{ask}That.\n")
    assert kinds == []
    assert pair.prompt == "\n\nHuman: Hi!\n\nAssistant: Hello.\n\nHuman: And\n\nnow?\n\nAssistant:"
    assert pair.history == (("Human", "Hi!"), ("Assistant", "Hello."), ("Human", "And\n\nnow?"))
    assert (pair.chosen, pair.rejected) == ("Now this.", "That.")
    assert parse("Human: Hi!\n\nAssistant: A", "Human: Hi!\n\nAssistant: B")[0].prompt == ASK
    assert make_task("hh_rlhf").write_prompt(Item(pair.id, {}, pair), chat=True) == [
        {"role": "user", "content": "Hi!"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "And\n\nnow?"},
    ]


@pytest.mark.parametrize(
    ("chosen", "rejected", "kind"),
    [
        (f"{ASK} A", f"{ASK} A\n\nHuman: B", "not_ending_on_assistant"),
        (f"{ASK} A", "\n\nHuman: Hi!", "not_ending_on_assistant"),
        (f"{ASK} A", f"{ASK} B\n\nAssistant: C", "histories_differ"),
        (f"{ASK} A", "\n\nHuman: Ho!\n\nAssistant: A", "histories_differ"),
        (f"Title{ASK} A", f"Title{ASK} B", "not_asked_by_human"),
        (f"\n\nAssistant: Yes?{ASK} A", f"\n\nAssistant: Yes?{ASK} B", "not_asked_by_human"),
        (f"{ASK} A\n\nAssistant: B", f"{ASK} A\n\nAssistant: C", "not_asked_by_human"),
        (f"{ASK} \n", f"{ASK} A", "empty_chosen"),
        (ASK, ASK, "empty_chosen"),
        (f"{ASK} A", ASK, "empty_rejected"),
        (f"{ASK} A", f"{ASK}  A\n", "equal_answers"),
    ],
)
def test_an_odd_pair_is_dropped_under_the_first_kind_that_fits(chosen, rejected, kind):
    assert parse(chosen, rejected) == (None, [kind])


@pytest.mark.parametrize("text", ["A  Human: B", "Human: B", "A\nAssistant: B"])
def test_a_speaker_inside_a_turn_is_kept_and_counted(text):
    for pair in (parse(f"{ASK} {text}", f"{ASK} C"), parse(f"{ASK} C", f"{ASK} {text}")):
        assert text in (pair[0].chosen, pair[0].rejected) and pair[1] == ["inline_speaker"]
    ask = f"{ASK} {text}{ASK}"
    pair, kinds = parse(f"{ask} A", f"{ask} B")
    assert pair.history[1] == ("Assistant", text) and kinds == ["inline_speaker"]


def test_turns_of_one_speaker_in_a_row_become_one_and_empty_turns_stay():
    ask = "\n\nHuman: A\n\nHuman: B\n\nAssistant:\n\nHuman:C\n\nAssistant:"
    pair, kinds = parse(f"{ask} D", f"{ask} E")
    assert pair.history == (("Human", "A\n\nB"), ("Assistant", ""), ("Human", "C"))
    assert pair.prompt == "\n\nHuman: A\n\nB\n\nAssistant:\n\nHuman: C\n\nAssistant:"
    assert kinds == ["same_speaker_twice", "empty_turn"]


def as_row(chosen, rejected):
    return {"chosen": chosen, "rejected": rejected}


def test_reading_counts_every_kind_by_subset_and_drops_duplicates(tmp_path):
    good, other = as_row(f"{ASK} A", f"{ASK} B"), as_row(f"{ASK} B", f"{ASK} A")
    write_rows(tmp_path / "helpful-base.jsonl.gz", [good, good, other, as_row(f"{ASK} A", f"{ASK} A")])
    write_rows(tmp_path / "harmless-base.jsonl.gz", [good, as_row(f"{ASK} A Human: x", f"{ASK} B")])
    source = configure(tmp_path, "task.subsets=[helpful-base,harmless-base]").task.rows()
    assert source.read == {"helpful-base": 4, "harmless-base": 2}
    assert [odd.kind for odd in source.odd] == [*DROPPED, *KEPT]
    counts = source.facts["dropped"] | source.facts["kept"]
    assert {kind: by_subset for kind, by_subset in counts.items() if by_subset} == {
        "equal_answers": {"helpful-base": 1},
        "duplicate": {"helpful-base": 2},  # one of them a copy of harmless-base's, which is read first
        "inline_speaker": {"harmless-base": 1},
    }
    pairs = [item.content for items in source.splits.values() for item in items]
    assert {(pair.subset, pair.chosen) for pair in pairs} == {
        ("harmless-base", "A"), ("harmless-base", "A Human: x"), ("helpful-base", "B"),
    }  # fmt: skip


def make_pair(prompt, subset="helpful-base", part=None, answer="A"):
    return Pair(f"{subset} {prompt} {answer}", subset, part, (("Human", prompt),), prompt, answer, "B")


def test_no_prompt_is_in_two_splits_where_only_one_subset_has_a_test_part():
    part_of = {0: "test", 1: "validation"}  # of the source; one of validation does not reach the test split
    divided = [make_pair(f"prompt {i}", "helpful-base", part_of.get(i % 5, "train")) for i in range(600)]
    hashed = [make_pair(f"prompt {i}", "harmless-base", "train") for i in range(300, 900)]
    splits, in_test = split_pairs([*divided, *hashed])
    prompts = {name: {pair.prompt for pair in rows} for name, rows in splits.items()}
    assert all(prompts.values()) and {pair.part for pair in splits["test"] if pair.subset == "helpful-base"} == {"test"}
    assert not prompts["train"] & prompts["test"]
    assert not prompts["validation"] & prompts["test"]
    assert not prompts["train"] & prompts["validation"]
    assert set(in_test) == {"helpful-base", "harmless-base"}
    assert sum(map(len, splits.values())) + in_test.total() == 1200


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")
def test_the_real_files_hold_the_known_odd_pairs_and_split_by_prompt():
    source = configure(REAL).task.rows()
    odd, splits = source.facts["dropped"] | source.facts["kept"], source.splits
    # No pair is odd in two of the kinds that are dropped: these are the counts of the data's own MANIFEST.md.
    assert {kind: odd[kind] for kind in DROPPED} == {
        "not_ending_on_assistant": {"helpful-online": 2},
        "histories_differ": {"harmless-base": 5, "helpful-base": 9, "helpful-rejection-sampled": 3},
        "not_asked_by_human": {},
        "empty_chosen": {"harmless-base": 4},
        "empty_rejected": {"helpful-base": 4, "helpful-online": 3},
        "equal_answers": {"helpful-base": 2, "helpful-online": 2, "helpful-rejection-sampled": 32},
        "duplicate": {},
        "prompt_in_test": {},
    }
    kept = {kind: sum(odd[kind].values()) for kind in KEPT}
    assert kept == {"inline_speaker": 117, "same_speaker_twice": 10, "empty_turn": 1}
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 6732, "validation": 711, "test": 1043}
    homes = Counter(prompt for rows in splits.values() for prompt in {item.content.prompt for item in rows})
    assert max(homes.values()) == 1


ROW = {"chosen": "\n\nHuman: Hi!\n\nAssistant: Hello.", "rejected": "\n\nHuman: Hi!\n\nAssistant: What?"}


def read(path, subsets=("harmless-base",), source="file", hub_id="Anthropic/hh-rlhf"):
    return list(make_task("hh_rlhf", source=source, path=str(path), hub_id=hub_id, subsets=list(subsets)).read_raw())


def test_subset_and_part_are_read_off_the_name_or_the_folder(tmp_path):
    for name in (
        "harmless-base-test.jsonl.gz", "deep/helpful-base/train.jsonl", "deep/helpful-base/test.jsonl.gz",
        "helpful-online.jsonl", "helpful-rejection-sampled/attestation.jsonl",  # "test" is but a part of a word
    ):  # fmt: skip
        write_rows(tmp_path / name, [ROW])
    write_rows(tmp_path / "red-team-attempts" / "red_team_attempts.jsonl.gz", ["of another form"])
    write_rows(tmp_path / "helpful-base" / "notes.txt", ["no pairs"])
    assert Counter((subset, part) for _, subset, part, *_ in read(tmp_path, SUBSETS)) == {
        ("harmless-base", "test"): 1, ("helpful-base", "train"): 1, ("helpful-base", "test"): 1,
        ("helpful-online", None): 1, ("helpful-rejection-sampled", None): 1,
    }  # fmt: skip
    line = refuse(read, tmp_path / "deep", ["helpful-base", "helpful-online"])
    assert line.startswith("task.subsets=") and line.endswith("use task.subsets=[helpful-base]")


@pytest.mark.parametrize(
    "content",
    [
        b"plain text",
        b"\x1f\x8b\x08\x00" + b"\x00" * 6 + b"\xff" * 20,
        gzip.compress(json.dumps(ROW).encode() * 3)[:-12],
    ],
    ids=["text", "a broken body", "cut off"],
)
def test_what_is_no_gzip_file_or_breaks_off_is_refused(tmp_path, content):
    (tmp_path / "pairs.jsonl.gz").write_bytes(content)
    assert "not a whole gzip file (" in refuse(read, tmp_path / "pairs.jsonl.gz")


PLAIN, CHAT = build_tokenizer(), build_tokenizer(CHAT_TEMPLATE)


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """Load 800 synthetic pairs of a file, or those of another path, for an algorithm."""
    folder = tmp_path_factory.mktemp("hh_rlhf")
    rows = [{"chosen": chosen, "rejected": rejected} for _, chosen, rejected in generate_pairs(800, seed=0)]
    pairs = write_rows(folder / "pairs.jsonl.gz", rows)
    (folder / "config.json").write_text("{}")  # what the check of reward.path looks for

    def load(algo, *overrides, tokenizer=PLAIN, path=pairs):
        by_algo = ["reward=model", f"reward.path='{folder}'"] if algo == "grpo" else []
        source = ["task=hh_rlhf", "task.source=file", f"task.path='{path}'", "eval.rows=20"]
        return load_task(compose_config([f"algo={algo}", *source, *by_algo, *overrides]), tokenizer)

    return load


def test_label_noise_swaps_a_share_of_the_training_pairs_and_no_held_out_one(load):
    clean, noisy = (load("dpo", f"task.label_noise={share}") for share in (0.0, 0.3))
    swapped = [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in clean.train]
    pairs = list(zip(noisy.train, clean.train, swapped, strict=True))
    assert all(row in (kept, other) for row, kept, other in pairs)
    assert 0.2 < sum(row == other for row, _, other in pairs) / len(pairs) < 0.4
    assert noisy.pairs == clean.pairs


def test_prompts_are_sampled_on_once_each(load, tmp_path):
    asked = [f"\n\nHuman: question {i % 100}\n\nAssistant:" for i in range(300)]
    rows = [{"chosen": f"{ask} {i}", "rejected": f"{ask} no"} for i, ask in enumerate(asked)]
    path = write_rows(tmp_path / "pairs.jsonl.gz", rows)
    grpo, dpo = (load(algo, "eval.rows=5", path=path) for algo in ("grpo", "dpo"))
    assert all(list(row) == ["id", "prompt"] for row in grpo.train)
    assert len({row["prompt"] for row in grpo.train}) == len(grpo.train) == len(dpo.train) / 3
    assert grpo.facts["train"]["repeated_prompts"] == 2 * len(grpo.train)
    assert grpo.eval == dpo.eval and grpo.pairs == dpo.pairs
    assert len({row["prompt"] for row in grpo.eval}) == 5

import gzip
import json
from collections import Counter

import pytest

from rlhf_exp.tasks.hh_rlhf import SUBSETS, SYNTHETIC_ROWS
from tests.tasks.building import make_task, refuse, write_rows

ROW = {"chosen": "\n\nHuman: Hi!\n\nAssistant: Hello.", "rejected": "\n\nHuman: Hi!\n\nAssistant: What?"}


def read(path, subsets=("harmless-base",), source="file", hub_id="Anthropic/hh-rlhf"):
    return list(make_task("hh_rlhf", source=source, path=str(path), hub_id=hub_id, subsets=list(subsets)).read_raw())


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.jsonl.gz"])
def test_a_lone_file_without_a_name_is_read_as_subset_file(tmp_path, name):
    path = write_rows(tmp_path / name, [ROW, "", ROW])
    first, second = read(path)
    assert first == (f"{path}, line 1", "file", None, ROW["chosen"], ROW["rejected"])
    assert second[0] == f"{path}, line 3"


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
    assert "not a whole gzip file, broken or cut off after line " in refuse(read, tmp_path / "pairs.jsonl.gz")


def test_a_broken_line_is_named_by_file_and_number(tmp_path):
    path = write_rows(tmp_path / "pairs.jsonl", [ROW, {"chosen": [], "rejected": "x"}])
    assert refuse(read, path).startswith(f"{path}, line 2: expected {{")


def test_the_synthetic_set_is_one_and_is_read_by_subset():
    whole, half = (read(None, subsets, source="generated") for subsets in (SUBSETS, ["helpful-base"]))
    assert len(whole) == SYNTHETIC_ROWS and len(half) == SYNTHETIC_ROWS // 2
    assert half == [raw for raw in whole if raw[1] == "helpful-base"]

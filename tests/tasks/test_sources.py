import sys
from types import SimpleNamespace

import pytest

from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks.sources import read_hub


@pytest.fixture
def hub(monkeypatch):
    """Stands for the hub: gives three parts, and notes what it was asked for."""
    asked = []

    def load_dataset(path, name=None, data_dir=None):
        asked.append((path, name, data_dir))
        return {"train": ["a", "b"], "test": ["c"], "more": ["d"]}

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return asked


def test_rows_come_with_their_part_and_place(hub):
    assert list(read_hub("org/set", name="main", parts=("train", "test"))) == [
        ("train", "org/set, train, row 1", "a"),
        ("train", "org/set, train, row 2", "b"),
        ("test", "org/set, test, row 1", "c"),
    ]
    assert list(read_hub("org/set", data_dir="sub"))[-1] == ("more", "org/set, sub, more, row 1", "d")
    assert hub == [("org/set", "main", None), ("org/set", None, "sub")]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, "cannot be loaded (OSError); without a network use task.source=generated, or task.source=file"
         " task.path=FOLDER"),
        ({"data_dir": "sub", "remedy": "task.source=file task.path=FILE.jsonl"},
         "sub cannot be loaded (OSError); without a network use task.source=file task.path=FILE.jsonl"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_with_the_local_options(monkeypatch, more, line):
    def load_dataset(*args, **kwargs):
        raise OSError

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(ConfigError) as caught:
        list(read_hub("org/set", **more))
    assert caught.value.problems == [f"task.hub_id=org/set: {line}"]


def test_a_part_that_is_not_there_is_refused_with_those_that_are(hub):
    with pytest.raises(ConfigError) as caught:
        list(read_hub("org/set", parts=("train", "tst")))
    there = "its splits are train, test, more; did you mean test?"
    assert caught.value.problems == [f"task.hub_id=org/set: has no split tst; {there}"]

import pytest

from rlhf_exp.tasks.sources import read_hub
from tests.tasks.building import refuse

PARTS = {"train": ["a", "b"], "test": ["c"], "more": ["d"]}
SETS = {("org/set", "main", None): PARTS, ("org/set", None, "sub"): PARTS}


@pytest.fixture(autouse=True)
def hub(monkeypatch):
    """Stands for the hub: it has two configurations of one data set."""
    monkeypatch.setattr("datasets.load_dataset", lambda hub_id, name, data_dir: SETS[hub_id, name, data_dir])


def test_rows_come_with_their_part_and_place():
    assert list(read_hub("org/set", name="main", parts=("train", "test"))) == [
        ("train", "org/set, train, row 1", "a"),
        ("train", "org/set, train, row 2", "b"),
        ("test", "org/set, test, row 1", "c"),
    ]
    assert list(read_hub("org/set", data_dir="sub"))[-1] == ("more", "org/set, sub, more, row 1", "d")


def test_what_cannot_be_had_is_refused():
    line = refuse(list, read_hub("org/set", name="main", parts=("train", "tst")))
    assert line.startswith("task.hub_id=org/set: has no split tst; ") and "did you mean test" in line
    line = refuse(list, read_hub("org/none", data_dir="sub"))
    assert line.startswith("task.hub_id=org/none, sub: cannot be loaded (")

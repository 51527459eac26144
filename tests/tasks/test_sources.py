import sys
from types import SimpleNamespace

import pytest

from rlhf_exp.tasks.sources import read_hub
from tests.tasks.building import refuse


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


def test_what_cannot_be_had_is_refused(monkeypatch, hub):
    line = refuse(list, read_hub("org/set", parts=("train", "tst")))
    assert line.startswith("task.hub_id=org/set: has no split tst; ") and "did you mean test" in line
    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", lambda *args, **kwargs: (_ for _ in ()).throw(OSError))
    line = refuse(list, read_hub("org/set", data_dir="sub"))
    assert line.startswith("task.hub_id=org/set, sub: cannot be loaded (OSError")

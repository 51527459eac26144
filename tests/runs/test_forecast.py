import pytest

from rlhf_exp.runs import forecast
from rlhf_exp.runs.load import load_run
from tests.runs.building import leave_run


@pytest.fixture
def finish(tmp_path, monkeypatch):
    """Makes a run folder below outputs/ and reads it."""
    monkeypatch.setattr(forecast, "OUTPUTS", tmp_path)

    def make(name, seconds, memory=500.0, batch=8):
        algo = {"name": "grpo", "args": {"per_device_train_batch_size": batch}}
        facts = {"task": "brevity", "started": name, "finished": name, "steps": 10}
        facts |= {"seconds": {"train": seconds}, "phase_memory_mb": {"train": memory}}
        leave_run(tmp_path / name, config={"algo": algo, "task": {"name": "brevity"}}, **facts)
        return load_run(tmp_path / name)

    return make


def test_a_run_is_compared_with_the_last_like_it(finish, tmp_path):
    first = finish("1", 10.0)
    assert forecast.compare_with_like(first) == []
    finish("2", 99.0, batch=4)
    assert forecast.compare_with_like(finish("3", 14.0, 700.0)) == []
    assert forecast.compare_with_like(finish("4", 42.0, 1400.0)) == [
        f"a step took 4.2 s, 3.0 times the 1.4 s of {tmp_path / '3'}",
        f"training took at most 1,400 MB, 2.0 times the 700 MB of {tmp_path / '3'}",
    ]

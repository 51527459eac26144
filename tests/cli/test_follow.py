"""What the processes besides rank 0 do with an error, without the others."""

import pytest

from rlhf_exp import orders, pipeline, processes
from rlhf_exp.cli import follow
from rlhf_exp.errors import FAILED
from rlhf_exp.runs.failures import FILE


@pytest.mark.parametrize(("error", "is_noted"), [(ValueError("boom"), True), (processes.MainFailed("rank 0"), False)])
def test_only_an_error_of_its_own_ends_the_others(error, is_noted, tmp_path, monkeypatch):
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(orders._state, "is_broken", False)

    def fail(config, folder):
        raise error

    monkeypatch.setattr(pipeline, "run", fail)
    assert follow._take_part(None, tmp_path) == FAILED
    assert orders.is_broken() == (tmp_path / FILE).exists() == is_noted

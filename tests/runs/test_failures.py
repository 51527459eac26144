"""Whose error it is that ends a run of several processes."""

import json

import pytest
from torch.distributed import DistNetworkError

from rlhf_exp import orders
from rlhf_exp.graders.user_code import RewardError
from rlhf_exp.runs import failures
from rlhf_exp.runs.folder import RESERVE

CLOSED = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:29500"


@pytest.fixture
def rank_1(monkeypatch):
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    yield
    orders._state.is_broken = False


@pytest.mark.parametrize("error", [RuntimeError(CLOSED), DistNetworkError("Broken pipe")])
def test_an_error_of_the_group_is_of_another(rank_1, tmp_path, error):
    assert failures.record_failure(tmp_path, error).startswith("another process has died without a word")
    (tmp_path / failures.FILE).write_text(json.dumps({"rank": 0, "error": "ValueError: boom"}))
    assert failures.record_failure(tmp_path, error).startswith("process 0: ValueError: boom")
    assert type(error).__name__ in (tmp_path / "error-1.log").read_text()


@pytest.mark.parametrize(
    "error",
    [
        RewardError("reward.functions.own=/gloo/own.py:f: raised ConnectionResetError: Connection reset by peer"),
        BrokenPipeError(32, "Broken pipe"),
        RuntimeError("no file [/data/NCCL] in gloo"),
    ],
)
def test_an_error_of_its_own_is_not_taken_for_another_ones(rank_1, tmp_path, error, capsys):
    assert failures.record_failure(tmp_path, error) is None
    noted = json.loads((tmp_path / failures.FILE).read_text())
    assert noted["rank"] == 1 and type(error).__name__ in noted["error"]
    assert str(error) in (tmp_path / "error-1.log").read_text()
    assert "failed: process 1: " in capsys.readouterr().err


def test_an_error_that_cannot_be_written_is_printed(rank_1, tmp_path, monkeypatch, capsys):
    (tmp_path / RESERVE).write_bytes(b"0")

    def refuse(*args, **kwargs):
        assert not (tmp_path / RESERVE).exists()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(failures, "open", refuse, raising=False)
    monkeypatch.setattr(failures.Path, "write_text", refuse)
    assert failures.record_failure(tmp_path, ValueError("boom")) is None
    assert "failed: process 1: ValueError: boom" in capsys.readouterr().err

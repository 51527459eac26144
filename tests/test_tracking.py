from pathlib import Path

import pytest

from rlhf_exp.config import compose_config
from rlhf_exp.tracking import set_up_tracking

NAMES = ("WANDB_MODE", "WANDB_API_KEY", "WANDB_PROJECT", "WANDB_DIR", "TENSORBOARD_LOGGING_DIR")


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch, tmp_path):
    """No key in the environment and none in the home folder; what the test sets is taken back."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that monkeypatch restores what set_up_tracking writes
        monkeypatch.delenv(name)


def mode(*overrides):
    import os

    set_up_tracking(compose_config(overrides), Path("run"))
    return os.environ["WANDB_MODE"]


def test_wandb_is_offline_without_a_key():
    assert mode() == "offline"


def test_wandb_is_online_with_a_key_in_the_environment(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert mode() == "online"


def test_wandb_is_online_after_wandb_login(tmp_path):
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password key\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert mode() == "online"


def test_the_mode_of_the_config_and_then_of_the_environment_count(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert mode() == "disabled"
    assert mode("logging.wandb_mode=online") == "online"

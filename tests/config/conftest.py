"""What the tests of configs share: `refuse`, and a machine with everything."""

import pytest

from rlhf_exp.config import device
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.rules import machine
from rlhf_exp.errors import ConfigError


@pytest.fixture
def refuse():
    """`refuse("seed=-1", ...)`: the problems of a config that must be refused."""

    def call(*overrides):
        with pytest.raises(ConfigError) as caught:
            compose_config(["device=cpu", *overrides])
        return caught.value.problems

    return call


@pytest.fixture
def any_machine(monkeypatch):
    """A machine with a GPU and every optional package."""
    monkeypatch.setattr(device, "cuda_major", lambda: 9)
    monkeypatch.setattr(machine, "find_spec", lambda name: name)

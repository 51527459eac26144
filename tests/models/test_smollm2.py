"""The command that makes the folder of model=smollm2_135m: what it refuses. Making it: `make smollm2`."""

import pytest

from rlhf_exp.config import hub
from rlhf_exp.config.compose import compose_config
from rlhf_exp.models import smollm2
from rlhf_exp.models.source import locate_start_model


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "MADE", tmp_path / "models")
    return tmp_path / "models" / smollm2.NAME


def test_its_folder_is_used_once_it_is_there_and_keeps_the_options_name(made):
    locate = lambda: locate_start_model(compose_config(["model=smollm2_135m", "model.parameters=1e8"]))  # noqa: E731
    assert (locate().path, locate().name) == ("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2_135m")
    made.mkdir(parents=True)
    (made / "config.json").write_text("{}")
    (made / "model.safetensors").touch()
    assert (locate().path, locate().name) == (str(made), "smollm2_135m")

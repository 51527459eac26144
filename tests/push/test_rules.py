"""What is refused before anything loads, if a run is to push its model."""

import huggingface_hub
import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.rules import experiment as rules
from rlhf_exp.errors import ConfigError

PUSH = ("hub.push=true", "hub.repo=me/model")


@pytest.fixture(autouse=True)
def tokens_are_asked_anew():
    rules._explain_no_push.cache_clear()


@pytest.mark.parametrize(
    ("variables", "token", "line"),
    [({}, None, "no token to write with; set the environment variable HF_TOKEN"),
     ({"HF_HUB_OFFLINE": "1"}, "hf_x", "the hub does not answer, or HF_HUB_OFFLINE says not to ask it"),
     ({}, "hf_other", "the hub does not take the token")],
)  # fmt: skip
def test_a_push_that_could_not_be_made_is_refused(variables, token, line, hub, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: token)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        compose_config(["device=cpu", *PUSH])
    [problem] = caught.value.problems
    assert (problem.key, problem.kind) == ("hub.push", "missing") and line in problem
    assert hub.created == []


def test_a_known_token_passes_and_is_asked_about_once(hub):
    assert compose_config(["device=cpu", *PUSH]).hub.repo == "me/model"
    compose_config(["device=cpu", *PUSH, "peft=lora", "hub.base_model=org/base"])
    assert len(hub.tokens) == 1


def test_the_jobs_of_a_sweep_do_not_push_into_one_repository(command_line, tmp_path, hub):
    done = command_line("-m", "seed=0,1", *PUSH, "device=cpu", "output_dir=there", cwd=tmp_path)
    assert done.returncode == 2
    assert "hub.repo=me/model: is that of job 1 too; leave one out, or give each its own" in done.stderr

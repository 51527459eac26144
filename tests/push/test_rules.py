"""What is refused before anything loads, if a run is to push its model."""

import huggingface_hub
import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.rules import experiment as rules
from rlhf_exp.errors import ConfigError

PUSH = ("hub.push=true", "hub.repo=me/model")


@pytest.fixture(autouse=True)
def tokens_are_asked_anew():
    rules._ask_about.cache_clear()


def refuse(*overrides):
    with pytest.raises(ConfigError) as caught:
        compose_config(["device=cpu", *overrides])
    return caught.value.problems


def test_nothing_is_pushed_by_default():
    assert compose_config().hub.push is False
    assert compose_config().hub.private is True


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["hub.push=true"], "hub.push=true: needs hub.repo=ORG/NAME"),
        (["hub.repo=me/x"], "hub.repo=me/x: has no effect without hub.push=true"),
        (["hub.repo=x", "hub.push=true"], "hub.repo=x: must be ORG/NAME, of letters, digits, - _ and ."),
        (["hub.base_model=x"], "hub.base_model=x: must be ORG/NAME, of letters, digits, - _ and ."),
        ([*PUSH, "algo=none"], "hub.push=true: algo=none trains nothing that could be pushed; leave it out"),
        ([*PUSH, "+hub.token=hf_x"],
         "hub.token: a secret would be saved in the run's files; use the environment variable HF_TOKEN"),
        (["+algo.args.push_to_hub=true"], "algo.args.push_to_hub=true: has no effect, the model is pushed after the"
         " report; use hub.push=true hub.repo=ORG/NAME"),
        ([*PUSH, "peft=lora"], "hub.push=true: an adapter is of no use without its base, and model=tiny is not on the"
         " hub; set hub.base_model=ORG/NAME if it is there too, or peft=none, or merge the adapter after training and"
         " push that (python -m rlhf_exp merge)"),
    ],
)  # fmt: skip
def test_keys_that_do_not_fit_are_one_line(overrides, line, monkeypatch):
    monkeypatch.setattr(rules, "_explain_no_push", lambda: pytest.fail("asked"))
    assert refuse(*overrides) == [line]


def test_a_push_without_a_token_is_refused_before_the_hub_is_asked(monkeypatch):
    monkeypatch.setattr(rules.hub, "go_offline_without_answer", lambda: pytest.fail("asked"))
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    assert refuse(*PUSH) == [
        "hub.push=true: no token to write with; set the environment variable HF_TOKEN, or run hf auth login"
    ]


def test_a_push_is_refused_where_the_hub_is_not_asked(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert refuse(*PUSH) == [
        "hub.push=true: the hub does not answer, or HF_HUB_OFFLINE says not to ask it; leave it out"
    ]


def test_a_token_that_the_hub_does_not_know_is_refused(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert refuse(*PUSH) == [
        "hub.push=true: the hub refuses the token (401); set HF_TOKEN to a valid one, or run hf auth login"
    ]
    assert hub.created == []


def test_a_known_token_passes_and_is_asked_about_once(hub):
    assert compose_config(["device=cpu", *PUSH]).hub.repo == "me/model"
    compose_config(["device=cpu", *PUSH, "peft=lora", "hub.base_model=org/base"])
    assert hub.calls.count("GET /api/whoami-v2") == 1


def test_the_jobs_of_a_sweep_do_not_push_into_one_repository(command_line, tmp_path, hub):
    done = command_line("-m", "seed=0,1", *PUSH, "device=cpu", "output_dir=there", cwd=tmp_path)
    assert done.returncode == 2
    assert "hub.repo=me/model: is the repository of job 1 too; name one for each, such as" in done.stderr
    assert "'hub.repo=me/model-${seed}'" in done.stderr

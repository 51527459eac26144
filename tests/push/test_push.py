"""The push of a model, by huggingface_hub's client without a network, and what is refused before anything loads."""

import json
import shutil
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import ModelCard

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.config.rules import experiment as rules
from rlhf_exp.errors import ConfigError
from rlhf_exp.pipeline import push, push_command
from rlhf_exp.runs.files import write_text

PUSH = ("hub.push=true", "hub.repo=me/model")
SMALL = ("algo=grpo", "task=countdown", "device=cpu", "algo.args.max_steps=1", "eval.rows=8", "task.baselines=false",
         "algo.args.per_device_train_batch_size=8", "algo.args.num_generations=4", "max_tokens=8")  # fmt: skip


@pytest.fixture
def run_dir(tmp_path):
    """As a PPO run leaves it: the model, and the critic below it."""
    shutil.copytree(ASSETS / "tiny", tmp_path / "run" / "model")
    (tmp_path / "run" / "model" / "critic").mkdir()
    write_text(tmp_path / "run" / "model" / "critic" / "kl_controller.json", "{}")
    return tmp_path / "run"


@pytest.fixture
def cfg(hub):
    return compose_config(["device=cpu", *PUSH])


def test_the_model_and_its_card_are_pushed_without_the_critic(cfg, run_dir, hub):
    assert push(cfg, run_dir) == "https://hub/me/model/commit/1"
    assert hub.created == [("me/model", True)]
    pushed = hub.files["me/model"]
    assert sorted(pushed) == sorted(path.name for path in (ASSETS / "tiny").iterdir())
    assert pushed["model.safetensors"] == (ASSETS / "tiny" / "model.safetensors").read_bytes()


def test_a_push_that_fails_is_one_line_with_the_command_that_pushes_later(cfg, run_dir, hub, capsys):
    hub.refuse_commits = True
    assert push(cfg, run_dir) is None
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("rlhf_exp: ")]
    assert line.startswith("rlhf_exp: the run has finished, but me/model was not pushed (HfHubHTTPError: 403 Forbidden")
    command = f"hf upload me/model {run_dir}/model . --exclude 'critic/*' --private"
    assert line.endswith(f"push later with: {command}") and push_command(cfg, run_dir) == command


@pytest.mark.slow
def test_a_run_pushes_after_its_report(command_line, tmp_path, hub):
    done = command_line(*SMALL, "output_dir=there", *PUSH, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pushed       https://hub/me/model/commit/1" in done.stdout
    record = json.loads((tmp_path / "there/run.json").read_text())
    assert record["status"] == "finished" and record["pushed"] == "https://hub/me/model/commit/1"
    assert not (tmp_path / "there/checkpoints/README.md").exists()  # TRL's
    card = ModelCard(hub.files["me/model"]["README.md"].decode())
    assert card.data.library_name == "transformers"
    assert [result.metric_type for result in card.data.eval_results][:2] == ["accuracy", "accuracy_gain"]
    assert "model = AutoModelForCausalLM.from_pretrained(place)" in card.text
    assert "place = 'me/model'" in card.text
    assert {Path(name).suffix for name in hub.files["me/model"]} == {".md", ".json", ".safetensors", ".yaml"}


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


def test_the_jobs_of_a_sweep_do_not_push_into_one_repository(command_line, tmp_path, hub):
    done = command_line("-m", "seed=0,1", *PUSH, "device=cpu", "output_dir=there", cwd=tmp_path)
    assert done.returncode == 2
    assert "hub.repo=me/model: is that of job 1 too; leave one out, or give each its own" in done.stderr

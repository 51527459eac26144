"""The push, by huggingface_hub's client without a network."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.pipeline import push, push_command
from rlhf_exp.runs.files import write_text

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
    return compose_config(["device=cpu", "hub.push=true", "hub.repo=me/model"])


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


def test_the_command_that_pushes_later_is_one_of_the_client():
    program = Path(sys.executable).parent / "hf"
    usage = subprocess.run([program, "upload", "--help"], check=True, capture_output=True, text=True).stdout
    assert "--exclude" in usage and "--private" in usage


@pytest.mark.slow
def test_a_run_pushes_after_its_report(command_line, tmp_path, hub):
    done = command_line(*SMALL, "output_dir=there", "hub.push=true", "hub.repo=me/model", cwd=tmp_path)
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

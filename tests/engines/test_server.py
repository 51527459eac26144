"""A vLLM server itself on a CPU, through TRL's client; weights travel by gloo instead of NCCL (gloo.py)."""

import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.config.rules import machine
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_tokenizer, resolve_model
from rlhf_exp.models.vllm import ENVIRONMENT
from rlhf_exp.tasks import Task
from rlhf_exp.trainers import build_trainer
from rlhf_exp.trainers.vllm import EngineCallback
from tests.trainers.test_vllm import ALGORITHMS, ROWS, SMALL

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: make test-engines"),
]
STARTS_WITHIN_S = 600


def find_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Of a server of the shipped model."""
    from tests.engines import gloo

    folder, port = tmp_path_factory.mktemp("server"), find_port()
    gloo.install(folder)
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(ASSETS / "tiny")]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"]
    command += ["--weight-transfer-config", '{"backend": "gloo"}', "--logprobs-mode", "processed_logprobs"]
    root = Path(__file__).parents[2]
    variables = ENVIRONMENT | {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_SERVER_DEV_MODE": "1"}
    environment = os.environ | variables | {"PYTHONPATH": f"{folder}{os.pathsep}{root}"}
    with (folder / "log.txt").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    until = time.monotonic() + STARTS_WITHIN_S
    while True:
        try:
            urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
            break
        except OSError:
            alive = server.poll() is None and time.monotonic() < until
            assert alive, (folder / "log.txt").read_text()[-3000:]
            time.sleep(1)
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.wait()


@pytest.mark.parametrize("peft", ["none", "lora"])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_rollouts_come_from_a_server_which_has_the_weights_of_each_step(url, algo, peft, tmp_path, monkeypatch):
    from tests.engines import gloo

    gloo.connect(monkeypatch)
    monkeypatch.setattr(machine, "_check_vllm", lambda cfg: [])
    where = [f"algo.args.vllm_server_base_url={url}", f"+algo.args.vllm_group_port={find_port()}"]
    named = [*SMALL, *ALGORITHMS[algo], f"peft={peft}", "generation=vllm_server", *where, f"output_dir={tmp_path}"]
    cfg = compose_config(named)
    source, task = resolve_model(cfg, tmp_path), Task("t", ROWS, [], None)
    rewards = [lambda completions, **columns: [float(len(text)) for text in completions]]
    trainer = build_trainer(Experiment(cfg, None, source, load_tokenizer(source), task, rewards, build_args(cfg)))
    trainer.add_callback(EngineCallback(trainer))
    trainer.train()
    if algo != "rloo":  # which asks for no log-probabilities
        history = [row for row in trainer.state.log_history if "sampling/sampling_logp_difference/max" in row]
        assert len(history) == 2 and max(row["sampling/sampling_logp_difference/max"] for row in history) < 1e-3

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

from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.config.rules import machine
from rlhf_exp.models.vllm import ENVIRONMENT
from rlhf_exp.trainers.vllm import DIFFERENCE, EngineCallback
from tests.building import ROLLOUTS_OF_8, build, reward_length
from tests.trainers.test_vllm import ROWS, SMALL

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
@pytest.mark.parametrize("algo", ROLLOUTS_OF_8)
def test_rollouts_come_from_a_server_which_has_the_weights_of_each_step(url, algo, peft, tmp_path, monkeypatch):
    from tests.engines import gloo

    gloo.connect(monkeypatch)
    monkeypatch.setattr(machine, "_check_vllm", lambda cfg: [])
    where = [f"algo.args.vllm_server_base_url={url}", f"+algo.args.vllm_group_port={find_port()}"]
    named = [*SMALL, *ROLLOUTS_OF_8[algo], f"peft={peft}", "generation=vllm_server", *where]
    trainer = build(tmp_path, *named, rows=ROWS, reward=reward_length)
    trainer.add_callback(EngineCallback(trainer))
    trainer.train()
    if algo != "rloo":  # which asks for no log-probabilities
        history = [row[DIFFERENCE] for row in trainer.state.log_history if DIFFERENCE in row]
        assert len(history) == 2 and max(history) < 1e-3

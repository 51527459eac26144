"""Rollouts by a vLLM server, through TRL's own client: arguments, weights, shapes."""

import os
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.rules import machine
from rlhf_exp.errors import ConfigError
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_tokenizer
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.models.vllm import EngineFailed
from rlhf_exp.tasks import TaskRows
from rlhf_exp.trainers.vllm import DIFFERENCE, EngineCallback, preparing_engine
from tests.building import DISTILL_8, QUIET, ROLLOUTS_OF_8, build, reward_length
from tests.trainers.references import move
from tests.trainers.vllm_server import StandIn, connect

ROWS = [{"id": str(i), "prompt": f"use {i + 2} 7 3 make 53 ."} for i in range(8)]
SMALL = [
    *QUIET, "max_tokens=6", "reward=outcome", "algo.args.max_steps=2", "algo.args.learning_rate=0.05",
    "algo.args.logging_steps=1",
]  # fmt: skip


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Build a trainer, and the server that it asks; all but a GPU and vLLM itself."""
    monkeypatch.setattr(machine, "_check_vllm", lambda cfg: [])
    monkeypatch.setattr(machine, "find_spec", lambda name: name)
    servers = []

    def build_both(*overrides, **options):
        server = StandIn(locate_start_model(compose_config(["device=cpu"])).path, **options)
        servers.append(server)
        connect(monkeypatch, server)
        named = [*SMALL, "generation=vllm_server", *overrides, f"algo.args.vllm_server_base_url={server.url}"]
        return build(tmp_path, *named, rows=ROWS, reward=reward_length), server

    yield build_both
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("algo", "peft"), [("grpo", "none"), ("grpo", "lora"), ("rloo", "none"), ("ppo", "lora"), ("distill", "none")]
)
def test_rollouts_come_from_the_server_which_has_the_weights_of_each_step(start, algo, peft):
    trainer, server = start(*ROLLOUTS_OF_8.get(algo, DISTILL_8), f"peft={peft}")
    if algo == "distill":
        move(trainer.teacher_model, 0.1)  # it was the student's own model
    before = {name: value.clone() for name, value in server.model.state_dict().items()}
    trainer.add_callback(EngineCallback(trainer))
    trainer.train()
    asked = [body for path, body in server.requests if path == "/v1/completions"]
    assert [path for path, _ in server.requests].count("/update_weights") == len(asked) == 2
    group = trainer.num_generations
    for body in asked:
        assert (body["n"], len(body["prompt"]), body["max_tokens"]) == (group, 8 // group, 6)
        logprobs = None if algo in ("rloo", "distill") else 0  # these do not correct for sampling by another engine
        assert (body["temperature"], body["top_p"], body["logprobs"]) == (1.0, 1.0, logprobs)
    history = [row for row in trainer.state.log_history if DIFFERENCE in row]
    if algo not in ("rloo", "distill"):
        assert len(history) == 2 and max(row[DIFFERENCE] for row in history) < 1e-4
    if algo == "ppo":
        assert history[0]["ppo/ratio"] == pytest.approx(1, abs=1e-4)
    moved = max(float((value - before[name]).abs().max()) for name, value in server.model.state_dict().items())
    assert moved > 0  # the second rollout is of a policy that has learned


def test_a_run_ends_once_the_servers_weights_are_not_the_policys(start):
    trainer, _ = start(*ROLLOUTS_OF_8["grpo"], "algo.args.learning_rate=1", deaf=True)
    trainer.add_callback(EngineCallback(trainer))
    with pytest.raises(EngineFailed, match="vLLM does not sample from the weights that it is sent"):
        trainer.train()
    with pytest.raises(EngineFailed):
        EngineCallback(trainer).on_log(trainer.args, logs={DIFFERENCE: float("nan")})
    trainer.args.top_p = 0.5  # vLLM's log-probabilities are then of the kept tokens alone
    EngineCallback(trainer).on_log(trainer.args, logs={DIFFERENCE: 1.7})


UNFIT = "vLLM {} is installed, and only 0.22 to 0.30 go with transformers 5.23 and later; {}"
SERVER, COLOCATE = "generation=vllm_server", "generation=vllm_colocate"


# That it must be installed: tests/dry_run/test_hardware.py.
@pytest.mark.parametrize(
    ("installed", "overrides", "line"),
    [
        ({}, ["device=cpu", SERVER], f"{SERVER}: needs a GPU, .*; use {COLOCATE}"),
        ({}, ["device=cpu", SERVER, "algo.args.vllm_mode=colocate"], f"{SERVER}: not with algo.args.use"),
        ({"vllm": "0.30.0"}, ["device=cpu", COLOCATE], f"{COLOCATE}: on a CPU, and the installed vLLM is built for "),
        ({"vllm": "0.31.0"}, [COLOCATE], UNFIT.format("0.31.0", "pip install .*, or generation=trl")),
        ({"vllm": "0.33.0"}, [], UNFIT.format("0.33.0", "use eval.engine=transformers")),
        ({"vllm": "0.33.0"}, ["eval.engine=transformers"], None),
        ({"vllm": "0.30.0.dev1", "transformers": "5.24.0"}, [COLOCATE], None),
        ({"transformers": "5.20.1"}, ["device=cpu"], "^transformers=5.20.1: must be at least 5.23 and below 6; "),
    ],
)
def test_vllm_that_does_not_fit_the_device_or_transformers_is_refused(monkeypatch, installed, overrides, line):
    monkeypatch.setattr(machine, "find_spec", lambda name: name if installed else None)
    monkeypatch.setattr(machine.device, "find_version", installed.get)
    on_gpu = ["device.use_cpu=false", "device.bf16=false"] if "device=cpu" not in overrides else []
    with pytest.raises(ConfigError, match=line) if line else nullcontext():
        compose_config([*on_gpu, *overrides])


def test_an_engine_has_the_context_of_the_longest_prompt_and_leaves_no_variables(monkeypatch):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    source = locate_start_model(compose_config(["device=cpu"]))
    args = SimpleNamespace(use_cpu=False, vllm_max_model_length=None, max_completion_length=6)
    experiment = Experiment(None, None, source, load_tokenizer(source), TaskRows("t", ROWS, [], None), [], args)
    with preparing_engine(experiment):
        os.environ["LOCAL_RANK"] = "0"
    assert "LOCAL_RANK" not in os.environ
    assert args.vllm_max_model_length == len(experiment.tokenizer(ROWS[0]["prompt"])["input_ids"]) + 6

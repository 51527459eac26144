"""vLLM itself, in the training process on a CPU: `make test-engines`."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import AutoModelForCausalLM

from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.models.generation import Sampling, build_warpers
from rlhf_exp.models.scoring import completion_logits, evaluating, pad
from rlhf_exp.runs.load import list_run_folders, load_run
from rlhf_exp.trainers.vllm import DIFFERENCE, EngineCallback
from tests import building
from tests.building import ROLLOUTS_OF_8
from tests.trainers.test_vllm import ROWS, SMALL

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: make test-engines"),
]
CLOSE = 1e-3
"""Nats per token by which two kernels in float32 may differ."""


@pytest.fixture
def build(tmp_path):
    """The trainer of these overrides, with an engine in this process."""
    trainers = []

    def build(*overrides):
        named = [*SMALL, "generation=vllm_colocate", *overrides]
        trainer = building.build(tmp_path, *named, rows=ROWS, reward=building.reward_length)
        trainer.add_callback(EngineCallback(trainer))
        trainers.append(trainer)
        return trainer

    yield build
    for trainer in trainers:
        trainer.vllm_generation.llm.llm_engine.engine_core.shutdown()


def copy_weights(trainer):
    """The engine's, by its own names."""
    engine = trainer.vllm_generation.llm.llm_engine.model_executor.driver_worker.model_runner.model
    return {name: value.detach().clone() for name, value in engine.named_parameters()}


@torch.no_grad()
def score(trainer, prompt_ids, completions):
    """The trainer's log-probabilities of the completions' tokens."""
    pad_id = trainer._tokenizer.pad_token_id
    prompts, answers = pad(prompt_ids, pad_id, "cpu", left=True), pad(completions, pad_id, "cpu")
    ids, mask = (torch.cat([prompts[name], answers[name]], 1) for name in ("input_ids", "attention_mask"))
    with evaluating(trainer.model):
        width = answers["input_ids"].shape[1]
        logps = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, width)[0]
    return [row[: len(answer)].tolist() for row, answer in zip(logps, completions, strict=True)]


@pytest.mark.parametrize("peft", ["none", "lora"])
@pytest.mark.parametrize("algo", ROLLOUTS_OF_8)
def test_rollouts_come_from_vllm_which_has_the_weights_of_each_step(build, algo, peft, monkeypatch):
    trainer = build(*ROLLOUTS_OF_8[algo], f"peft={peft}", "algo.args.max_steps=3")
    start, weights, gaps = copy_weights(trainer), [], []
    sample = trainer.vllm_generation.generate

    def generate(*args, **kwargs):
        found = sample(*args, **kwargs)
        weights.append(copy_weights(trainer))
        own = score(trainer, kwargs["prompts"], found[1])
        pairs = zip(sum(own, []), sum(found[2], []), strict=True) if found[2] else ()
        gaps.extend(abs(mine - token[0]) for mine, token in pairs)
        return found

    monkeypatch.setattr(trainer.vllm_generation, "generate", generate)
    if algo == "rloo":  # which asks for no log-probabilities
        monkeypatch.setattr(trainer.vllm_generation, "logprobs", 0)
    trainer.train()
    assert len(weights) == 3 and len(gaps) >= 24 and max(gaps) < CLOSE
    for name, value in weights[0].items():
        torch.testing.assert_close(value, start[name], msg=name)  # those of the start model
    for last, current in zip(weights, weights[1:], strict=False):
        assert max(float((current[name] - last[name]).abs().max()) for name in current) > 0.01
    if algo != "rloo":
        history = [row[DIFFERENCE] for row in trainer.state.log_history if DIFFERENCE in row]
        assert len(history) == 3 and max(history) < CLOSE


@pytest.mark.parametrize("sampling", [Sampling(48), Sampling(48, 0.7, top_p=0.9), Sampling(48, 1.3, top_k=3)])
def test_tokens_are_drawn_from_our_distributions(build, sampling):
    """Our distribution at a token's place gives each token a part of [0, 1]; a point drawn in the part of the token
    that vLLM took is then uniform. Its log-probabilities are ours, and its completions end where ours would."""
    names = ("temperature", "top_p", "top_k")
    trainer = build(
        *ROLLOUTS_OF_8["grpo"], "max_tokens=48", *(f"++algo.args.{x}={getattr(sampling, x)}" for x in names)
    )
    tokenizer, eos = trainer.processing_class, trainer.eos_token_ids
    prompts = [ids for ids in tokenizer([row["prompt"] for row in ROWS])["input_ids"] for _ in range(100)]
    _, completions, logps, _ = trainer.vllm_generation.generate(prompts, None, 1)
    assert all((row[-1] in eos or len(row) == 48) and not set(row[:-1]) & set(eos) for row in completions)
    model, warp = AutoModelForCausalLM.from_pretrained(ASSETS / "tiny").eval(), build_warpers(sampling)
    rows = [*zip(prompts, completions, strict=True)]
    with torch.no_grad():
        logits = torch.cat(completion_logits(model, rows, tokenizer.pad_token_id))
    own = warp(torch.zeros(len(logits), 1, dtype=torch.long), logits).double().log_softmax(-1)
    places, taken = torch.arange(len(own)), torch.tensor(sum(completions, []))
    assert len(own) > 20_000
    assert float((own[places, taken] - torch.tensor(sum(logps, []))[:, 0]).abs().max()) < CLOSE
    upper, size = own.exp().cumsum(-1)[places, taken], own[places, taken].exp()
    points = upper - size * torch.rand(len(own), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    counts = np.histogram(points, bins=50, range=(0, 1))[0]
    assert counts.sum() == len(own) and stats.chisquare(counts).pvalue > 1e-4


def test_a_seed_has_samples_of_its_own_and_has_them_again(build):
    def sample(seed):
        trainer = build(*ROLLOUTS_OF_8["grpo"], f"seed={seed}")
        EngineCallback(trainer).on_train_begin()
        prompts = trainer.processing_class([row["prompt"] for row in ROWS] * 4)["input_ids"]
        return trainer.vllm_generation.generate(prompts, None, 1)[1]

    first = sample(0)
    assert sample(1) != first
    assert sample(0) == first


def test_jobs_of_a_sweep_have_an_engine_each_and_its_memory_is_given_back(tmp_path):
    """The second job is one process too: it would be DDP's if the variables of the first one's engine stayed."""
    overrides = ["algo=rloo", "eval.rows=8", "seed=0,1,2", f"hydra.sweep.dir={tmp_path}", *SMALL]
    command = [sys.executable, "-m", "rlhf_exp", "-m", *overrides, "max_tokens=48", "generation=vllm_colocate"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "DDP" not in done.stderr
    runs = [load_run(folder).info for folder in list_run_folders(tmp_path)]
    assert [run["status"] for run in runs] == ["finished"] * 3
    first, *_, last = (run["peak_memory_mb"] for run in runs)
    assert last < first + 500  # an engine's cache has 1 GiB


def test_two_processes_have_an_engine_each(tmp_path):
    overrides = [*SMALL, "algo=grpo", "eval.rows=8", "generation=vllm_colocate", f"output_dir={tmp_path}"]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run([*launcher, "-m", "rlhf_exp", *overrides], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run = load_run(tmp_path)
    assert run.status == "finished"
    assert max(row[DIFFERENCE] for row in run.metrics) < CLOSE

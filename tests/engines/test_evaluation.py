"""Evaluation by the real vLLM: `make test-engines`."""

import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from rlhf_exp.config.compose import compose_config
from rlhf_exp.models.generation import Sampling, build_warpers, list_eos, sample_completions
from rlhf_exp.models.loading import load_policy, load_tokenizer
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.models.vllm import EngineFailed, sample_by_vllm
from rlhf_exp.runs.load import load_run
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.tokens import encode_prompts

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: make test-engines"),
]
ROWS = 64


@pytest.fixture(scope="module")
def start():
    """The shipped model: its source, the model, prompts and the tokens that end a completion."""
    cfg = compose_config(["device=cpu", f"eval.rows={ROWS}", "max_tokens=48"])
    source = locate_start_model(cfg)
    tokenizer, model = load_tokenizer(source), load_policy(source)
    prompts = encode_prompts(tokenizer, load_task(cfg, tokenizer).eval)
    return source, model, prompts, list_eos(model.generation_config, tokenizer)


def name(rows, purpose="evaluation"):
    return [(purpose, 0, row, 0) for row in rows]


def test_greedy_completions_are_those_of_transformers(start):
    source, model, prompts, eos = start
    greedy = Sampling(48, temperature=0.0)
    ours = sample_completions(model, prompts, name(range(ROWS)), greedy, eos, pad_id=0)
    theirs = sample_by_vllm(source, prompts, name(range(ROWS)), greedy, eos)
    assert sum(one == other for one, other in zip(ours, theirs, strict=True)) >= ROWS - 2  # ties of the last digits


@pytest.mark.parametrize("sampling", [Sampling(1), Sampling(1, temperature=0.7), Sampling(1, top_p=0.8, top_k=8)])
def test_tokens_have_the_models_distribution(start, sampling):
    source, model, prompts, eos = start
    (greedy,) = sample_completions(model, prompts[:1], name([0]), Sampling(48, temperature=0.0), eos, pad_id=0)
    ids = torch.tensor([[*prompts[0], *greedy]])
    with torch.no_grad():
        logits = model(ids).logits[0]
    entropies = torch.distributions.Categorical(logits=logits[len(prompts[0]) - 1 : -1]).entropy()
    place = len(prompts[0]) + int(entropies.argmax())
    expected = build_warpers(sampling)(ids[:, :place], logits[None, place - 1]).double().softmax(-1)[0].numpy()
    prompt, draws = ids[0, :place].tolist(), 4000
    found = sample_by_vllm(source, [prompt] * draws, name(range(draws)), sampling, eos)
    counts = np.bincount([tokens[0] for tokens in found], minlength=len(expected))
    assert (expected > 0.02).sum() > 2
    assert counts[expected == 0].sum() == 0
    often = expected * draws >= 5
    observed, wanted = (np.append(values[often], values[~often].sum() + 1) for values in (counts, expected * draws))
    assert chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-3


def test_a_completion_depends_on_its_key_and_not_on_the_order(start):
    source, _, prompts, eos = start
    rows = list(range(ROWS))
    once = sample_by_vllm(source, prompts, name(rows), Sampling(48), eos)
    backwards = sample_by_vllm(source, prompts[::-1], name(rows[::-1]), Sampling(48), eos)[::-1]
    other = sample_by_vllm(source, prompts, name(rows, "validation"), Sampling(48), eos)
    same = [one == two for one, two in zip(once, backwards, strict=True)]
    assert sum(same) >= ROWS - 3  # a batch of another shape changes the last digits
    assert sum(one == two for one, two in zip(once, other, strict=True)) < ROWS / 2


def test_what_vllm_refuses_is_one_line(start):
    source, _, prompts, eos = start
    with pytest.raises(EngineFailed, match="eval.engine=vllm: vLLM has failed .*max_model_len") as failed:
        sample_by_vllm(source, prompts, name(range(ROWS)), Sampling(100_000), eos)
    assert "\n" not in str(failed.value)


def test_a_run_measures_both_sides_and_an_adapter(start, tmp_path):
    typed = ["algo=grpo", "peft=lora", "task.baselines=false", f"eval.rows={ROWS}", "max_tokens=48", "eval.greedy=true"]
    typed += ["algo.args.max_steps=2", "algo.args.learning_rate=0.01", "device=cpu", "eval.cache_dir=null"]
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "rlhf_exp", *typed, f"output_dir={folder}", "eval.engine=vllm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = load_run(folder)
    assert run.info["eval_engine"] == "vllm"
    source, _, prompts, eos = start
    policy = load_policy(replace(source, path=str(folder / "model")))
    ours = sample_completions(policy, prompts, name(range(ROWS)), Sampling(48, temperature=0.0), eos, pad_id=0)
    tokenizer = load_tokenizer(source)
    greedy = [row["completion"] for row in run.samples if (row["which"], row["decoding"]) == ("trained", "greedy")]
    same = [one == two for one, two in zip(tokenizer.batch_decode(ours, skip_special_tokens=True), greedy, strict=True)]
    assert sum(same) >= ROWS - 4
    assert run.evaluation["trained"]["kl"]["mean"]["value"] > 0
    assert run.evaluation["paired"]["win_rate"]


def test_two_processes_measure_what_one_does(tmp_path):
    common = ["algo=none", "task.baselines=false", f"eval.rows={ROWS}", "max_tokens=48", "device=cpu"]
    common += ["eval.engine=vllm", "eval.cache_dir=null"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    found = []
    for way, processes in (("one", []), ("two", torchrun)):
        command = [sys.executable, *processes, "-m", "rlhf_exp", *common, f"output_dir={tmp_path / way}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append([row["completion"] for row in load_run(tmp_path / way).samples])
    assert len(found[0]) == len(found[1])
    assert sum(one == two for one, two in zip(*found, strict=True)) >= 0.97 * len(found[0])

"""vLLM for rollouts, through TRL's trainers: checks that a server fits, and that rollouts come from current weights.

    if problems := check_server(cfg): ...     # before anything is loaded
    with preparing_engine(experiment): ...    # builds the trainer; TRL must not have been imported
    check_rollouts(trainer)                   # before the first step

TRL copies the policy's weights to vLLM before each rollout, with adapters merged. If that fails silently the run learns
from samples of another model, so it is tried: with all trained weights changed, and again with the real ones, vLLM's
log-probabilities of its own samples must be the trainer's.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import torch
from accelerate.utils import set_seed
from transformers import TrainerCallback

from rlhf_exp import processes
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.generation import Sampling
from rlhf_exp.models.row_random import Key
from rlhf_exp.models.scoring import evaluating, pad
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.models.vllm import choose_engine, describe_sampling, generate, prepare_vllm_on_cpu
from rlhf_exp.tasks.tokens import encode_prompts

if TYPE_CHECKING:
    from rlhf_exp.trainers.resuming import ResumableRollouts

PATIENCE_S = 5
SAMPLES, TOKENS = 8, 16
"""How many completions are sampled to check, at least, and how long they are at most."""
TOLERANCE = 0.3
"""Nats per token by which half precision and other kernels may differ, on average."""
EFFECT = 4 * TOLERANCE
"""Nats per token by which changed weights must differ from the real ones for the check to tell."""
SCALES = (0.5, 2.0, 8.0, 32.0, 128.0)
"""Of the change, in standard deviations of each tensor; the first that has the effect is used."""
SMALLEST = 0.02
"""Standard deviation that a tensor counts as having at least: an adapter's second matrix is 0 at first."""


def check_server(cfg: Config) -> list[str]:
    """Why the vLLM server that the run asks for cannot serve it; [] also if it asks for none."""
    args = cfg.algo.args
    if not args.get("use_vllm") or args.get("vllm_mode") != "server":
        return []
    url = args.get("vllm_server_base_url")
    url = url or f"http://{args.get('vllm_server_host', '0.0.0.0')}:{args.get('vllm_server_port', 8000)}"
    key, model = f"algo.args.vllm_server_base_url={url}", locate_start_model(cfg).path
    try:
        with urlopen(f"{url.rstrip('/')}/v1/models", timeout=PATIENCE_S) as answer:
            served = json.load(answer)["data"][0]["id"]
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        start = f'VLLM_SERVER_DEV_MODE=1 vllm serve {model} --weight-transfer-config \'{{"backend": "nccl"}}\''
        return [f"{key}: no vLLM server answers; start one: {start} --logprobs-mode processed_logprobs"]
    same = served == model or Path(served).is_dir() and Path(served).resolve() == Path(model).resolve()
    return [] if same else [f"{key}: serves {served}, not {model}; start it with the run's model"]


@contextmanager
def preparing_engine(experiment: Experiment) -> Iterator[None]:
    """Inside, TRL can build an engine in this process. Its context, if the config leaves it open, is the longest prompt
    with its completion: the model's own may need more memory for one sequence than the cache has. The variables that
    TRL sets for it are taken away afterwards, or the next job of a sweep would take itself for one of several
    processes."""
    args, tokenizer, environment = experiment.args, experiment.tokenizer, dict(os.environ)
    if args.use_cpu:
        options = prepare_vllm_on_cpu(experiment.model)
        from trl.generation import vllm_generation
        from vllm import LLM

        vllm_generation.LLM = partial(LLM, **options)  # TRL has no argument for these
    if args.vllm_max_model_length is None:
        rows = [*experiment.task.train, *experiment.task.validation]
        longest = max(map(len, encode_prompts(tokenizer, rows)))
        args.vllm_max_model_length = min(longest + args.max_completion_length, tokenizer.model_max_length)
    try:
        yield
    finally:
        for name in processes.SET_BY_TORCHRUN:
            if name not in environment:
                os.environ.pop(name, None)


def shares_engine(trainer: Any, cfg: Config) -> bool:
    """Whether measurements in training are sampled by the engine that samples the rollouts, in this process."""
    sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
    colocated = cfg.algo.args.get("use_vllm") and trainer.vllm_mode == "colocate" and not sharded
    return bool(colocated) and choose_engine(cfg) == "vllm"


def sample_colocated(
    trainer: "ResumableRollouts", prompt_ids: list[list[int]], keys: Sequence[Key], sampling: Sampling,
    eos_ids: list[int], title: str,
) -> list[list[int]]:  # fmt: skip
    """Sample one completion for each prompt by the engine of the rollouts, which gets the policy's weights first."""
    generation = trainer.vllm_generation
    generation.sync_weights()
    if generation.enable_sleep_mode:
        generation.llm.wake_up(tags=["kv_cache"])
    completions = generate(generation.llm, prompt_ids, describe_sampling(keys, sampling, eos_ids), show=False)
    if generation.enable_sleep_mode:
        generation.llm.sleep(level=2)
        generation._llm_weights_sleeping = True
    return completions


@torch.no_grad()
def check_rollouts(trainer: "ResumableRollouts") -> None:
    """Sample a few completions from vLLM with changed weights, and then with the real ones, and compare its
    log-probabilities with the trainer's. The weights are then as before, here and in vLLM.

    Raises:
        ConfigError: vLLM does not sample from the weights that it was sent.
    """
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        print("not checked, since the weights are sharded: that vLLM samples from current weights", flush=True)
        return
    rows = trainer.train_dataset.select(range(min(len(trainer.train_dataset), ceil(SAMPLES / trainer.num_generations))))
    prompts = [prompt for prompt in rows["prompt"] for _ in range(trainer.num_generations)]
    prompt_ids = trainer._tokenize_prompts(prompts)[0]
    for scale in SCALES:
        with _changed_weights(trainer.model, scale):
            completions, logps = _sample(trainer, prompt_ids)
            away = _mean_gap(logps, _score(trainer, prompt_ids, completions))
        effect = _mean_gap(logps, _score(trainer, prompt_ids, completions))
        if not away <= TOLERANCE or effect >= EFFECT:  # also of NaN
            break
    completions, logps = _sample(trainer, prompt_ids)
    back = _mean_gap(logps, _score(trainer, prompt_ids, completions))
    trainer._last_loaded_step = -1  # the next rollout begins with the weights too
    if not (away <= TOLERANCE and back <= TOLERANCE):
        raise ConfigError(
            [
                "generation: vLLM does not sample from the weights that it is sent: its log-probabilities differ from"
                f" the trainer's by {back:.2f} nats per token, and by {away:.2f} after a change of all trained weights"
                f" (at most {TOLERANCE} each); use generation=trl, or another version of vLLM"
            ]
        )
    if not effect >= EFFECT:
        print(
            f"not checked that vLLM samples from current weights: no change of them alters {EFFECT:.1f} nats per token"
        )
        return
    gap = max(away, back)
    print(f"vLLM samples from current weights: its log-probabilities are within {gap:.3f} nats per token", flush=True)


@contextmanager
def _changed_weights(model: torch.nn.Module, scale: float) -> Iterator[None]:
    """Inside, noise is added to every trained weight. Afterwards all are as before, also those that an adapter was
    merged into and taken out of, which rounds them."""
    kept = {name: value.detach().cpu().clone() for name, value in model.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            size = scale * max(float(kept[name].float().std(correction=0)), SMALLEST)
            parameter.add_((size * torch.randn(parameter.shape, generator=generator)).to(parameter))
    try:
        yield
    finally:
        for name, parameter in model.named_parameters():
            parameter.copy_(kept[name])


def _sample(trainer: "ResumableRollouts", prompt_ids: list[list[int]]) -> tuple[list[list[int]], list[list[float]]]:
    """vLLM's completions of the trainer's present weights, and its log-probabilities of them."""
    engine = trainer.vllm_generation
    plain = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "logprobs": 0}
    plain["max_completion_length"] = min(TOKENS, engine.max_completion_length)
    usual = {name: getattr(engine, name) for name in plain}
    vars(engine).update(plain)
    try:
        with trainer.policy_alone():
            engine.sync_weights()
        _, completions, logps, _ = engine.generate(prompt_ids, None, trainer.num_generations)
    finally:
        vars(engine).update(usual)
    return completions, [[token[0] for token in row] for row in logps]


def _score(
    trainer: "ResumableRollouts", prompt_ids: list[list[int]], completions: list[list[int]]
) -> list[list[float]]:
    """The trainer's log-probabilities of the completions' tokens."""
    device, pad_id = trainer.accelerator.device, trainer._tokenizer.pad_token_id
    prompts, answers = pad(prompt_ids, pad_id, device, left=True), pad(completions, pad_id, device)
    ids, mask = (torch.cat([prompts[name], answers[name]], 1) for name in ("input_ids", "attention_mask"))
    width = answers["input_ids"].shape[1]
    with evaluating(trainer.model):
        logps = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, width)[0]
    return [row[: len(answer)].tolist() for row, answer in zip(logps, completions, strict=True)]


def _mean_gap(first: list[list[float]], second: list[list[float]]) -> float:
    """Over the tokens of all processes, so that they decide alike."""
    gaps = [abs(a - b) for rows in zip(first, second, strict=True) for a, b in zip(*rows, strict=True)]
    sums = processes.gather((sum(gaps), len(gaps)))
    return sum(total for total, _ in sums) / sum(n for _, n in sums)


class EngineCallback(TrainerCallback):
    """Calls `check_rollouts` before the first step, when the model is on its device. Then the run's seed is set again:
    an engine in this process draws from torch's own generator, which vLLM has given the same seed in every run. After
    training the engine is shut down; else its memory stays taken, in a sweep once for each job. Not where several
    processes train: vLLM ends their group too."""

    def __init__(self, trainer: "ResumableRollouts") -> None:
        self._trainer = trainer

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        check_rollouts(self._trainer)
        set_seed(self._trainer.args.seed, device_specific=True)

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        if self._trainer.vllm_mode == "colocate" and processes.count() == 1:
            self._trainer.vllm_generation.llm.llm_engine.engine_core.shutdown()

"""Samples completions of held-out rows, measures their KL to the start model, and grades and rewards them.

    completions = judge(experiment, sample_held_out(experiment, model))
    section = summarise(completions, cfg.max_tokens)          # metrics.py

The baseline and the trained model have the same rows, budget and sampling, so that their difference is paired.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch
from peft import PeftModel

from rlhf_exp import processes
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.generation import Processor, Sampling, choose_method, list_eos, sample_completions
from rlhf_exp.models.kl import CompletionKL, measure_completions
from rlhf_exp.models.row_random import Key
from rlhf_exp.models.scoring import Model, Row, completion_logits, evaluating, map_batches, split_by_length
from rlhf_exp.models.source import ModelSource
from rlhf_exp.models.vllm import choose_engine, sample_by_vllm
from rlhf_exp.rewards import score_completions
from rlhf_exp.runs.records import Completion
from rlhf_exp.tasks.texts import describe_prompt
from rlhf_exp.tasks.tokens import encode_prompts


def sample_held_out(
    experiment: Experiment, model: Model, start_model: Model | None = None, title: str = "evaluate",
    purpose: str = "evaluation", processors: Sequence[Processor] = (), source: ModelSource | None = None,
) -> list[Completion]:  # fmt: skip
    """Sample `eval.completions` completions of each held-out row; with `eval.greedy` then a greedy one of each.

    Each draws from its own stream, named by `purpose`, `eval.seed`, its row and its place among the row's completions.
    So two models share their random numbers, more rows or more completions begin with the fewer, and torch's random
    state is neither read nor changed. What is chosen or learned from samples of one purpose has seen none of the
    numbers of another. Without `start_model` the model is the start model, and its KL is 0. `processors` change the
    logits that are sampled from (`Reweight`), not those that the KL is of. From the weights of `source` vLLM
    samples where `eval.engine` asks for it (models/vllm.py), with other random numbers that belong to a completion in
    the same way. Each of several processes takes whole batches, which then are those of one process, and so are the
    completions.
    """
    cfg, tokenizer = experiment.cfg, experiment.tokenizer
    prompt_ids = encode_prompts(tokenizer, experiment.task.eval)
    drawn = Sampling(cfg.max_tokens, cfg.eval.temperature, cfg.eval.top_p, cfg.eval.top_k)
    decodings = [("sampled", cfg.eval.completions, drawn)]
    decodings += [("greedy", 1, replace(drawn, temperature=0.0))] if cfg.eval.greedy else []
    eos_ids, pad_id = list_eos(model.generation_config, tokenizer), tokenizer.pad_token_id
    how = {"pad_id": pad_id, "method": choose_method(cfg), "processors": processors}
    draw, by_vllm = partial(sample_completions, model, **how), False
    if source is not None and choose_engine(cfg) == "vllm":
        draw, by_vllm = partial(sample_by_vllm, source), True
    completions = []
    for number, (decoding, k, sampling) in enumerate(decodings, start=1):
        places = [(row, place) for row in range(len(prompt_ids)) for place in range(k)]
        keys: list[Key] = [(purpose, cfg.eval.seed, *place) for place in places]
        prompts = [prompt_ids[row] for row, _ in places]
        size = -(-len(keys) // processes.count()) if by_vllm else cfg.eval.batch_size  # vLLM batches by itself
        named = f"{title}, {decoding}, {number}/{len(decodings)}" if len(decodings) > 1 else title
        with evaluating(model):
            ids = draw_in_batches(partial(draw, sampling=sampling, eos_ids=eos_ids), prompts, keys, size, named)
        plain = sampling.is_plain or sampling.temperature == 0  # greedy decoding draws from no distribution
        kl = [CompletionKL(0.0, 0.0, 0.0)] * len(ids)
        if start_model is not None:
            rows, compared = list(zip(prompts, ids, strict=True)), Sampling(1) if plain else sampling
            kl = measure_kl(model, start_model, rows, pad_id, compared)
        for (row, place), tokens, one in zip(places, ids, kl, strict=True):
            measured = {"kl": one.kl} if plain else {"kl": one.kl, "kl_sampled": one.sampled, "kl_outside": one.outside}
            known: dict[str, Any] = {"row": row, "ids": tokens, "sample": place, "decoding": decoding}
            known |= {"tokens": len(tokens), "truncated": tokens[-1] not in eos_ids, **measured}
            completions.append(Completion(**known))
    return completions


def measure_kl(
    model: Model, start_model: Model, rows: list[Row], pad_id: int, sampling: Sampling
) -> list[CompletionKL]:
    """KL(policy || start) of each row, in nats per completion (kl.py). If both are the same model with an adapter, the
    start model is what it is without the adapter."""
    base = model.disable_adapter if start_model is model and isinstance(model, PeftModel) else nullcontext

    def score_start(rows: list[Row]) -> list[torch.Tensor]:
        with base():
            return completion_logits(start_model, rows, pad_id)

    policy = partial(completion_logits, model, pad_id=pad_id)
    with evaluating(model):
        return measure_completions(policy, score_start, rows, model.config.vocab_size, sampling, together=True)


def judge(experiment: Experiment, completions: list[Completion]) -> list[Completion]:
    """The completions with their rows' ids and prompts, their texts, grades and rewards; each is graded once, and
    rewards take that grade. Cached ones may be of rows that another task calls otherwise.

    A reward that compares completions of a prompt sees `eval.completions` of them at a time, of the start model too.
    Each of several processes judges whole rows.
    """
    cfg, task = experiment.cfg, experiment.task
    texts = experiment.tokenizer.batch_decode([one.ids for one in completions], skip_special_tokens=True)
    own = set(processes.shard(range(len(task.eval))))
    groups: dict[tuple[str, int], list[Completion]] = {}
    for one, text in zip(completions, texts, strict=True):
        if one.row in own:
            group = groups.setdefault((one.decoding, one.sample // cfg.eval.completions), [])
            row = task.eval[one.row]
            known = {"id": row["id"], **describe_prompt(row["prompt"]), "completion": text}
            group.append(one.model_copy(update=known))
    judged = {}
    for group in groups.values():
        rows, texts = [task.eval[one.row] for one in group], [one.completion for one in group]
        grades = [task.grade(text, row) for text, row in zip(texts, rows, strict=True)] if task.grade else None
        scores = score_completions(experiment.rewards, rows, texts, [one.ids for one in group], grades)
        for i, (one, rewards) in enumerate(zip(group, scores, strict=True)):
            known = asdict(grades[i]) if grades else {}
            known.pop("score", None)
            if rewards:
                reward = sum((cfg.reward.weights[name] or 0.0) * value for name, value in rewards.items())
                known |= {"rewards": rewards, "reward": reward}
            judged[one.key] = one.model_copy(update=known)
    judged = processes.gather_dict(judged)
    return [judged[one.key] for one in completions]


def draw_in_batches(
    draw: Callable[..., list[list[int]]], prompts: list[list[int]], keys: list[Key], size: int, title: str
) -> list[list[int]]:
    """One completion of each prompt, in batches of prompts of similar length."""

    def draw_batch(batch: list[int]) -> list[list[int]]:
        return draw([prompts[i] for i in batch], [keys[i] for i in batch])

    return map_batches(draw_batch, split_by_length(prompts, size), title)

"""Samples completions of rows, measures their KL to the start model, and grades and rewards them.

    of = EvalSet.of(cfg, task, tokenizer, rewards)            # rows, and how completions are drawn and judged
    completions = judge(of, sample_rows(of, model))
    section = summarise(completions, cfg.max_tokens)          # metrics.py

The baseline and the trained model have the same rows, budget and sampling, so that their difference is paired.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from peft import PeftModel

from rlhf_exp import processes
from rlhf_exp.config.schema import Config
from rlhf_exp.models.generation import Sampling, choose_method, list_eos, sample_completions
from rlhf_exp.models.kl import CompletionKL, measure_completions
from rlhf_exp.models.row_random import Key
from rlhf_exp.models.scoring import Model, completion_logits, evaluating, map_batches, split_by_length
from rlhf_exp.models.scoring import Row as Tokens
from rlhf_exp.models.source import ModelSource
from rlhf_exp.models.vllm import choose_engine
from rlhf_exp.rewards import RewardFunction, score_completions
from rlhf_exp.runs.records import Completion
from rlhf_exp.tasks import Row, TaskRows
from rlhf_exp.tasks.task import Grader
from rlhf_exp.tasks.texts import describe_prompt
from rlhf_exp.tasks.tokens import encode_prompts


@dataclass(frozen=True)
class Draws:
    """How completions of rows are drawn: all that they depend on but the rows and the weights.

    Attributes:
        key: what each completion's stream of random numbers is named by, with its row and its place: a purpose, a seed.
        completions: of each row.
        greedy: whether a greedy completion of each row follows.
        method: compact, trl or vllm.
        batch_size: rows that are decoded together; vLLM makes batches by itself.
    """

    sampling: Sampling
    key: Key
    completions: int
    greedy: bool
    method: str
    batch_size: int

    @classmethod
    def of(cls, cfg: Config) -> "Draws":
        """Those of the held-out measurement."""
        method = "vllm" if choose_engine(cfg) == "vllm" else choose_method(cfg)
        sampling = Sampling(cfg.max_tokens, cfg.eval.temperature, cfg.eval.top_p, cfg.eval.top_k)
        key = ("evaluation", cfg.eval.seed)
        return cls(sampling, key, cfg.eval.completions, cfg.eval.greedy, method, cfg.eval.batch_size)


@dataclass(frozen=True)
class EvalSet:
    """Rows on which models are measured, and how their completions are drawn, graded and rewarded.

    Attributes:
        rewards, weights: the functions, and the weight of each by its name.
        group: so many completions of a row a reward that compares them sees at a time.
    """

    rows: list[Row]
    draws: Draws
    tokenizer: Any
    grade: Grader | None = None
    rewards: Sequence[RewardFunction] = ()
    weights: dict[str, float | None] = field(default_factory=dict)
    group: int = 1

    @classmethod
    def of(cls, cfg: Config, task: TaskRows, tokenizer: Any, rewards: Sequence[RewardFunction] = ()) -> "EvalSet":
        """The held-out rows of a task."""
        weights, group = cfg.reward.weights, cfg.eval.completions
        return cls(task.eval, Draws.of(cfg), tokenizer, task.grade, rewards, weights, group)


def sample_rows(
    of: EvalSet, model: Model, start_model: Model | None = None, title: str = "evaluate",
    source: ModelSource | None = None,
) -> list[Completion]:  # fmt: skip
    """Sample completions of each row; if the draws are `greedy` then a greedy one of each.

    Each draws from its own stream, named by the draws' key, its row and its place among the row's completions. So two
    models share their random numbers, more rows or more completions begin with the fewer, and torch's random state is
    neither read nor changed. What is chosen or learned from samples of one purpose has seen none of the numbers of
    another. Without `start_model` the model is the start model, and its KL is 0. vLLM samples from the weights of
    `source`, with other random numbers that belong to a completion in the same way. Each of several processes takes
    whole batches, which then are those of one process, and so are the completions.
    """
    draws, pad_id = of.draws, of.tokenizer.pad_token_id
    prompt_ids, eos_ids = encode_prompts(of.tokenizer, of.rows), list_eos(model.generation_config, of.tokenizer)
    decodings = [("sampled", draws.completions, draws.sampling)]
    decodings += [("greedy", 1, replace(draws.sampling, temperature=0.0))] if draws.greedy else []
    weights: Model | ModelSource = source if draws.method == "vllm" and source is not None else model
    completions = []
    for number, (decoding, k, sampling) in enumerate(decodings, start=1):
        places = [(row, place) for row in range(len(prompt_ids)) for place in range(k)]
        prompts = [prompt_ids[row] for row, _ in places]
        size = -(-len(places) // processes.count()) if draws.method == "vllm" else draws.batch_size
        named = f"{title}, {decoding}, {number}/{len(decodings)}" if len(decodings) > 1 else title

        def draw(batch: list[int], sampling: Sampling = sampling, places: Any = places) -> list[list[int]]:
            prompts, keys = zip(*((prompt_ids[places[i][0]], (*draws.key, *places[i])) for i in batch), strict=True)
            return sample_completions(weights, [*prompts], keys, sampling, eos_ids, pad_id, draws.method)

        with evaluating(model):
            ids = map_batches(draw, split_by_length(prompts, size), named)
        plain = sampling.is_plain or sampling.temperature == 0  # greedy decoding draws from no distribution
        kl = [CompletionKL(0.0, 0.0, 0.0)] * len(ids)
        if start_model is not None:
            rows, compared = list(zip(prompts, ids, strict=True)), Sampling(1) if plain else sampling
            kl = measure_kl(model, start_model, rows, pad_id, compared)
        for (row, place), tokens, one in zip(places, ids, kl, strict=True):
            measured = {"kl": one.kl} if plain else {"kl": one.kl, "kl_sampled": one.sampled, "kl_outside": one.outside}
            known = {"row": row, "ids": tokens, "sample": place, "decoding": decoding, "tokens": len(tokens)}
            known |= {"truncated": tokens[-1] not in eos_ids, **measured}
            completions.append(Completion.model_validate(known))
    return completions


def measure_kl(
    model: Model, start_model: Model, rows: list[Tokens], pad_id: int, sampling: Sampling
) -> list[CompletionKL]:
    """KL(policy || start) of each row, in nats per completion (kl.py). If both are the same model with an adapter, the
    start model is what it is without the adapter."""
    base = model.disable_adapter if start_model is model and isinstance(model, PeftModel) else nullcontext

    def score_start(rows: list[Tokens]) -> list[torch.Tensor]:
        with base():
            return completion_logits(start_model, rows, pad_id)

    policy = partial(completion_logits, model, pad_id=pad_id)
    with evaluating(model):
        return measure_completions(policy, score_start, rows, model.config.vocab_size, sampling, together=True)


def judge(of: EvalSet, completions: list[Completion]) -> list[Completion]:
    """The completions with their rows' ids and prompts, their texts, grades and rewards; each is graded once, and
    rewards take that grade. Cached ones may be of rows that another task calls otherwise.

    Each of several processes judges whole rows.
    """
    texts = of.tokenizer.batch_decode([one.ids for one in completions], skip_special_tokens=True)
    own = set(processes.shard(range(len(of.rows))))
    groups: dict[tuple[str, int], list[Completion]] = {}
    for one, text in zip(completions, texts, strict=True):
        if one.row in own:
            row = of.rows[one.row]
            known = {"id": row["id"], **describe_prompt(row["prompt"]), "completion": text}
            groups.setdefault((one.decoding, one.sample // of.group), []).append(one.model_copy(update=known))
    judged = {}
    for group in groups.values():
        rows, texts = [of.rows[one.row] for one in group], [one.completion for one in group]
        grades = [of.grade(text, row) for text, row in zip(texts, rows, strict=True)] if of.grade else None
        scores = score_completions([*of.rewards], rows, texts, [one.ids for one in group], grades)
        for i, (one, rewards) in enumerate(zip(group, scores, strict=True)):
            known = asdict(grades[i]) if grades else {}
            known.pop("score", None)
            if rewards:
                reward = sum((of.weights[name] or 0.0) * value for name, value in rewards.items())
                known |= {"rewards": rewards, "reward": reward}
            judged[one.key] = one.model_copy(update=known)
    judged = processes.gather_dict(judged)
    return [judged[one.key] for one in completions]

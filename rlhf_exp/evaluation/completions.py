"""Samples completions of rows, measures their KL to the start model, and grades and rewards them.

    of = EvalSet.of(cfg, task, tokenizer, rewards)            # rows, and how completions are drawn and judged
    completions = judge(of, sample_rows(of, model))
    section = summarise(completions, cfg.max_tokens)          # metrics.py

The baseline and the trained model have the same rows, budget and sampling, so that their difference is paired.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from statistics import fmean
from typing import Any

import torch
from peft import PeftModel

from rlhf_exp import processes
from rlhf_exp.config.schema import Config
from rlhf_exp.evaluation.episodes import Drawn, Player
from rlhf_exp.graders import read_text
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
from rlhf_exp.tasks.texts import describe_prompt, write_turns
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
        play: for rows with an environment, whose completions are episodes of several turns.
    """

    rows: list[Row]
    draws: Draws
    tokenizer: Any
    grade: Grader | None = None
    rewards: Sequence[RewardFunction] = ()
    weights: dict[str, float | None] = field(default_factory=dict)
    group: int = 1
    play: Callable[[Model], Player] | None = None

    @classmethod
    def of(cls, cfg: Config, task: TaskRows, tokenizer: Any, rewards: Sequence[RewardFunction] = ()) -> "EvalSet":
        """The held-out rows of a task."""
        weights, group = cfg.reward.weights, cfg.eval.completions
        play = partial(Player, cfg, task.environments, tokenizer) if task.environments else None
        return cls(task.eval, Draws.of(cfg), tokenizer, task.grade, rewards, weights, group, play)


def sample_rows(
    of: EvalSet, model: Model, start_model: Model | None = None, title: str = "evaluate",
    source: ModelSource | None = None,
) -> list[Completion]:  # fmt: skip
    """Sample completions of each row; if the draws are `greedy` then a greedy one of each.

    Each draws from its own stream, named by the draws' key, its row and its place among the row's completions; of an
    episode with tools this holds for the first turn (trainers/episodes.py). So two models share their random numbers,
    more rows or more completions begin with the fewer, and torch's random state is neither read nor changed. What is
    chosen or learned from samples of one purpose has seen none of the numbers of another. Without `start_model` the
    model is the start model, and its KL is 0. vLLM samples from the weights of `source`, with other random numbers that
    belong to a completion in the same way. Each of several processes takes whole batches, which then are those of one
    process, and so are the completions.
    """
    draws, pad_id = of.draws, of.tokenizer.pad_token_id
    prompt_ids, eos_ids = encode_prompts(of.tokenizer, of.rows), list_eos(model.generation_config, of.tokenizer)
    decodings = [("sampled", draws.completions, draws.sampling)]
    decodings += [("greedy", 1, replace(draws.sampling, temperature=0.0))] if draws.greedy else []
    weights: Model | ModelSource = source if draws.method == "vllm" and source is not None else model
    player = of.play(model) if of.play else None
    completions = []
    for number, (decoding, k, sampling) in enumerate(decodings, start=1):
        places = [(row, place) for row in range(len(prompt_ids)) for place in range(k)]
        prompts = [prompt_ids[row] for row, _ in places]
        size = -(-len(places) // processes.count()) if draws.method == "vllm" else draws.batch_size
        named = f"{title}, {decoding}, {number}/{len(decodings)}" if len(decodings) > 1 else title

        def draw(batch: list[int], sampling: Sampling = sampling, places: Any = places) -> list[Drawn]:
            rows, keys = zip(*((places[i][0], (*draws.key, *places[i])) for i in batch), strict=True)
            if player is not None:
                return player.play([of.rows[row] for row in rows], keys, sampling)
            asked = [prompt_ids[row] for row in rows]
            ids = sample_completions(weights, asked, keys, sampling, eos_ids, pad_id, draws.method)
            return [Drawn(*both) for both in zip(asked, ids, strict=True)]

        with evaluating(model):
            drawn: list[Drawn] = map_batches(draw, split_by_length(prompts, size), named)
        plain = sampling.is_plain or sampling.temperature == 0  # greedy decoding draws from no distribution
        turns = [one.list_turns() for one in drawn]
        kl = [CompletionKL(0.0, 0.0, 0.0)] * sum(map(len, turns))
        if start_model is not None:
            rows, compared = [turn for one in turns for turn in one], Sampling(1) if plain else sampling
            kl = measure_kl(model, start_model, rows, pad_id, compared)
        measured = iter(kl)
        for (row, place), one, own in zip(places, drawn, turns, strict=True):
            found = [*islice(measured, len(own))]
            sums = {"kl": sum(turn.kl for turn in found)}
            if not plain:
                outside = fmean(turn.outside for turn in found)
                sums |= {"kl_sampled": sum(turn.sampled for turn in found), "kl_outside": outside}
            known = {"row": row, "ids": one.ids, "sample": place, "decoding": decoding}
            known |= {"tokens": sum(len(ids) for _, ids in own), "truncated": own[-1][1][-1] not in eos_ids}
            completions.append(Completion.model_validate({**known, **sums, **one.episode}))
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
    texts = [
        text if one.turns is None else write_turns(one.turns) for one, text in zip(completions, texts, strict=True)
    ]
    own = set(processes.shard(range(len(of.rows))))
    groups: dict[tuple[str, int], list[Completion]] = {}
    for one, text in zip(completions, texts, strict=True):
        if one.row in own:
            row = of.rows[one.row]
            known = {"id": row["id"], **describe_prompt(one.messages or row["prompt"]), "completion": text}
            groups.setdefault((one.decoding, one.sample // of.group), []).append(one.model_copy(update=known))
    judged = {}
    for group in groups.values():
        rows = [of.rows[one.row] for one in group]
        texts = [one.completion if one.turns is None else read_text(one.turns) for one in group]
        grades = [of.grade(text, row) for text, row in zip(texts, rows, strict=True)] if of.grade else None
        earned = None if of.play is None else [one.earned for one in group]
        said = [one.turns or text for one, text in zip(group, texts, strict=True)]
        scores = score_completions([*of.rewards], rows, said, [one.ids for one in group], grades, earned)
        for i, (one, rewards) in enumerate(zip(group, scores, strict=True)):
            known = asdict(grades[i]) if grades else {}
            known.pop("score", None)
            if rewards:
                reward = sum((of.weights[name] or 0.0) * value for name, value in rewards.items())
                known |= {"rewards": rewards, "reward": reward}
            judged[one.key] = one.model_copy(update=known)
    judged = processes.gather_dict(judged)
    return [judged[one.key] for one in completions]

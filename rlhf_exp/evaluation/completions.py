"""Samples and grades completions of held-out rows, and measures their KL to the start model.

    prompt_ids = encode_prompts(tokenizer, task.eval)
    held_out = sample_held_out(model, tokenizer, prompt_ids, cfg)
    samples = make_samples("baseline", experiment, held_out)     # samples.jsonl
    section = summarise(samples, cfg.max_tokens, held_out)            # metrics.py

The baseline and the trained model have the same rows, budget and sampling, so that their difference is paired.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from peft import PeftModel
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlhf_exp import processes
from rlhf_exp.config.schema import Config
from rlhf_exp.models.adapters import without_adapter
from rlhf_exp.models.generation import Sampling, choose_method, list_eos, sample_completions
from rlhf_exp.models.kl import CompletionKL, measure_completions
from rlhf_exp.models.policies import Processor
from rlhf_exp.models.row_random import Key
from rlhf_exp.models.scoring import Row, completion_logits, evaluating
from rlhf_exp.models.vllm import Sampler
from rlhf_exp.rewards import score_completions

if TYPE_CHECKING:
    from rlhf_exp.experiment import Experiment
    from rlhf_exp.tasks import Row as TaskRow


@dataclass(frozen=True)
class HeldOut:
    """k completions of each held-out row, row after row: those of row i are [i * k : (i + 1) * k]. k is
    `eval.completions`, of the start model `eval.start_completions`.

    Attributes:
        completion_ids: (rows * k) lists of token ids, including the end token.
        truncated: (rows * k) whether the budget cut it off.
        kl: (rows * k) the sum over its tokens of KL(policy || start), in nats, at temperature 1.
        kl_sampled: (rows * k) the same for the distributions that are sampled from (kl.py); None if these are
            the models' own, or nothing is drawn.
        kl_outside: (rows * k) the probability that the policy draws a token which the start model, sampled in the same
            way, cannot draw: the mean over its tokens. None if `kl_sampled` is.
        greedy: the greedy completion of each row, k = 1; None without `eval.greedy`.
    """

    completion_ids: list[list[int]]
    truncated: list[bool]
    kl: list[float]
    greedy: "HeldOut | None" = None
    kl_sampled: list[float] | None = None
    kl_outside: list[float] | None = None


def sample_held_out(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt_ids: list[list[int]],
    cfg: Config,
    start_model: PreTrainedModel | None = None,
    title: str = "evaluate",
    purpose: str = "evaluation",
    processors: Sequence[Processor] = (),
    sampler: Sampler | None = None,
) -> HeldOut:
    """Sample `cfg.eval.completions` completions of each prompt; with `cfg.eval.greedy` also a greedy one.

    Each draws from its own stream, named by `purpose`, `cfg.eval.seed`, its row and its place among the row's
    completions. So two models share their random numbers, more rows or more completions begin with the fewer, and
    torch's random state is neither read nor changed. What is chosen or learned from samples of one purpose has seen
    none of the numbers of another. Without `start_model` the model is the start model, and its KL is 0. `processors`
    change the logits that are sampled from (policies.py), not those that the KL is of. A `sampler`
    samples instead of `model` (models/vllm.py), with other random numbers that belong to a completion in the same way.
    """
    sampling = Sampling(cfg.max_tokens, cfg.eval.temperature, cfg.eval.top_p, cfg.eval.top_k)
    k, how = cfg.eval.completions, (start_model, title, processors, sampler)
    keys = [(purpose, cfg.eval.seed, row, sample) for row in range(len(prompt_ids)) for sample in range(k)]
    sampled = _sample(model, tokenizer, prompt_ids, keys, cfg, sampling, *how)
    if not cfg.eval.greedy:
        return sampled
    sampling, how = replace(sampling, temperature=0.0), (start_model, f"{title}, greedy", processors, sampler)
    return replace(sampled, greedy=_sample(model, tokenizer, prompt_ids, keys[::k], cfg, sampling, *how))


def measure_kl(
    model: PreTrainedModel, start_model: PreTrainedModel, rows: list[Row], pad_id: int, sampling: Sampling
) -> list[CompletionKL]:
    """KL(policy || start) of each row, in nats per completion (kl.py). If both are the same model with an adapter, the
    start model is what it is without the adapter."""
    policy = partial(completion_logits, model, pad_id=pad_id)
    start = partial(completion_logits, start_model, pad_id=pad_id)
    if start_model is model and isinstance(model, PeftModel):
        start = without_adapter(model, start)
    with evaluating(model):
        return measure_completions(policy, start, rows, model.config.vocab_size, sampling, together=True)


def make_samples(which: str, experiment: "Experiment", held_out: HeldOut) -> list[dict[str, Any]]:
    """The rows of samples.jsonl: each completion with its grade, every reward component, and the weighted reward.

    A reward that compares completions of a prompt sees `eval.completions` of them at a time, of the start model too.
    Without a grader there are no `outcome` and `extracted`, without rewards no `rewards` and `reward`, with plain
    sampling no `kl_sampled` and `kl_outside`. If the prompt is messages, they are in `messages`, and `prompt` is the
    text of the last one.
    """
    samples = _describe(which, "sampled", experiment, held_out)
    return samples + (_describe(which, "greedy", experiment, held_out.greedy) if held_out.greedy else [])


def _sample(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt_ids: list[list[int]],
    keys: list[Key],
    cfg: Config,
    sampling: Sampling,
    start_model: PreTrainedModel | None,
    title: str,
    processors: Sequence[Processor],
    sampler: Sampler | None,
) -> HeldOut:
    """One completion for each key, as many for each prompt, row after row; batches hold prompts of similar length. Each
    of several processes takes whole batches, which then are those of one process, and so are the completions."""
    prompt_ids = [ids for ids in prompt_ids for _ in range(len(keys) // len(prompt_ids))]
    eos_ids = list_eos(model, tokenizer)
    order = sorted(range(len(prompt_ids)), key=lambda i: len(prompt_ids[i]))
    size = -(-len(order) // processes.count()) if sampler else cfg.eval.batch_size  # vLLM batches by itself
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    mine: dict[int, list[int]] = {}
    with (
        evaluating(model),
        tqdm(total=len(order), desc=title, unit="row", leave=False, disable=bool(sampler) or None) as bar,
    ):
        for batch in processes.shard(batches):
            prompts, drawn_from = [prompt_ids[i] for i in batch], [keys[i] for i in batch]
            if sampler:
                found = sampler(prompts, drawn_from, sampling, eos_ids, title)
            else:
                how = (sampling, eos_ids, tokenizer.pad_token_id, choose_method(cfg), processors)
                found = sample_completions(model, prompts, drawn_from, *how)
            mine |= zip(batch, found, strict=True)
            bar.update(len(batch) * processes.count())
    completions = [completion for _, completion in sorted(processes.gather_dict(mine).items())]
    plain = sampling.is_plain or sampling.temperature == 0  # greedy decoding draws from no distribution
    kl = [CompletionKL(0.0, 0.0, 0.0)] * len(order)
    if start_model is not None:
        rows, compared = list(zip(prompt_ids, completions, strict=True)), Sampling(1) if plain else sampling
        kl = measure_kl(model, start_model, rows, tokenizer.pad_token_id, compared)
    truncated = [ids[-1] not in eos_ids for ids in completions]
    drawn = {} if plain else {"kl_sampled": [one.sampled for one in kl], "kl_outside": [one.outside for one in kl]}
    return HeldOut(completions, truncated, [one.kl for one in kl], **drawn)


def _describe(which: str, decoding: str, experiment: "Experiment", held_out: HeldOut) -> list[dict[str, Any]]:
    task, rewards = experiment.task, experiment.rewards
    texts = experiment.tokenizer.batch_decode(held_out.completion_ids, skip_special_tokens=True)
    k = len(texts) // len(task.eval)
    rows = [row for row in task.eval for _ in range(k)]
    judged = _judge(experiment, rows, texts, held_out.completion_ids, k)
    samples = []
    for i, (row, text, (grade, parts)) in enumerate(zip(rows, texts, judged, strict=True)):
        prompt = row["prompt"]
        chat = {} if isinstance(prompt, str) else {"messages": prompt}
        sample = {
            "which": which,
            "id": row["id"],
            "sample": i % k,
            "decoding": decoding,
            "prompt": prompt[-1]["content"] if chat else prompt,
            **chat,
            "completion": text,
            "tokens": len(held_out.completion_ids[i]),
            "truncated": held_out.truncated[i],
        }
        sample |= {key: value for key, value in grade.items() if key != "score"}
        if rewards:
            reward = sum(experiment.cfg.reward.weights[name] * value for name, value in parts.items())
            sample |= {"rewards": parts, "reward": reward}
        sample["kl"] = held_out.kl[i]
        if held_out.kl_sampled is not None:
            sample |= {"kl_sampled": held_out.kl_sampled[i], "kl_outside": held_out.kl_outside[i]}
        samples.append(sample)
    return samples


def _judge(
    experiment: "Experiment", rows: list["TaskRow"], texts: list[str], completion_ids: list[list[int]], k: int
) -> list[tuple[dict[str, Any], dict[str, float]]]:
    """Each completion's grade, and its reward components, of groups as large as those of the trained model: the i-th
    `eval.completions` of all rows are scored together. Each of several processes judges whole rows."""
    size, grade = experiment.cfg.eval.completions, experiment.task.grade
    own = set(processes.shard(range(len(texts) // k)))
    found: dict[int, tuple[dict[str, Any], dict[str, float]]] = {}
    for first in range(0, k, size):
        places = [i for i in range(len(texts)) if first <= i % k < first + size and i // k in own]
        if not places:
            continue
        of_group = ([values[i] for i in places] for values in (rows, texts, completion_ids))
        for i, parts in zip(places, score_completions(experiment.rewards, *of_group), strict=True):
            found[i] = (asdict(grade(texts[i], rows[i])) if grade else {}, parts)
    return [judged for _, judged in sorted(processes.gather_dict(found).items())]

"""Samples completions, in training and in evaluation: the one function that does, by any of three methods.

    completions = sample_completions(model, prompt_ids, keys, sampling, eos_ids=[1], pad_id=0)    # list of token lists

Each completion draws from a stream of its own (row_random.py), so that it is the same in any batch and by compact and
trl. `method=compact` is a decoding loop that stops decoding rows that have ended: it removes them from the batch and
from the cache, where `generate` continues them with padding until the longest one has ended. `method=trl` is
transformers' `generate`. `method=vllm` is vLLM's engine (vllm.py).
`auto` is compact on a CPU, where it is faster (bench/generation.py), and with FSDP2, and trl elsewhere.

Sampling baselines are a model's own weights, sampled in another way; what training gains is compared with them:

    Policy("temperature", "0.5", temperature=0.5)
    Policy("words forbidden", "give", (Reweight(((17, 0.0),)),))

A processor is what `generate` takes: (input_ids, logits) -> logits, over the prompt and all tokens so far. It is a
frozen dataclass, whose `repr` names it in the cache of completions.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import DynamicCache, GenerationConfig, GenerationMixin, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from rlhf_exp.algorithms import TRL_SAMPLING
from rlhf_exp.config.rules.machine import SHARDED
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import NonFiniteLoss
from rlhf_exp.models.row_random import NOT_FINITE, DrawnTokens, Key, draw_uniforms, pick_tokens
from rlhf_exp.models.scoring import Model, evaluating, pad, whole_weights
from rlhf_exp.models.source import ModelSource
from rlhf_exp.models.vllm import sample_by_vllm

Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

FORBIDDEN = "words forbidden"
"""The family whose policies those of other families are combined with."""
CANDIDATES = 2048
"""So many tokens hold top_p of nearly every distribution of a trained model; a vocabulary four times as large is not
sorted where they do."""


CACHE_NAMES = ("cache", "past_key_values")
"""What a model's forward calls the keys and values that it keeps: from transformers 5.24 on, and before."""
_TAKEN = inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters
CACHE = next(name for name in CACHE_NAMES if name in _TAKEN)
"""The name here."""


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn: at most `max_new_tokens` each; top_p=1 and top_k=0 exclude no tokens.

    temperature=0 is greedy decoding: each token is the most probable one; top_p and top_k have no effect.
    `processors` change the logits before temperature, top_p and top_k (`Reweight`); vLLM has none of them.
    """

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    processors: tuple[Processor, ...] = ()

    @property
    def truncates(self) -> bool:
        """Whether some tokens of a distribution can never be drawn."""
        return self.top_p < 1.0 or self.top_k > 0

    @property
    def is_plain(self) -> bool:
        """Whether tokens are drawn from the model's own distribution."""
        return self.temperature == 1.0 and not self.truncates


@dataclass(frozen=True)
class Reweight:
    """Multiplies the probabilities of tokens by fixed weights, in rows that hold none of the tokens `until` so far.

    Attributes:
        weights: (token id, weight); 0 forbids the token.
    """

    weights: tuple[tuple[int, float], ...]
    until: tuple[int, ...] = ()

    def __call__(self, input_ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Both over the same rows: (batch, time) token ids and (batch, vocabulary) logits."""
        ids, weights = zip(*self.weights, strict=True)
        ended = torch.isin(input_ids, input_ids.new_tensor(self.until)).any(1, keepdim=True)
        change = torch.zeros_like(logits)
        change[:, list(ids)] = logits.new_tensor(weights).log()
        return torch.where(ended, logits, logits + change)


@dataclass(frozen=True)
class Policy:
    """One way to sample a model's weights.

    Attributes:
        family: the policies among which the best one is chosen.
        processors: applied to the logits before temperature, top_p and top_k.
        temperature: None is that of the evaluation, 0 is greedy.
    """

    family: str
    name: str
    processors: tuple[Processor, ...] = ()
    temperature: float | None = None

    def combine(self, other: "Policy") -> "Policy":
        """This policy with the processors of another one as well."""
        return replace(self, name=f"{self.name}; {other.name}", processors=(*other.processors, *self.processors))

    def change(self, sampling: Sampling) -> Sampling:
        """The evaluation's sampling as this policy has it."""
        temperature = sampling.temperature if self.temperature is None else self.temperature
        return replace(sampling, temperature=temperature, processors=self.processors)


TEMPERATURES = (0.3, 0.5, 0.75, 1.25)

OF_EVERY_TASK = (
    *(Policy("temperature", f"{t:g}", temperature=t) for t in TEMPERATURES),
    Policy("greedy", "greedy", temperature=0.0),
)
"""Policies that need no knowledge of the task's words."""


def choose_method(cfg: Config) -> str:
    """Resolve `generation=auto` to compact or trl. With vLLM it is trl: TRL's trainer asks vLLM for rollouts, and
    transformers samples in evaluation, where models that are compared share their random numbers."""
    if (method := cfg.generation.method) != "auto":
        return "trl" if method.startswith("vllm") else method
    args = cfg.algo.args
    trls = args.get("use_vllm") or any(args.get(name) is not None for name in TRL_SAMPLING)
    # transformers' generate does not keep processes in step that have a part of the weights each.
    on_hand = cfg.device.use_cpu or cfg.scale.name in SHARDED
    return "compact" if on_hand and not trls else "trl"


@torch.no_grad()
def sample_completions(
    model: Model | ModelSource, prompt_ids: list[list[int]], keys: Sequence[Key], sampling: Sampling,
    eos_ids: list[int], pad_id: int, method: str = "compact", logps: torch.Tensor | None = None,
) -> list[list[int]]:  # fmt: skip
    """Sample one completion for each prompt, as one batch.

    Args:
        model: for vllm the source of its weights.
        prompt_ids: token ids of each prompt, of any lengths.
        keys: one per prompt, whose stream draws its completion. Greedy decoding reads none.
        eos_ids: tokens that end a completion.
        logps: (prompts, max_new_tokens) zeros, where compact writes the log-probability of each token that it draws, at
            the temperature, before top_p and top_k.

    Returns:
        Token ids of each completion, including its EOS; one without EOS was cut off at `max_new_tokens`.

    Raises:
        NonFiniteLoss: the model's logits are not finite.
    """
    if isinstance(model, ModelSource):
        return sample_by_vllm(model, prompt_ids, keys, sampling, eos_ids)
    places = dict[tuple[int, ...], int]()  # of the different prompts
    prompt_of = [places.setdefault(tuple(ids), len(places)) for ids in prompt_ids]
    inputs = pad(prompt_ids if method == "trl" else [*map(list, places)], pad_id, model.device, left=True)
    warp, uniforms = build_warpers(sampling), None
    if sampling.temperature > 0:
        uniforms = draw_uniforms(keys, sampling.max_new_tokens).to(model.device)
    if method == "trl":
        own = [] if uniforms is None else [*warp, DrawnTokens(uniforms)]
        output = model.generate(  # type: ignore[operator]
            **inputs,
            do_sample=False,  # it takes the one token that the processors leave
            logits_processor=LogitsProcessorList([*sampling.processors, *own]),
            max_new_tokens=sampling.max_new_tokens,
            repetition_penalty=1.0,  # some checkpoints (Qwen2.5) set another one in their generation config
            eos_token_id=eos_ids,
            pad_token_id=pad_id,
        )
        drawn = output[:, inputs["input_ids"].shape[1] :]
    else:
        rows = torch.tensor(prompt_of, device=model.device)
        drawn = _decode_unended(model, inputs, rows, warp, uniforms, sampling, eos_ids, logps)
    return [_cut_at_eos(row, eos_ids) for row in drawn.tolist()]


def list_eos(config: PreTrainedConfig | GenerationConfig, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The tokens that end a completion: the tokenizer's, and those that the model's generation config names, or its
    own config if it has no such file."""
    declared = config.eos_token_id
    declared = declared if isinstance(declared, list) else [declared]
    return sorted({*declared, tokenizer.eos_token_id} - {None})


def roll_out(prompts: list, trainer: Any) -> dict[str, Any]:
    """The `rollout_func` for GRPOTrainer where the method is compact.

    TRL passes the prompts of the whole generation batch, each repeated `num_generations` times, and computes the
    log-probabilities of the returned completions as for its own samples.
    """
    prompt_ids, _, _ = trainer._tokenize_prompts(prompts)
    return {"prompt_ids": prompt_ids, "completion_ids": sample_rollout(trainer, prompt_ids), "logprobs": None}


def sample_rollout(trainer: Any, prompt_ids: list[list[int]]) -> list[list[int]]:
    """One completion of the trainer's policy for each prompt, sampled as its arguments say, without dropout, from the
    streams of the trainer's `row_keys`; sets its `sampled_logps` (trainers/rollouts.py)."""
    from trl.models.utils import unwrap_model_for_generation

    config = trainer.generation_config
    sampling = Sampling(config.max_new_tokens, trainer.temperature, trainer.top_p, trainer.top_k or 0)
    checkpointing = trainer.args.gradient_checkpointing_kwargs
    gathered = unwrap_model_for_generation(
        trainer.model_wrapped, trainer.accelerator, gradient_checkpointing_kwargs=checkpointing
    )
    # One autocast around all tokens casts a trained weight once; accelerate's own would do it again for each token.
    with gathered as model, whole_weights(model), evaluating(model), trainer.accelerator.autocast():
        eos_ids, pad_id = trainer.eos_token_ids, trainer._tokenizer.pad_token_id
        trainer.sampled_logps = torch.zeros(len(prompt_ids), sampling.max_new_tokens, device=model.device)
        return sample_completions(
            model, prompt_ids, trainer.row_keys, sampling, eos_ids, pad_id, logps=trainer.sampled_logps
        )


def build_warpers(sampling: Sampling) -> LogitsProcessorList:
    """The warpers that `generate` applies, in its order."""
    warp = LogitsProcessorList()
    if sampling.temperature not in (0.0, 1.0):
        warp.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k > 0:
        warp.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1.0:
        warp.append(_TopP(sampling.top_p))
    return warp


class _TopP(TopPLogitsWarper):  # type: ignore[misc]
    """The same tokens (one at the border may differ by rounding), from the most probable ones alone where these hold
    top_p: to sort a large vocabulary takes three to five times as long."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if scores.shape[-1] < 4 * CANDIDATES:
            return super().__call__(input_ids, scores)
        highest = scores.topk(CANDIDATES).values
        held = (highest - scores.logsumexp(-1, keepdim=True)).exp().cumsum(-1) < self.top_p
        last = held.sum(-1, keepdim=True).clamp(max=CANDIDATES - 1)
        kept = scores.masked_fill(scores < highest.gather(-1, last), self.filter_value)
        if (flat := held[:, -1]).any():
            kept[flat] = super().__call__(input_ids, scores[flat])
        return kept


def _decode_unended(
    model: Model, inputs: dict[str, torch.Tensor], prompt_of: torch.Tensor, warp: LogitsProcessorList,
    uniforms: torch.Tensor | None, sampling: Sampling, eos_ids: list[int], logps: torch.Tensor | None,
) -> torch.Tensor:  # fmt: skip
    """Decode completions (batch) of left-padded different prompts, each of which is computed once; a row is dropped at
    its end-of-sequence token; greedily without `uniforms`, (batch, max_new_tokens). Returns the tokens, (batch,
    max_new_tokens), with zeros after a row's end."""
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    stop = torch.tensor(eos_ids, device=ids.device)
    drawn = ids.new_zeros(len(prompt_of), sampling.max_new_tokens)
    alive = torch.arange(len(prompt_of), device=ids.device)
    padded = not bool(mask.all())  # without padding the causal mask suffices, and is faster
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)
    tokens = ids
    for step in range(sampling.max_new_tokens):
        logits = model(
            input_ids=tokens, attention_mask=mask if padded else None, position_ids=positions, use_cache=True,
            logits_to_keep=1, **{CACHE: cache},
        ).logits[:, -1]  # fmt: skip
        if step == 0 and len(prompt_of) > len(ids):
            cache.batch_select_indices(prompt_of)
            ids, mask, positions, logits = (one[prompt_of] for one in (ids, mask, positions, logits))
        if uniforms is None and not logits.isfinite().all():  # argmax would treat NaN as the largest value
            raise NonFiniteLoss(NOT_FINITE)
        if sampling.processors:
            so_far = torch.cat([ids, drawn[:, :step]], dim=1)[alive]
            logits = LogitsProcessorList(sampling.processors)(so_far, logits.float())  # type: ignore[arg-type]
        if uniforms is None:
            next_tokens = logits.argmax(-1)
        else:
            next_tokens = pick_tokens(warp(ids[alive], logits.float()), uniforms[alive, step])  # type: ignore[arg-type]
        drawn[alive, step] = next_tokens
        if logps is not None:
            scaled = logits.float() / sampling.temperature
            logps[alive, step] = scaled.gather(1, next_tokens[:, None]).squeeze(1) - scaled.logsumexp(-1)
        going = ~torch.isin(next_tokens, stop)
        if not going.any():
            break
        if not going.all():
            kept = going.nonzero().squeeze(1)
            alive, next_tokens, mask, positions = alive[kept], next_tokens[kept], mask[kept], positions[kept]
            cache.batch_select_indices(kept)
        tokens, positions = next_tokens[:, None], positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
    return drawn


def _cut_at_eos(row: list[int], eos_ids: list[int]) -> list[int]:
    end = next((i for i, token in enumerate(row) if token in eos_ids), len(row) - 1)
    return row[: end + 1]

"""The experiment's own keys: one dataclass a group, each key with its type and its range.

TRL's arguments are not here: they go through `algo.args` untouched.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

SEED_RANGE = ">= 0, <= 4294967295"  # what numpy takes
# Upper bounds are where a value is a typing mistake, far above what anybody trains with.
_TOKENS, _ROWS, _BATCH, _STEPS = ">= 1, <= 1000000", ">= 1, <= 10000000", ">= 1, <= 65536", ">= 0, <= 10000000"
_COMPLETIONS, _PRICE, _RATE = ">= 1, <= 1024", ">= 0, <= 1000", "> 0, <= 1"


def within(bounds: str) -> Any:
    """A key whose numbers must lie in `bounds` (see checks.py); of a list or mapping, each number."""
    return field(metadata={"range": bounds})


@dataclass(frozen=True)
class Supervised:
    """Algorithms that learn from given rows: they have no keys of their own beside TRL's."""

    name: Literal["sft", "dpo", "reward_model"]
    args: dict[str, Any]


@dataclass(frozen=True)
class Hybrid:
    """loss_type=hybrid: the share of the grpo loss in its mix with dr_grpo; null takes it from the budget."""

    alpha: float | None = within(">= 0, <= 1")


@dataclass(frozen=True)
class Curriculum:
    """A rising completion budget: `budgets[i]` tokens from step `from_steps[i]` on, the first being 0; empty is off."""

    budgets: list[int] = within(_TOKENS)
    from_steps: list[int] = within(_STEPS)


@dataclass(frozen=True)
class Grpo:
    name: Literal["grpo"]
    args: dict[str, Any]
    hybrid: Hybrid
    advantage_clip: float | None = within("> 0, <= 1000")
    curriculum: Curriculum | None


@dataclass(frozen=True)
class Ppo:
    name: Literal["ppo"]
    args: dict[str, Any]
    critic: Literal["shared", "separate"]
    critic_learning_rate: float = within(_RATE)
    critic_warmup_steps: int = within(_STEPS)
    vf_coef: float = within("> 0, <= 1000")
    cliprange_value: float | None = within("> 0, <= 1000")
    gamma: float = within("> 0, <= 1")
    lam: float = within(">= 0, <= 1")
    whiten_advantages: bool
    init_kl_coef: float = within(_PRICE)
    target_kl: float | None = within("> 0, <= 1000")
    kl_horizon: int = within(">= 1, <= 1000000000")
    missing_eos_penalty: float | None = within(_PRICE)


@dataclass(frozen=True)
class Traces:
    """The written searches that demonstrations consist of: on how many numbers, with which habits."""

    numbers: list[int] = within(">= 2, <= 3")
    give_up: float = within(">= 0, <= 1")
    check: float = within(">= 0, <= 1")
    max_attempts: int = within(">= 1, <= 1000")


@dataclass(frozen=True)
class SampledRows:
    """What is sampled from the start model to learn from: prompts, completions of each, how many of them are used."""

    rows: int = within(_ROWS)
    completions: int = within(_COMPLETIONS)
    per_prompt: int = within(_COMPLETIONS)


@dataclass(frozen=True)
class Countdown:
    name: Literal["countdown"]
    source: Literal["generated", "file", "hub"]
    path: str | None
    hub_id: str
    numbers: list[int] = within(">= 2, <= 6")
    low: int = within(">= 1, <= 1000000")
    high: int = within(">= 1, <= 1000000")
    target_low: int = within(">= 1, <= 1000000000")
    target_high: int = within(">= 1, <= 1000000000")
    train_rows: int | None = within(_ROWS)
    data_seed: int = within(SEED_RANGE)
    prompt: Literal["auto", "plain", "chat"]
    samples: str | None
    sampling: SampledRows
    traces: Traces


@dataclass(frozen=True)
class Gsm8k:
    name: Literal["gsm8k"]
    source: Literal["hub", "file", "generated"]
    path: str | None
    hub_id: str
    train_rows: int | None = within(_ROWS)
    data_seed: int = within(SEED_RANGE)
    prompt: Literal["auto", "plain", "chat"]
    samples: str | None
    sampling: SampledRows


HH_RLHF_SUBSETS = ("harmless-base", "helpful-base", "helpful-online", "helpful-rejection-sampled")


@dataclass(frozen=True)
class HhRlhf:
    name: Literal["hh_rlhf"]
    source: Literal["hub", "file", "generated"]
    path: str | None
    hub_id: str
    subsets: list[Literal[HH_RLHF_SUBSETS]]
    train_rows: int | None = within(_ROWS)
    data_seed: int = within(SEED_RANGE)
    prompt: Literal["auto", "plain", "chat"]
    max_length: int | None = within(">= 2, <= 10000000")


@dataclass(frozen=True)
class Brevity:
    """Prompts of a task or of a file; `of` is read where `source` says task."""

    name: Literal["brevity"]
    source: Literal["task", "file"]
    path: str | None
    of: Countdown | Gsm8k | HhRlhf
    train_rows: int | None = within(_ROWS)
    data_seed: int = within(SEED_RANGE)
    prompt: Literal["auto", "plain", "chat"]


@dataclass(frozen=True)
class Model:
    name: str
    path: str | None
    base: str | None
    init: dict[str, int | float | bool | str] | None = within("> 0, <= 10000000")
    parameters: float | None = within(">= 1000, <= 1e15")
    learning_rate: dict[str, float | None] = within(_RATE)
    dtype: Literal["auto", "float32", "bfloat16", "float16"]
    attn_implementation: Literal["eager", "sdpa", "flash_attention_2"]
    enable_thinking: bool | None
    trust_remote_code: bool


@dataclass(frozen=True)
class Lora:
    """The arguments of peft's LoraConfig that experiments vary."""

    r: int = within(">= 1, <= 8192")
    lora_alpha: int = within(">= 1, <= 65536")
    lora_dropout: float = within(">= 0, < 1")
    target_modules: str | list[str]


@dataclass(frozen=True)
class Peft:
    name: Literal["none", "lora", "qlora"]
    lora: Lora | None
    quantization: dict[str, bool | str] | None
    dtype: Literal["float32", "bfloat16", "float16"]
    own_reference: bool


@dataclass(frozen=True)
class LengthEfficiency:
    tokens: int = within(_TOKENS)


@dataclass(frozen=True)
class Overlong:
    cache: int | None = within(_TOKENS)


@dataclass(frozen=True)
class Repetition:
    ngram_size: int = within(">= 1, <= 1000")
    max_penalty: float = within(">= -1000, <= 0")


@dataclass(frozen=True)
class RandomReward:
    seed: int | None = within(SEED_RANGE)


@dataclass(frozen=True)
class ConstantReward:
    value: float = within(">= -1000, <= 1000")


@dataclass(frozen=True)
class Reward:
    """`weights` says which rewards there are; `functions` where those of the user are, FILE.py:FUNCTION; `path`,
    `normalize` and `batch_size` are the reward model's, the rest each reward's own."""

    weights: dict[str, float] = within(">= -1000, <= 1000")
    functions: dict[str, str]
    path: str | None
    normalize: bool
    batch_size: int = within(_BATCH)
    length_efficiency: LengthEfficiency
    overlong: Overlong
    repetition: Repetition
    random: RandomReward
    constant: ConstantReward


@dataclass(frozen=True)
class Generation:
    method: Literal["auto", "trl", "compact"]


@dataclass(frozen=True)
class Device:
    name: Literal["auto", "cpu", "cuda"]
    use_cpu: bool
    bf16: bool
    threads: int | None = within(">= 1, <= 4096")


@dataclass(frozen=True)
class Logging:
    report_to: list[str]
    wandb_project: str
    wandb_mode: Literal["auto", "online", "offline", "disabled"]
    entity: str | None
    name: str | None
    group: str | None
    tags: list[str]


@dataclass(frozen=True)
class Monitor:
    every_steps: int = within(">= 1, <= 10000000")
    probe_rows: int = within(">= 1, <= 65536")
    probe_tokens: int = within(_TOKENS)
    stop_on_nonfinite: bool


@dataclass(frozen=True)
class Eval:
    split: Literal["validation", "test"]
    rows: int = within(">= 1, <= 1000000")
    completions: int = within(_COMPLETIONS)
    greedy: bool
    batch_size: int = within(_BATCH)
    temperature: float = within("> 0, <= 10")
    top_p: float = within("> 0, <= 1")
    top_k: int = within(">= 0, <= 10000000")
    seed: int = within(SEED_RANGE)
    cache_dir: str | None


@dataclass(frozen=True)
class Config:
    seed: int = within(SEED_RANGE)
    max_tokens: int = within(_TOKENS)
    train_tokens: int | None = within(">= 1, <= 1000000000000000")
    dry_run: bool
    resume: str | None
    skip_finished: bool
    output_dir: str
    algo: Supervised | Grpo | Ppo
    task: Countdown | Gsm8k | HhRlhf | Brevity
    model: Model
    peft: Peft
    reward: Reward
    generation: Generation
    device: Device
    logging: Logging
    monitor: Monitor
    eval: Eval

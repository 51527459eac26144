"""The experiment's own keys: one dataclass a group, each key with its type and its range.

TRL's arguments are not here: they go through `algo.args` untouched.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

SEED_RANGE = ">= 0, <= 4294967295"  # what numpy takes


def within(bounds: str) -> Any:
    """A key whose numbers must lie in `bounds` (see checks.py); of a list or mapping, each number."""
    return field(metadata={"range": bounds})


@dataclass(frozen=True)
class Algo:
    name: Literal["grpo", "sft", "dpo", "reward_model"]
    args: dict[str, Any]


@dataclass(frozen=True)
class Traces:
    """The written searches that demonstrations consist of: on how many numbers, with which habits."""

    numbers: list[int] = within(">= 2, <= 3")
    give_up: float = within(">= 0, <= 1")
    check: float = within(">= 0, <= 1")
    max_attempts: int = within(">= 1")


@dataclass(frozen=True)
class Countdown:
    name: Literal["countdown"]
    source: Literal["generated", "file", "hub"]
    path: str | None
    hub_id: str
    numbers: list[int] = within(">= 2, <= 6")
    low: int = within(">= 1")
    high: int = within(">= 1")
    target_low: int = within(">= 1")
    target_high: int = within(">= 1")
    train_rows: int | None = within(">= 1")
    data_seed: int = within(SEED_RANGE)
    prompt: Literal["auto", "plain", "chat"]
    traces: Traces


@dataclass(frozen=True)
class Model:
    name: str
    path: str | None
    init: dict[str, int | float | bool] | None = within("> 0")
    learning_rate: dict[str, float] = within("> 0")
    dtype: Literal["auto", "float32", "bfloat16", "float16"]
    attn_implementation: str | None
    trust_remote_code: bool


@dataclass(frozen=True)
class Reward:
    weights: dict[str, float]


@dataclass(frozen=True)
class Generation:
    method: Literal["auto", "trl", "compact"]


@dataclass(frozen=True)
class Device:
    name: Literal["auto", "cpu", "cuda"]
    use_cpu: bool
    bf16: bool
    threads: int | None = within(">= 1")


@dataclass(frozen=True)
class Logging:
    report_to: list[str]
    wandb_project: str
    wandb_mode: Literal["auto", "online", "offline", "disabled"]


@dataclass(frozen=True)
class Monitor:
    every_steps: int = within(">= 1")
    probe_rows: int = within(">= 1")
    probe_tokens: int = within(">= 1")
    stop_on_nonfinite: bool


@dataclass(frozen=True)
class Eval:
    split: Literal["validation", "test"]
    rows: int = within(">= 1")
    batch_size: int = within(">= 1")
    temperature: float = within("> 0")
    top_p: float = within("> 0, <= 1")
    top_k: int = within(">= 0")
    seed: int = within(SEED_RANGE)
    cache_dir: str | None


@dataclass(frozen=True)
class Config:
    seed: int = within(SEED_RANGE)
    max_tokens: int = within(">= 1")
    dry_run: bool
    resume: str | None
    output_dir: str
    algo: Algo
    task: Countdown
    model: Model
    reward: Reward
    generation: Generation
    device: Device
    logging: Logging
    monitor: Monitor
    eval: Eval

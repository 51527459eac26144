"""The experiment's own keys, each with a type and a range, and the way from YAML to a checked `Config`.

    cfg = compose_config(["algo=grpo", "task=countdown", "max_tokens=64"])
    cfg.eval.rows, cfg.algo.args["beta"]

TRL's arguments are not here: they go through `algo.args` untouched, and `trl_args.py` checks them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp import combinations, device
from rlhf_exp.checks import find_problem, show, suggest

_PACKAGE = Path(__file__).resolve().parent
# An installed wheel carries conf/ and sweeps/ inside the package; a checkout has them beside it.
ROOT = _PACKAGE if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent

SEED_RANGE = ">= 0, <= 4294967295"  # what numpy takes


class ConfigError(Exception):
    """A user's mistake. `problems` holds one line for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


def within(bounds: str) -> Any:
    """A key whose numbers must lie in `bounds` (see checks.py); of a list or mapping, each number."""
    return field(metadata={"range": bounds})


@dataclass(frozen=True)
class Algo:
    name: Literal["grpo", "sft", "dpo", "reward_model"]
    args: dict[str, Any]


@dataclass(frozen=True)
class Traces:
    """Habits of the written searches that demonstrations consist of."""

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
    train_rows: int = within(">= 1")
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


def compose_config(overrides: Iterable[str] = ()) -> Config:
    """Compose the shipped configs with `overrides` and check them, as the command line does."""
    device.register_resolvers()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return parse(compose("config", list(overrides)))


def parse(cfg: DictConfig) -> Config:
    """Check everything that needs no ML library.

    Raises:
        ConfigError: unknown keys, then wrong types, then values out of range; where there are none, impossible
            combinations, then files that are missing or cannot be written.
    """
    try:
        values = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError([f"{error.full_key or 'config'}: {str(error).splitlines()[0]}"]) from None
    problems: dict[str, list[str]] = {"unknown": [], "type": [], "range": []}
    config = _read(Config, values, "", problems)
    found = [line for lines in problems.values() for line in lines]
    found = found or combinations.find_conflicts(config) + combinations.find_missing_files(config)
    if found:
        raise ConfigError(found)
    return config


def known_keys() -> list[str]:
    """Every key that the command line can override, dotted, and the groups that have no keys of their own."""
    keys = _list_keys(Config, "")
    args = OmegaConf.load(ROOT / "conf" / "algo" / "grpo.yaml").args
    at = keys.index("algo.args") + 1
    return [*keys[:at], *(f"algo.args.{name}" for name in args), *keys[at:], "loss_type", "experiment"]


def refuse_key(key: str) -> str:
    """Why `key` is refused, with the nearest that exists: among its neighbours, then among all."""
    known = known_keys()
    neighbours = [name for name in known if name.rpartition(".")[0] == key.rpartition(".")[0]]
    return f"no such key{suggest(key, neighbours) or suggest(key, known)}"


def _read(schema: type, values: Any, path: str, problems: dict[str, list[str]]) -> Any:
    """Fill the dataclass from `values`; what does not fit goes to `problems` and leaves None."""
    if not isinstance(values, dict):
        problems["type"].append(f"{path.rstrip('.')}={show(values)}: must be a mapping")
        return None
    hints, read = get_type_hints(schema), {}
    for name in [name for name in values if name not in hints]:
        problems["unknown"].append(f"{path}{name}={show(values[name])}: {refuse_key(f'{path}{name}')}")
    for item in fields(schema):
        key = path + item.name
        if item.name not in values:
            problems["unknown"].append(f"{key}: missing; it has no default")
        elif is_dataclass(hints[item.name]):
            read[item.name] = _read(hints[item.name], values[item.name], f"{key}.", problems)
        else:
            problem = find_problem(key, values[item.name], hints[item.name], item.metadata.get("range"))
            read[item.name] = values[item.name]
            if problem:
                problems[problem[0]].append(problem[1])
    return None if any(problems.values()) else schema(**read)


def _list_keys(schema: type, path: str) -> list[str]:
    hints, keys = get_type_hints(schema), []
    for item in fields(schema):
        keys.append(path + item.name)
        if is_dataclass(hints[item.name]):
            keys += _list_keys(hints[item.name], f"{path}{item.name}.")
    return keys

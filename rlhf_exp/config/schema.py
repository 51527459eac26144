"""The keys of an experiment: one dataclass per group, each key with its type and its range.

The arguments of trainers, TRL's and ours, are not here: `algo.args` passes them on unchanged.
"""

from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import Field

from rlhf_exp.algorithms import ALGORITHMS, CRITIC_RATES, PAIRS, Algorithm
from rlhf_exp.config.values import (
    KEPT,
    Batch,
    Completions,
    Count,
    Group,
    PositiveShare,
    Rate,
    Seed,
    Tokens,
    Weight,
    build,
)
from rlhf_exp.errors import Problem
from rlhf_exp.tasks import task as tasks

TASKS = {name: tasks.find_task(name) for name in tasks.TASKS}
"""The class of each task, in the task's own module; its fields are the keys."""

if TYPE_CHECKING:  # a type checker cannot read tables: to it every task is a graded one
    AnyTask = tasks.GradedTask
    AlgoName = str
    RateName = str
else:
    AnyTask = Annotated[Union[tuple(TASKS.values())], Field(discriminator="name")]  # noqa: UP007
    AlgoName = Literal[(*ALGORITHMS,)]
    RateName = Literal[(*ALGORITHMS, *CRITIC_RATES)]


@dataclass(frozen=True)
class Algo(Group):
    """`args` are those of the algorithm's config class (trl_arguments.py); `trainer` is FILE.py:CLASS, the user's own
    in place of the algorithm's."""

    name: AlgoName
    args: dict[str, Any]
    trainer: str | None

    @property
    def row(self) -> Algorithm:
        """What the table of algorithms holds of it."""
        return ALGORITHMS[self.name]


@dataclass(frozen=True)
class Model(Group):
    name: str
    path: str | None
    base: str | None
    init: dict[str, bool | str | Annotated[float, Field(gt=0, le=10_000_000), KEPT]] | None
    parameters: Annotated[float, Field(ge=1000, le=10**15), KEPT] | None
    learning_rate: dict[RateName, Rate | None]
    dtype: Literal["auto", "float32", "bfloat16", "float16"]
    attn_implementation: Literal["eager", "sdpa", "flash_attention_2"]
    chat_template: str | None
    enable_thinking: bool | None
    trust_remote_code: bool


@dataclass(frozen=True)
class Lora(Group):
    """The arguments of peft's LoraConfig that experiments vary."""

    r: Count
    lora_alpha: Count
    lora_dropout: Annotated[float, Field(ge=0, lt=1), KEPT]
    target_modules: str | list[str]


@dataclass(frozen=True)
class Peft(Group):
    name: Literal["none", "lora", "qlora"]
    lora: Lora | None
    quantization: dict[str, bool | str] | None
    dtype: Literal["float32", "bfloat16", "float16"]
    own_reference: bool


@dataclass(frozen=True)
class Teacher(Group):
    """The model whose distributions a student learns."""

    path: str | None


@dataclass(frozen=True)
class Constant(Group):
    value: Weight


@dataclass(frozen=True)
class Judge(Group):
    url: str | None
    model: str | None
    rubric: str | None
    lowest: Annotated[int, Field(ge=-1000, le=1000)]
    highest: Annotated[int, Field(ge=-1000, le=1000)]
    max_calls: Count | None
    parallel: Annotated[int, Field(ge=1, le=256)]
    timeout_s: Annotated[float, Field(gt=0, le=86_400), KEPT]


@dataclass(frozen=True)
class LengthEfficiency(Group):
    tokens: Tokens


@dataclass(frozen=True)
class Overlong(Group):
    cache: Tokens | None


@dataclass(frozen=True)
class Random(Group):
    seed: Seed | None


@dataclass(frozen=True)
class Repetition(Group):
    ngram_size: Count
    max_penalty: Annotated[float, Field(ge=-1000, le=0), KEPT]


@dataclass(frozen=True)
class Reward(Group):
    """`weights` says which rewards there are, those that are null left out; `functions` where those of the user are,
    FILE.py:FUNCTION; `timeout_s` ends their calls; `path`, `normalize` and `batch_size` are the reward model's. The
    keys of one reward follow under its name."""

    weights: dict[str, Weight | None]
    functions: dict[str, str]
    timeout_s: Annotated[float, Field(gt=0, le=31_536_000), KEPT] | None
    path: str | None
    normalize: bool
    batch_size: Batch
    constant: Constant
    judge: Judge
    length_efficiency: LengthEfficiency
    overlong: Overlong
    random: Random
    repetition: Repetition

    @property
    def asks_model(self) -> bool:
        """Whether a model scores completions: a reward model, or a judge."""
        return self.path is not None or "judge" in self.weights

    def __post_init__(self) -> None:
        weighed = {name: weight for name, weight in self.weights.items() if weight is not None}
        object.__setattr__(self, "weights", weighed)


@dataclass(frozen=True)
class Generation(Group):
    method: Literal["auto", "trl", "compact", "vllm_colocate", "vllm_server"]


@dataclass(frozen=True)
class Device(Group):
    name: Literal["auto", "cpu", "cuda"]
    use_cpu: bool
    bf16: bool
    threads: Annotated[int, Field(ge=1, le=4096)] | None


@dataclass(frozen=True)
class Labels(Group):
    """What the user calls a run; nothing that it computes depends on it."""

    name: str | None
    tags: list[str]


@dataclass(frozen=True)
class Hardware(Group):
    """The machine that a run is for. A dry run says whether the run fits it; with `gpus` null, this machine."""

    name: str
    gpus: Count | None
    memory_gb: Annotated[float, Field(gt=0, le=100_000), KEPT] | None
    batch_factor: Count


@dataclass(frozen=True)
class Scale(Group):
    """The engine of several processes; what it needs of TRL's arguments is set by conf/scale."""

    name: Literal["none", "ddp", "fsdp2"]


@dataclass(frozen=True)
class Logging(Group):
    report_to: list[str]
    wandb_project: str
    group: str | None


@dataclass(frozen=True)
class Monitor(Group):
    every_steps: Count
    probe_rows: Count
    probe_tokens: Tokens
    stop_on_nonfinite: bool
    stop_on: list[str]
    ignore: list[str]
    completions: Annotated[int, Field(ge=0, le=65536)]


@dataclass(frozen=True)
class Eval(Group):
    """`rows` are required to be there; null takes what is there, at most `most_rows`. Of `sets` each holds `task`,
    `reward`, the path of a reward model, and the keys of the task (`fill_sets` in compose.py)."""

    split: Literal["validation", "test"]
    engine: Literal["auto", "transformers", "vllm"]
    rows: Count | None
    most_rows: Count
    completions: Completions
    start_completions: Completions
    greedy: bool
    sets: dict[str, dict]
    batch_size: Batch
    temperature: Annotated[float, Field(gt=0, le=10), KEPT]
    top_p: PositiveShare
    top_k: Annotated[int, Field(ge=0, le=10_000_000)]
    seed: Seed
    every: Count | None
    every_rows: Count
    best: bool
    cache_dir: str | None

    @property
    def limit(self) -> int:
        """The most held-out rows that are taken."""
        return self.rows or self.most_rows


@dataclass(frozen=True)
class Report(Group):
    """What the report of a run, and the page on a task's data, shows."""

    samples: bool


@dataclass(frozen=True)
class Hub(Group):
    """Whether and where pipeline.py pushes the trained model. `base_model` is the start model's id on the hub, where
    `model.path` is a folder: the model card and an adapter's config name it."""

    push: bool
    repo: str | None
    private: bool
    base_model: str | None


@dataclass(frozen=True)
class Config(Group):
    seed: Seed
    max_tokens: Tokens
    train_tokens: Annotated[int, Field(ge=1, le=10**15)] | None
    preflight: Literal["on", "off", "only"]
    dry_run: bool
    verbose: bool
    resume: str | None
    skip_finished: bool
    keep_checkpoints: bool
    run: Labels
    output_dir: str
    algo: Algo
    task: AnyTask
    model: Model
    peft: Peft
    teacher: Teacher
    reward: Reward
    generation: Generation
    device: Device
    hardware: Hardware
    scale: Scale
    logging: Logging
    monitor: Monitor
    eval: Eval
    report: Report
    hub: Hub

    @property
    def learns_from_samples(self) -> bool:
        """Whether training rows are made from samples: by choice, and always if a graded task must provide pairs."""
        needs_pairs = self.algo.row.learns_from == PAIRS and not self.task.gives_pairs
        return self.task.graded and (needs_pairs or self.task.samples is not None)

    @cached_property
    def sets(self) -> dict[str, "Config"]:
        """For each of `eval.sets` this config with the task and the reward of the set; it has at most as many rows."""
        found, measured = {}, replace(self.eval, rows=None, most_rows=self.eval.limit, sets={})
        for name, values in self.eval.sets.items():
            keys = {key: value for key, value in values.items() if key not in ("task", "reward")}
            task = build(TASKS[values["task"]], {"name": values["task"], **keys})
            task.move(f"eval.sets.{name}")
            path = values["reward"]
            reward = replace(self.reward, weights={"model": 1.0} if path else {}, functions={}, path=path)
            found[name] = replace(self, task=task, reward=replace(reward, normalize=False), eval=measured)
        return found

    def list_sources(self) -> list[tuple[str, Any]]:
        """The keys by which rows are read, of the task and of the evaluation sets, with their places."""
        return [one for cfg in (self, *self.sets.values()) for one in cfg.task.list_sources()]

    def list_reward_models(self) -> dict[str, "Config"]:
        """The keys that name a reward model, each with a config whose `reward.path` it is."""
        found = {"reward.path": self} | {f"eval.sets.{name}.reward": of for name, of in self.sets.items()}
        return {key: of for key, of in found.items() if of.reward.path is not None}

    def list_saved_models(self) -> dict[str, str]:
        """The paths of reward models and of the teacher by their keys; a path may be the folder of a run."""
        found = {key: str(of.reward.path) for key, of in self.list_reward_models().items()}
        return found | ({} if self.teacher.path is None else {"teacher.path": self.teacher.path})

    def list_functions(self) -> dict[str, str]:
        """The functions and classes of the user's, FILE.py:NAME, each by its key."""
        found = {f"reward.functions.{name}": where for name, where in self.reward.functions.items()}
        for place, task in self.list_sources():
            found |= {f"{place}.{key}": where for key, where in task.functions.items()}
        return found | ({} if self.algo.trainer is None else {"algo.trainer": self.algo.trainer})


def find_value(cfg: Config, key: str) -> Any:
    """The value at a dotted key, None for an argument of TRL that is not set; of a group, which option was chosen."""
    value: Any = cfg
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else getattr(value, name)
    is_group = is_dataclass(value)
    return getattr(value, "method", None) or value.name if is_group else value


def conflict(cfg: Config, key: str, hint: str, kind: str = "conflict") -> Problem:
    """A problem of the value that the config has at `key`."""
    return Problem(key, kind, find_value(cfg, key), hint)

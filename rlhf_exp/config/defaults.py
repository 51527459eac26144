"""Default values that depend on the algorithm, the task, the model's size, peft and the device.

    ${rlhf_exp.default:max_tokens}          # in conf/, where a value depends on other choices
    list_defaults(settings)["max_tokens"]   # Default(value=512, reason="...")

Learning rates are in the table of algorithms (algorithms.py). With LoRA they are ten times those of full fine-tuning
(Schulman et al. 2025, LoRA Without Regret; TRL's scripts too).
"""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from rlhf_exp.algorithms import ALGORITHMS, ANY, CRITIC_RATES, DEMONSTRATIONS, LARGE, PAIRS, SMALL, Algorithm
from rlhf_exp.config import device
from rlhf_exp.config.model_shape import Shape, count_token_bytes, find_shape
from rlhf_exp.config.schema import TASKS
from rlhf_exp.config.trl_arguments import load_arguments

ROWS_AT_ONCE = ((SMALL, None), (2e8, 16), (LARGE, 8), (5e9, 4), (2e10, 2), (ANY, 1))
"""(parameters, rows): up to that size, the rows of one forward and backward pass; the rest of a step is accumulated."""

MEMORY_GB, SHARE = 24, 4
"""The activations of these rows take at most a fourth of this memory (times hardware.batch_factor, or that of
hardware=). It is not read from the machine: the same command would then be another setting elsewhere, or at another
hour, which its seeds, skip_finished and resume= refuse."""

EVAL_BATCH = ((SMALL, 128), (LARGE, 32), (ANY, 16))

ALL_ROWS, SOME_ROWS = 1_400, 512
START_COMPLETIONS = 4
MANY_ROWS = 256
"""Held-out rows from which their sampling is worth more: below, a run is a trial."""

SMALL_BUDGET = 96
SMALL_DRAWN_STEPS = 8_000
DRAWN_STEPS = 700
EPOCHS = 3
SHORT_STEPS = 200
"""transformers' group_by_length puts the longest rows first in each 50 batches, or in a fourth of few rows."""


class Default(NamedTuple):
    value: Any
    reason: str


class Settings(NamedTuple):
    """What defaults depend on."""

    cfg: Any  # composed or checked; an unresolved entry is resolved when it is read
    shape: Shape
    processes: int
    finite_rows: bool
    drawn_held_out: bool  # whether held-out rows are drawn, not read from a file or the hub

    @property
    def row(self) -> Algorithm:
        return ALGORITHMS[self.cfg.algo.name]  # the config is not checked yet

    @property
    def is_small(self) -> bool:
        return self.shape.parameters is not None and self.shape.parameters < SMALL

    @property
    def has_many_rows(self) -> bool:
        """Whether a small model is measured on many drawn rows, so that more measurements take little."""
        return self.is_small and self.drawn_held_out and (self.cfg.eval.rows or self.cfg.eval.most_rows) >= MANY_ROWS

    @property
    def size(self) -> str:
        """The number of parameters in words."""
        size = self.shape.parameters
        return "an unknown size" if size is None else f"{size:,} parameters"


def read_settings(cfg: Any) -> Settings:
    """From a composed or a checked config."""
    model, task = cfg.model, cfg.task
    shape = find_shape(model.path, model.base, model.init, model.name)
    if model.parameters is not None:
        shape = shape._replace(parameters=int(model.parameters), source=f"model.parameters={model.parameters:g}")
    prompts = task.of if task.source == "task" else task
    drawn, held_out = (TASKS[of.name].draws_rows and of.source == "generated" for of in (task, prompts))
    finite = not (drawn and task.train_rows is None and task.samples is None)
    return Settings(cfg, shape, device.count_processes(cfg), finite, held_out)


def list_defaults(of: Settings) -> dict[str, Default]:
    """Every default by its key, in the order in which a dry run shows them."""
    left_out: tuple[str, ...] = () if of.row.learns_from == DEMONSTRATIONS else _OF_DEMONSTRATIONS
    left_out += () if of.row.minibatches > 1 else ("algo.args.steps_per_generation",)
    return {key: find(of) for key, find in DEFAULTS.items() if key not in left_out}


def choose_rate(of: Settings, name: str, own: float | None = None) -> Default:
    """The learning rate of an algorithm or a critic; `own` is the rate in conf/model/, if any."""
    size = of.shape.parameters
    if own is not None and size is not None and size < SMALL:
        return Default(own, "the model's own, conf/model/")
    if size is None and name not in CRITIC_RATES:
        return Default(None, of.shape.source)
    rates = CRITIC_RATES[name] if name in CRITIC_RATES else ALGORITHMS[name].rates
    rate, source = next((rate, source) for bound, rate, source in rates if (size or LARGE) < bound)
    if of.cfg.peft.name == "none" or name in CRITIC_RATES or (size or LARGE) < SMALL:
        return Default(rate, f"{name} at {of.size}: {source}")
    return Default(float(f"{10 * rate:.6g}"), f"{name} at {of.size}: ten times {rate:g} ({source}), for LoRA")


def _up_to(table: tuple[tuple[float, Any], ...], size: float) -> Any:
    return next(value for bound, value in table if size < bound)


def _budget(of: Settings) -> Default:
    if of.is_small:
        return Default(SMALL_BUDGET, f"{of.size}: as model=tiny, whose searches it holds")
    tokens, reason = TASKS[of.cfg.task.name].budget
    half = (of.shape.context or 2 * tokens) // 2
    return Default(tokens, reason) if tokens <= half else Default(half, f"half of the context of {2 * half}")


def _read_argument(of: Settings, name: str) -> Any:
    """The value in the run: the user's, the config's, or TRL's default."""
    return of.cfg.algo.args[name] if name in of.cfg.algo.args else load_arguments(of.cfg.algo.name)[name].default


def _rows(of: Settings) -> Default:
    if of.shape.parameters is None:
        return Default(None, of.shape.source)
    rows, most, why = _divide(of)
    shared = f", in {of.processes} processes" if of.processes > 1 else ""
    batch = max(1, of.row.batch // of.processes)
    return Default(rows, f"{of.size}: of {batch} rows in a step{shared}{f'; {why}' if rows < most else ''}")


def _divide(of: Settings) -> tuple[int, int, str]:
    """Rows of a pass whose activations fit, a divisor of as many as the model's size allows; that many; and why not all
    of them, in words."""
    batch, hardware = max(1, of.row.batch // of.processes), of.cfg.hardware
    most = min(batch, (_up_to(ROWS_AT_ONCE, of.shape.parameters or LARGE) or batch) * hardware.batch_factor)
    memory, half = hardware.memory_gb or MEMORY_GB * hardware.batch_factor, "16" in of.cfg.model.dtype
    # The longest row as far as the config says it, without the prompt of a completion; a pair is two rows.
    tokens = getattr(of.cfg.task, "max_length", None) or of.cfg.max_tokens
    tokens *= 2 if of.row.learns_from == PAIRS and not of.row.unpaired else 1
    recomputes = _read_argument(of, "activation_checkpointing")
    try:
        each = tokens * count_token_bytes(of.shape.values or {}, 2 if half or of.cfg.device.bf16 else 4, recomputes)[0]
    except (KeyError, TypeError, ZeroDivisionError):  # another kind of model
        return most, most, ""
    least = min(most, 1 + of.row.unpaired)  # KTO's KL is of each prompt with another row's answer
    parts = [rows for rows in range(least, most + 1) if most % rows == 0]
    rows = max((rows for rows in parts if rows * each <= memory / SHARE * 1e9), default=parts[0])
    why = f"{most} rows of {tokens:,} tokens keep {most * each / 1e9:.1f} GB of activations"
    return rows, most, f"{why}, more than 1/{SHARE} of {memory:g} GB"


def explain_rows(cfg: Any) -> str | None:
    """The line of a run whose default batch is smaller than the model's size allows, since activations would not fit;
    None for any other."""
    of, keys = read_settings(cfg), ("per_device_train_batch_size", "gradient_accumulation_steps")
    rows, most, why = _divide(of)
    chosen = [rows, _accumulation(of).value]
    if not of.row.trains or rows == most or [cfg.algo.args[key] for key in keys] != chosen:
        return None
    return f"{' '.join(f'algo.args.{key}={cfg.algo.args[key]}' for key in keys)} by default: {why}"


def _accumulation(of: Settings) -> Default:
    rows = _read_argument(of, "per_device_train_batch_size")
    if rows is None:
        return Default(None, of.shape.source)
    at_once = rows * of.processes
    chosen, most, _ = _divide(of)
    steps = 1 if of.is_small else max(1, of.row.batch // at_once)  # a small model is not accumulated further
    if rows == chosen:  # the step is that of the most rows
        steps = max(1, of.row.batch // (most * of.processes)) * (most // rows)
    unit = "completions" if of.row.online else "rows"
    return Default(steps, f"{steps * at_once} {unit} per step, {at_once} of them at once")


def _rollout(of: Settings) -> Default:
    steps = _read_argument(of, "gradient_accumulation_steps")
    return Default(steps and of.row.minibatches * steps, f"a rollout has {of.row.minibatches} minibatches")


def _checkpointing(of: Settings) -> Default:
    large = (of.shape.parameters or LARGE) >= LARGE
    return Default(large, f"true from {LARGE:,} parameters on, where activations fill the memory before weights do")


def _eval_batch(of: Settings) -> Default:
    rows = _up_to(EVAL_BATCH, of.shape.parameters or LARGE)
    return Default(rows, f"{of.size}: it decides which completions are drawn")


def _most_rows(of: Settings) -> Default:
    if of.is_small and of.drawn_held_out:
        return Default(ALL_ROWS, f"{of.size}: all drawn held-out rows of the default ranges, in seconds")
    return Default(SOME_ROWS, "standard error of an accuracy: at most 2.2 points")


def _start_completions(of: Settings) -> Default:
    k = of.cfg.eval.completions
    least = START_COMPLETIONS if of.has_many_rows else 1
    reason = f"at least {START_COMPLETIONS} for a small model on {MANY_ROWS} drawn rows or more"
    return Default(k * -(-least // k), reason)


def _baselines(of: Settings) -> Default:
    return Default(of.has_many_rows, f"true for a small model on {MANY_ROWS} drawn rows or more: half a minute or more")


def _every(of: Settings) -> Default:
    steps = _read_argument(of, "max_steps")
    measured = of.has_many_rows and of.row.trains and not of.row.scores and steps > 0
    reason = f"a tenth of max_steps for a small model on {MANY_ROWS} drawn rows or more"
    return Default(max(1, steps // 10) if measured else None, reason)


def _outcome(of: Settings) -> Default:
    task, keys = of.cfg.task, TASKS[of.cfg.task.name]
    if keys.graded_by and isinstance(task, DictConfig):
        task = keys(**{item.name: OmegaConf.select(task, item.name) for item in fields(keys)})
    known = task.graded if keys.graded_by else True  # else it is refused, with the other rewards that do not fit
    return Default(1.0 if known else None, "null for a task without right answers")


def _bf16(of: Settings) -> Default:
    why = "true on a GPU of Ampere or newer, and without adapters on a CPU that computes in it; not for a small model"
    if of.is_small or device.targets_other_hardware(of.cfg):  # the GPUs of `hardware` compute in bfloat16
        return Default(not of.is_small, why)
    if of.cfg.device.use_cpu:  # with LoRA a step of SmolLM2 takes 1.1 times as long as in float32
        return Default(of.cfg.peft.name == "none" and device.cpu_has_bf16(), why)
    return Default(device.has_bf16(), why)


def _lora_dtype(of: Settings) -> Default:
    if _bf16(of).value and of.cfg.peft.name != "none":
        return Default("bfloat16", "the frozen base; the adapters stay in float32")
    return Default("float32", "in bfloat16, small updates of weights round away")


def _sft_steps(of: Settings) -> Default:
    if of.finite_rows:
        return Default(-1, f"the rows {EPOCHS} times, transformers' num_train_epochs")
    if of.is_small:
        return Default(SMALL_DRAWN_STEPS, "rows are drawn as steps need them, as for model=tiny")
    rows = f"{DRAWN_STEPS * of.row.batch:,} drawn rows in steps of {of.row.batch}"
    return Default(DRAWN_STEPS, f"{rows}, about {EPOCHS} times GSM8K's 7,473")


def _order(of: Settings) -> Default:
    short = 0 < _read_argument(of, "max_steps") < SHORT_STEPS
    reason = f"random below {SHORT_STEPS} steps, which by length might see the longest rows alone"
    return Default("random" if short else "group_by_length", reason)


def _choose_share(of: Settings, steps: int, share: float) -> Default:
    """Steps of sft for a small model on drawn rows, else a share of all steps."""
    small = of.is_small and not of.finite_rows
    return Default(steps, "as for model=tiny") if small else Default(share, "a share of all steps")


DEFAULTS: dict[str, Callable[[Settings], Default]] = {
    "algo.args.learning_rate": lambda of: choose_rate(of, of.cfg.algo.name),
    "max_tokens": _budget,
    "algo.args.per_device_train_batch_size": _rows,
    "algo.args.gradient_accumulation_steps": _accumulation,
    "algo.args.steps_per_generation": _rollout,
    "algo.args.max_steps": _sft_steps,
    "algo.args.warmup_steps": partial(_choose_share, steps=100, share=0.03),  # the share is Tulu 3's
    "algo.args.save_steps": partial(_choose_share, steps=1_000, share=0.25),
    "algo.args.train_sampling_strategy": _order,
    "algo.args.activation_checkpointing": _checkpointing,
    "device.bf16": _bf16,
    "peft.dtype": _lora_dtype,
    "eval.batch_size": _eval_batch,
    "eval.most_rows": _most_rows,
    "eval.start_completions": _start_completions,
    "eval.every": _every,
    "task.baselines": _baselines,
    "reward.weights.outcome": _outcome,
}
_OF_DEMONSTRATIONS = tuple(
    f"algo.args.{name}" for name in ("max_steps", "warmup_steps", "save_steps", "train_sampling_strategy")
)

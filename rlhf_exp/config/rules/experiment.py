"""Refuses a model, rewards, measurements, labels or a push that the rest of the config does not allow."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rlhf_exp.config import hub
from rlhf_exp.config.keys import name_key
from rlhf_exp.config.model_shape import find_shape
from rlhf_exp.config.rules.files import check_function, find_missing_models
from rlhf_exp.config.schema import Config, conflict
from rlhf_exp.config.values import one_of
from rlhf_exp.errors import Problem
from rlhf_exp.findings import FINDINGS
from rlhf_exp.rewards.table import REWARDS
from rlhf_exp.tasks.task import Task

INIT = {"architecture": ("gpt2", "qwen2", "qwen3"), "tokenizer": ("words", "bytes")}
"""Of models with random weights (models/untrained.py)."""

BY_SIZE = ("learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation")
"""Arguments whose defaults depend on the model's size."""

COLUMNS = ("step", "prompt", "completion", "advantage")
"""Of the table that TRL writes with log_completions, beside a column for each reward."""

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}", re.ASCII)


def check_model(cfg: Config) -> Iterator[Problem]:
    """Whether the config names one source of weights."""
    model = cfg.model
    if model.path is not None and model.init is not None:
        yield conflict(cfg, "model.path", f"not with model={model.name}, which starts from random weights")
    elif model.path is None and model.init is None and model.name != "tiny":
        yield conflict(cfg, "model.path", f"model={model.name} needs a hub id or a folder")
    init: Any = model.init
    for key, known in INIT.items() if init is not None else ():
        if (value := init.get(key)) not in known:
            yield Problem(f"model.init.{key}", "conflict", value, one_of(value, known))


def check_size(cfg: Config) -> list[Problem]:
    """Whether the model's size is known if a default depends on it."""
    unknown = [f"algo.args.{name}" for name in BY_SIZE if name in cfg.algo.args and cfg.algo.args[name] is None]
    model = cfg.model
    shape = find_shape(model.path, model.base, model.init, model.name)
    if not unknown or model.parameters or shape.parameters:
        return []
    why = f"{shape.source}, so its size is not known, and the learning rate and batches depend on it"
    way = f"set model.parameters=7e9 (as many as it has), or {', '.join(unknown)}"
    found = [*check_model(cfg)] or [*find_missing_models(cfg)]
    return found or [conflict(cfg, "model.path", f"{why}; {way}", "missing")]


def check_reward(cfg: Config) -> Iterator[str]:
    """Whether there is a reward if the algorithm needs one, and everything that each reward needs."""
    rewards, functions = cfg.reward.weights, cfg.reward.functions
    for name in [name for name in rewards if name not in functions]:
        key = f"reward.weights.{name}"
        if name not in REWARDS:
            yield Problem(key, "conflict", hint=f"no such reward; {one_of(name, (*REWARDS, *functions))}")
        elif not REWARDS[name].is_readable(cfg.task):
            why = f"reads {' and '.join(REWARDS[name].needs)}, which task={cfg.task.name} does not have"
            yield Problem(key, "conflict", hint=f"{why}; {_list_ways(cfg.task)}")
    if cfg.algo.row.by_rewards and not rewards:
        yield conflict(cfg, "algo", f"needs a reward; {_list_ways(cfg.task)}")
    for reward in REWARDS.values():
        if reward.check is not None:
            yield from reward.check(cfg)
    for name, where in functions.items():
        key = f"reward.functions.{name}"
        if name in REWARDS:
            yield Problem(key, "conflict", where, f"{name} is a reward of the package; take another name")
        elif name in COLUMNS:
            why = f"{name} is a column of TRL's table of completions, which it would overwrite; take another name"
            yield Problem(key, "conflict", where, why)
        elif name not in rewards:
            yield Problem(key, "conflict", where, f"has no weight; add +reward.weights.{name}=1.0")
        else:
            yield from check_function(key, where)


def find_idle_rewards(cfg: Config, overrides: Sequence[str]) -> list[Problem]:
    """The typed keys of a reward that no weight names. A run that began so resumes, and a file may set them."""
    keys = [key for text in overrides if (key := name_key(text)).startswith("reward.") and cfg.resume is None]
    found = [(key, name) for key in keys if (name := key.split(".")[1]) in {*REWARDS} - {*cfg.reward.weights}]
    hint = " without that reward; use reward={0}, or add +reward.weights.{0}=1.0"
    return [Problem(key, "idle", hint=hint.format(name)) for key, name in found]


def _list_ways(task: Task) -> str:
    """What gives a task a reward."""
    first = ["use reward=outcome"] if task.graded else [f"set {key}" for key in task.graded_by]
    model = "use reward=model reward.path=RUN_DIR, a run of algo=reward_model"
    return ", or ".join([*first, model, "add +reward.functions.NAME=FILE.py:FUNCTION +reward.weights.NAME=1"])


def check_eval(cfg: Config) -> Iterator[Problem]:
    """Whether `eval.every` has completions to measure, `eval.best` something to choose by on other rows, and the start
    model whole groups of `eval.completions`, of which majority@k and rewards that compare completions are."""
    wanted, row, k = cfg.eval, cfg.algo.row, cfg.eval.completions
    if wanted.start_completions % k:
        yield conflict(cfg, "eval.start_completions", f"must be a multiple of eval.completions={k}")
    if wanted.sets and row.scores:
        yield conflict(cfg, "eval.sets", f"measures completions; algo={cfg.algo.name} trains no policy")
    if wanted.every is not None and (row.scores or not row.trains):
        yield conflict(cfg, "eval.every", f"measures completions; algo={cfg.algo.name} trains no policy")
    if wanted.engine == "vllm" and cfg.peft.quantization:
        why = "vLLM would measure the base's weights as they were before they were rounded to 4 bits"
        yield conflict(cfg, "eval.engine", f"{why}; use eval.engine=transformers")
    can_choose = cfg.task.graded or cfg.reward.weights
    if wanted.best and not (wanted.every and wanted.split == "test" and can_choose):
        why = "chooses among the measurements of eval.every, on the validation rows, by the task's grader or a reward"
        yield conflict(cfg, "eval.best", f"{why}; set eval.every and eval.split=test")


def check_monitor(cfg: Config) -> Iterator[Problem]:
    """Whether each name is one of a finding."""
    for key in ("stop_on", "ignore"):
        for name in getattr(cfg.monitor, key):
            if name not in FINDINGS:
                yield conflict(cfg, f"monitor.{key}", f"no finding is named {name}; {one_of(name, FINDINGS)}")


def is_folder_name(name: object) -> bool:
    """Whether a run's name is a safe name of a folder on every system, and needs no quotes in a shell."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name))


def check_labels(cfg: Config) -> Iterator[Problem]:
    """Whether the run's name can begin a folder's name."""
    if cfg.run.name is not None and not is_folder_name(cfg.run.name):
        yield conflict(cfg, "run.name", "letters, digits, and . _ + - after the first one, at most 100", "type")


def check_hub(cfg: Config) -> list[Problem]:
    """Whether the hub's keys are complete, and the hub knows the token. Whether the token may write there, only the
    push itself shows."""
    names = {"hub.repo": cfg.hub.repo, "hub.base_model": cfg.hub.base_model}
    wrong = [key for key, name in names.items() if name is not None and not hub.is_repo(name)]
    found = [conflict(cfg, key, "ORG/NAME, of letters, digits, - _ and .", "type") for key in wrong]
    if not cfg.hub.push:
        return found
    if not cfg.algo.row.trains:
        found.append(conflict(cfg, "hub.push", f"algo={cfg.algo.name} trains nothing that could be pushed"))
    elif cfg.preflight == "only":
        found.append(conflict(cfg, "hub.push", "preflight=only trains nothing that could be pushed"))
    elif cfg.hub.repo is None:
        found.append(conflict(cfg, "hub.push", "needs hub.repo=ORG/NAME"))
    path = cfg.model.path
    on_hub = path is not None and hub.is_hub_id(path) and not Path(path).exists()
    if cfg.peft.lora is not None and cfg.hub.base_model is None and not on_hub:
        why = f"an adapter is of no use without its base, and model={path or cfg.model.name} is not on the hub"
        way = "set hub.base_model=ORG/NAME if it is there too, or peft=none, or push what peft's merge_and_unload makes"
        found.append(conflict(cfg, "hub.push", f"{why}; {way}"))
    if not found and (reason := _explain_no_push()):
        found.append(conflict(cfg, "hub.push", reason, "missing"))
    return found


@cache
def _explain_no_push() -> str | None:
    """Why this machine cannot push: there is no token, the hub does not answer, or it does not take the token. Asked
    once in a process, since the hub limits how often."""
    hub.go_offline_without_answer()
    from huggingface_hub import HfApi, get_token

    if (token := get_token()) is None:
        return "no token to write with; set the environment variable HF_TOKEN, or run hf auth login"
    if hub.is_offline():
        return "the hub does not answer, or HF_HUB_OFFLINE says not to ask it; leave it out"
    try:
        HfApi().whoami(token)
    except Exception as error:  # of the hub, of the network; they have no common base class
        return f"the hub does not take the token ({type(error).__name__}); set a valid HF_TOKEN, or run hf auth login"
    return None

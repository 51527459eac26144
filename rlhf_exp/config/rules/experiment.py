"""Refuses a model, rewards, measurements, labels or a push that the rest of the config does not allow."""

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import get_type_hints

from rlhf_exp.config import hub
from rlhf_exp.config.model_shape import MODULES, find_shape
from rlhf_exp.config.rules.files import check_function, find_missing_models
from rlhf_exp.config.schema import TASKS, Config, conflict
from rlhf_exp.config.values import find_pattern_problem, one_of
from rlhf_exp.errors import Problem, show
from rlhf_exp.rewards.table import REWARDS, Reward
from rlhf_exp.tasks.schema import TaskKeys

INIT = {"architecture": ("gpt2", "qwen2", "qwen3"), "tokenizer": ("words", "bytes")}
"""Of models with random weights (models/untrained.py)."""

BY_SIZE = ("learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation")
"""Arguments whose defaults depend on the model's size."""

BY_MODEL = "reward=model reward.path=RUN_DIR, a run of algo=reward_model"

MOST_NAME, MOST_TAG, MOST_OTHER = 100, 64, 128
"""Letters; of tags and others as many as W&B takes."""
_NAME = re.compile(rf"[A-Za-z0-9][\w.+-]{{0,{MOST_NAME - 1}}}", re.ASCII)


def check_model(cfg: Config) -> Iterator[Problem]:
    """Whether the config names one source of weights."""
    model = cfg.model
    if model.path is not None and model.init is not None:
        yield conflict(cfg, "model.path", f"not with model={model.name}, which starts from random weights")
    elif model.path is None and model.init is None and model.name != "tiny":
        yield conflict(cfg, "model.path", f"model={model.name} needs a hub id or a folder")
    elif model.init is not None:
        for key in [key for key, known in INIT.items() if model.init.get(key) not in known][:1]:
            yield Problem(f"model.init.{key}", "conflict", value := model.init.get(key), one_of(value, INIT[key]))


def check_size(cfg: Config) -> list[Problem]:
    """Whether the model's size is known if a default depends on it."""
    unknown = [f"algo.args.{name}" for name in BY_SIZE if name in cfg.algo.args and cfg.algo.args[name] is None]
    if not unknown or cfg.model.parameters or (shape := find_shape(*_name_model(cfg))).parameters:
        return []
    why = f"{shape.source}, so its size is not known, and the learning rate and batches depend on it"
    way = f"set model.parameters=7e9 (as many as it has), or {', '.join(unknown)}"
    found = [*check_model(cfg)] or [*find_missing_models(cfg)]
    return found or [conflict(cfg, "model.path", f"{why}; {way}", "missing")]


def _name_model(cfg: Config) -> tuple:
    return cfg.model.path, cfg.model.base, cfg.model.init, cfg.model.name


def check_peft(cfg: Config) -> Iterator[Problem]:
    """Whether lora and quantization are set exactly if the chosen `peft=` has them."""
    peft, lora, quantization = cfg.peft, "peft.lora", "peft.quantization"
    if peft.lora is None and peft.name != "none":
        yield Problem(lora, "conflict", None, f"not with peft={peft.name}, which trains an adapter; use peft=none")
    elif peft.lora is not None and peft.name == "none":
        yield Problem(lora, "conflict", hint="not with peft=none, which trains every weight; use peft=lora")
    elif not peft.quantization and peft.name == "qlora":
        yield Problem(quantization, "conflict", hint="must say how with peft=qlora; use peft=lora to do without it")
    elif peft.quantization and peft.name != "qlora":
        yield Problem(quantization, "conflict", hint=f"not with peft={peft.name}; use peft=qlora")
    elif peft.lora is not None and peft.lora.target_modules != "all-linear":
        yield from _check_targets(cfg, peft.lora.target_modules)


def _check_targets(cfg: Config, targets: str | list[str]) -> Iterator[Problem]:
    """Whether the model has the modules that adapters are to be added to; peft ignores a name that fits none, and takes
    text for a regular expression of whole names."""
    key = "peft.lora.target_modules"
    if not targets:
        yield conflict(cfg, key, "must name a module, or be all-linear")
    elif isinstance(targets, str) and targets.replace("_", "").isalnum():
        yield conflict(cfg, key, f"must be all-linear, or a list of names; did you mean [{targets}]?")
    elif isinstance(targets, str) and (problem := find_pattern_problem(targets)):
        yield conflict(cfg, key, problem)
    elif isinstance(targets, list):
        known = MODULES.get((find_shape(*_name_model(cfg)).values or {}).get("model_type"), ())
        for name in [name for name in targets if known and name.rpartition(".")[2] not in known]:
            model = cfg.model.path or cfg.model.name
            yield conflict(cfg, key, f"model={model} has no {name}; {one_of(name, known)}")


def check_reward(cfg: Config) -> Iterator[str]:
    """Whether there is a reward if the algorithm needs one, and everything that each reward needs."""
    rewards, functions = cfg.reward.weights, cfg.reward.functions
    for name in [name for name in rewards if name not in functions]:
        key = f"reward.weights.{name}"
        if name not in REWARDS:
            yield Problem(key, "conflict", hint=f"no such reward; {one_of(name, (*REWARDS, *functions))}")
        elif not REWARDS[name].is_readable(cfg.task):
            yield Problem(key, "conflict", hint=_explain_task(REWARDS[name], cfg.task))
        elif getattr(cfg.reward, name, "") is None:
            own = get_type_hints(type(cfg.reward))[name]
            keys = ", ".join(f"reward.{name}.{item.name}" for item in fields(own))
            yield Problem(key, "conflict", hint=f"needs its keys: {keys}")
    if cfg.algo.row.online and not rewards:
        yield conflict(cfg, "algo", f"needs a reward; {_list_ways(cfg.task)}")
    for name, reward in REWARDS.items():
        if reward.check is not None and getattr(cfg.reward, name, "") is not None:
            yield from reward.check(cfg)
    if cfg.reward.timeout_s is not None and not functions and not cfg.task.functions:
        own = "there is none: no reward.functions, no checker or task of your own; leave it out"
        yield conflict(cfg, "reward.timeout_s", f"is for functions of your own, and {own}")
    for name, where in functions.items():
        key = f"reward.functions.{name}"
        if name in REWARDS:
            yield Problem(key, "conflict", where, f"{name} is a reward of the package; take another name")
        elif name not in rewards:
            yield Problem(key, "conflict", where, f"has no weight; add +reward.weights.{name}=1.0")
        else:
            yield from check_function(key, where)


def _explain_task(reward: Reward, task: TaskKeys) -> str:
    """Why the task has not what a reward reads."""
    if "grade" in reward.needs and not task.graded:
        return f"task={task.name} has no right answers to grade; {_list_ways(task)}"
    fitting = " or ".join(f"task={name}" for name, keys in TASKS.items() if reward.is_readable(keys))
    way = "use reward=outcome" if task.graded else _list_ways(task)
    return f"not with task={task.name}, only with {fitting}; {way}"


def _list_ways(task: TaskKeys) -> str:
    """What gives a task a reward."""
    if task.graded:
        first = "use reward=outcome, or"
    else:
        first = f"set {', or '.join(task.graded_by)}, or use" if task.graded_by else "use"
    return f"{first} {BY_MODEL}, or add your own: +reward.functions.NAME=FILE.py:FUNCTION +reward.weights.NAME=1"


def check_eval(cfg: Config) -> Iterator[Problem]:
    """Whether `eval.every` has completions to measure, `eval.best` something to choose by on other rows, and the start
    model whole groups of `eval.completions`, of which majority@k and rewards that compare completions are."""
    wanted, row, k = cfg.eval, cfg.algo.row, cfg.eval.completions
    if wanted.start_completions % k:
        near = k * max(1, round(wanted.start_completions / k))
        yield conflict(cfg, "eval.start_completions", f"must be a multiple of eval.completions={k}; nearest: {near}")
    if wanted.every is not None and (row.scores or not row.trains):
        yield conflict(cfg, "eval.every", f"measures completions; algo={cfg.algo.name} trains no policy")
    if wanted.engine == "vllm" and row.scores:
        yield conflict(cfg, "eval.engine", f"samples completions; algo={cfg.algo.name} is measured without any")
    if wanted.engine == "vllm" and cfg.peft.quantization:
        why = "vLLM would measure the base's weights as they were before they were rounded to 4 bits"
        yield conflict(cfg, "eval.engine", f"{why}; use eval.engine=transformers")
    if wanted.best and wanted.every is None:
        yield conflict(cfg, "eval.best", "chooses among the measurements of eval.every; set that to a number of steps")
    if wanted.best and wanted.split == "validation":
        yield conflict(cfg, "eval.best", "chooses on the validation rows; use eval.split=test to measure on others")
    if wanted.best and not (cfg.task.graded or cfg.reward.weights):
        why = f"task={cfg.task.name} has no grader, and reward=none no reward to choose by"
        yield conflict(cfg, "eval.best", why)


def is_folder_name(name: object) -> bool:
    """Whether a run's name is a safe name of a folder on every system, and needs no quotes in a shell."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name))


def check_labels(cfg: Config) -> Iterator[Problem]:
    """Whether the run's name can begin a folder's name, and W&B takes its tags, project, entity and group."""
    name = cfg.run.name
    if name is not None and not is_folder_name(name):
        near = re.sub(r"[^\w.+-]+", "-", name, flags=re.ASCII).strip("-._+")[:MOST_NAME]
        allowed = f"letters, digits, and . _ + - after the first one, at most {MOST_NAME}"
        yield conflict(cfg, "run.name", f"{allowed}{f'; did you mean {near}?' if near else ''}", "type")
    for tag in dict.fromkeys(tag for tag in cfg.run.tags if cfg.run.tags.count(tag) > 1):
        yield conflict(cfg, "run.tags", f"names {show(tag)} twice; leave one out")
    labels = [("run.tags", tag, MOST_TAG) for tag in cfg.run.tags]
    labels += [
        (f"logging.{key}", getattr(cfg.logging, key), MOST_OTHER) for key in ("wandb_project", "entity", "group")
    ]
    for key, text, most in labels:
        if text is not None and len(text) > most:
            yield Problem(key, "range", text, f"at most {most} letters, and has {len(text)}")


def check_hub(cfg: Config) -> list[Problem]:
    """Whether the hub's keys are complete, and the hub knows the token. Whether the token may write there, only the
    push itself shows."""
    allowed = "ORG/NAME, of letters, digits, - _ and ."
    named = [key for key in ("repo", "base_model") if getattr(cfg.hub, key) is not None]
    found = [conflict(cfg, f"hub.{k}", allowed, "type") for k in named if not hub.is_repo(getattr(cfg.hub, k))]
    if not cfg.hub.push:
        idle = [conflict(cfg, "hub.repo", " without hub.push=true", "idle")] if cfg.hub.repo is not None else []
        return found or idle
    if not cfg.algo.row.trains:
        why = f"algo={cfg.algo.name} trains nothing that could be pushed; leave it out"
        return [conflict(cfg, "hub.push", why)]
    if cfg.hub.repo is None:
        found.append(conflict(cfg, "hub.push", "needs hub.repo=ORG/NAME"))
    path = cfg.model.path
    on_hub = path is not None and hub.is_hub_id(path) and not Path(path).exists()
    if cfg.peft.lora is not None and cfg.hub.base_model is None and not on_hub:
        why = f"an adapter is of no use without its base, and model={path or cfg.model.name} is not on the hub"
        way = "set hub.base_model=ORG/NAME if it is there too, or peft=none, or merge the adapter after training and"
        found.append(conflict(cfg, "hub.push", f"{why}; {way} push that (python -m rlhf_exp merge)"))
    if not found and (reason := _explain_no_push()):
        found.append(conflict(cfg, "hub.push", reason, "missing"))
    return found


def _explain_no_push() -> str | None:
    """Why this machine cannot push: there is no token, the hub does not answer, or it does not take the token."""
    from huggingface_hub import get_token

    if (token := get_token()) is None:
        return "no token to write with; set the environment variable HF_TOKEN, or run hf auth login"
    hub.go_offline_without_answer()
    if hub.is_offline():
        return "the hub does not answer, or HF_HUB_OFFLINE says not to ask it; leave it out"
    reason = _ask_about(token)
    return f"{reason}; set HF_TOKEN to a valid one, or run hf auth login" if reason else None


@cache
def _ask_about(token: str) -> str | None:
    """Why the hub does not take the token; asked once in a process, since the hub limits how often."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().whoami(token)
    except HfHubHTTPError as error:
        return f"the hub refuses the token ({getattr(error.response, 'status_code', 'no status')})"
    except Exception as error:  # of the network; they have no common base class
        return f"the hub cannot be asked about the token ({type(error).__name__})"
    return None

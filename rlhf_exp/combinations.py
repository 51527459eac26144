"""What does not go together, and what is not on the disk. Called by config.py once every value fits its type.

One table says what an algorithm learns from, one what a task gives; a task fits that gives it.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_exp import device
from rlhf_exp.checks import suggest

if TYPE_CHECKING:
    from rlhf_exp.config import Config

PROMPTS, DEMONSTRATIONS, PAIRS = "graded prompts", "demonstrations", "preference pairs"

ALGO_NEEDS = {"grpo": PROMPTS, "sft": DEMONSTRATIONS, "dpo": PAIRS, "reward_model": PAIRS}
TASK_GIVES = {"countdown": (PROMPTS, DEMONSTRATIONS)}

# The losses that TRL 1.16 knows (grpo_trainer.py, sft_config.py); its dpo takes a list, its reward model has one.
LOSS_TYPES = {
    "grpo": ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"),
    "sft": ("nll", "dft"),
}
REWARDS = ("outcome",)

HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


def find_conflicts(cfg: "Config") -> list[str]:
    """Values that are each allowed and do not go together."""
    problems = [*_check_algo(cfg), *_check_task(cfg), *_check_model(cfg)]
    for name in cfg.reward.weights:
        if name not in REWARDS:
            known = f"must be one of {', '.join(REWARDS)}{suggest(name, REWARDS)}"
            problems.append(f"reward.weights.{name}: no such reward; {known}")
    if not cfg.reward.weights:
        problems.append(f"reward.weights: must hold one of {', '.join(REWARDS)}")
    if cfg.device.name == "cuda" and not device.cuda_major():
        problems.append("device=cuda: no usable GPU, or a CPU build of torch; use device=cpu or device=auto")
    if cfg.generation.method == "compact" and cfg.algo.args.get("use_vllm"):
        problems.append("generation=compact: not with algo.args.use_vllm=true; use generation=trl")
    for package in cfg.logging.report_to:
        if package not in ("wandb", "tensorboard"):
            problems.append(f"logging.report_to={package}: must be wandb or tensorboard")
        elif find_spec(package) is None:
            problems.append(f"logging={package}: not installed; pip install {package}, or logging=file")
    return problems


def find_missing_files(cfg: "Config") -> list[str]:
    """Files that must be there and are not, folders that cannot be written."""
    problems = []
    path = cfg.model.path
    if path is not None and not _is_hub_id(path) and not (Path(path).expanduser() / "config.json").is_file():
        what = "has no config.json" if Path(path).expanduser().is_dir() else "no such folder"
        problems.append(f"model.path={path}: {what}; must be a model's folder or a hub id like org/name")
    if cfg.task.source == "file" and cfg.task.path is not None and not Path(cfg.task.path).is_file():
        problems.append(f"task.path={cfg.task.path}: no such file")
    if cfg.resume is not None:
        if not (Path(cfg.resume) / "run.json").is_file():
            problems.append(f"resume={cfg.resume}: not a run's folder, it has no run.json")
        elif not any(Path(cfg.resume).glob("checkpoints/checkpoint-*")):
            problems.append(f"resume={cfg.resume}: has no checkpoint to go on from")
    elif (Path(cfg.output_dir) / "run.json").exists():
        folder = cfg.output_dir
        problems.append(f"output_dir={folder}: already holds a run; use another folder, or resume={folder}")
    for key, folder in (("output_dir", cfg.output_dir), ("eval.cache_dir", cfg.eval.cache_dir)):
        if folder is not None and (reason := _refuse_folder(Path(folder))):
            problems.append(f"{key}={folder}: cannot be written, {reason}")
    return problems


def _check_algo(cfg: "Config") -> list[str]:
    algo, task, problems = cfg.algo.name, cfg.task.name, []
    need, gives = ALGO_NEEDS[algo], TASK_GIVES[task]
    if need not in gives:
        tasks = [name for name, given in TASK_GIVES.items() if need in given]
        fitting = [name for name, needed in ALGO_NEEDS.items() if needed in gives]
        problems.append(
            f"algo={algo}: needs {need}, and task={task} has none; tasks with {need.split()[-1]}:"
            f" {', '.join(tasks) or 'none yet'}; algorithms for task={task}: {', '.join(fitting)}"
        )
    losses, loss = LOSS_TYPES.get(algo), cfg.algo.args.get("loss_type")
    if losses and loss is not None and loss not in losses:
        allowed = f"must be one of {', '.join(losses)}{suggest(loss, losses)}"
        problems.append(f"loss_type={loss}: not a loss of algo={algo}, {allowed}")
    return problems


def _check_task(cfg: "Config") -> list[str]:
    task, problems = cfg.task, []
    for low, high in (("low", "high"), ("target_low", "target_high")):
        if getattr(task, low) > getattr(task, high):
            problems.append(f"task.{low}={getattr(task, low)}: must be at most task.{high}={getattr(task, high)}")
    for key, counts in (("numbers", task.numbers), ("traces.numbers", task.traces.numbers)):
        if not counts:
            problems.append(f"task.{key}=[]: must hold how many numbers a problem has, such as [3]")
    if task.source == "file" and task.path is None:
        problems.append("task.source=file: needs task.path, a JSONL file with nums and target")
    return problems


def _check_model(cfg: "Config") -> list[str]:
    model = cfg.model
    if model.path is not None and model.init is not None:
        return [f"model.path={model.path}: not with model={model.name}, which starts from random weights"]
    if model.path is None and model.init is None and model.name != "tiny":
        return [f"model.path=null: model={model.name} needs a hub id or a folder"]
    if cfg.algo.name not in model.learning_rate and "learning_rate" not in cfg.algo.args:
        return [f"model.learning_rate: has none for algo={cfg.algo.name}"]
    return []


def _is_hub_id(path: str) -> bool:
    """`org/name` or `name`, unless its first part is a local folder: then a local path is meant."""
    return bool(HUB_ID.fullmatch(path)) and not os.path.isdir(path.split("/")[0])


def _refuse_folder(folder: Path) -> str | None:
    """Why `folder` cannot be made or written, judged by the nearest parent that exists."""
    parent = folder
    while not os.path.lexists(parent):
        parent = parent.parent
    if not parent.is_dir():
        return f"{parent} is not a folder"
    return None if os.access(parent, os.W_OK | os.X_OK) else f"{parent} is read-only"

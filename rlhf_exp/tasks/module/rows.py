"""Calls the functions of the user's file, and refuses what they return if it is no task, in one line.

    rows = bind(cfg.task)          # with cfg.task.module="mine.py"
    rows.load(cfg, tokenizer)      # the Task that mine.py returns: rows cut, in the form of the model, checked

The contract is that of the package's tasks (tasks/__init__.py): `load`, and perhaps `build_grader`, `draw_prompts`,
`list_policies` and `read_examples`. Texts may stay texts: for a chat model they become messages here.
"""

from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS, PAIRS, PROMPTS
from rlhf_exp.config.schema import Config, learns_from_samples
from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.checkers import Checker, guard
from rlhf_exp.graders.user_code import describe_error, import_file
from rlhf_exp.tasks import Row, Task, wants_chat
from rlhf_exp.tasks.examples import Data, Example, count_words
from rlhf_exp.tasks.fitting import ANSWERS, Taken, check_sides
from rlhf_exp.tasks.module.schema import Keys
from rlhf_exp.tasks.module.shape import describe, shape_rows

COLUMNS = {
    PROMPTS: ("id", "prompt"),
    DEMONSTRATIONS: ("prompt", "completion"),
    PAIRS: ("id", "prompt", "chosen", "rejected"),
}
"""What rows to train on must hold, by what the algorithm learns from."""


def bind(task: Keys) -> SimpleNamespace:
    """The functions of the file, under the names that a task's rows.py has.

    Raises:
        ConfigError: the file cannot be imported.
    """
    module = _import(task.module, Path(task.module).expanduser().stat().st_mtime_ns)
    bound = SimpleNamespace(
        load=partial(_load, module), build_grader=partial(_build_grader, module), draw_prompts=partial(_draw, module)
    )
    bound.read_examples = (
        partial(_call, module, "read_examples") if hasattr(module, "read_examples") else partial(_read_examples, module)
    )
    if hasattr(module, "list_policies"):
        bound.list_policies = partial(_call, module, "list_policies")
    return bound


@lru_cache
def _import(path: str, mtime_ns: int) -> ModuleType:
    """The file as a module, imported once until it changes."""
    return import_file(path, f"task.module={path}")


def _load(module: ModuleType, cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Task:
    task, row = _call(module, "load", cfg, tokenizer), ALGORITHMS[cfg.algo.name]
    where = f"task.module={cfg.task.module}: load"
    if not isinstance(task, Task):
        raise ConfigError([f"{where} returned {describe(task)}; must return an rlhf_exp.tasks.Task"])
    if task.grade is not None and not cfg.task.graded:
        raise ConfigError([f"{where} returned a Task with a grade, and the file has no build_grader(keys) to make it"])
    sampled, kind = learns_from_samples(cfg), row.learns_from if row.trains else PROMPTS
    if kind == DEMONSTRATIONS and cfg.task.graded and not sampled and not _have(task.train, "completion"):
        needs = "returned no rows of prompt and completion, which algo=sft learns from"
        raise ConfigError([f"{where} {needs}; or use task.samples=self, for its own correct samples"])
    shape = partial(shape_rows, where=where, chat=wants_chat(cfg, tokenizer))
    held = "pairs" if kind == PAIRS else "demonstrations"
    sides = {
        "train": [] if sampled else shape(task.train, "train", COLUMNS[kind]),
        "eval": [] if row.scores and not sampled else shape(task.eval, "eval", COLUMNS[PROMPTS]),
        held: [] if sampled or kind == PROMPTS else shape(getattr(task, held), held, COLUMNS[kind]),
    }
    sides["train"], sides["eval"] = sides["train"][: cfg.task.train_rows], sides["eval"][: cfg.eval.limit]
    sides[held] = sides[held][: cfg.eval.limit]
    held_out = {str(row["prompt"]) for name in ("eval", held) for row in sides[name]}
    if both := [row for row in sides["train"] if str(row["prompt"]) in held_out]:
        raise ConfigError([f"{where} returned {len(both)} rows to train on whose prompt is held out, such as"
                           f" {show(both[0]['prompt'], 60)}; no prompt may be in two splits"])  # fmt: skip
    measured = held if kind == PAIRS and not sampled and row.scores else "eval"
    checked = {} if sampled else {"train": Taken(sides["train"])}
    check_sides(cfg, {**checked, cfg.eval.split: Taken(sides[measured])})
    if kind == PAIRS and not sampled and not sides["pairs"]:
        raise ConfigError([f"{where} returned no held-out pairs, which algo={cfg.algo.name} is measured on"])
    grade = _build_grader(module, cfg.task) if cfg.task.graded else None
    for sample in sides["eval"][:1] if grade else ():
        grade("", sample)  # a grader that cannot read the rows is refused before anything is sampled
    return replace(task, name="module", grade=grade, notes=tuple(task.notes), **sides)


def _build_grader(module: ModuleType, task: Keys) -> Checker:
    where, grade = f"task.module={task.module}", _call(module, "build_grader", task)
    if not callable(grade):
        problem = f"build_grader returned {describe(grade)}; must return a function of (completion, row)"
        raise ConfigError([f"{where}: {problem}"])
    return guard(grade, f"{where}, the function of build_grader", task.module)


def _draw(module: ModuleType, cfg: Config, tokenizer: PreTrainedTokenizerBase, n: int) -> list[Row]:
    where = f"task.module={cfg.task.module}: draw_prompts"
    if not hasattr(module, "draw_prompts"):
        needs = "is not in the file; learning from samples needs draw_prompts(cfg, tokenizer, n), n rows to train on"
        raise ConfigError([f"{where} {needs}"])
    rows = _call(module, "draw_prompts", cfg, tokenizer, n)
    rows = shape_rows(rows, "", COLUMNS[PROMPTS], where=where, chat=wants_chat(cfg, tokenizer))
    if len(rows) < n:
        raise ConfigError([f"task.sampling.rows={n}: {where} returned {len(rows)}; allowed is 1 to {len(rows)}"])
    return rows[:n]


def _read_examples(module: ModuleType, cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Data:
    """The rows that `load` gives to the first algorithm for which it has rows to train on."""
    for name in ("sft", "reward_model", "grpo"):
        try:
            task = _load(module, replace(cfg, algo=replace(cfg.algo, name=name)), tokenizer)
        except ConfigError:
            if name == "grpo":
                raise
        else:
            if task.train:
                break
    answers = tuple(key for key in ANSWERS if task.train and key in task.train[0])
    held_out = task.pairs or task.demonstrations or task.eval
    examples = [
        Example(
            split, split, 2, count_words(row["prompt"]), row["prompt"], tuple(row[key] for key in answers if key in row)
        )
        for split, rows in (("train", task.train), (cfg.eval.split, held_out))
        for row in rows
    ]
    read = {"train": len(task.train), cfg.eval.split: len(held_out)}
    return Data(f"task.module={cfg.task.module}", answers, examples, read, [])


def _have(rows: Any, column: str) -> bool:
    return isinstance(rows, list) and bool(rows) and isinstance(rows[0], dict) and column in rows[0]


def _call(module: ModuleType, name: str, *args: Any) -> Any:
    """What the file's function returns.

    Raises:
        ConfigError: its own, or in one line with its place in the file whatever else it raises.
    """
    where = f"task.module={module.__file__}"
    if not callable(getattr(module, name, None)):
        raise ConfigError([f"{where}: has no function {name}"])
    try:
        return getattr(module, name)(*args)
    except (ConfigError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the file can raise anything
        raise ConfigError([f"{where}: {name} raised {describe_error(error, module.__file__)}"]) from error

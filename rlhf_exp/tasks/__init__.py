"""Tasks: rows to learn from and rows to measure on.

    task = load_task(cfg, tokenizer)
    task.train[0]                            # {"id": ..., "prompt": ..., the grader's columns}
    task.grade(completion, task.eval[0])     # -> Grade

A task is a folder here and a file in conf/task, both named as in `task=`:

    schema.py    `Keys`: its keys and what it provides, derived from a class of tasks/schema.py; no ML library
    rows.py      load(cfg, tokenizer) -> Task
                 of a graded task also, to learn from its own samples:
                     draw_prompts(cfg, tokenizer, n) -> n rows to train on, as those of Task.eval
                     build_grader(keys) -> grade(completion, row) -> Grade
                 where a plain prompt says all that the grader needs also:
                     read_prompt(prompt) -> its row, or None if it is not a prompt of the task
                 where words of its own can be forbidden or reweighted (task.baselines) also:
                     list_policies(cfg, tokenizer) -> list[Policy], those of a family together (models/policies.py)
                 where `Keys.draws_rows` also:
                     count_rows(cfg) -> how many rows are drawn, and how many training uses
                 where there is more to describe than what is loaded (tasks/examples.py):
                     read_examples(cfg, tokenizer) -> Data

All other modules call these and read properties of `Keys`; none names a task.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.device import count_completions, count_processes
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders import Grade, user_code

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks.schema import TaskKeys

Row = dict[str, Any]
Text = str | list[dict[str, str]]
"""As plain text, or for chat models as a list of messages."""


@dataclass(frozen=True)
class Task:
    """The rows of one experiment. A text is a str, or for chat models a list of messages.

    Attributes:
        train: rows in the form the algorithm learns from. Prompts (grpo, rloo, ppo): `id`, `prompt` and the grader's
            columns. Demonstrations (sft): `prompt` and `completion`. Pairs (reward_model, dpo): `id`, `subset`,
            `prompt`, `chosen` and `rejected`. Unpaired (kto): `id`, `subset`, `prompt`, `completion` and `label`.
        eval: held-out prompts to sample on: `id`, `prompt` and the grader's columns; none of them is in `train`.
        grade: (completion, row) -> Grade; None if there are no right or wrong answers. Both the reward and the
            evaluation call it.
        validation: prompts of the validation split, to measure on during training; empty without `eval.every`.
        pairs: held-out preference pairs, in the same form as in `train`; none of their prompts is in `train`.
        demonstrations: held-out rows of `prompt` and `completion`, for sft, like those in `train`, from the split of
            `eval`; empty if `train` is made of samples.
        notes: what the loader counted or dropped, one line each, for the user.
        facts: the same as figures, for data.json in the run folder.
    """

    name: str
    train: list[Row]
    eval: list[Row]
    grade: Callable[[str, Row], Grade] | None
    validation: list[Row] = field(default_factory=list)
    pairs: list[Row] = field(default_factory=list)
    demonstrations: list[Row] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


def find_rows(task: "TaskKeys") -> ModuleType | SimpleNamespace:
    """The rows.py of a task, or what its `bind(task)` returns if it has one."""
    rows = import_module(f"rlhf_exp.tasks.{task.name}.rows")
    return rows.bind(task) if hasattr(rows, "bind") else rows


def load_task(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> Task:
    """Load the rows that `cfg.task` and `cfg.algo` ask for.

    Raises:
        ConfigError: rows that are missing, broken (file and line), or too few.
    """
    user_code.limit_s = cfg.reward.timeout_s  # of this process
    check_system_prompt(cfg, tokenizer)
    load = find_rows(cfg.task).load
    task = load(cfg, tokenizer)
    if cfg.eval.every is not None:
        validation = replace(cfg.eval, split="validation", rows=cfg.eval.every_rows)
        try:
            task = replace(task, validation=load(replace(cfg, eval=validation), tokenizer).eval)
        except ConfigError as error:
            lines = (line.replace("eval.rows=", "eval.every_rows=") for line in error.problems)
            raise ConfigError(lines) from None
    if cfg.task.system_prompt is not None:
        sides = ("train", "eval", "validation", "pairs", "demonstrations")
        task = replace(task, **{name: _begin(getattr(task, name), cfg) for name in sides})
    return replace(task, train=unpair(task.train)) if ALGORITHMS[cfg.algo.name].unpaired else task


def draw_prompts(cfg: "Config", tokenizer: "PreTrainedTokenizerBase", n: int) -> list[Row]:
    """`n` different prompts of the train split, for sampling completions to learn from.

    Raises:
        ConfigError: there are fewer.
    """
    check_system_prompt(cfg, tokenizer)
    return _begin(find_rows(cfg.task).draw_prompts(cfg, tokenizer, n), cfg)


def unpair(pairs: list[Row]) -> list[Row]:
    """Each answer of the pairs as a row of its own: `completion`, and `label`, whether it is the chosen one."""
    sides = ("chosen", "rejected")
    return [
        {name: value for name, value in pair.items() if name not in sides}
        | {"completion": pair[side], "label": side == "chosen"}
        for pair in pairs
        for side in sides
    ]


def wants_chat(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether prompts are lists of messages: `task.prompt=auto` follows the tokenizer's chat template.

    Raises:
        ConfigError: task.prompt=chat, and the tokenizer has no chat template.
    """
    if cfg.task.prompt == "chat" and tokenizer.chat_template is None:
        raise ConfigError([f"task.prompt=chat: model={cfg.model.name} has no chat template; use task.prompt=plain"])
    return cfg.task.prompt != "plain" and tokenizer.chat_template is not None


def check_system_prompt(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> None:
    """Refuse `task.system_prompt` if the tokenizer's chat template takes no message of the system, or leaves it out.

    Raises:
        ConfigError: so it is.
    """
    if cfg.task.system_prompt is None or not wants_chat(cfg, tokenizer):
        return
    from jinja2.exceptions import TemplateError

    messages = add_system_prompt([{"role": "user", "content": "?"}], cfg.task.system_prompt)
    try:
        without, reason = (
            messages[0]["content"].strip() not in tokenizer.apply_chat_template(messages, tokenize=False),
            "",
        )
    except TemplateError as error:
        without, reason = True, f" ({error})"
    if without:
        line = f"model={cfg.model.name} has a chat template without a message of the system{reason}"
        raise ConfigError([f"task.system_prompt: {line}; put the text into the prompts, or use task.prompt=plain"])


def prompts_per_rollout(cfg: "Config") -> int:
    """The number of different prompts in a rollout of all processes, by TRL's rule; arguments are checked to divide."""
    return count_completions(cfg) * count_processes(cfg) // cfg.algo.args.get("num_generations", 1)


def add_system_prompt(prompt: Text, system: str | None) -> Text:
    """The prompt after the system's message; after the same text and an empty line if it is plain. Messages that begin
    with a system's message of their own keep it."""
    if system is None:
        return prompt
    text = system.replace("\\n", "\n")  # as a command line has it
    if isinstance(prompt, str):
        return f"{text}\n\n{prompt}"
    return prompt if prompt[0]["role"] == "system" else [{"role": "system", "content": text}, *prompt]


def _begin(rows: list[Row], cfg: "Config") -> list[Row]:
    return [row | {"prompt": add_system_prompt(row["prompt"], cfg.task.system_prompt)} for row in rows]


def as_completion(text: str, chat: bool) -> str | list[dict[str, str]]:
    """A completion in the form of its prompt. After a plain prompt it begins with a space, which is added if it is
    missing: a word-level tokenizer loses it in decoding."""
    if chat:
        return [{"role": "assistant", "content": text.strip()}]
    return text if text[:1].isspace() else f" {text}"


def name_source(task: Any) -> str:
    """The source of the rows of `cfg.task`, for messages: a path, a hub id, or task.source=generated."""
    if task.source == "file":
        return task.path
    return task.hub_id if task.source == "hub" else f"task.source={task.source}"

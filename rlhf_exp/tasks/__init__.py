"""Tasks: rows to learn from and rows to measure on.

    task = load_task(cfg, tokenizer)
    task.train[0]                            # {"id": ..., "prompt": ..., the grader's columns}
    task.grade(completion, task.eval[0])     # -> Grade

A task is a class (task.py) in a module of its name, with a file in conf/task; `cfg.task` is an object of it. loading.py
does the rest for all tasks. They import ML libraries only inside functions.
"""

from rlhf_exp.tasks.loading import (
    Loader,
    TaskRows,
    draw_prompts,
    load_held_out,
    load_task,
    prompts_per_rollout,
    wants_chat,
)
from rlhf_exp.tasks.module import OwnTask
from rlhf_exp.tasks.task import GradedTask, Item, OddKind, Source, Task, find_task, name_source
from rlhf_exp.tasks.texts import Row, Text, add_system_prompt, as_completion

__all__ = [
    "GradedTask", "Item", "Loader", "OddKind", "OwnTask", "Row", "Source", "Task", "TaskRows", "Text",
    "add_system_prompt", "as_completion", "draw_prompts", "find_task", "load_held_out", "load_task", "name_source",
    "prompts_per_rollout", "wants_chat",
]  # fmt: skip

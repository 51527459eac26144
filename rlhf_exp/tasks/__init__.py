"""Tasks: rows to learn from and rows to measure on.

    task = load_task(cfg, tokenizer)
    task.train[0]                            # {"id": ..., "prompt": ..., the grader's columns}
    task.grade(completion, task.eval[0])     # -> Grade

A task is a module here and a file in conf/task, both named as in `task=`:

    Keys                            its keys and what it provides, derived from a class of schema.py
    read(keys)                      -> Source (sources.py): its rows by split, each an Item with an id and its columns
    prompt(item, chat)              the prompt of a row, a text or messages; `chat`: for a model with a chat template
    grade(completion, row)          -> Grade; or build_grader(keys, source), which returns that function
    demonstration(item, keys, seed) optional: the text of an answer to learn from, or None
    gold(item, keys)                optional: a completion that is right, where a demonstration may be wrong
    pair(item, keys)                optional: the better and the worse answer

and where `Keys.draws_rows`, since with source=generated rows are drawn instead of read:

    draw(keys, form, split, n, seed, distinct, fewer) -> items
    count_rows(cfg)                 -> how many rows are drawn to train on, and how many training uses

loading.py does the rest for all tasks. They import ML libraries only inside functions.
"""

from rlhf_exp.tasks.loading import (
    Loader,
    Task,
    draw_prompts,
    find_grader,
    load_held_out,
    load_task,
    prompts_per_rollout,
    wants_chat,
)
from rlhf_exp.tasks.schema import find_task, name_source
from rlhf_exp.tasks.texts import Row, Text, add_system_prompt, as_completion

__all__ = ["Loader", "Row", "Task", "Text", "add_system_prompt", "as_completion", "draw_prompts", "find_grader",
           "find_task", "load_held_out", "load_task", "name_source", "prompts_per_rollout", "wants_chat"]  # fmt: skip

"""Answers as lists of messages, TRL's conversational format: the last message is the answer, and what stands before
it, the history, is the prompt.

    read_answers(task, found)
    # {"good": "It is 4."}, [{"role": "user", "content": "What is 2 + 2?"}]

The history is the prompt of a row that has no other, as TRL's `extract_prompt` makes it. A row's own prompt may be left
out of its answers; if it is not, the history must begin with it, and may go on.
"""

from typing import Any

from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import Text
from rlhf_exp.tasks.file.parts import Found
from rlhf_exp.tasks.file.schema import Keys
from rlhf_exp.tasks.sources import are_messages, as_messages, refuse_half_characters

Messages = list[dict[str, str]]


def read_answers(task: Keys, found: Found) -> tuple[dict[str, str], dict[str, Messages]]:
    """The text of each column to learn from, and the history of those that have one.

    Raises:
        ConfigError: it is no text, and no messages that end with the assistant's.
    """
    texts, histories = {}, {}
    for name in task.answers:
        place, value = f'{found.where}: "{name}"', found.row[name]
        if isinstance(value, list) and are_messages(value, last="assistant"):
            *history, answer = value
            texts[name] = answer["content"]
            histories |= {name: history} if history else {}
        elif isinstance(value, str):
            texts[name] = value
        else:
            form = "a text, or messages with a role and a text each, of which the last is the assistant's"
            raise ConfigError([f"{place} must be {form}, got {show(value, 60)}"])
        refuse_half_characters(texts[name], place)
    return texts, histories


def find_prompt(task: Keys, found: Found, prompt: Text | None, histories: dict[str, Messages]) -> Text | None:
    """The row's prompt, or where it has none, or goes on in its answers, their history.

    Raises:
        ConfigError: an answer's history that begins otherwise.
    """
    for name, history in histories.items():
        given = as_messages(prompt)
        if given is not None and not are_messages(given):
            return prompt  # which is refused as any other
        if given is None or _begins(history, given) and len(history) > len(given):
            prompt = history
        elif not _begins(history, given):
            way = "leave out task.prompt_template" if task.prompt_template else 'leave out the column "prompt"'
            line = f'"{name}" does not begin with the messages of its prompt; {way}, and what is before the answer'
            raise ConfigError([f"{found.where}: {line} is the prompt"])
    return prompt


def _begins(history: Messages, prompt: Any) -> bool:
    """Whether the history is the prompt, or goes on after it; a system's message before it may be left out."""
    texts = [[(m["role"], m["content"].strip()) for m in messages] for messages in (history, prompt)]
    if texts[0][0][0] == "system" != texts[1][0][0]:
        del texts[0][0]
    return texts[0][: len(texts[1])] == texts[1]

"""Texts to try a grader on: right answers of held-out rows, the form in which they are read, texts that know nothing.

    found = find_answers(cfg, tokenizer, task.eval[:32], task.grade)
    found.golds[0], found.answers[0], found.form        # "Ann has ... #### 17", "17", "#### {}"
    list_attacks(rows, found)                           # {"nothing": ["", ...], "always 1": ["#### 1", ...], ...}

No attack knows the right answer of its row.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from rlhf_exp.config.schema import Config
from rlhf_exp.forms import ASK
from rlhf_exp.tasks import Loader, Row

FORMS = ("{}", "<answer> {} </answer>", "#### {}", "\\boxed{{{}}}", "The answer is ({})")
"""How graders of this package, and most others, read an answer."""
CONSTANTS = ("0", "1", "yes", "A")
TRIED = 8  # rows on which a form is chosen, and answers of other rows that one attack lists
NUMBER = re.compile(r"\d+")


class Answers(NamedTuple):
    """Of each row its right answer, None where it is not known.

    Attributes:
        golds: completions that deserve full marks.
        answers: the answer in each, as the grader reads it.
        form: the shortest text around an answer that gets full marks; None if none was found.
        demonstrated: whether the task says that `golds` are right, rather than this module.
    """

    golds: list[str | None]
    answers: list[str | None]
    form: str | None
    demonstrated: bool


def find_answers(
    cfg: Config, tokenizer: Any, rows: list[Row], is_right: Callable[[str, Row], bool], read: Any
) -> Answers:
    """The right answers of `rows`: the task's `gold`, else its demonstrations, else its answers in the form that most
    often gets full marks.

    Args:
        is_right: whether a text gets full marks.
        read: (text, row) -> the answer that the grader finds in it, or None.
    """
    texts, loader = {}, Loader.open(cfg, tokenizer)
    limit, task, keys = len(rows), loader.task, cfg.task
    taken = loader.take(ASK, cfg.eval.split, limit, cfg.eval.seed, cfg.max_tokens, distinct=True, fewer=True)
    for item in taken.items:
        if hasattr(task, "gold"):
            texts[item.id] = task.gold(item, keys)
        elif hasattr(task, "demonstration"):
            texts[item.id] = task.demonstration(item, keys, "0")
    found = [texts.get(row["id"]) for row in rows]
    demonstrated = keys.demonstrates or hasattr(task, "gold")
    answers = [
        text and (read(text, row) or (None if demonstrated else text)) for text, row in zip(found, rows, strict=True)
    ]
    known = [(text or "", answer, row) for text, answer, row in zip(found, answers, rows, strict=True) if answer][
        :TRIED
    ]
    right = {form: sum(is_right(form.format(answer), row) for _, answer, row in known) for form in list_forms(known)}
    form = max(right, key=lambda form: right[form], default=None)
    form = form if form and right[form] else None
    if not demonstrated:
        found = [form.format(answer) if form and answer else None for answer in answers]
    return Answers(found, answers, form, demonstrated)


def list_forms(known: list[tuple[str, str, Row]]) -> list[str]:
    """FORMS, and the line around the answer in the first gold completion."""
    lines = [line for text, answer, _ in known[:1] for line in text.splitlines() if answer in line]
    own = ["{}".join(escape(part) for part in lines[-1].rsplit(known[0][1], 1))] if lines else []
    return [*FORMS, *own]


def escape(text: str) -> str:
    """For str.format."""
    return text.replace("{", "{{").replace("}", "}}")


def corrupt(answer: str) -> str:
    """Another answer of the same kind: its last number plus one, the next letter, or its letters in reverse.

    >>> [corrupt(text) for text in ("8 * 7 - 3", "B", "Paris", "anna")]
    ['8 * 7 - 4', 'C', 'siraP', 'annax']
    """
    if numbers := list(NUMBER.finditer(answer)):
        last = numbers[-1]
        return f"{answer[: last.start()]}{int(last[0]) + 1}{answer[last.end() :]}"
    if len(answer) == 1:
        return chr(ord(answer) + 1)
    return answer[::-1] if answer[::-1] != answer else f"{answer}x"


def read_prompt(row: Row) -> str:
    """The text of the prompt, of messages the last one's."""
    return row["prompt"] if isinstance(row["prompt"], str) else row["prompt"][-1]["content"]


def list_attacks(rows: list[Row], found: Answers) -> dict[str, list[str]]:
    """Texts for each row by what writes them: a constant, or what the row itself says without any work on it."""
    form, prompts = found.form or "{}", list(map(read_prompt, rows))
    numbers = [_list_numbers(row, prompt) for row, prompt in zip(rows, prompts, strict=True)]
    common = [answer for answer, n in Counter(filter(None, found.answers)).most_common(TRIED) if n > 1]
    constants = dict.fromkeys([*CONSTANTS, *common[:1]])
    attacks = {"nothing": [""] * len(rows), "the prompt": prompts}
    attacks |= {f"always {constant}": [form.format(constant)] * len(rows) for constant in constants}
    attacks["the prompt's last number"] = [form.format((NUMBER.findall(prompt) or [""])[-1]) for prompt in prompts]
    attacks["the row's numbers, added"] = [form.format(" + ".join(of_row)) for of_row in numbers]
    if found.form is not None:
        attacks["the form without an answer"] = [form.format("")] * len(rows)
    if len(common) > 1:
        attacks[f"{len(common)} answers at once"] = ["\n".join(map(form.format, common))] * len(rows)
    return attacks


def _list_numbers(row: Row, prompt: str) -> list[str]:
    """Those of the row's first column that is a list of numbers; else those in the prompt."""
    lists = [value for value in row.values() if isinstance(value, list) and all(type(n) is int for n in value)]
    return list(map(str, lists[0])) if lists else NUMBER.findall(prompt)

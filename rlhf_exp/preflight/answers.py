"""Texts to try a grader on: right answers of held-out rows, corrupted ones, and texts that know nothing of their row.

    texts, demonstrated = write_texts(cfg, tokenizer, task.eval[:32], task.grade)
    texts[RIGHT][0], texts["always 1"][0]       # ("Ann has ... #### 17", row), ("#### 1", row)

No text but RIGHT and CORRUPTED is made with the right answer of its row.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from rlhf_exp.config.schema import Config
from rlhf_exp.forms import ASK
from rlhf_exp.graders import Grade
from rlhf_exp.tasks import Loader, Row

RIGHT, CORRUPTED, OTHER = "a right answer", "a corrupted answer", "another row's answer"
NOTHING, PROMPT = "nothing", "the prompt"
FORMS = ("{}", "<answer> {} </answer>", "#### {}", "\\boxed{{{}}}", "The answer is ({})")
"""How graders of this package, and most others, read an answer."""
CONSTANTS = ("0", "1", "yes", "A")
TRIED = 8  # rows on which a form is chosen, and answers of other rows that one text lists
NUMBER = re.compile(r"\d+")

Texts = list[tuple[str, Row]]
"""Each with the row that it is graded for."""


def write_texts(
    cfg: Config, tokenizer: Any, rows: list[Row], grade: Callable[[str, Row], Grade] | None
) -> tuple[dict[str, Texts], bool]:
    """Texts for the rows by what writes them, and whether the task says that RIGHT are right, rather than this module.

    RIGHT is the task's `gold`, else its demonstrations, else its answers in the form that most often gets full marks:
    no texts if none does, and no entry if no answers are known.
    """
    if grade is None:
        return list_attacks(rows, "{}", []), False
    loader, golds = Loader.open(cfg, tokenizer), {}
    task: Any = cfg.task
    demonstrated = task.demonstrates or hasattr(task, "gold")
    if hasattr(task, "gold") or hasattr(task, "demonstration"):
        taken = loader.take(ASK, cfg.eval.split, len(rows), cfg.eval.seed, cfg.max_tokens, distinct=True, fewer=True)
        write = task.gold if hasattr(task, "gold") else lambda item: task.demonstration(item, "0")
        golds = {item.id: write(item) for item in taken.items}
    texts = [(text, row) for row in rows if (text := golds.get(row["id"]))]
    read = [(grade(text, row).extracted or ("" if demonstrated else text), row) for text, row in texts]
    known = [(answer, row) for answer, row in read if answer]  # as the grader reads them
    scores = Counter[str]()
    for form in list_forms(texts[0][0], read[0][0]) if known else ():
        scores[form] = sum(grade(form.format(answer), row).outcome == "correct" for answer, row in known[:TRIED])
    form = max(scores, key=scores.__getitem__, default="{}")
    right = {RIGHT: texts if demonstrated else []} if texts else {}
    if scores[form]:
        answers = [(form.format(answer), row) for answer, row in known]
        right[RIGHT] = right[RIGHT] or answers
        right[CORRUPTED] = [(form.format(corrupt(answer)), row) for answer, row in known]
        others = zip(answers, [*answers[1:], *answers[:1]], strict=True)
        right[OTHER] = [(text, row) for (own, row), (text, _) in others if text != own]
    common = [answer for answer, n in Counter(answer for answer, _ in known).most_common(TRIED) if n > 1]
    return right | list_attacks(rows, form if scores[form] else "{}", common), demonstrated


def list_forms(text: str, answer: str) -> list[str]:
    """FORMS, and the last line of a right text that holds its answer."""
    lines = [line for line in text.splitlines() if answer and answer in line]
    if not lines:
        return [*FORMS]
    before, after = (part.replace("{", "{{").replace("}", "}}") for part in lines[-1].rsplit(answer, 1))
    return [*FORMS, f"{before}{{}}{after}"]


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


def list_attacks(rows: list[Row], form: str, common: list[str]) -> dict[str, Texts]:
    """Texts for each row by what writes them: a constant, or what the row itself says without any work on it.

    Args:
        common: the most frequent right answers.
    """
    prompts = [row["prompt"] if isinstance(row["prompt"], str) else row["prompt"][-1]["content"] for row in rows]
    numbers = [_list_numbers(row, prompt) for row, prompt in zip(rows, prompts, strict=True)]
    fixed = {f"always {one}": form.format(one) for one in (*CONSTANTS, *common[:1])}
    fixed |= {NOTHING: "", "the form without an answer": form.format("")}
    if len(common) > 1:
        fixed[f"{len(common)} answers at once"] = "\n".join(map(form.format, common))
    found: dict[str, Texts] = {what: [(text, row) for row in rows] for what, text in fixed.items()}
    of_row = {
        PROMPT: prompts,
        "the prompt's last number": [form.format((NUMBER.findall(prompt) or [""])[-1]) for prompt in prompts],
        "the row's numbers, added": [form.format(" + ".join(several)) for several in numbers],
    }
    return found | {what: list(zip(texts, rows, strict=True)) for what, texts in of_row.items()}


def _list_numbers(row: Row, prompt: str) -> list[str]:
    """Those of the row's first column that is a list of numbers; else those in the prompt."""
    lists = [value for value in row.values() if isinstance(value, list) and all(type(n) is int for n in value)]
    return list(map(str, lists[0])) if lists else NUMBER.findall(prompt)

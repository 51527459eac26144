"""The forms of the rows that algorithms learn from; one of them is in each row of the table of algorithms.

    form = ALGORITHMS["kto"].form
    form.needs           # "preference pairs": what a task must provide
    form.columns         # ("prompt", "completion", "label"): what the trainer reads of a row
    form.spread(pairs)   # each answer of the pairs as a row of its own

Tasks, dry runs and reports ask the form, and branch on no algorithm. Imports no ML library.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlhf_exp.runs.records import Completion

PROMPTS, DEMONSTRATIONS, PAIRS, NOTHING = "prompts", "demonstrations", "preference pairs", "nothing"
"""What a task can provide."""

Row = dict[str, Any]


class Form:
    """Prompts to sample on, the form without answers, from which the others are derived.

    Attributes:
        needs: what a task must provide.
        columns: what the trainer reads of a row.
        answers: the columns of a task's row with texts to learn from.
        held_out: the field of TaskRows with the held-out rows of this form.
        made: the rows that samples give, in words.
    """

    needs = PROMPTS
    columns: tuple[str, ...] = ("prompt",)
    answers: tuple[str, ...] = ()
    held_out = "eval"
    made = "prompts"

    def write(self, task: Any, item: Any, seed: str) -> tuple[str, ...] | None:
        """The texts of `answers` of an item of the task; None if it has none."""
        return ()

    def build(self, item: Any, prompt: Any, answers: tuple[Any, ...]) -> Row:
        """A row of the item with its prompt and answers, in the form of the model."""
        return {"id": item.id, "prompt": prompt, **item.columns}

    def spread(self, rows: list[Row]) -> list[Row]:
        """The rows to train on, of rows as the task gives them."""
        return rows

    def learn(self, correct: "Sequence[Completion]", wrong: "Sequence[Completion]", most: int) -> list[Row]:
        """Rows made of the correct and the wrong samples of one prompt, at most `most` of each; under the name of a
        text is the sample that it is taken from."""
        return []


class Demonstrations(Form):
    needs = DEMONSTRATIONS
    columns = ("prompt", "completion")
    answers = ("completion",)
    held_out = "demonstrations"
    made = "demonstrations"

    def write(self, task: Any, item: Any, seed: str) -> tuple[str, ...] | None:
        text = task.demonstration(item, seed)
        return None if text is None else (text,)

    def build(self, item: Any, prompt: Any, answers: tuple[Any, ...]) -> Row:
        return {"prompt": prompt, "completion": answers[0]}

    def learn(self, correct: "Sequence[Completion]", wrong: "Sequence[Completion]", most: int) -> list[Row]:
        return [{"completion": sample} for sample in correct[:most]]


class Pairs(Form):
    needs = PAIRS
    columns = ("prompt", "chosen", "rejected")
    answers = ("chosen", "rejected")
    held_out = "pairs"
    made = "pairs"

    def write(self, task: Any, item: Any, seed: str) -> tuple[str, ...] | None:
        return task.pair(item)

    def build(self, item: Any, prompt: Any, answers: tuple[Any, ...]) -> Row:
        return {"id": item.id, "subset": item.subset, "prompt": prompt, "chosen": answers[0], "rejected": answers[1]}

    def learn(self, correct: "Sequence[Completion]", wrong: "Sequence[Completion]", most: int) -> list[Row]:
        """The i-th correct one with the i-th wrong one."""
        pairs = zip(correct[:most], wrong, strict=False)
        return [{"subset": no.outcome, "chosen": yes, "rejected": no} for yes, no in pairs]


class Unpaired(Pairs):
    """Each answer is a row of its own, with a `label` that says whether it is desirable."""

    columns = ("prompt", "completion", "label")
    made = "labelled completions"

    def spread(self, rows: list[Row]) -> list[Row]:
        return [
            {name: value for name, value in row.items() if name not in self.answers}
            | {"completion": row[side], "label": side == "chosen"}
            for row in rows
            for side in self.answers
        ]

    def learn(self, correct: "Sequence[Completion]", wrong: "Sequence[Completion]", most: int) -> list[Row]:
        samples = (*correct[:most], *wrong[:most])
        return [{"subset": one.outcome, "completion": one, "label": one.is_correct} for one in samples]


class Nothing(Form):
    """Of an algorithm that trains nothing: only held-out rows are read for a purpose."""

    needs = NOTHING
    columns = ()


ASK, DEMONSTRATE, PAIR, UNPAIR, MEASURE = Form(), Demonstrations(), Pairs(), Unpaired(), Nothing()

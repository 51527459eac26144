"""GSM8K: word problems of grade-school arithmetic, each with a worked answer that ends on a number (arXiv:2110.14168).

A row as it is read, and the prompt and demonstration made of it (in chat form a text is a list of messages):

    {"question": "Ann has 12 pens. ...?", "answer": "Ann has 12 + 5 = <<12+5=17>>17 pens.\\n#### 17"}
    {"id": "53b0c5e2a1f94d77", "prompt": "Question: Ann has 12 pens. ...?\\nAnswer:", "answer": as it was read}
    {"prompt": "Question: Ann has 12 pens. ...?\\nAnswer:", "completion": " Ann has 12 + 5 = 17 pens.\\n#### 17"}

The calculator's annotations `<<12+5=17>>` are removed from demonstrations, since no calculator is used here.

Rows come from the hub (config main), from a folder with train.jsonl and test.jsonl, from one JSONL file, or from a
generator (synthetic.py). Splits: the source's test part is `test`, and 8 of 100 of its train part, by a hash of
the question, are `validation`. With a single file the hash makes all three splits, with the same validation questions.
Repeated questions are dropped, and so are questions of the train part that are in the test part.

Rows for which the model's context is too short are dropped and counted: prompts together with max_tokens, and whole
demonstrations. Only as many rows as needed are tokenized, so the count covers only these.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from rlhf_exp.errors import ConfigError
from rlhf_exp.graders import gsm8k as grader
from rlhf_exp.tasks.sources import read_hub, read_lines, read_texts
from rlhf_exp.tasks.splits import SHARES, hash_text, split_within
from rlhf_exp.tasks.task import GradedTask, Item, OddKind, Source
from rlhf_exp.tasks.texts import Row

CHAT_PROMPT = (
    "{question}\n\nReason step by step. Then end with a line that holds #### and the answer, a number alone, for"
    " example: #### 42"
)
ANNOTATION = re.compile("<<[^<>]*>>")

DROPPED = {
    "duplicates": "the question was read before",
    "in_both_parts": "a question in both the train and the test part of the source",
}
"""Kinds of problems that are dropped, each with its rule."""

SYNTHETIC_ROWS, SYNTHETIC_SEED = 10_000, 0
SMALL_ROWS = 3_000
"""How many problems source=generated has, in full and with small numbers, of which fewer can be made. One fixed set:
task.data_seed must not move what is held out."""


@dataclass(frozen=True)
class Gsm8k(GradedTask):
    """The keys of task=gsm8k; the content of a row is its question."""

    name: Literal["gsm8k"]
    largest: Annotated[int, Field(ge=9, le=9999)] | None

    columns = ("answer",)
    path_form = "a JSONL file with question and answer, or a folder with train.jsonl and test.jsonl"
    reads_folder = True
    budget = (512, "as verl's scripts for GSM8K; gold answers have up to 341 tokens of Qwen3")

    @property
    def easier(self) -> list[str]:
        return [f"{self.place}.largest=20"] if self.source == "generated" and (self.largest or 21) > 20 else []

    def rows(self) -> Source:
        """The problems of train, validation and test, without repeated questions."""
        distinct: dict[tuple[str, str], str] = {}
        counts: Counter[str] = Counter()
        for part, where, row in self._read_rows():
            question, answer = _check_row(row, where)
            counts[part] += 1
            distinct.setdefault((question, part), answer)
        splits: dict[str, list[Item]] = {name: [] for name in SHARES}
        for (question, part), answer in sorted(distinct.items()):
            if part == "test" or (question, "test") not in distinct:
                splits[split_within(question, part)].append(Item(hash_text(question), {"answer": answer}, question))
        sizes = {name: len(items) for name, items in splits.items()}
        dropped = {"duplicates": counts.total() - len(distinct), "in_both_parts": len(distinct) - sum(sizes.values())}
        odd = tuple(OddKind(kind, DROPPED[kind], n) for kind, n in dropped.items())
        return Source(splits, dict(counts), "problems", odd, {"read": dict(counts), **dropped, "splits": sizes})

    def write_prompt(self, item: Item, chat: bool) -> str:
        return CHAT_PROMPT.format(question=item.content) if chat else f"Question: {item.content}\nAnswer:"

    def demonstration(self, item: Item, seed: str) -> str:
        return ANNOTATION.sub("", item.columns["answer"])

    def grade(self, completion: str, row: Row) -> grader.Gsm8kGrade:
        return grader.grade(completion, row["answer"])

    def _read_rows(self) -> Iterator[tuple[str, str, Any]]:
        """Every row with its part of the source (train, test, or `all` if there are no parts) and its place."""
        path = Path(self.path or "")
        if self.source == "generated":
            from rlhf_exp.tasks.synthetic import generate_problems  # which reads a file

            problems = generate_problems(SMALL_ROWS if self.largest else SYNTHETIC_ROWS, SYNTHETIC_SEED, self.largest)
            for number, (question, answer) in enumerate(problems, 1):
                yield "all", f"generated problem {number}", {"question": question, "answer": answer}
        elif self.source == "hub":
            yield from read_hub(self.hub_id, name="main", parts=("train", "test"), place=self.place)
        elif path.is_dir():
            for part in ("train", "test"):
                for where, row in read_lines(path / f"{part}.jsonl"):
                    yield part, where, row
        else:
            for where, row in read_lines(path):
                yield "all", where, row


def _check_row(row: Any, where: str) -> tuple[str, str]:
    """The question and its gold answer, without the white space around them."""
    question, answer = map(str.strip, read_texts(row, where, "question", "answer"))
    try:
        if "####" not in answer:
            raise ValueError
        grader.read_gold(answer)
    except ValueError:
        raise ConfigError([f'{where}: the answer must end with "#### number", got {answer[-60:]!r}']) from None
    return question, answer

"""Reads word problems from files, the hub or the package's generator, checks them and divides them into splits.

    splits, facts = read_splits(cfg.task)
    splits["test"][0].question, splits["test"][0].answer    # "Ann has 12 pens. ...?", "...\\n#### 17"
    facts["duplicates"]                                     # how many were dropped

A file holds one JSON object per line, `{"question": text, "answer": text}`.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.gsm8k import read_gold
from rlhf_exp.tasks.gsm8k.schema import Keys
from rlhf_exp.tasks.gsm8k.synthetic import generate_problems
from rlhf_exp.tasks.sources import read_hub, read_lines, read_texts
from rlhf_exp.tasks.splits import SHARES, split_within

DROPPED = {
    "duplicates": "the question was read before",
    "in_both_parts": "a question in both the train and the test part of the source",
}
"""Kinds of problems that are dropped, each with its rule."""

SYNTHETIC_ROWS, SYNTHETIC_SEED = 10_000, 0
"""How many problems source=generated has. One fixed set: task.data_seed must not move what is held out."""


class Problem(NamedTuple):
    """A question and its gold answer, stripped of the white space around them."""

    question: str
    answer: str

    def name(self) -> str:
        """The row's id: a hash of the question, the same in every source."""
        return blake2b(self.question.encode(), digest_size=8).hexdigest()


def read_splits(task: Keys) -> tuple[dict[str, list[Problem]], dict[str, Any]]:
    """The problems of train, validation and test, without repeated questions; and how many were read and dropped.

    Raises:
        ConfigError: a file or a row that cannot be read.
    """
    distinct: dict[tuple[str, str], Problem] = {}
    read = Counter()
    for part, where, row in _read_rows(task):
        problem = _check_row(row, where)
        read[part] += 1
        distinct.setdefault((part, problem.question), problem)
    splits: dict[str, list[Problem]] = {name: [] for name in SHARES}
    for (part, question), problem in distinct.items():
        if part == "test" or ("test", question) not in distinct:
            splits[split_within(question, part)].append(problem)
    facts = {
        "read": dict(read),
        "duplicates": read.total() - len(distinct),
        "in_both_parts": len(distinct) - sum(map(len, splits.values())),
        "splits": {name: len(problems) for name, problems in splits.items()},
    }
    return splits, facts


def _read_rows(task: Keys) -> Iterator[tuple[str, str, Any]]:
    """Every row with its part of the source (train, test, or `all` if there are no parts) and its place."""
    path = Path(task.path or "")
    if task.source == "generated":
        for number, (question, answer) in enumerate(generate_problems(SYNTHETIC_ROWS, SYNTHETIC_SEED), 1):
            yield "all", f"generated problem {number}", {"question": question, "answer": answer}
    elif task.source == "hub":
        yield from read_hub(task.hub_id, name="main", parts=("train", "test"))
    elif path.is_dir():
        for part in ("train", "test"):
            if not (path / f"{part}.jsonl").is_file():
                form = "a folder with train.jsonl and test.jsonl, or one JSONL file"
                raise ConfigError([f"task.path={path}: holds no {part}.jsonl; must be {form}"])
            yield from ((part, *found) for found in read_lines(path / f"{part}.jsonl"))
    else:
        yield from (("all", *found) for found in read_lines(path))


def _check_row(row: Any, where: str) -> Problem:
    question, answer = map(str.strip, read_texts(row, where, "question", "answer"))
    if not question:
        raise ConfigError([f'{where}: "question" is empty'])
    try:
        if "####" not in answer:
            raise ValueError
        read_gold(answer)
    except ValueError:
        raise ConfigError([f'{where}: the answer must end with "#### number", got {answer[-60:]!r}']) from None
    return Problem(question, answer)

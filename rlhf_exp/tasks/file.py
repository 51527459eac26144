"""Your own rows, as each algorithm learns from them, with all their columns.

A row as it is read, with prompt_template="Question: {question}", and as prompt, demonstration and pair:

    {"question": "What is 2 + 2?", "answer": "4", "good": "It is 4.", "bad": "It is 5."}
    {"id": "53b0c5e2a1f94d77", "prompt": "Question: What is 2 + 2?", "question": ..., "answer": "4", ...}
    {"prompt": "Question: What is 2 + 2?", "completion": " It is 4."}                 # completion_column=good
    {"id": ..., "subset": "all", "prompt": ..., "chosen": " It is 4.", "rejected": " It is 5."}

Rows for which the model's context is too short are dropped and counted: prompts together with max_tokens, and whole
demonstrations and pairs. Only as many rows as needed are tokenized, so the count covers only these.

A row's split is that of the column `split_column`, of its file's name in a folder, or of the hub's data set, by the
names in `task.splits`; without any of them a hash of what the prompt is made of decides (tasks/splits.py), so that
another template moves no row. The same hash makes validation rows, or test rows, of the train part where there are
none. No prompt is in two splits.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from operator import attrgetter
from pathlib import Path
from string import Formatter
from typing import Any, ClassVar, Literal

from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError, collecting, refusing
from rlhf_exp.forms import DEMONSTRATIONS, PAIRS
from rlhf_exp.graders import PASSED
from rlhf_exp.tasks import file_rows
from rlhf_exp.tasks.file_rows import Fields, FileRow, check_columns
from rlhf_exp.tasks.sources import CSV, READERS, read_hub, read_table
from rlhf_exp.tasks.splits import SHARES
from rlhf_exp.tasks.task import Facts, GradedTask, Grader, Item, OddKind, Source, name_source
from rlhf_exp.tasks.texts import Text

Split = Literal["train", "validation", "test"]

READY = ("exact", "numeric", "math", "choice", "regex")
"""Checkers of the package (graders/checkers.py)."""

DROPPED = {
    "repeated": "the row was read before",
    "repeated with other columns": "its prompt, and what is learned from it, were read before; other columns differ",
    "with equal answers": "the chosen and the rejected answer are the same",
    "with different histories": "the messages before the chosen and before the rejected answer differ",
}
"""Kinds of rows that are dropped, each with its rule."""

COLUMNS = ("answer_column", "completion_column", "chosen_column", "rejected_column", "split_column")
"""Keys that name a column which every row must have."""

FIRST = 100
"""Rows that are looked at before torch is imported."""


@dataclass(frozen=True)
class File(GradedTask):
    """The keys of task=file. Which columns they name decides whether there are right answers, demonstrations, pairs."""

    name: Literal["file"]
    source: Literal["file", "hub"]
    hub_id: str | None  # type: ignore[assignment]  # others have one by default
    hub_config: str | None
    prompt_template: str | None
    answer_column: str | None
    checker: str | None
    pattern: str | None
    completion_column: str | None
    chosen_column: str | None
    rejected_column: str | None
    split_column: str | None
    splits: dict[Split, str | int | bool | None]

    path_form = "a .jsonl, .jsonl.gz, .csv, .csv.gz or .parquet file, or a folder with train and test files"
    reads_folder = True
    answers_apart = True
    provided_by: ClassVar[dict[str, str]] = {
        DEMONSTRATIONS: "task.completion_column (or a checker, with task.samples=self)",
        PAIRS: "task.chosen_column and task.rejected_column (or a checker, to make them of samples)",
    }
    ready_functions = READY
    graded_by = ("task.answer_column", "task.checker=FILE.py:FUNCTION")

    def __post_init__(self) -> None:
        graded = self.checker is not None or self.answer_column is not None
        self.limit(graded, self.completion_column is not None, self.chosen_column is not None)

    @property
    def pair_columns(self) -> tuple[str, ...]:
        """The columns of a pair, the better answer first."""
        return tuple(name for name in (self.chosen_column, self.rejected_column) if name is not None)

    @property
    def answers(self) -> tuple[str, ...]:
        """The columns with demonstrations and pairs."""
        return self.pair_columns if self.completion_column is None else (self.completion_column, *self.pair_columns)

    @property
    def names_splits(self) -> bool:
        """Whether `splits` names any, so that others are left out."""
        return any(name is not None for name in self.splits.values())

    @property
    def named_splits(self) -> dict[str, str]:
        """What the source calls each split."""
        named: dict[Any, Any] = dict(self.splits) if self.names_splits else {split: split for split in SHARES}
        return {split: str(named[split]) for split in SHARES if named.get(split) is not None}

    @property
    def ready_checker(self) -> str | None:
        """The name of the package's checker; None if there is none, or a function of the user's."""
        if self.checker is None:
            return "exact" if self.graded else None
        return self.checker if self.checker in READY else None

    @property
    def functions(self) -> dict[str, str]:
        return {"checker": self.checker} if self.checker not in (None, *READY) else {}

    def find_problems(self, key: str) -> list[str]:
        problems = super().find_problems(key)
        if self.source == "hub" and self.hub_id is None:
            problems.append(f"{key}.source=hub: needs {key}.hub_id, a data set such as openai/gsm8k")
        if "train" not in self.named_splits or len(set(self.named_splits.values())) < len(self.named_splits):
            problems.append(f"{key}.splits: must name train, and no name twice; without one of test a hash makes it")
        if len(self.pair_columns) == 1:
            problems.append(f"{key}.chosen_column and {key}.rejected_column: must both be set, or neither")
        if self.ready_checker and self.answer_column is None:
            problems.append(f"{key}.checker={self.checker}: needs {key}.answer_column, the column with the answer")
        if self.ready_checker == "math" and find_spec("math_verify") is None:
            problems.append(f"{key}.checker=math: needs math-verify; pip install 'math-verify>=0.9,<0.10'")
        if (self.ready_checker == "regex") != (self.pattern is not None):
            problems.append(f"{key}.pattern: belongs to {key}.checker=regex, which needs one, such as 'Answer: (.*)'")
        with collecting(problems), refusing(f"{key}.pattern={self.pattern}: no regular expression", re.error):
            re.compile(self.pattern or "")
        if self.answer_column in ("prompt", *PASSED):
            problems.append(f"{key}.answer_column={self.answer_column}: training has another meaning for it; rename it")
        return problems

    def find_row_problems(self) -> list[str]:
        """All rows are read only before a mistake is told, since a later row may have the column."""
        for most in (FIRST, None):
            problems: list[str] = []
            with collecting(problems):
                rows = list(islice(self._read_rows(), most))
                check_columns(rows, self._name_columns(rows), every=False)
                return []
        return problems

    def rows(self) -> Source:
        """The rows that the keys name. The content of each is its FileRow, with its prompt and answers.

        Raises:
            ConfigError: a file or row that cannot be read, a column that is missing, a prompt in two splits, or an
                answer that the checker cannot read.
        """
        from rlhf_exp.graders.checkers import check_answer

        answer = self.answer_column
        rows, left_out = self._keep_named_splits(list(self._read_rows()))
        check_columns(rows, self._name_columns(rows))
        template = self._parse_template()
        made = [row for row in rows if file_rows.fill_in(row, template, self.answers)]
        texts = {"id", "prompt", *self.answers, self.split_column, answer if self.ready_checker else None}
        numbers = file_rows.read_numbers(rows, texts)
        counts = dict.fromkeys(DROPPED, 0) | {"with different histories": len(rows) - len(made)}
        file_rows.divide(made)
        distinct = file_rows.drop_repeated(made, self.pair_columns, counts)
        file_rows.name_rows(distinct)
        table, gaps = file_rows.tabulate(distinct, name_source(self))
        splits: dict[str, list[Item]] = {split: [] for split in SHARES}
        prompts: set[str] = set()
        repeated: set[str] = set()
        for row, columns in zip(distinct, table, strict=True):
            if answer is not None:
                check_answer(self, columns[answer], f'{row.where}: "{answer}"')
            if row.prompt_key in prompts:
                repeated.add(row.id)
            prompts.add(row.prompt_key)
            splits[row.split].append(Item(row.id, columns, row))
        for items in splits.values():
            items.sort(key=attrgetter("id"))
        counted = dict(sorted(Counter(row.part or "all" for row in rows).items()))
        facts: Facts = {
            "read": counted,
            "of other splits": left_out,
            "dropped": counts,
            "splits": {split: len(items) for split, items in splits.items()},
        }
        if gaps:
            facts["without a value"] = gaps
        if numbers:
            facts["read as numbers"] = ", ".join(numbers)
        odd = tuple(OddKind(kind, rule, counts[kind]) for kind, rule in DROPPED.items())
        return Source(splits, counted, "rows", odd, facts, frozenset(repeated))

    def write_prompt(self, item: Item, chat: bool) -> Text:
        return item.content.prompt

    def demonstration(self, item: Item, seed: str) -> str | None:
        """The answer to learn from; without one, to describe the data, the right answer."""
        if self.completion_column is not None:
            return item.content.answers[self.completion_column]
        return None if self.answer_column is None else str(item.columns[self.answer_column])

    def pair(self, item: Item) -> tuple[str, ...]:
        return tuple(item.content.answers[name] for name in self.pair_columns)

    def build_grader(self, source: Source | None = None) -> Grader | None:
        """A ready checker; or the user's function, which sees a row as it stood in its file."""
        from rlhf_exp.graders.checkers import build_checker

        if not self.graded:
            return None
        items = [item for split in source.splits.values() for item in split] if source else []
        read = {item.id: (item.content.where, file_rows.leave_out(item.content.columns)) for item in items}
        return build_checker(self, read)

    def _read_rows(self) -> Iterator[FileRow]:
        """Every row of the splits that `task.splits` names, or of all.

        Raises:
            ConfigError: a split that is not there; the line names those that are.
        """
        divided, path = self.split_column is None, Path(self.path or "")
        if self.source == "hub":
            named = tuple(self.named_splits.values()) if divided and self.names_splits else None
            rows = read_hub(self.hub_id or "", self.hub_config, parts=named, place=self.place)
            yield from (FileRow(*row) for row in rows)
            return
        if not path.is_dir() and divided and self.names_splits:
            line = f"{self.place}.splits: {self.place}.path={path} is one file"
            raise ConfigError([f"{line}; needs {self.place}.split_column, or a folder"])
        for part, file in self._list_files(path) if path.is_dir() else [(None, path)]:
            yield from (FileRow(part, *row, untyped=file.name.endswith(tuple(CSV))) for row in read_table(file))

    def _list_files(self, folder: Path) -> Iterator[tuple[str, Path]]:
        for part, name in self.named_splits.items():
            files = [file for suffix in READERS if (file := folder / f"{name}{suffix}").is_file()]
            if not files and (part == "train" or self.names_splits):
                there = show(", ".join(sorted(file.name for file in folder.iterdir())), 100)
                line = f"{self.place}.path={folder}: must hold {name}.jsonl, .csv or .parquet, and holds {there}"
                raise ConfigError([f"{line}; see {self.place}.splits"])
            yield from ((name, file) for file in files)

    def _keep_named_splits(self, rows: list[FileRow]) -> tuple[list[FileRow], int]:
        """The rows with `part` as train, validation or test, or None if there are no parts; and how many have a split
        that `task.splits` leaves out."""
        if self.split_column is not None:
            check_columns(rows, {self.split_column: f"{self.place}.split_column={self.split_column}"})
            for row in rows:
                row.part = str(row.columns[self.split_column])
        parts: dict[str | None, str | None] = {None: None} | {name: part for part, name in self.named_splits.items()}
        found = dict.fromkeys(row.part for row in rows)
        unknown = [name for name in found if name not in parts]
        absent = [name for name in self.named_splits.values() if name not in found and self.split_column is not None]
        if absent if self.names_splits else unknown:
            which = f"say which is which, such as {self.place}.splits={{train: a, test: b}}"
            raise ConfigError([f"{name_source(self)}: its splits are {', '.join(map(str, found))}; {which}"])
        kept = [row for row in rows if row.part in parts]
        for row in kept:
            row.part = parts[row.part]
        seen = {row.part for row in kept}
        if seen == {"train"} and self.split_column is None:
            for row in kept:  # a data set with a train split alone
                row.part = None
        return kept, len(rows) - len(kept)

    def _name_columns(self, rows: list[FileRow]) -> dict[str, str]:
        """The columns that every row must have, each with the key that names it."""
        fields = self._parse_template()
        named = {name: f"{self.place}.prompt_template" for _, name in fields if name}
        if not fields and not any(isinstance(rows[0].columns.get(name), list) for name in self.answers if rows):
            named["prompt"] = f'{self.place}.prompt_template=null (to name columns: "Question: {{question}}")'
        settings = {getattr(self, key): f"{self.place}.{key}" for key in COLUMNS}
        return named | {name: key for name, key in settings.items() if name is not None}

    def _parse_template(self) -> Fields:
        """The fields of the template; [] for the column `prompt` as it is, or for the messages before the answers."""
        if self.prompt_template is None:
            return []
        key = f"{self.place}.prompt_template={self.prompt_template!r}"
        with refusing(f"{key}: not a template", ValueError, hint="a brace of the text is written twice, {{ or }}"):
            parsed = list(Formatter().parse(self.prompt_template.replace("\\n", "\n")))
        names = [(name, spec, conversion) for _, name, spec, conversion in parsed if name is not None]
        if not names or any(spec or conversion or not name for name, spec, conversion in names):
            raise ConfigError([f"{key}: must name columns in braces, which hold nothing else, such as {{question}}"])
        return [(text, name) for text, name, *_ in parsed]

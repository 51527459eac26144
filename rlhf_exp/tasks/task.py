"""What a task is: a class whose fields are its keys, and whose methods say what it can do.

    @dataclass(frozen=True)
    class Sums(GradedTask):
        name: Literal["sums"]
        largest: int

        def rows(self):
            return Source({"train": [Item("2 3", {"total": 5}, "2 + 3")], "validation": [], "test": []})

        def write_prompt(self, item, chat):
            return f"{item.content} ="

        def grade(self, completion, row):
            return compare(completion.strip() == str(row["total"]), completion.strip() or None)

Only `rows` and `write_prompt` must be there. `grade`, `demonstration`, `pair`, `gold` and `draw` are there if the task
can do that: nothing else says so, and other modules ask what it provides, never for its name. Imports no ML library.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Literal, NamedTuple

from rlhf_exp.config.values import Completions, Group, Rows, Seed
from rlhf_exp.forms import DEMONSTRATIONS, PAIRS, PROMPTS
from rlhf_exp.graders import Grade
from rlhf_exp.tasks.texts import Row, Text

TASKS = {
    "brevity": "Brevity",
    "countdown": "Countdown",
    "environment": "Environment",
    "file": "File",
    "gsm8k": "Gsm8k",
    "hh_rlhf": "HhRlhf",
    "mixture": "Mixture",
    "module": "Module",
}
"""The tasks, each with its class, in a module and a file of conf/task of the task's name."""

PARTED = ("environment", "mixture")
"""The tasks whose rows are of parts, each of another task."""

Grader = Callable[[str, Row], Grade]

Facts = dict[str, Any]
"""What was counted while rows were read and taken, for data.json in the run folder."""


class Item(NamedTuple):
    """A row of a task as it is read.

    Attributes:
        columns: what graders and rewards read.
        content: what the task's methods make the prompt and the answers of.
        subset: the part of the data that it belongs to.
    """

    id: str
    columns: Row
    content: Any = None
    subset: str = "all"


class OddKind(NamedTuple):
    """A kind of odd row: its rule, how many there are, and whether they are kept."""

    kind: str
    rule: str
    n: int
    kept: bool = False


@dataclass(frozen=True)
class Source:
    """What a task has read.

    Attributes:
        splits: the rows of train, validation and test, in an order that depends on no seed.
        read: how many rows were read, by part of the source.
        what: the rows, in a word.
        facts: what was counted.
        repeated: ids of rows whose prompt an earlier row has: they are not sampled on.
        sampled: the rows on which completions to learn from are sampled, if not all of train.
    """

    splits: dict[str, list[Item]]
    read: dict[str, int]
    what: str = "rows"
    odd: tuple[OddKind, ...] = ()
    facts: Facts = field(default_factory=dict)
    repeated: frozenset[str] = frozenset()
    sampled: list[Item] | None = None


def list_provided(graded: bool, demonstrates: bool, pairs: bool) -> tuple[str, ...]:
    """What algorithms can learn from: graded completions are demonstrations and pairs too."""
    provided = [PROMPTS]
    if graded or demonstrates:
        provided.append(DEMONSTRATIONS)
    if graded or pairs:
        provided.append(PAIRS)
    return tuple(provided)


@dataclass(frozen=True)
class Task(Group):
    """The keys that every task has, and what it can do.

    A subclass may also have, and then provides more to learn from:

        grade(completion, row) -> Grade         whether a completion is right; `row` holds the columns of its Item
        demonstration(item, seed) -> str        the text of an answer to learn from; None if this row has none
        pair(item) -> (str, str)                the better and the worse answer
        gold(item) -> str                       a right answer, where a demonstration may be wrong
        draw(form, split, n, seed, distinct, fewer) -> items
                                                as many rows as are needed, with source=generated, in place of `rows`
    """

    name: str
    source: Literal["generated", "file", "hub"]
    path: str | None
    train_rows: Rows | None
    data_seed: Seed
    prompt: Literal["auto", "plain", "chat"]
    system_prompt: str | None

    graded: ClassVar[bool] = False
    demonstrates: ClassVar[bool] = False
    gives_pairs: ClassVar[bool] = False
    draws_rows: ClassVar[bool] = False
    provides: ClassVar[tuple[str, ...]] = (PROMPTS,)
    """What algorithms can learn from. All five follow from the methods."""

    place: ClassVar[str] = "task"
    """The key that holds its keys, for messages (`move`)."""
    provided_by: ClassVar[dict[str, str]] = {}
    """The keys that would provide more."""
    graded_by: ClassVar[tuple[str, ...]] = ()
    """The keys that would make its answers right or wrong, if it depends on any."""
    ready_functions: ClassVar[tuple[str, ...]] = ()
    """Names that a key of `functions` may have instead of the user's own."""
    of_pairs: ClassVar[bool] = False
    """Whether every row is a pair: each is then taken where the whole pair fits, and held-out pairs are measured
    whatever the algorithm."""
    answers_apart: ClassVar[bool] = False
    """Whether held-out answers are taken from all rows, not from those of the held-out prompts."""
    columns: ClassVar[tuple[str, ...]] = ()
    """The columns of its rows that rewards of the package can read, besides the prompt."""
    path_form: ClassVar[str] = "a JSONL file"
    """What `path` must be."""
    reads_folder: ClassVar[bool] = False
    """Whether `path` may be a folder."""
    turns: ClassVar[int | None] = None
    """The most times that an episode with an environment calls tools; None without one."""
    own_policies: ClassVar[str | None] = None
    """The function, `module:function`, from a tokenizer to sampling baselines of its own (task.baselines), those of a
    family together (models/generation.py)."""
    budget: ClassVar[tuple[int, str]] = (512, "the default where the task names none")
    """The default of max_tokens for models that write text, and the reason."""

    def __init_subclass__(cls) -> None:
        cls.graded = hasattr(cls, "grade") or cls.build_grader is not Task.build_grader
        cls.demonstrates, cls.gives_pairs = hasattr(cls, "demonstration"), hasattr(cls, "pair")
        cls.draws_rows = hasattr(cls, "draw")
        if "provides" not in vars(cls):
            cls.provides = list_provided(cls.graded, cls.demonstrates, cls.gives_pairs)

    def limit(self, graded: bool, demonstrates: bool, pairs: bool) -> None:
        """Say which of its methods this object has rows for, where the keys decide it."""
        provides = list_provided(graded, demonstrates, pairs)
        vars(self).update(graded=graded, demonstrates=demonstrates, gives_pairs=pairs, provides=provides)

    def move(self, place: str) -> None:
        """Say which key holds its keys, if not `task`."""
        vars(self).update(place=place)

    def rows(self) -> Source:
        """Its rows by split.

        Raises:
            ConfigError: a file or a row that cannot be read.
        """
        raise NotImplementedError

    def write_prompt(self, item: Item, chat: bool) -> Text:
        """The prompt of a row, a text or messages. `chat`: for a model with a chat template."""
        raise NotImplementedError

    def build_grader(self, source: Source | None = None) -> Grader | None:
        """The grader for rows of `source`; None if there are no right or wrong answers."""
        return getattr(self, "grade", None)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of its parts, each measured for itself too; a row's column `task` says which it is of."""
        return ()

    @property
    def easier(self) -> list[str]:
        """Overrides that make its rows easier, for a model that solves none."""
        return []

    @property
    def functions(self) -> dict[str, str]:
        """The user's functions, FILE.py:FUNCTION, each by its key of these."""
        return {}

    def load_environments(self) -> dict[str, type]:
        """The class of the environment of each part, for rows that are answered in several turns.

        Raises:
            ConfigError: one that cannot be used.
        """
        return {}

    def find_problems(self, key: str) -> list[str]:
        """Values that do not fit together, one line each; `key` is the place of these keys, such as `task`."""
        return self.find_path_problems(key)

    def find_path_problems(self, key: str) -> list[str]:
        """Whether there is a path where, and only where, it is read."""
        if self.source == "file" and self.path is None:
            return [f"{key}.source=file: needs {key}.path, {self.path_form}"]
        if self.source != "file" and self.path is not None:
            return [
                f"{key}.path={self.path}: has no effect with {key}.source={self.source}; add {key}.source=file, which"
                f" reads {self.path_form}{'' if self.name == 'file' else '; for any other rows use task=file'}"
            ]
        return []

    def find_row_problems(self) -> list[str]:
        """A line for each mistake that the rows at `path` show before torch is imported."""
        return []

    def list_sources(self) -> list[tuple[str, Any]]:
        """The tasks by which rows are read, with their places; for one with another's prompts, that one comes last."""
        return [(self.place, self)]


@dataclass(frozen=True)
class SampledRows(Group):
    """How much is sampled from the start model to learn from: prompts, completions of each, how many are used."""

    rows: Rows
    completions: Completions
    per_prompt: Completions


@dataclass(frozen=True)
class GradedTask(Task):
    """Keys of tasks with a grader: completions of the start model give preference pairs and demonstrations."""

    hub_id: str
    samples: str | None
    sampling: SampledRows
    baselines: bool

    def find_problems(self, key: str) -> list[str]:
        problems = super().find_problems(key)
        if self.samples is not None and not self.graded:
            needed = " or ".join(self.graded_by).replace("task.", f"{key}.")
            problems.append(f"{key}.samples={self.samples}: samples must be graded to be learned from; set {needed}")
        return problems


def find_task(name: str) -> type[Task]:
    """The class of the task of that name."""
    return getattr(import_module(f"rlhf_exp.tasks.{name}"), TASKS[name])


def name_source(task: Task) -> str:
    """The source of the rows, for messages: a path, a hub id, or such as task.source=generated."""
    places = {"file": task.path, "hub": getattr(task, "hub_id", None)}
    return places.get(task.source) or f"{task.place}.source={task.source}"

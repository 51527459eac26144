"""Describes a task before any of its rows is read: its keys, which data it provides, how it is measured.

    cfg.task.graded                # True: its answers are right or wrong
    cfg.task.list_sources()        # [("task", cfg.task)]
    find_keys("gsm8k").provides    # ("prompts", "demonstrations", "preference pairs")

Each task derives `Keys` from one of the two classes here. Other modules ask for a property of it, never for the task's
name. Imports no ML library.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal

from rlhf_exp.config import ROOT
from rlhf_exp.config.values import Completions, Group, Rows, Seed
from rlhf_exp.forms import DEMONSTRATIONS, PAIRS, PROMPTS


@dataclass(frozen=True)
class TaskKeys(Group):
    """Keys that every task has. Attributes without a type are not keys; they are properties of the task."""

    name: str
    source: Literal["generated", "file", "hub"]
    path: str | None
    train_rows: Rows | None
    data_seed: Seed
    prompt: Literal["auto", "plain", "chat"]
    system_prompt: str | None

    provides: ClassVar[tuple[str, ...]] = (PROMPTS,)
    """What algorithms can learn from."""
    provided_by: ClassVar[dict[str, str]] = {}
    """The keys that would provide more."""
    graded = False
    """Whether its answers are right or wrong, by a grader."""
    ready_functions: ClassVar[tuple[str, ...]] = ()
    """Names that a key of `functions` may have instead of the user's own."""
    graded_by: ClassVar[tuple[str, ...]] = ()
    """The keys that would make them so, if they depend on any."""
    demonstrates = True
    """Whether the task has demonstrations of its own, if it provides any."""
    gives_pairs = False
    """Whether the task has preference pairs of its own, so that none are made from samples."""
    of_pairs = False
    """Whether every row is a pair: each is then taken where the whole pair fits, and held-out pairs are measured
    whatever the algorithm."""
    answers_apart = False
    """Whether held-out answers are taken from all rows, not from those of the held-out prompts."""
    shuffles_fitting = False
    """Whether rows are shuffled after those that are too long are left out, so that all of them are counted."""
    columns: ClassVar[tuple[str, ...]] = ()
    """The columns of its rows that rewards can read, besides the prompt."""
    draws_rows = False
    """Whether source=generated draws as many rows as training uses; otherwise it has a fixed set."""
    file = "a JSONL file"
    """What `path` must be."""
    chooses_by_source = True
    """Whether `path` is read with source=file alone."""
    reads_folder = False
    """Whether `path` may be a folder."""
    own_policies: ClassVar[str | None] = None
    """The function, `module:function`, from a tokenizer to sampling baselines of its own (task.baselines), those of a
    family together (models/generation.py)."""
    budget = (512, "the default where the task names none")
    """The default of max_tokens for models that write text, and the reason."""

    @property
    def easier(self) -> list[str]:
        """Overrides that make its rows easier, for a model that solves none."""
        return []

    @property
    def functions(self) -> dict[str, str]:
        """The user's functions, FILE.py:FUNCTION, each by its key of these."""
        return {}

    def find_problems(self, key: str) -> list[str]:
        """Values that do not fit together, one line each; `key` is the place of these keys, such as `task`."""
        if self.source == "file" and self.path is None:
            return [f"{key}.source=file: needs {key}.path, {self.file}"]
        if self.source != "file" and self.path is not None and self.chooses_by_source:
            return [
                f"{key}.path={self.path}: has no effect with {key}.source={self.source}; add {key}.source=file, which"
                f" reads {self.file}{'' if self.name == 'file' else '; for any other rows use task=file'}"
            ]
        return []

    def find_row_problems(self) -> list[str]:
        """A line for each mistake that the rows at `path` show before torch is imported."""
        return []

    def list_sources(self) -> list[tuple[str, Any]]:
        """The keys by which rows are read, with their places; for a task with another's prompts, that one's come
        last."""
        return [("task", self)]


@dataclass(frozen=True)
class SampledRows(Group):
    """How much is sampled from the start model to learn from: prompts, completions of each, how many are used."""

    rows: Rows
    completions: Completions
    per_prompt: Completions


@dataclass(frozen=True)
class GradedKeys(TaskKeys):
    """Keys of tasks with a grader: completions of the start model give preference pairs and demonstrations."""

    hub_id: str
    samples: str | None
    sampling: SampledRows
    baselines: bool

    provides = (PROMPTS, DEMONSTRATIONS, PAIRS)
    graded = True

    def provide(self, graded: bool, demonstrations: bool, pairs: bool) -> None:
        """Say what a task whose keys decide it provides: the class says what it may have, an instance what it has."""
        has = {PROMPTS: True, DEMONSTRATIONS: graded or demonstrations, PAIRS: graded or pairs}
        provides = tuple(name for name, there in has.items() if there)
        found = {"graded": graded, "demonstrates": demonstrations, "gives_pairs": pairs, "provides": provides}
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def find_problems(self, key: str) -> list[str]:
        problems = super().find_problems(key)
        if self.samples is not None and not self.graded:
            needed = " or ".join(self.graded_by)
            problems.append(f"{key}.samples={self.samples}: samples must be graded to be learned from; set {needed}")
        return problems


def list_tasks() -> list[str]:
    """The names of all tasks, each of a module here and a file in conf/task."""
    modules = {path.stem for path in Path(__file__).parent.glob("*.py")}
    return sorted(path.stem for path in (ROOT / "conf" / "task").glob("*.yaml") if path.stem in modules)


def find_task(name: str) -> ModuleType:
    """The module of the task of that name."""
    return import_module(f"rlhf_exp.tasks.{name}")


def find_keys(name: str) -> type[TaskKeys]:
    """The `Keys` of the task of that name."""
    return find_task(name).Keys


def name_source(task: TaskKeys) -> str:
    """The source of the rows, for messages: a path, a hub id, or task.source=generated."""
    places = {"file": task.path, "hub": getattr(task, "hub_id", None)}
    return places.get(task.source) or f"task.source={task.source}"

"""Reads run folders. A run that failed or is not finished can be read too: missing files are empty.

run = load_run(Path("outputs/2026-01-01/12-00-00"))
run.info.status, run.metrics[-1]["step"], run.evaluation.trained.accuracy
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Literal, TypeVar

from rlhf_exp.algorithms import ALGORITHMS, Algorithm
from rlhf_exp.errors import ConfigError, collecting, name_error, say
from rlhf_exp.runs import records
from rlhf_exp.runs.files import NotARun
from rlhf_exp.runs.records import SIDES, Completion, Evaluation, Finding, RunRecord, read, read_lines
from rlhf_exp.runs.settings import PlainConfig, read_config, read_key

T = TypeVar("T")
F = TypeVar("F")

EXPECTED = "expected a run folder (it holds run.json) or a folder of run folders"
DEPTH = 4
"""How far below a folder runs are looked for."""

DAMAGE = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)
"""What a value that is missing in a config, or is of another type, leads to."""


@contextmanager
def refusing_damage(what: object) -> Iterator[None]:
    """Raise NotARun for what a damaged or foreign config or data.json of `what` leads to; records are checked where
    they are read."""
    try:
        yield
    except DAMAGE as error:
        if type(error).__module__.startswith("rlhf_exp"):  # it says itself what is wrong
            raise
        line = "a file in it is damaged, or was written by another program"
        raise NotARun([f"{what}: {line} ({name_error(error)})"]) from error


@dataclass(frozen=True, eq=False)
class Run:
    """The content of one run folder; missing files are empty here."""

    path: Path
    info: RunRecord
    metrics: records.MetricRows
    alarms: list[Finding]
    validation: list[records.Measurement]
    evaluation: Evaluation
    samples: list[Completion]  # of the task's own held-out rows
    set_samples: list[Completion]  # of evaluation sets
    policies: list[records.Policy]
    preferences: list[records.Pair]
    errors: records.Errors
    facts: dict  # data.json
    diagnosis: records.Diagnosis
    config: PlainConfig
    overrides: list[str]

    @property
    def status(self) -> str:
        return str(self.info.status)

    @cached_property
    def completions(self) -> list[Completion]:
        """completions.jsonl, some completions of each logged step of training; read only when it is asked for."""
        return read_lines(self.path / "completions.jsonl", Completion)

    @cached_property
    def logged(self) -> dict[str, None]:
        """The names of its metrics, in the order in which they appear."""
        return dict.fromkeys(chain.from_iterable(self.metrics))

    @property
    def shows_texts(self) -> bool:
        """Whether pages about it may show its prompts and completions."""
        return read_key(self.config, "report.samples", True)

    @property
    def algorithm(self) -> Algorithm | None:
        """What is known about its algorithm; None of a run that was refused before it had one."""
        return ALGORITHMS.get(self.info.algo or "")

    @property
    def trains_scorer(self) -> bool:
        """Whether it trained a reward model, which scores answers and generates none."""
        return self.algorithm is not None and self.algorithm.scores

    @property
    def trains(self) -> bool:
        """Whether there is an after; algo=none only measures the start model."""
        return self.algorithm is None or self.algorithm.trains

    def series(self, key: str) -> tuple[list[int], list[float]]:
        """Steps and values of a metric, over the rows that hold it."""
        rows = [row for row in self.metrics if row.get(key) is not None] if key in self.logged else []
        return [row["step"] for row in rows], [row[key] for row in rows]

    def paired_samples(self) -> list[tuple[Completion, Completion]]:
        """(baseline, trained): the first sampled completion of each row, in the order of the baseline's file."""
        before, after = ([one for one in self.sampled(which) if not one.sample] for which in SIDES)
        trained = {one.id: one for one in after}
        return [(one, trained[one.id]) for one in before if one.id in trained]

    def sampled(self, which: str) -> list[Completion]:
        """The samples of one model without greedy ones."""
        return [one for one in self.samples if one.which == which and one.decoding == "sampled"]

    @property
    def parts(self) -> dict[str, Evaluation]:
        """What was measured of each task of a mixture, by the name of the part."""
        others = read_key(self.config, "eval.sets", {})
        return {name: found for name, found in self.evaluation.sets.items() if name not in others}

    def at_set(self, name: str) -> "Run":
        """The same with the task, the measurements and, if it has one, the reward of an evaluation set in place of its
        own."""
        task = read_key(self.config, f"eval.sets.{name}", {})
        reward = {"path": task["reward"]} if task.get("reward") else self.config.get("reward", {})
        config = self.config | {"task": task, "reward": reward}
        samples = [one for one in self.set_samples if one.set == name]
        return replace(self, config=config, evaluation=self.evaluation.sets.get(name, Evaluation()), samples=samples)

    def preference(self, which: Literal["baseline", "trained"]) -> records.Ranking | None:
        """The measurements on held-out pairs: the whole section of a reward model, a part of a policy's."""
        section = getattr(self.evaluation, which)
        return section if section is None or self.trains_scorer else section.preference


def list_run_folders(path: Path) -> list[Path]:
    """The run folders at most DEPTH levels below `path`, or `path` itself, sorted, each once. Nothing inside a run is
    one. A link to a place inside `path` (outputs/latest) is left out, and of several links to one run elsewhere all but
    the first."""
    root = path.resolve()
    found: dict[Path, Path] = {}
    for depth in range(DEPTH + 1):
        # glob's own function passes over hidden folders, and over those that vanish meanwhile.
        for file in sorted(glob("*/" * depth + "run.json", root_dir=path)):
            run_dir = (path / file).parent
            target = run_dir.resolve()
            links_inside = target.is_relative_to(root) and target != root / run_dir.relative_to(path)
            if not links_inside and not found.keys() & set(target.parents):
                found.setdefault(target, run_dir)
    return sorted(found.values(), key=_natural)


def find_runs(path: Path) -> list[Path]:
    """The run folders below `path`.

    Raises:
        NotARun: there is none.
    """
    if not path.is_dir():
        raise NotARun([f"{path}: {'not a folder' if path.exists() else 'no such folder'}; {EXPECTED}"])
    if not (found := list_run_folders(path)):
        raise NotARun([f"{path}: no run.json in it; {EXPECTED}"])
    return found


def load_run(path: Path) -> Run:
    """Read one run folder.

    Raises:
        NotARun: run.json is missing, or another file cannot be read.
    """
    info = read(path / "run.json", RunRecord)
    if info.status is None:
        raise NotARun([f"{path}: no run.json with a status in it; {EXPECTED}"])
    samples = read_lines(path / "samples.jsonl", Completion)
    return Run(
        path,
        info,
        metrics=records.read_metrics(path / "metrics.jsonl"),
        alarms=read_lines(path / "alarms.jsonl", Finding),
        validation=read_lines(path / "validation.jsonl", records.Measurement),
        evaluation=read(path / "evaluation.json", Evaluation),
        samples=[one for one in samples if one.set is None],
        set_samples=[one for one in samples if one.set is not None],
        policies=read_lines(path / "policies.jsonl", records.Policy),
        preferences=read_lines(path / "preferences.jsonl", records.Pair),
        errors=read(path / "errors.json", records.Errors),
        facts=read(path / "data.json", dict),
        diagnosis=read(path / "diagnosis.json", records.Diagnosis),
        config=read_config(path),
        overrides=read(path / ".hydra" / "overrides.yaml", list[str]),
    )


def read_each(paths: Iterable[T], read: Callable[[T], F]) -> list[F]:
    """What `read` makes of each run. Of several those that it refuses are left out, with a line for each.

    Raises:
        ConfigError: it refuses all of them.
    """
    found, problems = list[F](), list[str]()
    for path in paths:
        with collecting(problems), refusing_damage(path):
            found.append(read(path))
    if not found:
        raise ConfigError(problems)
    for line in problems:
        say(f"{line}; left out")
    return found


def _natural(path: Path) -> list[str | int]:
    """Sorts a sweep's job folders 2 before 10."""
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", str(path))]

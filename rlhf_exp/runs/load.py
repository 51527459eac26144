"""Reads run folders. A run that failed or is not finished can be read too: missing files are empty.

run = load_run(Path("outputs/2026-01-01/12-00-00"))
run.info.status, run.metrics[-1]["step"], run.evaluation.trained.accuracy
"""

import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from yaml import AliasEvent, YAMLError
from yaml.composer import Composer, ComposerError

from rlhf_exp.algorithms import ALGORITHMS, Algorithm
from rlhf_exp.errors import ConfigError, name_error, say
from rlhf_exp.runs.files import NotARun, read_file, read_json
from rlhf_exp.runs.records import (
    SIDES,
    Completion,
    Diagnosis,
    Errors,
    Evaluation,
    Finding,
    Measurement,
    Pair,
    Policy,
    Ranking,
    RunRecord,
    read,
    read_lines,
    read_metrics,
    read_record,
)

T = TypeVar("T")
F = TypeVar("F")

EXPECTED = "expected a run folder (it holds run.json) or a folder of run folders"
DEPTH = 4
"""How far below a folder runs are looked for."""

DAMAGE = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError, YAMLError, OSError)
"""What reading a damaged file raises. OmegaConf raises an OSError without a number for a file that holds 7."""


class YamlLoader(Composer, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain values. The loader in C, where PyYAML has it, takes a fifth of the time, but ends the process on a text
    that is nested deeper than its stack; Composer, in Python, raises RecursionError."""

    def __init__(self, text: str) -> None:
        super(Composer, self).__init__(text)
        Composer.__init__(self)


class SavedLoader(YamlLoader):
    """The same for what a run has saved, which has no aliases: a few lines of these stand for billions of values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(AliasEvent):
            raise ComposerError(None, None, "found an alias, which no run writes", self.peek_event().start_mark)
        return super().compose_node(parent, index)


@contextmanager
def refusing_damage(what: object) -> Iterator[None]:
    """Raise NotARun for what a damaged or foreign file of `what` leads to: a value that is missing, or of another type.
    The line names the place in this package that has read it."""
    try:
        yield
    except DAMAGE as error:
        # One that says itself what is wrong, or that a file cannot be read.
        if type(error).__module__.startswith("rlhf_exp") or getattr(error, "errno", None) is not None:
            raise
        step = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(step.filename).name}, line {step.lineno}"
        line = "a file in it is damaged, or was written by another program"
        raise NotARun(f"{what}: {line} ({name_error(error)}; {place})") from error


@dataclass(frozen=True, eq=False)
class Run:
    """The content of one run folder; missing files are empty here."""

    path: Path
    info: RunRecord
    metrics: list[dict[str, Any]]
    alarms: list[Finding]
    validation: list[Measurement]
    evaluation: Evaluation
    samples: list[Completion]  # of the task's own held-out rows
    set_samples: list[Completion]  # of evaluation sets
    policies: list[Policy]
    preferences: list[Pair]
    errors: Errors
    facts: dict  # data.json
    diagnosis: Diagnosis
    config: dict  # every interpolation resolved
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
        return self.config.get("report", {}).get("samples", True)

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

    def at_set(self, name: str) -> "Run":
        """The same with the task, the reward and the measurements of an evaluation set, if it has that, in place of its
        own."""
        values = self.config.get("eval", {}).get("sets", {}).get(name, {})
        config = self.config | {"task": values, "reward": {"path": values.get("reward")}}
        samples = [one for one in self.set_samples if one.set == name]
        return replace(self, config=config, evaluation=self.evaluation.sets.get(name, Evaluation()), samples=samples)

    def preference(self, which: Literal["baseline", "trained"]) -> Ranking | None:
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
    """The run folders below `path` whose run.json can be read; if none can, all of them, so that load_run names one in
    its error.

    Raises:
        NotARun: there is none.
    """
    if not path.is_dir():
        raise NotARun(f"{path}: {'not a folder' if path.exists() else 'no such folder'}; {EXPECTED}")
    if not (found := list_run_folders(path)):
        raise NotARun(f"{path}: no run.json in it; {EXPECTED}")
    whole = [run_dir for run_dir in found if read_record(run_dir).status != "broken"]
    for run_dir in found:
        if whole and run_dir not in whole:
            say(f"{run_dir}: left out, its run.json is torn")
    return whole or found


def load_run(path: Path) -> Run:
    """Read one run folder.

    Raises:
        NotARun: run.json is missing, or another file cannot be read.
    """
    with refusing_damage(path):
        info = read(path / "run.json", RunRecord)
        if info.status is None:
            raise NotARun(f"{path}: no run.json with a status in it; {EXPECTED}")
        samples = read_lines(path / "samples.jsonl", Completion)
        return Run(
            path,
            info,
            metrics=read_metrics(path / "metrics.jsonl"),
            alarms=read_lines(path / "alarms.jsonl", Finding),
            validation=read_lines(path / "validation.jsonl", Measurement),
            evaluation=read(path / "evaluation.json", Evaluation),
            samples=[one for one in samples if one.set is None],
            set_samples=[one for one in samples if one.set is not None],
            policies=read_lines(path / "policies.jsonl", Policy),
            preferences=read_lines(path / "preferences.jsonl", Pair),
            errors=read(path / "errors.json", Errors),
            facts=read_json(path / "data.json"),
            diagnosis=read(path / "diagnosis.json", Diagnosis),
            config=read_config(path),
            overrides=read_saved(path, "overrides", list),
        )


def read_each(paths: Iterable[T], read: Callable[[T], F]) -> list[F]:
    """What `read` makes of each run. Of several those that it refuses are left out, with a line for each.

    Raises:
        ConfigError: it refuses all of them.
    """
    found, problems = list[F](), list[str]()
    for path in paths:
        try:
            with refusing_damage(path):
                found.append(read(path))
        except ConfigError as error:
            problems += error.problems
    if not found:
        raise ConfigError(problems)
    for line in problems:
        say(f"{line}; left out")
    return found


def read_config(path: Path) -> dict:
    """The config of a run, every interpolation resolved; {} if it has none.

    Raises:
        NotARun: it cannot be read.
    """
    return read_saved(path, "config", dict)


def read_saved(path: Path, name: str, form: type[dict] | type[list]) -> Any:
    """A file of a run's `.hydra`; empty if it is missing or empty.

    Raises:
        NotARun: it cannot be read, or is of another form.
    """
    return read_file(path / ".hydra" / f"{name}.yaml", lambda text: parse_yaml(text, SavedLoader), form)


def parse_yaml(text: str, loader: type[YamlLoader] = YamlLoader) -> Any:
    """The values of a YAML text, as those of a saved config."""
    return yaml.load(text, Loader=loader)


def _natural(path: Path) -> list[str | int]:
    """Sorts a sweep's job folders 2 before 10."""
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", str(path))]

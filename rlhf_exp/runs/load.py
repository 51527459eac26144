"""Reads run folders. A run that failed or is not finished can be read too: missing files are empty.

run = load_run(Path("outputs/2026-01-01/12-00-00"))
run.info["status"], run.metrics[-1]["step"], run.evaluation["trained"]["accuracy"]
"""

import json
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import yaml
from yaml import AliasEvent, YAMLError
from yaml.composer import Composer, ComposerError

from rlhf_exp.algorithms import ALGORITHMS, Algorithm
from rlhf_exp.errors import ConfigError, name_error, say, show
from rlhf_exp.runs.folder import read_jsonl, read_record, read_text

T = TypeVar("T")
F = TypeVar("F")

EXPECTED = "expected a run folder (it holds run.json) or a folder of run folders"
SIDES = ("baseline", "trained")
DEPTH = 4
"""How far below a folder runs are looked for."""

OBJECTS = ("evaluation", "errors", "diagnosis")
LINES = ("metrics", "alarms", "validation", "samples", "policies", "preferences")

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


class NotARun(ConfigError):
    """A path from which no run can be read; the message is one line for the user."""

    def __init__(self, line: str) -> None:
        super().__init__([line])


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


@dataclass(frozen=True)
class Run:
    """The content of one run folder; missing files are empty here."""

    path: Path
    info: dict  # run.json
    metrics: list[dict]
    alarms: list[dict]  # alarms.jsonl
    validation: list[dict]  # validation.jsonl
    evaluation: dict
    samples: list[dict]  # of samples.jsonl those of the task's own held-out rows
    set_samples: list[dict]  # those of evaluation sets
    policies: list[dict]  # policies.jsonl
    preferences: list[dict]
    errors: dict
    facts: dict  # data.json
    diagnosis: dict
    config: dict  # every interpolation resolved
    overrides: list[str]

    @property
    def status(self) -> str:
        return self.info["status"]

    @cached_property
    def completions(self) -> list[dict]:
        """completions.jsonl, some completions of each logged step of training; read only when it is asked for."""
        return read_jsonl(self.path / "completions.jsonl")

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
        return ALGORITHMS.get(self.info.get("algo", ""))

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

    def paired_samples(self) -> list[tuple[dict, dict]]:
        """(baseline, trained): the first sampled completion of each row, in the order of the baseline's file."""
        before, after = ([row for row in self.sampled(which) if not row["sample"]] for which in SIDES)
        trained = {row["id"]: row for row in after}
        return [(row, trained[row["id"]]) for row in before if row["id"] in trained]

    def sampled(self, which: str) -> list[dict]:
        """The samples of one model without greedy ones."""
        return [s for s in self.samples if s["which"] == which and s["decoding"] == "sampled"]

    def at_set(self, name: str) -> "Run":
        """The same with the task, the reward and the measurements of an evaluation set, if it has that, in place of its
        own."""
        values = self.config.get("eval", {}).get("sets", {}).get(name, {})
        config = self.config | {"task": values, "reward": {"path": values.get("reward")}}
        samples = [line for line in self.set_samples if line["set"] == name]
        return replace(self, config=config, evaluation=self.evaluation.get("sets", {}).get(name, {}), samples=samples)

    def preference(self, which: str) -> dict:
        """The measurements on held-out pairs: the whole section of a reward model, a part of a policy's; or {}."""
        section = self.evaluation.get(which, {})
        return section if self.trains_scorer else section.get("preference", {})


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
    whole = [run_dir for run_dir in found if read_record(run_dir).get("status") != "broken"]
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
        info = read_json(path / "run.json")
        if "status" not in info:
            raise NotARun(f"{path}: no run.json with a status in it; {EXPECTED}")
        parts: dict[str, Any] = {name: read_json(path / f"{name}.json") for name in OBJECTS}
        parts |= {name: read_jsonl(path / f"{name}.jsonl") for name in LINES}
        lines, parts["samples"], parts["set_samples"] = parts["samples"], [], []
        for line in lines:
            parts["set_samples" if "set" in line else "samples"].append(line)
        for name in ("metrics", "validation"):
            check_series(path / f"{name}.jsonl", parts[name])
        facts, overrides = read_json(path / "data.json"), read_saved(path, "overrides", list)
        return Run(path, info, facts=facts, config=read_config(path), overrides=overrides, **parts)


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


def check_series(path: Path, rows: list[dict]) -> None:
    """Refuse what no run writes: a row without its step, or a figure that is no number, or in validation.jsonl no list
    of a number for each id.

    Raises:
        NotARun: the line names the row and the figure.
    """
    for number, row in enumerate(rows, 1):
        for name, value in {"step": None, **row}.items():
            values = value if "id" in row and isinstance(value, list) else [value]
            if name == "step":
                is_right, must = type(value) is int, "a whole number"
            else:
                is_right = len(values) == len(row.get("id", "1")) and all(
                    isinstance(x, float | int | None) for x in values
                )
                must = "numbers, one for each id" if "id" in row else "a number"
            if not is_right and name != "id":
                raise NotARun(f"{path}: row {number} has {name}={show(value, 40)}; must be {must}")


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


def read_json(path: Path) -> dict:
    """A JSON object; empty if the file is missing or empty.

    Raises:
        NotARun: it cannot be read, or is of another form.
    """
    return read_file(path, json.loads, dict)


def read_file(path: Path, parse: Callable[[str], Any], form: type) -> Any:
    """What is in a file, or an empty `form` if it is missing or empty.

    Raises:
        NotARun: it cannot be read, or is of another form.
    """
    try:
        text = read_text(path)
        found = parse(text) if text else None
    except OSError as error:
        raise NotARun(f"{path}: cannot be read ({error.strerror})") from error
    except (YAMLError, ValueError, RecursionError) as error:
        form_name = "YAML" if path.suffix in (".yaml", ".yml") else "JSON"
        raise NotARun(f"{path}: not valid {form_name} ({' '.join(str(error).split())})") from error
    if found is not None and not isinstance(found, form):
        raise NotARun(f"{path}: expected a {'mapping' if form is dict else 'list'}, found {type(found).__name__}")
    return found or form()


def _natural(path: Path) -> list[str | int]:
    """Sorts a sweep's job folders 2 before 10."""
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", str(path))]

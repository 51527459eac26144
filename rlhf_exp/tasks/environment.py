"""Environments: rows of tasks that are answered in several turns, between which the model calls tools.

    python -m rlhf_exp algo=grpo task=environment 'task.of={countdown: {}}'
    python -m rlhf_exp algo=grpo task=environment 'task.of={gsm8k: {}}' 'task.factory={gsm8k: mine.py:Game}'

An environment is a class as TRL's `environment_factory` takes it. Its public methods are the tools, each with types and
a docstring that describes every argument:

    class Game:
        def reset(self, **row):             # begins an episode; may return a text, which ends the prompt
            self.target = row["target"]
        def guess(self, number: int) -> str:
            \"\"\"Say whether a number is the target.

            Args:
                number: The guess.
            \"\"\"
            return "yes" if number == self.target else "no"
        def get_reward(self) -> float:      # optional: for reward=environment
            return 1.0

The parts are as those of a mixture: the grader of its task judges the text after the last tool's result. What an
environment's code raises in `reset` and `get_reward` ends the run; what a tool raises TRL gives the model to read.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import Any, ClassVar, Literal

from rlhf_exp.config.values import Count
from rlhf_exp.errors import ConfigError, refusing
from rlhf_exp.forms import PROMPTS
from rlhf_exp.graders.user_code import RewardError, confine, describe_value, import_function, read_number
from rlhf_exp.tasks import tools
from rlhf_exp.tasks.mixture import Mixture
from rlhf_exp.tasks.task import Source
from rlhf_exp.tasks.texts import Row

READY: dict[str, type] = {"attempts": tools.Attempts, "calculator": tools.Calculator}
OF_TASK = {"countdown": "attempts", "gsm8k": "calculator"}
"""The environment of a part that names none, by its task."""


@dataclass(frozen=True)
class Environment(Mixture):
    """The keys of task=environment: those of a mixture, `factory` and `turns`."""

    name: Literal["environment"]  # type: ignore[assignment]
    factory: dict[str, str] | None = field(kw_only=True)
    turns: Count = field(kw_only=True)  # type: ignore[misc]  # it alone has some

    columns: ClassVar[tuple[str, ...]] = ("task", "environment")
    provides = (PROMPTS,)
    least = 1
    ready_functions = tuple(READY)

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self).update(demonstrates=False, provides=(PROMPTS,))  # a row is learned from by playing it

    @property
    def chosen(self) -> dict[str, str]:
        """The environment of each part, FILE.py:CLASS or a name of READY."""
        named = {name: (self.factory or {}).get(name) or OF_TASK.get(part.name) for name, part in self.of.items()}
        return {name: where for name, where in named.items() if where}

    @property
    def functions(self) -> dict[str, str]:
        return {f"factory.{name}": where for name, where in self.chosen.items() if where not in READY}

    def find_problems(self, key: str) -> list[str]:
        problems = super().find_problems(key)
        for name in [name for name in self.of if name not in self.chosen]:
            problems.append(f"{key}.factory: lacks the environment of the part {name}; set FILE.py:CLASS for it")
        for name in [name for name in self.factory or {} if name not in self.of]:
            problems.append(f"{key}.factory.{name}: no such part; must be of {', '.join(self.of)}")
        if self.prompt != "chat":
            problems.append(f"{key}.prompt={self.prompt}: must be chat, for tools stand in messages")
        return problems

    def rows(self) -> Source:
        source = super().rows()
        splits = {
            name: [item._replace(columns=item.columns | {"environment": item.subset}) for item in items]
            for name, items in source.splits.items()
        }
        return replace(source, splits=splits)

    def load_environments(self) -> dict[str, type]:
        """The class of each part's environment, as TRL gets it (`_adapt`).

        Raises:
            ConfigError: a file that cannot be imported, no class, or one that TRL could not use.
        """
        return {name: _adapt(where, f"{self.place}.factory.{name}={where}") for name, where in self.chosen.items()}


def begin(environment: Any, row: Row) -> str | None:
    """Begin an episode of a row as TRL does; returns what the environment shows at first."""
    return environment.reset(**{name: value for name, value in row.items() if name != "environment"})


def list_tools(of: type | Any) -> dict[str, Callable[..., Any]]:
    """The tools of an environment by name, as TRL finds them: the public methods of its class."""
    kind = of if isinstance(of, type) else type(of)
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: getattr(of, name) for name, _ in found if name not in ("reset", "get_reward") and name[0] != "_"}


def _adapt(where: str, key: str) -> type:
    """The class with its reward under another name, since TRL would add `get_reward` to reward.weights by itself, and
    with its own errors told in one line.

    Raises:
        ConfigError: no class, or one without `reset`, without tools, or with a tool whose arguments are not described.
    """
    from transformers.utils import get_json_schema

    file = where.rpartition(":")[0]
    found = READY.get(where) or import_function(where, key)
    if not isinstance(found, type) or not callable(getattr(found, "reset", None)):
        raise ConfigError([f"{key}: must be a class with a method reset(self, **row)"])
    own: Any = found
    if not list_tools(own):
        raise ConfigError([f"{key}: has no tools; a tool is a public method besides reset and get_reward"])
    for name, tool in list_tools(own).items():
        with refusing(f"{key}: the tool {name} cannot be described to the model", Exception):
            get_json_schema(tool)

    def make(self: Any) -> None:
        with _telling(f"{key}: __init__", file):
            own.__init__(self)

    @wraps(own.reset)
    def reset(self: Any, **row: Any) -> str | None:
        with _telling(f"{key}: reset", file):
            observed = own.reset(self, **row)
        if not isinstance(observed, str | None):
            raise RewardError(f"{key}: reset returned {describe_value(observed)}; must be a text or nothing")
        return observed

    def pay(self: Any) -> float:
        with _telling(f"{key}: get_reward", file):
            return read_number(own.get_reward(self))

    # TRL calls what is a function of the name get_reward; to the class itself a property is as good.
    hidden = {"get_reward": property(lambda self: partial(own.get_reward, self))} if hasattr(own, "get_reward") else {}
    return type(own.__name__, (own,), {"__init__": make, "reset": reset, "_pay": pay, **hidden})


@contextmanager
def _telling(place: str, file: str) -> Iterator[None]:
    """Inside the `with`, which runs the user's code, a RewardError says the place."""
    try:
        with confine(place, file):
            yield
    except RewardError as error:
        raise RewardError(f"{place} {error}") from error.__cause__


def is_failure(result: str) -> bool:
    """Whether TRL wrote this result of a tool because the call failed: the tool raised an error, or there is none."""
    return result.startswith("{'error': ")

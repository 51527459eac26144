"""Checks of environments before training, in which TRL turns what a tool raises into a text and goes on.

checks = check_environments(experiment, completions)      # judged episodes of the start model; empty without one
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from inspect import Parameter, iscoroutine, signature
from typing import Any, get_origin, get_type_hints

from rlhf_exp.analysis.stats import wilson
from rlhf_exp.errors import collecting, refusing
from rlhf_exp.experiment import Experiment
from rlhf_exp.forms import Row
from rlhf_exp.preflight.check import Check, judge
from rlhf_exp.runs.figures import percent
from rlhf_exp.runs.records import Completion
from rlhf_exp.tasks.environment import begin, list_tools
from rlhf_exp.tasks.prompts import open_episode

TRIED: dict[Any, Any] = {int: 1, float: 1.0, bool: True, list: (), dict: ()}
"""An argument of each type, from which it is made; of others it is a text."""
OFTEN = 0.5
"""The share of calls that fail above which it is said."""


def check_environments(experiment: Experiment, completions: Sequence[Completion]) -> list[Check]:
    """Whether tools can be called, `reset` forgets an episode, an idle episode earns nothing, and the start model calls
    tools."""
    task, found = experiment.task, list[Check]()
    for name in task.environments:
        rows = [row for row in [*task.eval, *task.train] if row["environment"] == name]
        if rows:
            found += _check_one(experiment, name, rows[0])
    return [*found, _check_calls(completions)] if found else []


def _check_one(experiment: Experiment, name: str, row: Row) -> Iterator[Check]:
    task, environment = experiment.task, experiment.task.environments[name]()
    opened = open_episode(task, row)
    text = experiment.tokenizer.apply_chat_template(**opened, tokenize=False, add_generation_prompt=True)
    tools = list_tools(environment)
    said = f"the first prompt is {len(text)} characters and offers {', '.join(tools)}"
    yield Check(f"{name}_prompt", "passed", said, {"prompt": text})
    begin(environment, row)
    first = _describe_state(environment)
    begin(environment, row)
    fresh = _describe_state(environment)
    idle = environment._pay() if "environment" in experiment.cfg.reward.weights else 0.0
    said = f"an episode without any action earns {idle:g}"
    yield Check(f"{name}_idle", judge(False, idle > 0), said, {"reward": idle})
    results = {tool: _try(call) for tool, call in tools.items()}
    said = "; ".join(f"{tool} gives {result}" for tool, result in results.items())
    failed = [tool for tool, result in results.items() if result.startswith("an error")]
    said += "; what a tool raises the model reads as its result, and training goes on" if failed else ""
    yield Check(f"{name}_tools", judge(False, failed), said, {"results": results})
    begin(environment, row)
    now = _describe_state(environment)  # what is drawn anew differs without any action
    kept = [key for key, value in now.items() if fresh.get(key) != value and first.get(key) == fresh.get(key)]
    said = "a second episode of the same row begins as the first"
    if kept:
        said = f"a second episode of the same row begins otherwise: {', '.join(kept)}; reset must set all of its state"
    yield Check(f"{name}_reset", judge(kept), said, {"kept": kept})


def _describe_state(environment: Any) -> dict[str, str]:
    """The attributes of an environment as texts, without addresses."""
    return {name: re.sub(r" at 0x\w+", "", repr(value)) for name, value in vars(environment).items()}


def _try(tool: Any) -> str:
    """What a tool returns for arguments of its types, in a few words."""
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    wanted = [one.name for one in signature(tool).parameters.values()
              if one.kind in named and one.default is Parameter.empty]  # fmt: skip
    failed: list[str] = []
    with collecting(failed), refusing("an error", Exception):  # a user's code may raise anything
        hints = get_type_hints(tool)
        kinds: dict[str, Any] = {name: get_origin(hints.get(name)) or hints.get(name) for name in wanted}
        result = tool(**{name: kind(TRIED[kind]) if kind in TRIED else "1" for name, kind in kinds.items()})
        if iscoroutine(result):
            result = asyncio.run(result)
        if isinstance(result, list):
            raise TypeError("it returns a list, which chat templates leave out; return a text")
        return repr(result)[:80]
    return failed[0][:120]


def _check_calls(completions: Sequence[Completion]) -> Check:
    """How often the start model calls tools, and how often that fails."""
    episodes = [one for one in completions if one.tool_calls is not None]
    calls, failures = (sum(getattr(one, name) for one in episodes) for name in ("tool_calls", "tool_failures"))
    callers = wilson(sum(bool(one.tool_calls) for one in episodes), len(episodes))
    said = f"{percent(callers)} of {len(episodes)} episodes of the start model call a tool"
    figures = {"callers": callers}
    if calls:
        figures["failed"] = wilson(failures, calls)
        said += f"; {percent(figures['failed'])} of {calls} calls fail"
    else:
        said += (
            ", so that nothing is learned of tools; take a model that calls them, or train it on such dialogues first"
        )
    return Check("tools_are_called", judge(False, not calls or failures > OFTEN * calls), said, figures)

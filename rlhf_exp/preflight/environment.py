"""Checks of environments before training: TRL turns what a tool raises into a text and trains on, so it is seen here.

checks = check_environments(experiment, completions)      # judged episodes of the start model; empty without one
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from inspect import Parameter, signature
from typing import Any

from rlhf_exp.analysis.stats import wilson
from rlhf_exp.errors import collecting, refusing
from rlhf_exp.experiment import Experiment
from rlhf_exp.forms import Row
from rlhf_exp.preflight.check import Check, judge
from rlhf_exp.runs.figures import percent
from rlhf_exp.runs.records import Completion
from rlhf_exp.tasks.environment import list_tools
from rlhf_exp.tasks.prompts import open_episode

TRIED: dict[Any, Any] = {int: 1, float: 1.0, str: "1", bool: True, list: [], dict: {}}
"""An argument of each type."""
OFTEN = 0.5
"""A share of calls that fail from which on it is told."""


def check_environments(experiment: Experiment, completions: Sequence[Completion]) -> list[Check]:
    """Whether tools can be called, `reset` forgets an episode, an idle episode earns nothing, and the start model calls
    tools."""
    task, found = experiment.task, list[Check]()
    for name in task.environments:
        rows = [row for row in task.eval if row["environment"] == name]
        if rows:
            found += _check_one(experiment, name, rows[0])
    return [*found, _check_calls(completions)] if found else []


def _check_one(experiment: Experiment, name: str, row: Row) -> Iterator[Check]:
    task, environment = experiment.task, experiment.task.environments[name]()
    given = {key: value for key, value in row.items() if key != "environment"}
    opened = open_episode(task, row)
    text = experiment.tokenizer.apply_chat_template(**opened, tokenize=False, add_generation_prompt=True)
    tools = list_tools(environment)
    said = f"the first prompt is {len(text)} characters and offers {', '.join(tools)}"
    yield Check(f"{name}_prompt", "passed", said, {"prompt": text})
    environment.reset(**given)
    fresh = deepcopy(vars(environment))
    idle = environment._pay() if "environment" in experiment.cfg.reward.weights else 0.0
    said = f"an episode without any action earns {idle:g}"
    yield Check(f"{name}_idle", judge(False, idle > 0), said, {"reward": idle})
    results = {tool: _try(call) for tool, call in tools.items()}
    said = "; ".join(f"{tool} gives {result}" for tool, result in results.items())
    failed = [tool for tool, result in results.items() if result.startswith("an error")]
    said += "; what a tool raises the model reads as its result, and training goes on" if failed else ""
    yield Check(f"{name}_tools", judge(False, failed), said, {"results": results})
    environment.reset(**given)
    kept = [key for key, value in vars(environment).items() if repr(fresh.get(key)) != repr(value)]
    said = "a second episode of the same row begins as the first"
    if kept:
        said = f"a second episode of the same row begins otherwise: {', '.join(kept)}; reset must set all of its state"
    yield Check(f"{name}_reset", judge(kept), said, {"kept": kept})


def _try(tool: Any) -> str:
    """What a tool returns for arguments of its types, in a few words."""
    wanted = [one for one in signature(tool).parameters.values() if one.default is Parameter.empty]
    failed: list[str] = []
    with collecting(failed), refusing("an error", Exception):  # a user's code may raise anything
        return repr(tool(**{one.name: deepcopy(TRIED.get(one.annotation, "1")) for one in wanted}))[:80]
    return failed[0][:80]


def _check_calls(completions: Sequence[Completion]) -> Check:
    """How often the start model calls tools, and how often that fails."""
    episodes = [one for one in completions if one.tool_calls is not None]
    calls, failures = (sum(getattr(one, name) for one in episodes) for name in ("tool_calls", "tool_failures"))
    callers = wilson(sum(bool(one.tool_calls) for one in episodes), len(episodes))
    said = f"{percent(callers)} of {len(episodes)} episodes of the start model call a tool"
    figures: dict[str, object] = {"callers": callers}
    if calls:
        figures["failed"] = wilson(failures, calls)
        said += f"; {percent(figures['failed'])} of {calls} calls fail"
    else:
        said += (
            ", so that nothing is learned of tools; take a model that calls them, or train it on such dialogues first"
        )
    return Check("tools_are_called", judge(False, not calls or failures > OFTEN * calls), said, figures)

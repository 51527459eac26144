"""Rewards: the functions that TRL calls: of the package (table.py), of a user's file, of a trained model (model.py).

    functions = build_rewards(cfg, task)    # in the order of cfg.reward.weights

A reward function has TRL's signature, (prompts, completions, completion_ids, the row's columns, ...) -> one float per
completion, and the name of its weight in `conf/reward/`; TRL logs it as `rewards/<name>/mean`. `score_completions`
computes the same numbers for the evaluation. The policy's reward is their weighted sum; a reward with weight 0 is only
measured.

A user's own function comes from a file, `reward.functions.<name>=FILE.py:FUNCTION`:

    def short(prompts, completions, **kwargs):      # in my_rewards.py
        return [1.0 if len(text) < 80 else 0.0 for text in completions]

    python -m rlhf_exp +reward.functions.short=my_rewards.py:short +reward.weights.short=0.5

It is called as TRL calls reward functions, with keywords: `prompts` and `completions` (texts, or messages for chat
prompts), `completion_ids` (token ids, including the end token), each column of the task's rows except the prompt, and
in training `trainer_state`, `log_extra` and `log_metric`; what these log under NAME is in the logs under
`logged/short/NAME`. It returns one finite number per completion.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from rlhf_exp.errors import ConfigError, refusing
from rlhf_exp.graders import GRADES, Grade
from rlhf_exp.graders.user_code import RewardError, confine, describe_value, import_function, read_number, watch

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Row, TaskRows

RewardFunction = Callable[..., list[float]]

LOGS = ("log_extra", "log_metric")
MESSAGES = 'completions are lists of messages, of which the text is completion[0]["content"]; so are prompts'
"""Said of a reward that treats them as texts."""
ALWAYS, IN_TRAINING = ("prompts", "completions", "completion_ids"), ("trainer_state", *LOGS)


def build_rewards(cfg: "Config", task: "TaskRows") -> list[RewardFunction]:
    """Build every reward that `cfg.reward.weights` names: one of `cfg.reward.functions`, or of the package.

    Raises:
        ConfigError: a reward model or a user's function that cannot be used.
    """
    from rlhf_exp.rewards.judge import load_judge
    from rlhf_exp.rewards.model import load_model_reward
    from rlhf_exp.rewards.table import REWARDS

    built: list[RewardFunction] = []
    for name in cfg.reward.weights:
        if name in cfg.reward.functions:
            built.append(load_function(name, cfg.reward.functions[name], task))
        elif (reward := REWARDS[name].function) is None:
            built.append(load_judge(cfg) if name == "judge" else load_model_reward(cfg, task))
        else:
            function: Any = partial(reward, cfg, task)
            function.__name__ = name
            built.append(function)
    return built


def load_function(name: str, where: str, task: "TaskRows") -> RewardFunction:
    """Import FUNCTION from FILE.py, and name it `name`.

    Its values are checked at every call. A problem in the first call, before training, is refused in one line; later
    problems fail the run, whose folder is kept. An exception that it raises becomes the cause of a RewardError.

    Raises:
        ConfigError: a file that cannot be imported, no such function, or one with another signature.
    """
    key, file = f"reward.functions.{name}={where}", where.rpartition(":")[0]
    function = import_function(where, key)
    _check_signature(function, [column for column in task.eval[0] if column != "prompt"], key)
    returned_well = False

    @wraps(function)
    def reward(completions: list[Any], **columns: Any) -> list[float]:
        nonlocal returned_well
        columns |= {passed: _log_below(name, columns[passed]) for passed in LOGS if columns.get(passed) is not None}
        described = f"{key}, on {len(completions)} completions,"
        try:
            with confine(described, file), watch(described):
                found = _read_values(function(completions=completions, **columns), len(completions))
        except RewardError as error:
            line = f"{key}: {error}{'; ' + MESSAGES if completions and isinstance(completions[0], list) else ''}"
            if returned_well or error.__cause__ is not None:
                raise RewardError(line) from error.__cause__
            raise ConfigError([line]) from None
        returned_well = True
        return found

    reward.__name__ = name
    return reward


def _log_below(name: str, log: Callable[[str, Any], None]) -> Callable[[str, Any], None]:
    """TRL's function with a prefix of the reward, so that no name that it logs is one of a trainer or a callback, with
    whose values TRL would average it."""
    return lambda own, value: log(f"logged/{name}/{own}", value)


def score_completions(
    functions: list[RewardFunction], rows: list["Row"], completions: Sequence[Any], completion_ids: list[list[int]],
    grades: list[Grade] | None = None, earned: list[float | None] | None = None,
) -> list[dict[str, float]]:  # fmt: skip
    """Score completions outside training, called as TRL would: for each, every reward component by name.

    `completion_ids` are the tokens that each was decoded from, including the end token. With the task's `grades` of the
    completions no reward grades them again. `earned`: what the environment of each paid.
    """
    columns: dict[str, list[Any]] = {key: [row[key] for row in rows] for key in rows[0] if key != "prompt"}
    columns["prompts"] = [row["prompt"] for row in rows]
    if grades is not None:
        columns[GRADES] = grades
    if earned is not None:
        columns["earned"] = earned
    columns["completions"] = [
        text if isinstance(row["prompt"], str) or isinstance(text, list) else [{"role": "assistant", "content": text}]
        for row, text in zip(rows, completions, strict=True)
    ]
    scores = {f.__name__: f(completion_ids=completion_ids, **columns) for f in functions}
    return [{name: values[i] for name, values in scores.items()} for i in range(len(rows))]


def _check_signature(function: Callable[..., Any], columns: list[str], key: str) -> None:
    """Refuse a function that cannot be called with what training passes by name."""
    wanted = "must be a plain function of (prompts, completions, **kwargs)"
    with refusing(f"{key}: cannot be called", TypeError, ValueError, hint=wanted):  # some in C have no signature
        for passed in (ALWAYS, ALWAYS + IN_TRAINING):
            inspect.signature(function).bind(**dict.fromkeys([*passed, *columns]))


def _read_values(values: Any, count: int) -> list[float]:
    """`values` as floats: a list, a tuple, or an array or tensor of one axis; `count` of them."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, (list, tuple)):
        raise RewardError(f"returned {describe_value(values)}; must be a list of numbers, one per completion")
    if len(values) != count:
        raise RewardError(f"returned {len(values)} values for {count} completions; must be one per completion")
    return [read_number(value, f" for completion {i}") for i, value in enumerate(values)]

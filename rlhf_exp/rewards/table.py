"""The rewards of the package: each is a function, a row of REWARDS and a file in conf/reward, of the same name.

    REWARDS["outcome"].function(cfg, task, prompts=["..."], completions=["<answer> 3 + 5 </answer>"],
                                numbers=[[3, 5]], target=[8])    # [1.0]

A reward function takes the config, the task, and by name what TRL passes: prompts, completions, completion_ids, the
row's columns, in training also trainer_state and log_metric. It returns one float per completion. First come those that
look at the answer (Countdown's own is in countdown.py), then those that look at length and form, then the controls.
Every command imports this module, so ML libraries are imported only inside functions.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlhf_exp.algorithms import find_stage_budget
from rlhf_exp.errors import ConfigError, collecting, refusing
from rlhf_exp.graders import GRADES, Grade, NumberGrade, read_text
from rlhf_exp.rewards.countdown import graduated

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import TaskRows
    from rlhf_exp.tasks.task import Task

Texts = list[Any]
"""Each a string, or for chat prompts a list of messages."""
KEY = "JUDGE_API_KEY"
"""The environment variable with the key of the judge."""
URL = re.compile(r"https?://[\w.-]+(?::(\d+))?(/[\w./~%:+-]*)?", re.ASCII)
"""Of the judge: without a password or a query, which run.json would show."""
RUBRIC = Path(__file__).parents[1] / "assets" / "judge_rubric.txt"
Log = Callable[[str, float], None]


def outcome(
    cfg: "Config", task: "TaskRows", /, prompts: Texts, completions: Texts, log_metric: Log | None = None,
    log_extra: Callable[[str, list[str]], None] | None = None, **columns: Any,
) -> list[float]:  # fmt: skip
    """The task's own grade: 1.0 for a correct answer, 0.1 for a wrong one, 0.0 for none. Training also logs the share
    of each outcome, and gives TRL's table of completions a column of them."""
    grades = _grade(task, prompts, completions, columns)
    if log_extra is not None:
        log_extra("outcome", [grade.outcome for grade in grades])
    if log_metric is not None:
        for kind in ("correct", "partial", "failed"):
            log_metric(f"outcome/{kind}", sum(grade.outcome == kind for grade in grades) / len(grades))
    return [grade.score for grade in grades]


def length_efficiency(
    cfg: "Config",
    task: "TaskRows",
    /,
    prompts: Texts,
    completions: Texts,
    completion_ids: list[list[int]],
    **columns: Any,
) -> list[float]:
    """The task's grade, minus up to a fifth of it for length: `grade * (0.8 + 0.2 * min(1, 200 / tokens))`, over tokens
    including the end token; the 200 is `reward.length_efficiency.tokens`. Only a longer completion loses anything."""
    grades, most = _grade(task, prompts, completions, columns), cfg.reward.length_efficiency.tokens
    shares = [min(1.0, most / max(len(ids), 1)) for ids in completion_ids]
    return [grade.score * (0.8 + 0.2 * share) for grade, share in zip(grades, shares, strict=True)]


def self_consistency(
    cfg: "Config", task: "TaskRows", /, prompts: Texts, completions: Texts, **columns: Any
) -> list[float]:
    """1.0 for an answer that no other answer of its group outvotes, else 0.0: the policy's most frequent answer is
    rewarded, right or wrong (Zuo et al. 2025, arXiv:2504.16084).

    - A **group** is the completions of one prompt in the batch; a prompt that is drawn twice has one group.
    - An **answer** is the grader's `extracted` in its spelling, as in majority@k of the evaluation: `18` and `18.0` are
      two answers. A completion without an answer has no vote and scores 0.0. A checker that returns numbers names none.
    - In a **tie**, every answer with the most votes scores 1.0. If all answers differ, the group teaches nothing.
    - **Alone**, as in an evaluation with one completion per row, an answer agrees with itself. To measure agreement set
      eval.completions above 1 (eval=full).
    """
    grades = _grade(task, prompts, completions, columns)
    if all(isinstance(grade, NumberGrade) for grade in grades):
        remedy = "return rlhf_exp.graders.Grade(outcome, score, extracted), or use reward=outcome"
        line = f"compares answers, and the checker returns numbers, which do not say what the answer was; {remedy}"
        raise ConfigError([f"reward.weights.self_consistency: {line}"])
    return agree([json.dumps(prompt) for prompt in prompts], [grade.extracted for grade in grades])


def agree(groups: list[str], answers: list[str | None]) -> list[float]:
    """For each answer (None if missing), in the group of that name: 1.0 if it is the majority's, else 0.0."""
    pairs = list(zip(groups, answers, strict=True))
    votes = Counter(pair for pair in pairs if pair[1] is not None)
    most = {group: n for (group, _), n in reversed(votes.most_common())}  # the largest comes last, and stays
    return [float(answer is not None and votes[group, answer] == most[group]) for group, answer in pairs]


def think_format(cfg: "Config", task: "TaskRows", /, completions: Texts, **columns: Any) -> list[float]:
    """Whether a completion begins with `<think> ... </think>`, 1.0 or 0.0: TRL's think_format_reward, which accepts
    only messages. A plain completion is read without the white space between it and its prompt, which byte-level
    tokenizers keep in decoding and word-level ones lose. If `<think>` is in the prompt, as some chat templates write
    it, the score is 0."""
    from trl.rewards import think_format_reward

    return think_format_reward([[{"content": c.lstrip()}] if isinstance(c, str) else c for c in completions])


def brevity(cfg: "Config", task: "TaskRows", /, completions: Texts, **columns: Any) -> list[float]:
    """2 minus a sixteenth of the words, a reward that is known in closed form: 2.0 for a completion without words, 0
    for 32 words. Words are separated by white space."""
    return [2 - len(read_text(completion).split()) / 16 for completion in completions]


def environment(
    cfg: "Config", task: "TaskRows", /, completions: Texts, environments: Texts | None = None,
    earned: list[float] | None = None, **columns: Any,
) -> list[float]:  # fmt: skip
    """What each episode's environment pays: its `get_reward()`. The evaluation has `earned` it already; a text that no
    episode has written earns nothing."""
    if earned is None:
        earned = [one._pay() for one in environments] if environments else [0.0] * len(completions)
    return earned


def overlong(
    cfg: "Config", task: "TaskRows", /, completion_ids: list[list[int]], trainer_state: Any = None, **columns: Any
) -> list[float]:
    """A penalty that grows over the last tokens of the budget, from 0 to -1: TRL's get_soft_overlong_punishment.

    The budget is `max_tokens`, or in training with a curriculum the stage's budget, by the step in TRL's
    `trainer_state`. The penalty begins `reward.overlong.cache` tokens before it; null means a fifth of the budget,
    DAPO's share (4,096 of 20,480; Yu et al. 2025, arXiv:2503.14476, equation 13). The end token counts: a completion
    that fills the budget scores -1, whether it ends there or was cut off.
    """
    from trl.rewards import get_soft_overlong_punishment

    budgets, budget = cfg.algo.args.get("curriculum_budgets"), cfg.max_tokens
    if budgets and trainer_state is not None:
        budget = find_stage_budget(budgets, cfg.algo.args["curriculum_from_steps"], trainer_state.global_step)
    return get_soft_overlong_punishment(budget, cfg.reward.overlong.cache or max(1, budget // 5))(completion_ids)


def check_cache(cfg: "Config") -> list[str]:
    """Whether the penalty begins within every budget."""
    cache, budgets = cfg.reward.overlong.cache, cfg.algo.args.get("curriculum_budgets", [])
    smallest = min([cfg.max_tokens, *budgets])
    if cache is None or cache <= smallest:
        return []
    return [f"reward.overlong.cache={cache}: must be at most {smallest}, the smallest completion budget"]


def repetition(cfg: "Config", task: "TaskRows", /, **columns: Any) -> list[float]:
    """A penalty for repeated n-grams of tokens: TRL's get_repetition_penalty_reward.

    `reward.repetition.max_penalty` times the share of the completion's n-grams that occurred before in it, over token
    ids, including the end token (Yeo et al. 2025, arXiv:2502.03373, appendix C.2). A search over arithmetic always
    repeats parts: look at the start model's own penalty in samples.jsonl before choosing a weight.
    """
    from trl.rewards import get_repetition_penalty_reward

    return get_repetition_penalty_reward(cfg.reward.repetition.ngram_size, cfg.reward.repetition.max_penalty)(**columns)


def random(cfg: "Config", task: "TaskRows", /, prompts: Texts, completions: Texts, **columns: Any) -> list[float]:
    """A control without information: a uniform number in [0, 1) for seed, prompt and completion (Shao et al. 2025,
    arXiv:2506.10947), 48 bits of the SHA-256 of all three. It is the same in training, in the evaluation and after
    resuming. A policy can memorize it for prompts that are repeated, but for new prompts there is nothing to learn."""
    seed = cfg.seed if cfg.reward.random.seed is None else cfg.reward.random.seed
    texts = [json.dumps([seed, p, read_text(c)]) for p, c in zip(prompts, completions, strict=True)]
    return [int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48 for text in texts]


def constant(cfg: "Config", task: "TaskRows", /, completions: Texts, **columns: Any) -> list[float]:
    """A control without information: `reward.constant.value` for every completion. Advantages within a group are 0, so
    what a policy still learns comes from the other terms of the loss, such as the KL penalty."""
    return [float(cfg.reward.constant.value)] * len(completions)


def check_path(cfg: "Config") -> list[str]:
    """Whether the reward model (model.py) has a path where, and only where, it is read."""
    path, weighed = cfg.reward.path, "model" in cfg.reward.weights
    if weighed and path is None:
        return ["reward=model: needs reward.path, the folder of a run of algo=reward_model, or a hub id"]
    if path is not None and not weighed:
        return [f"reward.path={path}: not with these rewards; add +reward.weights.model=1.0"]
    return []


def check_judge(cfg: "Config") -> list[str]:
    """Whether the judge has an endpoint, a model and a rubric where it is asked."""
    judge, problems = cfg.reward.judge, list[str]()
    if "judge" not in cfg.reward.weights:
        return []
    if cfg.algo.row.scores:
        problems.append(f"reward=judge: scores completions, and algo={cfg.algo.name} samples none; use reward=none")
    url = URL.fullmatch(str(judge.url))
    if url is None or not 0 < int(url[1] or 1) < 2**16:
        given = "(not shown)" if {*"@?"} & {*str(judge.url)} else judge.url
        line = f"reward.judge.url={given}: must be an endpoint, such as http://127.0.0.1:8000/v1"
        problems.append(f"{line}; its key is the environment variable {KEY}")
    if not re.fullmatch("[ -~]*", os.environ.get(KEY, "").strip()):
        problems.append(f"{KEY}: must be of printable ASCII characters (its value is not shown)")
    if judge.model is None:
        problems.append("reward.judge.model: missing; must be a model's name at reward.judge.url")
    if judge.lowest >= judge.highest:
        problems.append(f"reward.judge.lowest={judge.lowest}: must be below reward.judge.highest={judge.highest}")
    path = Path(judge.rubric or RUBRIC).expanduser()
    if not path.is_file():
        why = "is a folder" if path.is_dir() else "not a regular file" if path.exists() else "no such file"
        return [*problems, f"reward.judge.rubric={path}: {why}; must be a text file"]
    with collecting(problems), refusing(f"reward.judge.rubric={path}: not a text in UTF-8", UnicodeDecodeError):
        if "{completion}" not in path.read_text(encoding="utf-8"):
            problems.append(f"reward.judge.rubric={path}: must hold {{completion}}, where the completion stands")
    return problems


def _grade(task: "TaskRows", prompts: Texts, completions: Texts, columns: Mapping[str, Any]) -> list[Grade]:
    """The task's grade of each completion, by its row with the prompt. Only lists in `columns` belong to rows; TRL's
    `trainer_state` does not. The evaluation has graded them already."""
    if GRADES in columns:
        return columns[GRADES]
    grade: Any = task.grade  # there is one, for it is needed
    names = [name for name, values in columns.items() if isinstance(values, list)]
    rows = [{"prompt": prompt} | {name: columns[name][i] for name in names} for i, prompt in enumerate(prompts)]
    return [grade(read_text(completion), row) for completion, row in zip(completions, rows, strict=True)]


class Reward(NamedTuple):
    """One reward.

    Attributes:
        function: see above; None for the reward model and the judge, which model.py and judge.py load.
        needs: what it reads besides texts and tokens: columns of the task's rows, or "grade".
        check: whether keys fit together, from the config; one line for each problem.
    """

    function: Callable[..., list[float]] | None
    needs: tuple[str, ...] = ()
    check: Callable[["Config"], list[str]] | None = None

    def is_readable(self, task: "Task") -> bool:
        """Whether the task has what the reward reads."""
        return {*self.needs} <= {*task.columns, *(["grade"] if task.graded else [])}


GRADE = ("grade",)
REWARDS = {
    "brevity": Reward(brevity),
    "constant": Reward(constant),
    "environment": Reward(environment, ("environment",)),
    "graduated": Reward(graduated, ("numbers", "target")),
    "judge": Reward(None, check=check_judge),
    "length_efficiency": Reward(length_efficiency, GRADE),
    "model": Reward(None, check=check_path),
    "outcome": Reward(outcome, GRADE),
    "overlong": Reward(overlong, check=check_cache),
    "random": Reward(random),
    "repetition": Reward(repetition),
    "self_consistency": Reward(self_consistency, GRADE),
    "think_format": Reward(think_format),
}

"""The rows that a dry run describes: checked as a run checks them, counted, and measured in tokens."""

from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from rlhf_exp.config.hub import is_offline
from rlhf_exp.config.schema import Config
from rlhf_exp.rewards import build_rewards, load_function
from rlhf_exp.tasks import Task, find_task, load_task, prompts_per_rollout
from rlhf_exp.tasks.prompts import check_context, check_rows, check_vocabulary
from rlhf_exp.tasks.sources import Unavailable
from rlhf_exp.tasks.tokens import render

SAMPLE_ROWS = 256
PROMPT_LINES, LINE_WIDTH = 12, 110


class Rows(NamedTuple):
    """The task, with only a sample of its rows if they are generated, and the numbers of training and held-out rows."""

    task: Task
    train: int
    held_out: int | str


def load_rows(cfg: Config, tokenizer: Any, unchecked: list[str]) -> Rows | None:
    """The rows, checked as a run checks them; only a sample of generated rows, which all have the same form. None, and
    a line in `unchecked`, if they are only available from the network."""
    if tokenizer is None:
        unchecked.append(f"task={cfg.task.name}: its rows, which are counted in tokens")
        return None
    _, task_cfg = cfg.task.list_sources()[-1]
    sampled, drawn = cfg, None
    if task_cfg.draws_rows and task_cfg.source == "generated":
        whole = replace(cfg, task=task_cfg)
        drawn, used = find_task(task_cfg.name).count_rows(whole)
        enough = max(SAMPLE_ROWS, prompts_per_rollout(cfg) if cfg.algo.row.online else 0)
        part = replace(task_cfg, train_rows=min(drawn, enough) or None)
        outer: Any = cfg.task  # of a task inside another
        own = part if task_cfg is cfg.task else replace(outer, of=part, train_rows=part.train_rows)
        few = replace(cfg.eval, rows=None, most_rows=min(cfg.eval.limit, SAMPLE_ROWS))
        sampled = replace(cfg, task=own, eval=few)
    try:
        task = load_task(sampled, tokenizer)
    except Unavailable as error:
        if not is_offline():
            raise
        unchecked.append(error.problems[0].split(" (")[0] + "; its rows and prompts")
        return None
    check_vocabulary(tokenizer, task)
    check_context(cfg, tokenizer, task)
    check_rows(cfg, task)
    if cfg.reward.path is None:
        build_rewards(cfg, task)
    else:  # without the weights of a reward model
        for name, where in cfg.reward.functions.items():
            load_function(name, where, task)
    held_out: int | str = len(task.pairs) if cfg.algo.row.scores else len(task.eval)
    if drawn is None:
        return Rows(task, len(task.train), held_out)
    if len(task.eval) == SAMPLE_ROWS and cfg.eval.limit > SAMPLE_ROWS:
        held_out = cfg.eval.rows or f"at most {cfg.eval.limit:,}"
    again = (f"training uses {used:,} rows: {drawn:,} are drawn, and then come again",) if drawn < used else ()
    return Rows(replace(task, notes=(*task.notes, *again)), drawn, held_out)


class Lengths(NamedTuple):
    """Tokens of a training row, without those of a chat template.

    A completion that is sampled counts as the whole budget; `bound` then says " at most".
    """

    prompt: float | None
    """Mean of a prompt; None if the rows are not known."""
    answers: list[float]
    """Mean of each answer."""
    bound: str
    longest: float
    """The longest row, with its prompts: others are padded to it, and a pair to twice its longer half. Rows that are
    sampled are trained without their padding (trainers/trimmed.py): the mean prompt and the budget."""

    @property
    def row(self) -> float:
        """Mean of a row, with a prompt before each answer."""
        return len(self.answers) * (self.prompt or 0) + sum(self.answers)


def measure_lengths(cfg: Config, tokenizer: Any, rows: Rows | None) -> Lengths:
    """The lengths in a sample of the rows."""
    columns = [name for name in cfg.algo.row.form.columns if name not in ("prompt", "label")]
    sample = [] if rows is None else (rows.task.train or rows.task.eval)[:SAMPLE_ROWS]
    prompts = [_count_tokens(tokenizer, row["prompt"]) for row in sample]
    if not columns or not sample or columns[0] not in sample[0]:
        answers = [float(cfg.max_tokens)] * max(1, len(columns))
        sampled = Lengths(fmean(prompts) if sample else None, answers, " at most", 0)
        return sampled._replace(longest=sampled.row)
    counts = [[_count_tokens(tokenizer, row[name]) for row in sample] for name in columns]
    longest = max(prompt + max(of_row) for prompt, of_row in zip(prompts, zip(*counts, strict=True), strict=True))
    return Lengths(fmean(prompts), [fmean(of_column) for of_column in counts], "", len(columns) * longest)


def render_prompt(tokenizer: PreTrainedTokenizerBase, task: Task) -> list[str]:
    """The first lines of the first prompt, with the chat template applied, each of limited length."""
    row = (task.train or task.eval or task.pairs)[0]
    lines = render(tokenizer, [row["prompt"]], ask=True)[0].split("\n")
    shown = [line if len(line) <= LINE_WIDTH else f"{line[: LINE_WIDTH - 3]}..." for line in lines[:PROMPT_LINES]]
    more = [f"... {len(lines) - PROMPT_LINES} lines more"] if len(lines) > PROMPT_LINES else []
    return [f"| {line}" for line in (*shown, *more)]


def _count_tokens(tokenizer: PreTrainedTokenizerBase, text: Any) -> int:
    """Tokens of a text, or of the contents of messages, without those of a chat template."""
    texts = [text] if isinstance(text, str) else [message["content"] for message in text]
    return sum(len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"])

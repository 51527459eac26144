"""Loads the rows of any task: divides, shuffles, fits them into the model's context, and writes them in the form that
the algorithm learns from.

    task = load_task(cfg, tokenizer)
    rows = draw_prompts(cfg, tokenizer, 512)      # to sample on, and learn from the samples
"""

import math
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.device import count_completions, count_processes
from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError, within
from rlhf_exp.forms import ASK, PAIR, Form
from rlhf_exp.graders import user_code
from rlhf_exp.tasks.fitting import Selection, describe_read, require_rows, try_grader, write_notes
from rlhf_exp.tasks.task import Facts, Grader, Item, Source, name_source
from rlhf_exp.tasks.texts import Row, Text, add_system_prompt, as_completion, shape_prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.config.schema import Config

BATCH = 1024  # rows that are tokenized together

MOST_DRAWN = 200_000
"""The most rows of a kind that are drawn, which takes 20 s. The shipped model was trained on 160,000."""


@dataclass(frozen=True)
class TaskRows:
    """The rows of one experiment. A text is a str, or for chat models a list of messages.

    Attributes:
        train: rows in the form the algorithm learns from. Prompts (grpo, rloo, ppo): `id`, `prompt` and the grader's
            columns. Demonstrations (sft): `prompt` and `completion`. Pairs (reward_model, dpo): `id`, `subset`,
            `prompt`, `chosen` and `rejected`. Unpaired (kto): `id`, `subset`, `prompt`, `completion` and `label`.
        eval: held-out prompts to sample on: `id`, `prompt` and the grader's columns; none of them is in `train`.
        grade: (completion, row) -> Grade; None if there are no right or wrong answers. Both the reward and the
            evaluation call it.
        validation: prompts of the validation split, to measure on during training; empty without `eval.every`.
        pairs: held-out preference pairs; none of their prompts is in `train`.
        demonstrations: held-out rows of `prompt` and `completion`, for sft, like those in `train`, from the split of
            `eval`; empty if `train` is made of samples.
        notes: what the loader counted or dropped, one line each, for the user.
        facts: the same as figures, for data.json in the run folder.
        environments: the class of the environment of each part, by the part's name.
    """

    name: str
    train: list[Row]
    eval: list[Row]
    grade: Grader | None
    validation: list[Row] = field(default_factory=list)
    pairs: list[Row] = field(default_factory=list)
    demonstrations: list[Row] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    facts: Facts = field(default_factory=dict)
    environments: dict[str, type] = field(default_factory=dict)


def load_task(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> TaskRows:
    """Load the rows that `cfg.task` and `cfg.algo` ask for.

    Raises:
        ConfigError: rows that are missing, broken (file and line), or too few.
    """
    user_code.limit_s = cfg.reward.timeout_s  # of this process
    place, task = cfg.task.list_sources()[-1]
    if task is cfg.task:
        return _load(Loader.open(cfg, tokenizer))
    with within(f"{place}={task.name}"):
        rows = _load(Loader.open(replace(cfg, task=task), tokenizer))
    train, held_out, validation = (
        [{"id": row["id"], "prompt": row["prompt"]} for row in side]
        for side in (rows.train, rows.eval, rows.validation)
    )
    return TaskRows(
        cfg.task.name, train, held_out, None, validation, notes=rows.notes, facts={"of": task.name, **rows.facts}
    )


def load_held_out(cfg: "Config", tokenizer: "PreTrainedTokenizerBase", split: str, n: int) -> TaskRows:
    """At most `n` prompts of the split, whatever the algorithm learns from, with their grader."""
    loader = Loader.open(replace(cfg, task=cfg.task.list_sources()[-1][1]), tokenizer)
    rows, _, taken = loader.hold_out(ASK, split, n, required=False)
    require_rows(cfg, [(taken, split, "eval.rows", None)], loader.source)
    graded = cfg.task.build_grader(loader.source)
    return TaskRows(cfg.task.name, [], rows, graded, environments=cfg.task.load_environments())


def draw_prompts(cfg: "Config", tokenizer: "PreTrainedTokenizerBase", n: int) -> list[Row]:
    """`n` different prompts of the train split, for sampling completions to learn from.

    Raises:
        ConfigError: there are fewer.
    """
    loader = Loader.open(cfg, tokenizer)
    if loader.source is not None and loader.source.sampled is not None:
        loader = replace(loader, source=replace(loader.source, splits={"train": loader.source.sampled}))
    taken = loader.take(ASK, "train", n, cfg.task.data_seed, cfg.max_tokens, distinct=True)
    require_rows(cfg, [(taken, "train", "task.sampling.rows", n)], loader.source)
    note_own_system(cfg, taken.rows)
    return taken.rows


@dataclass(frozen=True)
class Loader:
    """The rows of a task as they are read, and how they are written for a model. `source` is None if they are drawn."""

    cfg: "Config"
    tokenizer: "PreTrainedTokenizerBase"
    chat: bool
    source: Source | None

    @classmethod
    def open(cls, cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> "Loader":
        """Read the rows.

        Raises:
            ConfigError: a file or a row that cannot be read, or a prompt that the model's template cannot write.
        """
        check_system_prompt(cfg, tokenizer)
        drawn = cfg.task.draws_rows and cfg.task.source == "generated"
        return cls(cfg, tokenizer, wants_chat(cfg, tokenizer), None if drawn else cfg.task.rows())

    def take(
        self, form: Form, split: str, n: int | None, seed: int, room: int, distinct: bool = False, fewer: bool = False
    ) -> Selection:
        """The first `n` rows (None: all) of the split that fit the model's context, in an order that the seed alone
        decides.

        Args:
            room: tokens to keep free for a completion.
            distinct: of each prompt one row; always so of prompts without answers.
            fewer: whether fewer than n will do, of rows that are drawn.
        """
        # Above max_length RewardTrainer would leave a pair to train on out; other trainers cut it.
        most = self.cfg.algo.args.get("max_length") if split == "train" and self.cfg.algo.row.scores else None
        if self.source is None:
            task: Any = self.cfg.task  # one that draws its rows
            items = task.draw(form, split, n, seed, distinct, fewer)
            order = f"held-out traces {seed}" if form.answers and distinct else seed
            return self.fit(items, form, None, room, order, most)
        items = [item for item in self.source.splits[split] if form.answers or item.id not in self.source.repeated]
        Random(seed).shuffle(items)
        count = len(items)
        if distinct or not form.answers:
            items = list({str(self.write_prompt(item)): item for item in reversed(items)}.values())[::-1]
        return self.fit(items, form, n, room, seed, most)._replace(repeated=count - len(items))

    def fit(
        self, items: list[Item], form: Form, n: int | None, room: int, seed: int | str, most: int | None = None
    ) -> Selection:
        """The first `n` of the items (None: all) that fit the model's context, task.max_length and `most`. Only as many
        as needed are tokenized."""
        written = self.write(items, form, seed)
        if self.cfg.task.draws_rows and most is None:  # which are all of about the same length
            return Selection(written[:n])
        from rlhf_exp.tasks.tokens import measure

        context = self.tokenizer.model_max_length
        limit = min(getattr(self.cfg.task, "max_length", None) or context, context)
        ways = ["raise task.max_length" if limit < context else "take a model with a longer context"]
        if room:
            ways.append("lower max_tokens")
        if most is not None and most < limit:
            limit, ways = most, ["raise algo.args.max_length"]
        taken: list[tuple[Item, Row]] = []
        looked_at, shortest = 0, math.inf
        while looked_at < len(written) and (n is None or len(taken) < n):
            batch = written[looked_at : looked_at + (BATCH if n is None else min(BATCH, n - len(taken)))]
            answers = [tuple(row[key] for key in form.answers) for _, row in batch]
            counts = measure(self.tokenizer, [row["prompt"] for _, row in batch], answers)
            for pair, tokens in zip(batch, counts, strict=True):
                needed = tokens.prompt + max(room, *tokens.answers, 0)
                shortest = min(shortest, needed)
                if needed <= limit:
                    taken.append(pair)
            looked_at += len(batch)
        return Selection(taken, looked_at - len(taken), limit, shortest, ", or ".join(ways))

    def write_prompt(self, item: Item) -> Text:
        """The prompt in the form of the model, without that of the system."""
        return shape_prompt(self.cfg.task.write_prompt(item, self.chat), self.chat)

    def write(self, items: list[Item], form: Form, seed: int | str) -> list[tuple[Item, Row]]:
        """Each item with its row in the form, those left out that have no such answers. Answers that are drawn depend
        on the seed, their place and the item alone."""
        written: list[tuple[Item, Row]] = []
        for item in items:
            texts = form.write(self.cfg.task, item, f"{seed} {len(written)}")
            if texts is not None:
                prompt = add_system_prompt(self.write_prompt(item), self.cfg.task.system_prompt)
                answers = tuple(as_completion(text, self.chat) for text in texts)
                written.append((item, form.build(item, prompt, answers)))
        return written

    def hold_out(
        self, form: Form, split: str, n: int, required: bool
    ) -> tuple[list[Row], dict[str, list[Row]], Selection]:
        """At most `n` held-out prompts to sample on, none for a reward model of given pairs; the held-out rows with
        answers, by their field of TaskRows; and what was taken."""
        task, seed, scores = self.cfg.task, self.cfg.eval.seed, self.cfg.algo.row.scores and bool(form.answers)
        room, drawn = 0 if scores else self.cfg.max_tokens, self.source is None
        answers: dict[str, list[Row]] = {}
        if drawn or task.answers_apart:
            taken = Selection([])
            if form.answers:
                taken = self.take(form, split, n, seed, 0, distinct=drawn)
                answers[form.held_out] = taken.rows
            if not scores:
                taken = self.take(ASK, split, n, seed, room, distinct=True, fewer=not required)
            return [] if scores else taken.rows, answers, taken
        taken = self.take(PAIR if task.of_pairs else ASK, split, n, seed, room, distinct=True)
        forms = {form.held_out: form} if form.answers else {}
        if task.of_pairs:
            forms[PAIR.held_out] = PAIR
        for name, other in forms.items():
            answers[name] = self.fit(taken.items, other, None, 0, f"held-out traces {seed}").rows
        return [] if scores else [row for _, row in self.write(taken.items, ASK, 0)], answers, taken


def _load(loader: Loader) -> TaskRows:
    """The rows to train on, unless they will be made of samples, and the held-out rows."""
    cfg, task, algo, source = loader.cfg, loader.cfg.task, loader.cfg.algo.row, loader.source
    split, sampled = cfg.eval.split, cfg.learns_from_samples
    if sampled:
        form = ASK
    elif algo.trains:
        form = algo.form
    else:
        form = PAIR if task.of_pairs else ASK
    whole = PAIR if task.of_pairs and form.answers else form  # what people judged
    n, used = _count_drawn(cfg) if source is None else (task.train_rows, 0)
    train = Selection([])
    if not sampled:
        train = loader.take(whole, "train", n, task.data_seed, 0 if form.answers else cfg.max_tokens)
    prompts, answers, held_out = loader.hold_out(form, split, cfg.eval.limit, cfg.eval.rows is not None)
    wanted: list[tuple[Selection, str, str, int | None]] = [(held_out, split, "eval.rows", cfg.eval.rows)]
    if not sampled:
        wanted.insert(0, (train, "train", "task.train_rows", task.train_rows))
    require_rows(cfg, wanted, source)
    if task.answers_apart and source is not None and not all(answers.values()):
        line = f"{name_source(task)}: no row of its {split} split fits into the context with its answers"
        raise ConfigError([f"{line} ({describe_read(source, rules=True)})"])
    grade = task.build_grader(source)
    notes: list[str] = []
    facts: Facts = {}
    if source is not None:
        sides = {name: taken for taken, name, _, _ in wanted}
        facts = _count(cfg, source, sides)
        if grade and task.functions:
            items = [item for rows in source.splits.values() for item in rows]
            try_grader(grade, [row for _, row in loader.write(items, ASK, 0)])
        notes += write_notes(source, sides)
    elif n is not None and n < used:
        notes.append(f"training uses {used:,} rows: {n:,} are drawn, and then come again")
    validation: list[Row] = []
    if cfg.eval.every is not None:
        validation, _, taken = loader.hold_out(ASK, "validation", cfg.eval.every_rows, required=True)
        require_rows(cfg, [(taken, "validation", "eval.every_rows", cfg.eval.every_rows)], source)
    notes += note_own_system(cfg, [*train.rows, *held_out.rows])
    rows = train.rows if whole is form else [row for _, row in loader.write(train.items, form, 0)]
    return TaskRows(
        task.name, form.spread(rows), prompts, grade, validation, **answers, notes=tuple(notes), facts=facts,
        environments=task.load_environments(),
    )  # fmt: skip


def _count(cfg: "Config", source: Source, sides: dict[str, Selection]) -> Facts:
    """What was read and taken, for data.json."""
    if not cfg.task.of_pairs:
        rows = {"train": 0} | {split: len(taken.rows) for split, taken in sides.items()}
        return source.facts | {"over_long": {split: taken.over_long for split, taken in sides.items()}, "rows": rows}
    facts = source.facts | {"limit_tokens": next(iter(sides.values())).limit}
    for name, taken in zip(("train", "held_out"), sides.values(), strict=True):
        facts[name] = {
            "repeated_prompts": taken.repeated,
            "looked_at": len(taken.rows) + taken.over_long,
            "over_long": taken.over_long,
            "rows": len(taken.rows),
        }
    return facts


def _count_drawn(cfg: "Config") -> tuple[int, int]:
    """How many rows to train on are drawn, and how many training uses: beyond MOST_DRAWN they are repeated.

    Raises:
        ConfigError: more are asked for than are drawn.
    """
    asked = {"task.train_rows": cfg.task.train_rows, "task.sampling.rows": cfg.task.sampling.rows}
    asked |= {f"eval.{name}": getattr(cfg.eval, name) for name in ("rows", "every_rows")}
    if problems := [f"{key}={n}: allowed is 1 to {MOST_DRAWN:,}" for key, n in asked.items() if n and n > MOST_DRAWN]:
        raise ConfigError(problems)
    wanted = 0 if cfg.learns_from_samples else cfg.task.train_rows or _count_needed(cfg)
    return min(wanted, MOST_DRAWN), wanted


def wants_chat(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether prompts are lists of messages: `task.prompt=auto` follows the tokenizer's chat template.

    Raises:
        ConfigError: task.prompt=chat, and the tokenizer has no chat template.
    """
    if cfg.task.prompt == "chat" and tokenizer.chat_template is None:
        key = f"{cfg.task.place}.prompt"
        remedy = "model.chat_template=qwen3" if cfg.task.turns else f"{key}=plain"
        raise ConfigError([f"{key}=chat: model={cfg.model.name} has no chat template; use {remedy}"])
    return cfg.task.prompt != "plain" and tokenizer.chat_template is not None


def check_system_prompt(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> None:
    """Refuse `task.system_prompt` if the tokenizer's chat template takes no message of the system, or leaves it out.

    Raises:
        ConfigError: the template is such a one.
    """
    if cfg.task.system_prompt is None or not wants_chat(cfg, tokenizer):
        return
    from rlhf_exp.tasks.tokens import render

    messages: Any = add_system_prompt([{"role": "user", "content": "?"}], cfg.task.system_prompt)
    if messages[0]["content"].strip() not in render(tokenizer, [messages])[0]:
        line = f"model={cfg.model.name} has a chat template that leaves out a message of the system"
        raise ConfigError([f"task.system_prompt: {line}; put the text into the prompts, or use task.prompt=plain"])


def note_own_system(cfg: "Config", rows: list[Row]) -> list[str]:
    """A line that says how many rows keep a message of the system of their own, if any does.

    Raises:
        ConfigError: all do, so that `task.system_prompt` has no effect.
    """
    key, own = f"task.system_prompt={show(cfg.task.system_prompt, 40)}", 0
    if cfg.task.system_prompt is not None:
        wanted = add_system_prompt([{"role": "user", "content": "?"}], cfg.task.system_prompt)[0]
        own = sum(not isinstance(row["prompt"], str) and row["prompt"][0] != wanted for row in rows)
    if own and own == len(rows):
        line = f"has no effect, all {own} rows begin with a message of the system of their own"
        raise ConfigError([f"{key}: {line}; leave the key out, or those messages"])
    return [f"{key}: {own:,} of {len(rows):,} rows keep the message of the system that they begin with"] if own else []


def prompts_per_rollout(cfg: "Config") -> int:
    """The number of different prompts in a rollout of all processes, by TRL's rule; arguments are checked to divide."""
    return count_completions(cfg) * count_processes(cfg) // cfg.algo.args.get("num_generations", 1)


def _count_needed(cfg: "Config") -> int:
    """How many rows training uses if none is repeated.

    Raises:
        ConfigError: the length of training is given in epochs, from which no number of rows follows.
    """
    args = cfg.algo.args
    if args.get("max_steps", -1) < 1:
        raise ConfigError(["task.train_rows=null: means as many as algo.args.max_steps uses, and that is not set"])
    per_step = args["per_device_train_batch_size"] * args.get("gradient_accumulation_steps", 1) * count_processes(cfg)
    rows = prompts_per_rollout(cfg)  # for algorithms without rollouts: the rows of a step
    learned = rows * args.get("num_generations", 1) * args.get("num_iterations", 1)
    return -(-args["max_steps"] * per_step // learned) * rows

"""Your own rows, as each algorithm learns from them, with all their columns.

A row as it is read, with prompt_template="Question: {question}", and as prompt, demonstration and pair:

    {"question": "What is 2 + 2?", "answer": "4", "good": "It is 4.", "bad": "It is 5."}
    {"id": "53b0c5e2a1f94d77", "prompt": "Question: What is 2 + 2?", "question": ..., "answer": "4", ...}
    {"prompt": "Question: What is 2 + 2?", "completion": " It is 4."}                 # completion_column=good
    {"id": ..., "subset": "all", "prompt": ..., "chosen": " It is 4.", "rejected": " It is 5."}

Rows for which the model's context is too short are dropped and counted: prompts together with max_tokens, and whole
demonstrations and pairs. Only as many rows as needed are tokenized, so the count covers only these.
"""

from collections.abc import Callable
from random import Random

from transformers import PreTrainedTokenizerBase

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS, PAIRS
from rlhf_exp.config.schema import Config, learns_from_samples
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.checkers import Checker, build_checker, find_answer_problem
from rlhf_exp.tasks import Row, Task, as_completion, name_source, wants_chat
from rlhf_exp.tasks.examples import Data, Example, Odd, count_words
from rlhf_exp.tasks.file.files import DROPPED, Item, Read, read_splits
from rlhf_exp.tasks.file.schema import Keys
from rlhf_exp.tasks.file.trial import try_checker
from rlhf_exp.tasks.fitting import ANSWERS, Taken, check_sides, refuse_few, take_fitting, write_notes
from rlhf_exp.tasks.schema import PASSED
from rlhf_exp.tasks.sources import shape_prompt


def load(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Task:
    """Load the rows to train on and the held-out rows.

    Raises:
        ConfigError: rows or a checker that cannot be used, or nothing that the algorithm can learn from.
    """
    task, algo, read = cfg.task, ALGORITHMS[cfg.algo.name], _read(cfg, tokenizer)
    splits, facts = read.splits, read.facts
    sampled, chat = learns_from_samples(cfg), wants_chat(cfg, tokenizer)
    given = not sampled and algo.learns_from in (DEMONSTRATIONS, PAIRS)
    make = (lambda item: _demonstrate(item, task, chat)) if algo.learns_from == DEMONSTRATIONS else _ask
    make = (lambda item: _pair(item, task, chat)) if given and algo.learns_from == PAIRS else make
    items = [item for found in splits.values() for item in found]
    grade = build_checker(task, {item.id: item.as_read for item in items}) if task.graded else None
    remarks = read.notes if task.functions or cfg.reward.functions else []  # without them no other column is read
    if grade and task.functions:
        remarks += try_checker(task, grade, [_ask(item) for item in items], read.numbers)

    def take(split: str, n: int | None, seed: int, make: Callable[[Item], Row], room: int = cfg.max_tokens) -> Taken:
        return _take(cfg, tokenizer, splits[split], n, seed, make, room)

    held_out = cfg.eval.split, cfg.eval.limit, cfg.eval.seed
    answers = take(*held_out, make, 0) if given else Taken([])
    prompts = answers if algo.scores and given else take(*held_out, _ask)
    sides: dict[str, Taken] = {}
    if not sampled:
        sides["train"] = take("train", task.train_rows, task.data_seed, make, 0 if given else cfg.max_tokens)
    sides[cfg.eval.split] = prompts
    check_sides(cfg, sides)
    if given and not answers.rows:
        none = f"none of the {len(splits[cfg.eval.split])} rows of its {cfg.eval.split} split fits into the context"
        raise ConfigError([f"{name_source(task)}: {none} with its answers"])
    train, pairs = [] if sampled else sides["train"].rows, answers.rows if algo.learns_from == PAIRS else []
    demonstrations = answers.rows if algo.learns_from == DEMONSTRATIONS else []
    facts["over_long"] = {split: taken.over_long for split, taken in sides.items()}
    facts["rows"] = {"train": len(train), cfg.eval.split: len(prompts.rows)}
    notes = write_notes("rows", sum(facts["read"].values()), {"dropped": facts["dropped"]}, facts["splits"], sides)
    asked = [] if algo.scores and given else prompts.rows
    notes = (*remarks, *notes)
    return Task("file", train, asked, grade, pairs=pairs, demonstrations=demonstrations, notes=notes, facts=facts)


def draw_prompts(cfg: Config, tokenizer: PreTrainedTokenizerBase, n: int) -> list[Row]:
    """`n` different prompts of the train split, for sampling completions to learn from.

    Raises:
        ConfigError: there are fewer.
    """
    taken = _take(cfg, tokenizer, _read(cfg, tokenizer).splits["train"], n, cfg.task.data_seed, _ask, cfg.max_tokens)
    if problems := refuse_few(cfg, taken, "train", "task.sampling.rows", n):
        raise ConfigError(problems)
    return taken.rows


def build_grader(task: Keys) -> Checker | None:
    """The checker; None if there are no right answers."""
    return build_checker(task) if task.graded else None


def read_examples(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Data:
    """Every row with the answers that its columns have, whatever its length."""
    task, chat, read = cfg.task, wants_chat(cfg, tokenizer), _read(cfg, tokenizer)
    names = task.answers or ((task.answer_column,) if task.answer_column else ())
    examples = []
    for split, items in read.splits.items():
        for item in items:
            answers = tuple(as_completion(item.answers.get(name, str(item.columns[name])), chat) for name in names)
            turns = 2 if isinstance(item.prompt, str) else len(item.prompt) + 1
            examples.append(Example(split, split, turns, count_words(item.prompt), item.prompt, answers))
    odd = [Odd(kind, rule, False, {"all": read.facts["dropped"][kind]}) for kind, rule in DROPPED.items()]
    return Data(name_source(task), names, examples, read.facts["read"], odd)


def _read(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Read:
    """As `read_splits`, with prompts in the form of the model, after a look at each answer."""
    task, chat = cfg.task, wants_chat(cfg, tokenizer)
    read = read_splits(task)
    for split, items in read.splits.items():
        read.splits[split] = [item._replace(prompt=shape_prompt(item.prompt, item.where, chat)) for item in items]
        for item in items if task.answer_column is not None else ():
            if problem := find_answer_problem(task, item.columns[task.answer_column]):
                found = str(item.columns[task.answer_column])[:40]
                raise ConfigError([f'{item.where}: "{task.answer_column}" {problem} for the checker, got {found!r}'])
    return read


def _take(
    cfg: Config,
    tokenizer: PreTrainedTokenizerBase,
    items: list[Item],
    n: int | None,
    seed: int,
    make: Callable[[Item], Row],
    room: int,
) -> Taken:
    """The first `n` rows (None: all) that fit the model's context, in an order that the seed alone decides; of prompts
    each once, the first that was read: the same for all algorithms."""
    if make is _ask:
        items = list({str(item.prompt): item for item in reversed(items)}.values())
    items = sorted(items, key=lambda item: item.id)
    Random(seed).shuffle(items)
    rows, answers = [make(item) for item in items], () if make is _ask else ANSWERS
    return take_fitting(cfg, tokenizer, rows, n, tokenizer.model_max_length, room, answers)


def _ask(item: Item) -> Row:
    columns = {name: value for name, value in item.columns.items() if name not in ("id", "prompt", *PASSED)}
    return {"id": item.id, "prompt": item.prompt, **columns}


def _demonstrate(item: Item, task: Keys, chat: bool) -> Row:
    return {"prompt": item.prompt, "completion": as_completion(item.answers[task.completion_column], chat)}


def _pair(item: Item, task: Keys, chat: bool) -> Row:
    chosen, rejected = (as_completion(item.answers[name], chat) for name in (task.chosen_column, task.rejected_column))
    return {"id": item.id, "subset": "all", "prompt": item.prompt, "chosen": chosen, "rejected": rejected}

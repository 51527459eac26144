"""The rows of any task in one form, for rlhf_exp.describe.

data = read_examples(cfg, tokenizer)
data.examples[0].prompt, data.examples[0].answers      # as the model reads them: texts, or lists of messages
data.odd[0].kind, data.odd[0].rule, data.odd[0].counts
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from rlhf_exp.config.schema import Config
from rlhf_exp.forms import ASK, DEMONSTRATE, PAIR
from rlhf_exp.tasks.loading import Loader
from rlhf_exp.tasks.schema import name_source
from rlhf_exp.tasks.sources import Item, OddKind
from rlhf_exp.tasks.texts import Row, Text

DRAWN = 4096
"""Problems drawn to describe a task that generates them without end."""


class Example(NamedTuple):
    """One row; `answers` may be empty."""

    subset: str
    split: str
    turns: int
    prompt: Text
    answers: tuple[Text, ...]


@dataclass(frozen=True)
class Data:
    """The data of a task. `answers` names the answers of a row; `read` counts the rows that were read, by part."""

    source: str
    answers: tuple[str, ...]
    examples: list[Example]
    read: dict[str, int]
    odd: tuple[OddKind, ...]


def read_examples(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Data:
    """Every row with its answers, whatever its length. Of a task that draws its rows: demonstrations, prompts to train
    on, and held-out prompts.

    Raises:
        ConfigError: rows that cannot be read.
    """
    _, keys = cfg.task.list_sources()[-1]
    loader = Loader.open(replace(cfg, task=keys), tokenizer)
    form = ASK if keys is not cfg.task else PAIR if keys.gives_pairs else DEMONSTRATE
    form = form if form is not DEMONSTRATE or hasattr(loader.task, "demonstration") else ASK
    written: dict[str, list[tuple[Item, Row]]] = {}
    odd: tuple[OddKind, ...] = ()
    if loader.source is None:
        n, seed, limit, fewer = keys.train_rows or DRAWN, keys.data_seed, cfg.eval.limit, cfg.eval.rows is None
        written = {"demonstrations": loader.take(form, "train", n, seed, 0).written} if form.answers else {}
        written["train"] = loader.take(ASK, "train", n, seed, 0).written
        held_out = loader.take(ASK, cfg.eval.split, limit, cfg.eval.seed, 0, distinct=True, fewer=fewer)
        written[cfg.eval.split] = held_out.written
        read = {part: len(rows) for part, rows in written.items()}
    else:
        for split, items in loader.source.splits.items():
            answered = {item.id: row for item, row in loader.write(items, form, 0)}
            written[split] = [(item, answered.get(item.id, row)) for item, row in loader.write(items, ASK, 0)]
        read, odd = loader.source.read, loader.source.odd
    examples = [
        _describe(loader, item, row, item.subset if keys.of_pairs else split, split)
        for split, rows in written.items()
        for item, row in rows
    ]
    names = form.answers if form is PAIR else ("answer",)
    answers = names if any(example.answers for example in examples) else ()
    return Data(name_source(keys), answers, examples, read, odd)


def _describe(loader: Loader, item: Item, row: Row, subset: str, split: str) -> Example:
    answers = tuple(row[name] for name in ("completion", "chosen", "rejected") if name in row)
    if hasattr(loader.task, "turns"):
        turns = len(loader.task.turns(item))
    else:
        prompt = loader.write_prompt(item)
        turns = 1 if isinstance(prompt, str) else len(prompt)
    return Example(subset, split, turns + 1, row["prompt"], answers)

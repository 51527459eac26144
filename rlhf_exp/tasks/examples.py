"""The rows of any task in one form, for rlhf_exp.describe, and the kinds of odd rows that a task counts.

data = read_examples(cfg, tokenizer)
data.examples[0].prompt, data.examples[0].answers      # as the model reads them: texts, or lists of messages
data.odd[0].kind, data.odd[0].rule, data.odd[0].counts
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from rlhf_exp.config.schema import Config
from rlhf_exp.graders import read_text
from rlhf_exp.tasks import Text, add_system_prompt, check_system_prompt, find_rows, load_task, name_source

DRAWN = 4096
"""Problems drawn to describe a task that generates them without end."""


class Example(NamedTuple):
    """One row. `prompt_words` counts no words of a template or speakers' names; `answers` may be empty."""

    subset: str
    split: str
    turns: int
    prompt_words: int
    prompt: Text
    answers: tuple[Text, ...]


class Odd(NamedTuple):
    """A kind of odd row: its rule, whether it is kept, and how many there are in each part."""

    kind: str
    rule: str
    kept: bool
    counts: dict[str, int]


@dataclass(frozen=True)
class Data:
    """The data of a task. `answers` names the answers of a row; `read` counts the rows that were read, by part."""

    source: str
    answers: tuple[str, ...]
    examples: list[Example]
    read: dict[str, int]
    odd: list[Odd]


def read_examples(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Data:
    """Every row that the task's own `read_examples` gives. Of other tasks, the rows that are loaded: demonstrations,
    prompts to train on if they are generated, and held-out prompts.

    Raises:
        ConfigError: rows that cannot be read.
    """
    if own := getattr(find_rows(cfg.task), "read_examples", None):
        check_system_prompt(cfg, tokenizer)
        data, system = own(cfg, tokenizer), cfg.task.system_prompt
        begun = [example._replace(prompt=add_system_prompt(example.prompt, system)) for example in data.examples]
        return replace(data, examples=begun)
    drawn = cfg.task.source == "generated"
    if drawn and cfg.task.train_rows is None:
        cfg = replace(cfg, task=replace(cfg.task, train_rows=DRAWN))
    parts = {}
    for algo, name in [("sft", "demonstrations"), *([("grpo", "train")] if drawn else [])]:
        task = load_task(replace(cfg, algo=replace(cfg.algo, name=algo)), tokenizer)
        parts[name] = task.train
    examples = []
    for part, rows in {**parts, cfg.eval.split: task.eval}.items():
        for row in rows:
            answers = (row["completion"],) if "completion" in row else ()
            examples.append(Example(part, part, 2, count_words(row["prompt"]), row["prompt"], answers))
    return Data(name_source(cfg.task), ("answer",), examples, dict(Counter(example.subset for example in examples)), [])


def count_words(text: Text) -> int:
    """Words of a text in either form, split at white space."""
    return len(read_text(text).split())

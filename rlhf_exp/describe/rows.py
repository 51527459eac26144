"""The rows of any task in one form, and their lengths in tokens.

tokenizer = load_tokenizer(cfg)
data = read_examples(cfg, tokenizer)
data.examples[0].prompt, data.examples[0].answers      # as the model reads them: texts, or lists of messages
data.odd[0].kind, data.odd[0].rule, data.odd[0].counts
count_tokens(cfg, tokenizer, data.examples)[0]         # Tokens(prompt=4, answers=(2,))
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.forms import ASK, DEMONSTRATE, PAIR
from rlhf_exp.models.loading import read_tokenizer, set_thinking
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.models.untrained import build_tokenizer
from rlhf_exp.tasks.loading import Loader
from rlhf_exp.tasks.schema import name_source
from rlhf_exp.tasks.sources import Item, OddKind
from rlhf_exp.tasks.texts import Row, Text, as_messages
from rlhf_exp.tasks.tokens import Tokens, measure

DRAWN = 4096
"""Problems drawn to describe a task that generates them without end."""
LOOKED_AT = 200  # prompts on which a tokenizer is tested
UNKNOWN = 0.01  # share of unknown tokens above which counts would mean nothing
NO_LIMIT = 2**31


class Example(NamedTuple):
    """One row; `answers` may be empty. `known`: what else the task knows of it, by name: a right answer, and the
    columns that graders and rewards read."""

    subset: str
    split: str
    turns: int
    prompt: Text
    answers: tuple[Text, ...]
    id: str = ""
    known: dict[str, str] = {}


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
    examples = []
    for split, rows in written.items():
        for item, row in rows:
            turns = len(as_messages(loader.task.prompt(item, chat=True))) + 1
            answers = tuple(row[name] for name in form.answers if name in row)
            known = _find_known(loader, item) if keys is cfg.task else {}
            subset = item.subset if keys.of_pairs else split
            examples.append(Example(subset, split, turns, row["prompt"], answers, item.id, known))
    names = form.answers if form is PAIR else ("answer",)
    return Data(name_source(keys), names if any(row.answers for row in examples) else (), examples, read, odd)


def load_tokenizer(cfg: Config) -> PreTrainedTokenizerBase:
    """The tokenizer of `cfg.model`, without the limit of a model's context, so that no row is left out.

    Raises:
        ConfigError: it cannot be loaded.
    """
    source, init = locate_start_model(cfg), cfg.model.init
    tokenizer = build_tokenizer(init) if init is not None else read_tokenizer(source)
    set_thinking(source, tokenizer)
    tokenizer.model_max_length = NO_LIMIT
    return tokenizer


def count_tokens(cfg: Config, tokenizer: PreTrainedTokenizerBase, examples: list[Example]) -> list[Tokens]:
    """The counts in the order of `examples`.

    Raises:
        ConfigError: the tokenizer's closed vocabulary cannot encode these texts.
    """
    if tokenizer.unk_token_id is not None and isinstance(examples[0].prompt, str):
        looked_at = examples[:: max(1, len(examples) // LOOKED_AT)]
        ids = [token for example in looked_at for token in tokenizer(example.prompt)["input_ids"]]
        if (share := ids.count(tokenizer.unk_token_id) / len(ids)) > UNKNOWN:
            line = f"model={cfg.model.name}: its tokenizer does not know {share:.0%} of the words"
            raise ConfigError([f"{line}; choose another: model=tiny_gpt2 (bytes), or model.path=FOLDER"])
    return measure(tokenizer, [example.prompt for example in examples], [example.answers for example in examples])


def _find_known(loader: Loader, item: Item) -> dict[str, str]:
    gold = loader.task.gold(item, loader.cfg.task) if hasattr(loader.task, "gold") else None
    columns = "\n".join(f"{name}: {value}" for name, value in item.columns.items())
    return {name: text for name, text in (("right answer", gold), ("columns", columns)) if text}

"""Reads every row of any task, with its answers, whatever its length.

tokenizer = load_tokenizer(cfg)
facts, splits = read_rows(cfg, tokenizer)
splits["train"]     # (Pairs(), [{"prompt": ..., "chosen": ..., "rejected": ...}, ...])
"""

from collections.abc import Mapping
from dataclasses import replace

from transformers import PreTrainedTokenizerBase

from rlhf_exp.config.schema import Config
from rlhf_exp.describe.figures import Splits
from rlhf_exp.forms import ASK, DEMONSTRATE, PAIR
from rlhf_exp.models.loading import adapt_template, read_tokenizer
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.models.untrained import build_tokenizer
from rlhf_exp.tasks.loading import Loader, TaskRows
from rlhf_exp.tasks.prompts import check_vocabulary

DRAWN = 4096
"""Problems drawn to describe a task that generates them without end."""
NO_LIMIT = 2**31


def read_rows(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> tuple[Mapping[str, object], Splits]:
    """What the task has counted, and its rows by split. Of a task that draws its rows: demonstrations, prompts to train
    on, and held-out prompts.

    Raises:
        ConfigError: rows that cannot be read, or with words that the tokenizer does not know.
    """
    _, keys = cfg.task.list_sources()[-1]
    loader = Loader.open(replace(cfg, task=keys), tokenizer)
    form = ASK
    if keys is cfg.task and keys.gives_pairs:
        form = PAIR
    elif keys is cfg.task and hasattr(keys, "demonstration"):
        form = DEMONSTRATE
    facts: Mapping[str, object] = {}
    splits: Splits = {}
    if loader.source is None:
        n, seed, limit, fewer = keys.train_rows or DRAWN, keys.data_seed, cfg.eval.limit, cfg.eval.rows is None
        if form.answers:
            splits["demonstrations"] = form, loader.take(form, "train", n, seed, 0).rows
        splits["train"] = ASK, loader.take(ASK, "train", n, seed, 0).rows
        held_out = loader.take(ASK, cfg.eval.split, limit, cfg.eval.seed, 0, distinct=True, fewer=fewer)
        splits[cfg.eval.split] = ASK, held_out.rows
    else:
        facts = loader.source.facts
        for split, items in loader.source.splits.items():
            answered = {item.id: row for item, row in loader.write(items, form, 0)}
            splits[split] = form, [answered.get(item.id, row) for item, row in loader.write(items, ASK, 0)]
    check_vocabulary(tokenizer, TaskRows(cfg.task.name, [row for _, rows in splits.values() for row in rows], [], None))
    return facts, splits


def load_tokenizer(cfg: Config) -> PreTrainedTokenizerBase:
    """The tokenizer of `cfg.model`, without the limit of a model's context, so that no row is left out.

    Raises:
        ConfigError: it cannot be loaded.
    """
    source, init = locate_start_model(cfg), cfg.model.init
    tokenizer = build_tokenizer(init) if init is not None else read_tokenizer(source)
    adapt_template(source, tokenizer)
    tokenizer.model_max_length = NO_LIMIT
    return tokenizer

"""The rows of any task in one form, read by the task's own reader, and the odd rows that it counts.

data = read_examples(cfg, tokenizer)
data.examples[0].prompt, data.examples[0].answers      # as the model reads them: texts, or lists of messages
data.odd[0].kind, data.odd[0].rule, data.odd[0].counts
"""

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from rlhf_exp.config.schema import Config
from rlhf_exp.rewards import read_text
from rlhf_exp.tasks import Text, find_rows, load_task, name_source
from rlhf_exp.tasks.examples import Data, Example

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

DRAWN = 4096
"""Problems drawn to describe a task that generates them without end."""


def read_examples(cfg: Config, tokenizer: "PreTrainedTokenizerBase") -> Data:
    """Every row of `cfg.task` that its loader does not drop.

    Raises:
        ConfigError: rows that cannot be read.
    """
    read = getattr(find_rows(cfg.task), "read_examples", _read_loaded)
    return read(cfg, tokenizer)


def _read_loaded(cfg: Config, tokenizer: "PreTrainedTokenizerBase") -> Data:
    """The rows of any other task: demonstrations, prompts to train on if they are generated, and held-out prompts."""
    drawn = cfg.task.source == "generated"
    if drawn and cfg.task.train_rows is None:
        cfg = replace(cfg, task=replace(cfg.task, train_rows=DRAWN))
    examples = []
    for algo, name in [("sft", "demonstrations"), *([("grpo", "train")] if drawn else [])]:
        task = load_task(replace(cfg, algo=replace(cfg.algo, name=algo)), tokenizer)
        for row in task.train:
            answers = (row["completion"],) if "completion" in row else ()
            examples.append(Example(name, name, 2, count_words(row["prompt"]), row["prompt"], answers))
    for row in task.eval:
        examples.append(Example(cfg.eval.split, cfg.eval.split, 2, count_words(row["prompt"]), row["prompt"], ()))
    return Data(name_source(cfg.task), ("answer",), examples, dict(Counter(example.subset for example in examples)), [])


def count_words(text: Text) -> int:
    """Words of a text in either form, split at white space."""
    return len(read_text(text).split())

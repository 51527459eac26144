"""Describes a task's data: lengths, splits, duplicates, odd rows, and whether the longer answer is preferred.

    python -m rlhf_exp describe task=hh_rlhf task.source=file task.path=FOLDER model.path=TOKENIZER

    figures = describe(cfg, Path("outputs/describe/hh_rlhf/x"))     # describe.json, .md and .html there

No text of a row is ever written, since rows can be offensive.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.tasks.examples import Example
    from rlhf_exp.tasks.tokens import Tokens

LOOKED_AT = 200  # prompts on which a tokenizer is tested
UNKNOWN = 0.01  # share of unknown tokens above which counts would mean nothing
NO_LIMIT = 2**31


def describe(cfg: Config, out: Path) -> dict[str, Any]:
    """Measure the rows of `cfg.task` with the tokenizer of `cfg.model`, write the figures into `out` and return them.

    Raises:
        ConfigError: rows or a tokenizer that cannot be read, or one that does not know these texts' words.
    """
    # Imported here and below, after the command line was checked: transformers and torch take seconds.
    from rlhf_exp.describe.figures import measure
    from rlhf_exp.describe.page import describe_data
    from rlhf_exp.report.page import write_page
    from rlhf_exp.runs.folder import write_json
    from rlhf_exp.tasks.examples import read_examples

    tokenizer = load_tokenizer(cfg)
    data = read_examples(cfg, tokenizer)
    figures = measure(data, count_tokens(cfg, tokenizer, data.examples))
    figures |= {"task": cfg.task.name, "source": data.source, "tokenizer": str(cfg.model.path or cfg.model.name)}
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "describe.json", figures)
    write_page(describe_data(figures), out, "describe")
    return figures


def load_tokenizer(cfg: Config) -> "PreTrainedTokenizerBase":
    """The tokenizer of `cfg.model`, without the limit of a model's context, so that no row is left out.

    Raises:
        ConfigError: it cannot be loaded.
    """
    from rlhf_exp.models.loading import read_tokenizer, set_thinking
    from rlhf_exp.models.source import locate_start_model
    from rlhf_exp.models.untrained import build_tokenizer

    source, init = locate_start_model(cfg), cfg.model.init
    tokenizer = build_tokenizer(init) if init is not None else read_tokenizer(source)
    set_thinking(source, tokenizer)
    tokenizer.model_max_length = NO_LIMIT
    return tokenizer


def count_tokens(cfg: Config, tokenizer: "PreTrainedTokenizerBase", examples: "list[Example]") -> "list[Tokens]":
    """The counts in the order of `examples`.

    Raises:
        ConfigError: the tokenizer's closed vocabulary cannot encode these texts.
    """
    from rlhf_exp.tasks.tokens import measure

    if tokenizer.unk_token_id is not None and isinstance(examples[0].prompt, str):
        looked_at = examples[:: max(1, len(examples) // LOOKED_AT)]
        ids = [token for example in looked_at for token in tokenizer(example.prompt)["input_ids"]]
        if (share := ids.count(tokenizer.unk_token_id) / len(ids)) > UNKNOWN:
            line = f"model={cfg.model.name}: its tokenizer does not know {share:.0%} of the words"
            raise ConfigError([f"{line}; choose another: model=tiny_gpt2 (bytes), or model.path=FOLDER of a tokenizer"])
    return measure(tokenizer, [example.prompt for example in examples], [example.answers for example in examples])

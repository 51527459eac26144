"""How many tokens each text has, as the trainers see it: through the chat template where there is one, with its end.

tokenizer = load_tokenizer(cfg)
counts, why_not = count_tokens(cfg, tokenizer, data.examples)
counts[0].prompt, counts[0].answers      # 31, (58, 12)
"""

from typing import TYPE_CHECKING

from rlhf_exp.tasks.lengths import Tokens, measure

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.config.schema import Config
    from rlhf_exp.describe.examples import Example

LOOKED_AT = 200  # prompts by which a tokenizer is judged
UNKNOWN = 0.01  # share of unknown tokens above which counts would mean nothing
NO_LIMIT = 2**31


def load_tokenizer(cfg: "Config") -> "PreTrainedTokenizerBase":
    """The tokenizer of `cfg.model`, without the limit of a model's context: rows are counted, none is left out.

    Raises:
        ConfigError: it cannot be had.
    """
    # Here, since they bring torch and peft, which take seconds, and the rest of this module wants neither.
    from rlhf_exp.models.loading import read_tokenizer, set_thinking
    from rlhf_exp.models.source import locate_start_model
    from rlhf_exp.models.untrained import build_tokenizer

    source, init = locate_start_model(cfg), cfg.model.init
    tokenizer = build_tokenizer(init) if init is not None else read_tokenizer(source)
    set_thinking(source, tokenizer)
    tokenizer.model_max_length = NO_LIMIT
    return tokenizer


def count_tokens(
    cfg: "Config", tokenizer: "PreTrainedTokenizerBase", examples: "list[Example]"
) -> tuple[list[Tokens] | None, str | None]:
    """The counts in the order of `examples`; or None, and a line that says why and what to choose instead."""
    if why_not := _refuse_unknown(cfg, tokenizer, examples):
        return None, why_not
    return measure(tokenizer, [example.prompt for example in examples], [example.answers for example in examples]), None


def _refuse_unknown(cfg: "Config", tokenizer: "PreTrainedTokenizerBase", examples: "list[Example]") -> str | None:
    """Why a closed vocabulary cannot count these texts; None for one that reads them."""
    if tokenizer.unk_token_id is None or not isinstance(examples[0].prompt, str):
        return None
    looked_at = examples[:: max(1, len(examples) // LOOKED_AT)]
    ids = [token for example in looked_at for token in tokenizer(example.prompt)["input_ids"]]
    share = ids.count(tokenizer.unk_token_id) / len(ids)
    if share <= UNKNOWN:
        return None
    return (
        f"model={cfg.model.name}: its tokenizer does not know {share:.0%} of the words, so nothing is counted in"
        " tokens; choose another: model=tiny_gpt2 (bytes), or model.path=FOLDER of a tokenizer"
    )

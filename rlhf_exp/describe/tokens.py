"""Counts the tokens of each text as the trainers see it: with the chat template if there is one, and the end token.

tokenizer = load_tokenizer(cfg)
counts, why_not = count_tokens(cfg, tokenizer, data.examples)
counts[0].prompt, counts[0].answers      # 31, (58, 12)
"""

from transformers import PreTrainedTokenizerBase

from rlhf_exp.config.schema import Config
from rlhf_exp.tasks.examples import Example
from rlhf_exp.tasks.tokens import Tokens, measure

LOOKED_AT = 200  # prompts on which a tokenizer is tested
UNKNOWN = 0.01  # share of unknown tokens above which counts would mean nothing
NO_LIMIT = 2**31


def load_tokenizer(cfg: Config) -> PreTrainedTokenizerBase:
    """The tokenizer of `cfg.model`, without the limit of a model's context, so that no row is left out.

    Raises:
        ConfigError: it cannot be loaded.
    """
    # Imported here, since they import torch and peft, which take seconds.
    from rlhf_exp.models.loading import read_tokenizer, set_thinking
    from rlhf_exp.models.source import locate_start_model
    from rlhf_exp.models.untrained import build_tokenizer

    source, init = locate_start_model(cfg), cfg.model.init
    tokenizer = build_tokenizer(init) if init is not None else read_tokenizer(source)
    set_thinking(source, tokenizer)
    tokenizer.model_max_length = NO_LIMIT
    return tokenizer


def count_tokens(
    cfg: Config, tokenizer: PreTrainedTokenizerBase, examples: list[Example]
) -> tuple[list[Tokens] | None, str | None]:
    """The counts in the order of `examples`; or None, and a line that says why the tokenizer's closed vocabulary cannot
    encode these texts, and what to choose instead."""
    if tokenizer.unk_token_id is not None and isinstance(examples[0].prompt, str):
        looked_at = examples[:: max(1, len(examples) // LOOKED_AT)]
        ids = [token for example in looked_at for token in tokenizer(example.prompt)["input_ids"]]
        share = ids.count(tokenizer.unk_token_id) / len(ids)
        if share > UNKNOWN:
            unknown = f"its tokenizer does not know {share:.0%} of the words, so nothing is counted in tokens"
            other = "model=tiny_gpt2 (bytes), or model.path=FOLDER of a tokenizer"
            return None, f"model={cfg.model.name}: {unknown}; choose another: {other}"
    return measure(tokenizer, [example.prompt for example in examples], [example.answers for example in examples]), None

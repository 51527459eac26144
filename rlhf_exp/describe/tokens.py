"""How many tokens each text has, as the trainers see it: through the chat template where there is one, with its end.

tokenizer = load_tokenizer(cfg)
counts, why_not = count_tokens(cfg, tokenizer, data.examples)
counts[0].prompt, counts[0].answers      # 31, (58, 12)
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tqdm.auto import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from rlhf_exp.config import ConfigError
from rlhf_exp.describe.examples import Example, Text

if TYPE_CHECKING:
    from rlhf_exp.config import Config

ASSETS = Path(__file__).parent.parent / "assets"
BATCH = 2048
LOOKED_AT = 200  # prompts by which a tokenizer is judged
UNKNOWN = 0.01  # share of unknown tokens above which counts would mean nothing
NO_LIMIT = 2**31


class Tokens(NamedTuple):
    """Tokens of a prompt, and of each answer with the end token; their sum is what a trainer sees."""

    prompt: int
    answers: tuple[int, ...]


def load_tokenizer(cfg: "Config") -> PreTrainedTokenizerBase:
    """The tokenizer of `cfg.model`, without the limit of a model's context: rows are counted, none is left out.

    Raises:
        ConfigError: it cannot be had.
    """
    # What is imported in here brings peft, which takes seconds.
    if cfg.model.init is not None:
        from rlhf_exp.models.untrained import build_tokenizer

        tokenizer = build_tokenizer(cfg.model.init)
    else:
        path = str(Path(cfg.model.path).expanduser() if cfg.model.path else ASSETS / cfg.model.name)
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=cfg.model.trust_remote_code)
        except (OSError, ValueError) as error:
            from rlhf_exp.models.loading import explain

            raise ConfigError([explain(path, error)]) from None
        if not tokenizer("text")["input_ids"]:  # transformers 5.23 makes an empty GPT-2 tokenizer where files lack
            raise ConfigError(
                [f"model.path={path}: holds no tokenizer; must have a tokenizer.json, or its older files"]
            )
    from rlhf_exp.models import set_thinking

    set_thinking(cfg, tokenizer)
    tokenizer.model_max_length = NO_LIMIT
    return tokenizer


def count_tokens(
    cfg: "Config", tokenizer: PreTrainedTokenizerBase, examples: list[Example]
) -> tuple[list[Tokens] | None, str | None]:
    """The counts in the order of `examples`; or None, and a line that says why and what to choose instead."""
    if why_not := _refuse_unknown(cfg, tokenizer, examples):
        return None, why_not
    chat = not isinstance(examples[0].prompt, str)

    def render(texts: list[Text], **more: bool) -> list[str]:
        return tokenizer.apply_chat_template(texts, tokenize=False, **more) if chat else texts

    prompts = render([example.prompt for example in examples], add_generation_prompt=True)
    in_prompt = _count(tokenizer, prompts, special=not chat)
    in_answers: list[list[int]] = [[] for _ in examples]
    for place in range(max(len(example.answers) for example in examples)):
        having = [i for i, example in enumerate(examples) if len(example.answers) > place]
        wholes = render([examples[i].prompt + examples[i].answers[place] for i in having])
        # A whole that begins with its prompt is counted as prompt plus rest: one prompt less to tokenize.
        joined = [whole.startswith(prompts[i]) for i, whole in zip(having, wholes, strict=True)]
        rests = [w[len(prompts[i]) :] if join else w for i, w, join in zip(having, wholes, joined, strict=True)]
        for i, n, join in zip(having, _count(tokenizer, rests, special=False), joined, strict=True):
            in_answers[i].append(n - (0 if join else in_prompt[i]) + (not chat))  # a template writes the end itself
    return [Tokens(n, tuple(answers)) for n, answers in zip(in_prompt, in_answers, strict=True)], None


def _refuse_unknown(cfg: "Config", tokenizer: PreTrainedTokenizerBase, examples: list[Example]) -> str | None:
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


def _count(tokenizer: PreTrainedTokenizerBase, texts: list[str], special: bool) -> list[int]:
    counts: dict[str, int] = {}
    unique = list(dict.fromkeys(texts))
    with tqdm(total=len(unique), desc="tokenizing", unit="text", leave=False, delay=2) as bar:
        for start in range(0, len(unique), BATCH):
            batch = unique[start : start + BATCH]
            encoded = tokenizer(batch, add_special_tokens=special, return_attention_mask=False)
            counts |= {text: len(ids) for text, ids in zip(batch, encoded["input_ids"], strict=True)}
            bar.update(len(batch))
    return [counts[text] for text in texts]

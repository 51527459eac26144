"""The score of a trained reward model, `reward=model reward.path=RUN_DIR`, on the tokens that it was trained on.

    model = load_model_reward(cfg, task)
    model(prompts=["\\n\\nHuman: Hi!\\n\\nAssistant:"], completions=[" Hello."])    # [0.31]

Every completion is scored as a complete answer: its end is added as in training (tasks/tokens.py), even if the
token budget cut it off, since a reward only sees text. A plain completion gets a space between it and its prompt if it
has none: word-level tokenizers lose it in decoding, and the answers of pairs begin with it.

A text longer than the reward model's context is scored on its first tokens, without its end. Training logs the share
of these completions as `reward_model/cut`.
"""

from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders import read_text
from rlhf_exp.runs.records import Evaluation, read
from rlhf_exp.runs.settings import read_config, read_key
from rlhf_exp.tasks import TaskRows, Text, as_completion

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_model_reward(cfg: Config, task: TaskRows) -> Callable[..., list[float]]:
    """The reward function `model`. With `reward.normalize` its unit is a standard deviation over held-out answers.

    Raises:
        ConfigError: no reward model, one that cannot read these prompts, or no held-out rewards for the normalisation.
    """
    from rlhf_exp.models.loading import load_scorer, load_tokenizer
    from rlhf_exp.models.scoring import score_sequences
    from rlhf_exp.models.source import locate_reward_model
    from rlhf_exp.tasks.tokens import encode_answers

    mean, std = _read_normalisation(cfg) if cfg.reward.normalize else (0.0, 1.0)
    source = locate_reward_model(cfg)
    scorer, tokenizer = load_scorer(source), load_tokenizer(source)
    _check_prompts(cfg, tokenizer, [row["prompt"] for row in [*task.train, *task.eval]])
    context = tokenizer.model_max_length

    def model(
        prompts: list[Text], completions: list[Text], log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float]:  # fmt: skip
        chat = isinstance(prompts[0], list)
        answers = [as_completion(read_text(completion), chat) for completion in completions]
        sequences = encode_answers(tokenizer, prompts, answers)
        if log_metric is not None:
            log_metric("reward_model/cut", sum(len(ids) > context for ids in sequences) / len(sequences))
        scores = score_sequences(scorer, [ids[:context] for ids in sequences], cfg.reward.batch_size)
        return [(score - mean) / std for score in scores]

    model.scorer = scorer  # type: ignore[attr-defined]  # its memory is measured
    return model


def _read_normalisation(cfg: Config) -> tuple[float, float]:
    """Mean and standard deviation of the trained reward model's scores of held-out answers."""
    trained = read(Path(cfg.reward.path or "").expanduser() / "evaluation.json", Evaluation).trained
    if trained is None or trained.reward is None or not trained.reward.std or isnan(trained.reward.std):
        needed = "has no held-out rewards that vary; must be the folder of a run of algo=reward_model, or use false"
        raise ConfigError([f"reward.normalize=true: reward.path={cfg.reward.path} {needed}"])
    return trained.reward.mean["value"], trained.reward.std


def _check_prompts(cfg: Config, tokenizer: "PreTrainedTokenizerBase", prompts: list[Any]) -> None:
    """Refuse prompts in another form, or with other words, than the reward model knows: its scores mean nothing
    then."""
    from rlhf_exp.tasks.prompts import count_unknown

    key, chat = f"reward.path={cfg.reward.path}", not isinstance(prompts[0], str)
    form = read_key(read_config(Path(cfg.reward.path or "").expanduser()), "task.prompt")
    reads_chat = tokenizer.chat_template is not None and form != "plain"
    unsaid = form is None and tokenizer.chat_template is not None  # no run that tells
    if reads_chat != chat and not unsaid:
        found = "reads plain text, and the prompts are messages" if chat else "reads messages, and the prompts are text"
        raise ConfigError([f"{key}: {found}; use task.prompt={'plain' if chat else 'chat'}, or another reward model"])
    if not chat and (unknown := count_unknown(tokenizer, prompts)):
        words = ", ".join(repr(word) for word, _ in unknown.most_common(5))
        found = f"{len(unknown)} words of the prompts are not in its vocabulary: {words}"
        raise ConfigError([f"{key}: {found}; use another reward model"])

"""The rows of any task in one form, read by the task's own reader, and the odd rows that it counts.

data = read_examples(cfg, tokenizer)
data.examples[0].prompt, data.examples[0].answers      # as the model reads them: texts, or lists of messages
data.odd[0].kind, data.odd[0].rule, data.odd[0].counts
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from rlhf_exp.rewards import read_text
from rlhf_exp.tasks import load_task, name_source, wants_chat

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.config.schema import Config

Text = str | list[dict[str, str]]

DRAWN = 4096
"""Problems drawn to describe a task that generates them without end."""

HH_RULES = {
    "not_ending_on_assistant": "a dialogue ends on a turn of the human",
    "histories_differ": "the dialogues differ before the last answer",
    "not_asked_by_human": "the history does not begin and end on a turn of the human",
    "empty_chosen": "the chosen answer is empty",
    "empty_rejected": "the rejected answer is empty",
    "equal_answers": "chosen and rejected are the same text",
    "duplicate": "the same prompt and answers in the same order were read before",
    "prompt_in_test": "in train or validation, where the source's test part has the prompt",
    "inline_speaker": '"Human:" or "Assistant:" stands inside a turn',
    "same_speaker_twice": "two turns of one speaker in a row, joined to one",
    "empty_turn": "a turn without text in the history",
}
GSM8K_RULES = {
    "duplicates": "the question was read before",
    "in_both_parts": "a question of the source's train part that its test part has too",
}


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


def read_examples(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> Data:
    """Every row of `cfg.task` that its loader does not drop.

    Raises:
        ConfigError: rows that cannot be read.
    """
    readers = {"hh_rlhf": _read_hh_rlhf, "gsm8k": _read_gsm8k}
    task = cfg.task
    return replace(readers.get(task.name, _read_loaded)(cfg, tokenizer), source=name_source(task))


def _read_hh_rlhf(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> Data:
    from rlhf_exp.tasks.hh_rlhf.pairs import DROPPED, KEPT, read_pairs, split_pairs
    from rlhf_exp.tasks.hh_rlhf.rows import build_row

    pairs, read, odd = read_pairs(cfg)
    splits, in_test = split_pairs(pairs)
    chat, examples = wants_chat(cfg, tokenizer), []
    for split, members in splits.items():
        for pair in members:
            row = build_row(pair, chat)
            turns, words = len(pair.history) + 1, sum(len(text.split()) for _, text in pair.history)
            answers = (row["chosen"], row["rejected"])
            examples.append(Example(pair.subset, split, turns, words, row["prompt"], answers))
    counts = {**odd, "prompt_in_test": in_test}
    kinds = [(kind, False) for kind in (*DROPPED, "prompt_in_test")] + [(kind, True) for kind in KEPT]
    odd_rows = [Odd(kind, HH_RULES[kind], kept, dict(counts[kind])) for kind, kept in kinds]
    return Data("", ("chosen", "rejected"), examples, dict(read), odd_rows)


def _read_gsm8k(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> Data:
    from rlhf_exp.tasks.gsm8k.files import read_splits
    from rlhf_exp.tasks.gsm8k.rows import build_demonstration

    splits, facts = read_splits(cfg.task)
    chat, examples = wants_chat(cfg, tokenizer), []
    for split, problems in splits.items():
        for problem in problems:
            row = build_demonstration(problem, chat)
            words = len(problem.question.split())
            examples.append(Example(split, split, 2, words, row["prompt"], (row["completion"],)))
    odd = [Odd(kind, rule, False, {"all": facts[kind]}) for kind, rule in GSM8K_RULES.items()]
    return Data("", ("answer",), examples, facts["read"], odd)


def _read_loaded(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> Data:
    """Of any other task: demonstrations, prompts to train on where they are drawn, and the held-out prompts."""
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
    return Data("", ("answer",), examples, dict(Counter(example.subset for example in examples)), [])


def count_words(text: Text) -> int:
    """Words of a text in either form, split at white space."""
    return len(read_text(text).split())

"""HH-RLHF: two answers of an assistant to one dialogue, and which of them a person preferred (arXiv:2204.05862).

A row as it is read, and the pair made of it (in chat form a text is a list of messages):

    {"chosen": "\\n\\nHuman: Hi!\\n\\nAssistant: Hello.", "rejected": "\\n\\nHuman: Hi!\\n\\nAssistant: What?"}
    {"id": "helpful-base 53b0...", "subset": "helpful-base", "prompt": "\\n\\nHuman: Hi!\\n\\nAssistant:",
     "chosen": " Hello.", "rejected": " What?"}

The prompt is what both dialogues share up to their last "\\n\\nAssistant:"; the answers follow it. White space around a
turn is removed. reward_model and dpo learn from pairs, kto from both answers of each, sft from the chosen answers, and
online algorithms from the prompts.

Odd pairs are counted by kind and subset in the run's data.json; DROPPED and KEPT name the kinds.
Dropped too are pairs of more tokens than task.max_length or the model's context (`over_long`): truncated, they would
not be what people judged.

Lengths: a pair (also for sft) counts its prompt and the longer answer with its end token; a prompt to sample on counts
max_tokens for the completion. Only as many rows as needed are tokenized, so `over_long` covers only these.

Splits: by a hash of the prompt, 80 train, 8 validation, 12 test of 100. A subset with a train and a test part keeps its
test part; the same 8 of 100 of its train part are validation. No prompt is in two splits.

The held-out rows are the same pairs for every algorithm that samples: one per prompt, where both the pair and a
completion must fit; for reward_model only the pair.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from rlhf_exp.config.values import Share
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks.sources import read_hub, read_lines, read_texts
from rlhf_exp.tasks.splits import SHARES, hash_text, split_within
from rlhf_exp.tasks.task import Item, OddKind, Source, Task
from rlhf_exp.tasks.texts import Text

Subset = Literal["harmless-base", "helpful-base", "helpful-online", "helpful-rejection-sampled"]
SUBSETS: tuple[Subset, ...] = get_args(Subset)

DROPPED = {
    "not_ending_on_assistant": "a dialogue ends with a turn of the human",
    "histories_differ": "the dialogues differ before the last answer",
    "not_asked_by_human": "the history does not begin and end with a turn of the human",
    "empty_chosen": "the chosen answer is empty",
    "empty_rejected": "the rejected answer is empty",
    "equal_answers": "chosen and rejected are the same text",
    "duplicate": "the same prompt and answers in the same order were read before",
    "prompt_in_test": "in train or validation, but the prompt is in the source's test part",
}
"""Kinds of odd pairs that are dropped, each with its rule; a pair counts under the first kind that fits. The last kind
is counted by `split_pairs`."""

KEPT = {
    "inline_speaker": '"Human:" or "Assistant:" is inside a turn',
    "same_speaker_twice": "two consecutive turns of one speaker, joined to one",
    "empty_turn": "a turn without text in the history",
}
"""Kinds of odd pairs that are kept, each with its rule; a pair counts under every kind that fits. People judged an
answer with the speaker inside it, and no rule can distinguish a mistake from a quotation."""

TURN = re.compile(r"\n\n(Human|Assistant):")
INLINE = re.compile(r"\b(?:Human|Assistant):")
ROLES = {"Human": "user", "Assistant": "assistant"}
ENDINGS = (".jsonl", ".jsonl.gz")
PART = re.compile(r"(?<![a-z])(train|test)(?![a-z])")

SYNTHETIC_ROWS, SYNTHETIC_SEED = 8000, 0
"""How many pairs source=generated has. One fixed set: task.data_seed must not move what is held out."""


@dataclass(frozen=True)
class Pair:
    """Two answers to one prompt. Every text is stripped of the white space around it.

    Attributes:
        id: the subset and a hash of prompt and answers: the same in every source and order.
        part: the source's own split, train or test; None if it has none.
        history: (speaker, text) in turn, Human first and last, never the same speaker twice in a row.
        prompt: the history as plain text, which ends with "\\n\\nAssistant:".
    """

    id: str
    subset: str
    part: str | None
    history: tuple[tuple[str, str], ...]
    prompt: str
    chosen: str
    rejected: str


@dataclass(frozen=True)
class HhRlhf(Task):
    """The keys of task=hh_rlhf; the content of a row is its Pair."""

    name: Literal["hh_rlhf"]
    hub_id: str
    subsets: list[Subset]
    max_length: Annotated[int, Field(ge=2, le=10_000_000)] | None
    label_noise: Share

    path_form = "a .jsonl or .jsonl.gz file with chosen and rejected, or a folder of them"
    reads_folder = True
    of_pairs = True
    budget = (128, "half of the 256 tokens that experiment=hh_rlhf_gpt2_* allows a prompt with its answer")

    def rows(self) -> Source:
        """The pairs of each split, with no prompt in two of them."""
        counts: Counter[str] = Counter()
        odd: dict[str, Counter[str]] = {kind: Counter() for kind in (*DROPPED, *KEPT)}
        distinct: dict[tuple[str | None, str], Pair] = {}
        for where, subset, part, *dialogues in self.read_raw():
            counts[subset] += 1
            pair, kinds = parse_pair(where, subset, part, *dialogues)
            if pair is not None:
                # A pair in both parts of the source is not a duplicate: it is removed from train below.
                first = distinct.setdefault((part, pair.id.removeprefix(subset)), pair)
                kinds = kinds if first is pair else ["duplicate"]
            for kind in kinds:
                odd[kind][subset] += 1
        splits, odd["prompt_in_test"] = _split_pairs(sorted(distinct.values(), key=attrgetter("id")))
        items = {
            name: [Item(pair.id, {}, self._add_noise(pair) if name == "train" else pair, pair.subset) for pair in pairs]
            for name, pairs in splits.items()
        }
        facts = {
            "read": dict(counts),
            "dropped": {kind: dict(odd[kind]) for kind in DROPPED},
            "kept": {kind: dict(odd[kind]) for kind in KEPT},
            "splits": {name: dict(Counter(pair.subset for pair in pairs)) for name, pairs in splits.items()},
        }
        kinds_read = tuple(
            OddKind(kind, rule, odd[kind].total(), kind in KEPT) for kind, rule in {**DROPPED, **KEPT}.items()
        )
        return Source(items, dict(counts), "pairs", kinds_read, facts)

    def write_prompt(self, item: Item, chat: bool) -> Text:
        """What both dialogues share up to the last turn of the assistant."""
        if chat:
            return [{"role": ROLES[speaker], "content": text} for speaker, text in item.content.history]
        return item.content.prompt

    def pair(self, item: Item) -> tuple[str, str]:
        return item.content.chosen, item.content.rejected

    def demonstration(self, item: Item, seed: str) -> str:
        return item.content.chosen

    def read_raw(self) -> Iterator[tuple[Any, ...]]:
        """Every pair of `subsets` that the source has: its place, for error lines; its subset; the source's own split,
        train or test, or None; the dialogue with the chosen and that with the rejected answer."""
        if self.source == "generated":
            from rlhf_exp.tasks.synthetic import generate_pairs  # which reads a file

            for number, (subset, chosen, rejected) in enumerate(generate_pairs(SYNTHETIC_ROWS, SYNTHETIC_SEED), 1):
                if subset in self.subsets:
                    yield f"generated pair {number}", subset, None, chosen, rejected
        elif self.source == "file":
            for path, subset, part in find_pair_files(Path(self.path or ""), self.subsets):
                for where, row in read_lines(path):
                    yield where, subset, part, *read_texts(row, where, "chosen", "rejected")
        else:
            for subset in self.subsets:
                for part, where, row in read_hub(self.hub_id, data_dir=subset, place=self.place):
                    yield where, subset, part, *read_texts(row, where, "chosen", "rejected")

    def _add_noise(self, pair: Pair) -> Pair:
        """The pair, in a share `label_noise` with its answers swapped."""
        if Random(pair.id).random() < self.label_noise:
            return replace(pair, chosen=pair.rejected, rejected=pair.chosen)
        return pair


def parse_pair(where: str, subset: str, part: str | None, chosen: str, rejected: str) -> tuple[Pair | None, list[str]]:
    """The pair, None if it is dropped, and the kinds in which it is odd; arguments as read_raw gives them."""
    opening, chosen_turns = _parse_turns(chosen, f'{where}: "chosen"')
    other_opening, rejected_turns = _parse_turns(rejected, f'{where}: "rejected"')
    (speaker, chosen), (other_speaker, rejected) = chosen_turns.pop(), rejected_turns.pop()
    if not speaker == other_speaker == "Assistant":
        return None, ["not_ending_on_assistant"]
    if (opening, chosen_turns) != (other_opening, rejected_turns):
        return None, ["histories_differ"]
    if opening or not chosen_turns[0][0] == chosen_turns[-1][0] == "Human":
        return None, ["not_asked_by_human"]
    if not chosen or not rejected:
        return None, ["empty_rejected" if chosen else "empty_chosen"]
    if chosen == rejected:
        return None, ["equal_answers"]
    history = _join_turns(chosen_turns)
    prompt = "".join(f"\n\n{speaker}: {text}".rstrip() for speaker, text in history) + "\n\nAssistant:"
    texts = [*(text for _, text in history), chosen, rejected]
    fits = (any(map(INLINE.search, texts)), len(history) < len(chosen_turns), not all(texts))
    own = hash_text("\0".join((prompt, chosen, rejected)))
    pair = Pair(f"{subset} {own}", subset, part, history, prompt, chosen, rejected)
    return pair, [kind for kind, fit in zip(KEPT, fits, strict=True) if fit]


def _split_pairs(pairs: list[Pair]) -> tuple[dict[str, list[Pair]], Counter[str]]:
    """Train, validation and test, with no prompt in two of them; and for each subset how many were removed from train
    and validation because their prompt is in test."""
    divided = {pair.subset for pair in pairs if pair.part == "train"} & {p.subset for p in pairs if p.part == "test"}
    splits: dict[str, list[Pair]] = {name: [] for name in SHARES}
    for pair in pairs:
        own = "test" if pair.part == "test" else "train"  # a third part of the source, too
        part = own if pair.subset in divided else None
        splits[split_within(pair.prompt, part)].append(pair)
    held, in_test = {pair.prompt for pair in splits["test"]}, Counter[str]()
    for name in ("train", "validation"):
        in_test.update(pair.subset for pair in splits[name] if pair.prompt in held)
        splits[name] = [pair for pair in splits[name] if pair.prompt not in held]
    return splits, in_test


def find_pair_files(path: Path, subsets: Sequence[str]) -> list[tuple[Path, str, str | None]]:
    """The files to read, each with its subset and its part. A lone file that names no subset is subset `file`.

    Raises:
        ConfigError: a subset that is asked for but missing.
    """
    named = path.rglob("*") if path.is_dir() else [path]
    files = sorted(file for file in named if file == path or file.name.endswith(ENDINGS) and file.is_file())
    found = [(file, _subset_of(file) or ("file" if file == path else ""), _part_of(file)) for file in files]
    kept = [(file, subset, part) for file, subset, part in found if subset in (*subsets, "file")]
    there = {subset for _, subset, _ in found if subset}
    if not kept or path.is_dir() and not {*subsets} <= there:
        use = f"use task.subsets=[{','.join(sorted(there))}]" if there else f"must hold {' or '.join(ENDINGS)} files"
        raise ConfigError([f"task.subsets={subsets}: not all of them are in task.path={path}; {use}"])
    return kept


def _subset_of(file: Path) -> str | None:
    folder = file.absolute().parent.name
    return next((subset for subset in SUBSETS if subset in file.name or subset == folder), None)


def _part_of(file: Path) -> str | None:
    match = PART.search(file.name) or PART.fullmatch(file.absolute().parent.name)
    return match[1] if match else None


def _parse_turns(text: str, where: str) -> tuple[str, list[tuple[str, str]]]:
    """The text before the first turn, and the turns."""
    opening, *parts = TURN.split(f"\n\n{text.strip()}")
    speakers = parts[::2]
    if "Human" not in speakers:
        raise ConfigError([f'{where} has no turn of "Human:"; expected "\\n\\nHuman: ...\\n\\nAssistant: ..."'])
    return opening.strip(), [(speaker, text.strip()) for speaker, text in zip(speakers, parts[1::2], strict=True)]


def _join_turns(turns: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The turns, with consecutive turns of one speaker joined, as chat templates need them."""
    return tuple(
        (speaker, "\n\n".join(text for _, text in several if text))
        for speaker, several in groupby(turns, itemgetter(0))
    )

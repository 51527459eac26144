"""Turns two dialogues into a prompt with two answers, by the rules in rows.py; needs no tokenizer.

pairs, read, odd = read_pairs(cfg)
pairs[0].prompt, pairs[0].chosen      # "\\n\\nHuman: Hi!\\n\\nAssistant:", "Hello."
odd["equal_answers"]["helpful-base"]  # how many
splits, in_test = split_pairs(pairs)
"""

import re
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter

from tqdm.auto import tqdm

from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks.hh_rlhf.files import RawPair, read_raw
from rlhf_exp.tasks.splits import SHARES, split_within

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

    def messages(self) -> list[dict[str, str]]:
        """The prompt in chat form."""
        return [{"role": ROLES[speaker], "content": text} for speaker, text in self.history]


def read_pairs(cfg: Config) -> tuple[list[Pair], Counter[str], dict[str, Counter[str]]]:
    """Read all pairs of `cfg.task`.

    Returns:
        the pairs that are kept, how many were read of each subset, and for each kind of odd pair (DROPPED and KEPT) how
        many there are of each subset.

    Raises:
        ConfigError: a file, a line or a subset that cannot be read, or a text without a Human turn.
    """
    pairs, read, seen = [], Counter(), set()
    odd: dict[str, Counter[str]] = {kind: Counter() for kind in (*DROPPED, *KEPT)}
    for raw in tqdm(read_raw(cfg.task), desc="reading pairs", unit="pair", leave=False, delay=2):
        read[raw.subset] += 1
        pair, kinds = parse_pair(raw)
        if pair is not None:
            # A pair in both parts of the source is not a duplicate: split_pairs removes it from train.
            name = (pair.part, pair.id.removeprefix(pair.subset))
            if name in seen:
                pair, kinds = None, ["duplicate"]
            seen.add(name)
        for kind in kinds:
            odd[kind][raw.subset] += 1
        if pair is not None:
            pairs.append(pair)
    return pairs, read, odd


def parse_pair(raw: RawPair) -> tuple[Pair | None, list[str]]:
    """The pair, None if it is dropped, and the kinds in which it is odd."""
    opening, chosen_turns = _parse_turns(raw.chosen, f'{raw.where}: "chosen"')
    other_opening, rejected_turns = _parse_turns(raw.rejected, f'{raw.where}: "rejected"')
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
    digest = blake2b("\0".join((prompt, chosen, rejected)).encode(), digest_size=8).hexdigest()
    pair = Pair(f"{raw.subset} {digest}", raw.subset, raw.part, history, prompt, chosen, rejected)
    return pair, [kind for kind, fit in zip(KEPT, fits, strict=True) if fit]


def split_pairs(pairs: list[Pair]) -> tuple[dict[str, list[Pair]], Counter[str]]:
    """Train, validation and test, with no prompt in two of them.

    Returns:
        the pairs of each split, in their order, and for each subset how many were removed from train and validation
        because their prompt is in test.
    """
    divided = {pair.subset for pair in pairs if pair.part == "train"} & {p.subset for p in pairs if p.part == "test"}
    splits: dict[str, list[Pair]] = {name: [] for name in SHARES}
    for pair in pairs:
        own = "test" if pair.part == "test" else "train"  # a third part of the source, too
        part = own if pair.subset in divided else None
        splits[split_within(pair.prompt, part)].append(pair)
    held, in_test = {pair.prompt for pair in splits["test"]}, Counter()
    for name in ("train", "validation"):
        in_test.update(pair.subset for pair in splits[name] if pair.prompt in held)
        splits[name] = [pair for pair in splits[name] if pair.prompt not in held]
    return splits, in_test


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

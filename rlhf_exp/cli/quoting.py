"""The command that was meant: words that a shell has split are joined, and what Hydra cannot read is in quotes.

write_command(["task=file", "task.prompt_template=What", "is", "{a}?"])
->  python -m rlhf_exp task=file 'task.prompt_template="What is {a}?"'
"""

import re
import shlex
from collections.abc import Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import OverrideParseException

from rlhf_exp.config.keys import takes_text
from rlhf_exp.config.overrides import name_key
from rlhf_exp.runs.environment import name_launcher, name_program

_BEGINS = re.compile(r"-|~|\+*[A-Za-z_][\w.@/]*=")
"""The beginning of a flag or of an override, not of a later word in a value."""


def write_command(words: Sequence[str]) -> str:
    """The command line of these arguments, as a shell takes it."""
    program = name_program()
    words = words[program[-1] != "rlhf_exp" and words[:1] == [program[-1].rpartition(".")[2]] :]
    return shlex.join([*name_launcher("python"), *program, *words])


def set_text(key: str, value: str) -> str:
    """The override that sets a key to this text, whatever characters it has."""
    return f"{key}={QuotedString(value, Quote.double).with_quotes()}"


def repair(words: Sequence[str]) -> list[str] | None:
    """The arguments as they were meant; None if one of them cannot be read even then."""
    sweeps = bool({"-m", "--multirun"} & set(words))
    joined: list[str] = []
    for word in words:
        if joined and _takes_more(joined[-1]) and not _BEGINS.match(word):
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    repaired = [_quote(word, sweeps) if _BEGINS.match(word) and "=" in word else word for word in joined]
    return None if None in repaired else repaired


def _takes_more(word: str) -> bool:
    """Whether the words after this one may belong to its value: a text, or a list or mapping that is not closed."""
    begun = word.partition("=")[2][:1] in ("[", "{") and word[-1] not in "]}"
    return _BEGINS.match(word) is not None and "=" in word and (begun or takes_text(name_key(word)))


def _quote(word: str, sweeps: bool) -> str | None:
    """The override, with its value in quotes if it must be; None if that does not help."""
    if word.startswith("-"):
        return word
    try:
        if not OverridesParser.create().parse_overrides([word])[0].is_sweep_override() or sweeps:
            return word
    except OverrideParseException:
        pass
    key, _, value = word.partition("=")
    return set_text(key, value) if takes_text(name_key(key)) else None

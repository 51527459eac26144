"""Exit statuses, errors that several layers raise or catch, lines on stderr, and texts that a terminal can show."""

import re
import sys
from collections.abc import Iterable

FAILED, REFUSED = 1, 2
SIGNALLED = 128
"""Plus the number of the signal that ended the process, by a shell's convention."""


UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What makes a terminal do something, or a line read in another order: control characters but tab and newline, marks of
the direction of writing; and halves of characters, which cannot be written."""


class ConfigError(Exception):
    """A user's mistakes. `problems` holds one line for each; the command line shows these, and no traceback."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple:
        """Another process gets the same problems."""
        return type(self), (self.problems,)


class NonFiniteLoss(RuntimeError):
    """Training produced NaN or infinity: further steps would only destroy the weights."""


class NoGradient(RuntimeError):
    """The loss cannot change any weight: training would hand back the start model."""


def say(line: str, command: str = "") -> None:
    """A line on stderr after the name of the command: `rlhf_exp: `, or `rlhf_exp describe: `."""
    print(f"rlhf_exp{' ' if command else ''}{command}: {printable(line)}", file=sys.stderr)


def printable(text: str) -> str:
    """A text of rows, of models or of someone else's run as a terminal or a page may show it: each of UNPRINTABLE as
    its escape, such as \\u001b, which JSON reads back."""
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def read_message(error: BaseException) -> str:
    """The error's message; its own `__str__` may fail."""
    try:
        return str(error)
    except Exception as problem:
        return f"(its message cannot be read: {type(problem).__name__})"


def name_error(error: BaseException) -> str:
    """RuntimeError: boom, the first line of its message alone."""
    return f"{type(error).__name__}: {(read_message(error).splitlines() or [''])[0]}"

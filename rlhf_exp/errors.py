"""Exit statuses, errors that several layers raise or catch, and lines on stderr."""

import sys
from collections.abc import Iterable

FAILED, REFUSED = 1, 2
SIGNALLED = 128
"""Plus the number of the signal that ended the process, by a shell's convention."""


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
    print(f"rlhf_exp{' ' if command else ''}{command}: {line}", file=sys.stderr)


def name_error(error: BaseException) -> str:
    """RuntimeError: boom, the first line of its message alone."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"

"""Errors that several layers raise or catch."""

from collections.abc import Iterable


class ConfigError(Exception):
    """A user's mistakes. `problems` holds one line for each; the command line shows these, and no traceback."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class NonFiniteLoss(RuntimeError):
    """Training produced NaN or infinity: further steps would only destroy the weights."""

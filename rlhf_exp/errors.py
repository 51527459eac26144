"""The error that stands for a user's mistake: the command line shows its lines and no traceback."""

from collections.abc import Iterable


class ConfigError(Exception):
    """A user's mistake. `problems` holds one line for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))

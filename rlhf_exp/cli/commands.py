"""The commands beside an experiment: `python -m rlhf_exp report ...`, the same as `python -m rlhf_exp.report ...`.

call_command(["report", "outputs/x"])     # the exit status; None if the first argument is no word
"""

import re
from collections.abc import Sequence
from importlib import import_module

from rlhf_exp.cli.subcommand import guard
from rlhf_exp.config import ROOT
from rlhf_exp.config.keys import known_keys
from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError

COMMANDS = {
    "chat": "rlhf_exp.chat.__main__",
    "describe": "rlhf_exp.describe.__main__",
    "merge": "rlhf_exp.merge",
    "report": "rlhf_exp.report.__main__",
    "runs": "rlhf_exp.runs.__main__",
    "sample": "rlhf_exp.sample.__main__",
}
"""Each with the module whose `main` takes its arguments."""

_WORD = re.compile(r"[A-Za-z][\w.-]*")


def call_command(arguments: Sequence[str]) -> int | None:
    """Call the command that the first argument names; returns its exit status, or None if the first argument is not a
    word but an override or a flag, which belong to an experiment."""
    if not arguments or not _WORD.fullmatch(arguments[0]):
        return None
    name, *rest = arguments
    if name in COMMANDS:
        return import_module(COMMANDS[name]).main(rest)
    return guard(lambda: _refuse(name))


def _refuse(name: str) -> None:
    known = known_keys()
    takes_value = (ROOT / "conf" / name).is_dir() or not any(key.startswith(f"{name}.") for key in known)
    if name in known and takes_value:
        raise ConfigError([f"{name}: has no value; write {name}=VALUE"])
    allowed = f"{', '.join(COMMANDS)}, or KEY=VALUE for an experiment{suggest(name, COMMANDS)}"
    raise ConfigError([f"{name}: no such command; must be one of {allowed}"])

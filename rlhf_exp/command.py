"""What the commands beside `python -m rlhf_exp` share: its overrides, and a line on stderr for a mistake.

cfg = compose_command("describe", ["algo=sft", f"output_dir={FOLDER}"], ["task=hh_rlhf"])
return refuse("describe", ["task=hh: no such option; ..."])      # 2, after rlhf_exp.describe: task=hh: ...
"""

import sys
from collections.abc import Iterable

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp.config import Config, ConfigError, compose_config
from rlhf_exp.refusals import explain

REFUSED, STOPPED = 2, 130


def compose_command(command: str, defaults: list[str], arguments: list[str]) -> Config:
    """The checked config of `python -m rlhf_exp.<command>`: the command's own defaults, then what was typed.

    Raises:
        ConfigError: a mistake in `arguments`; so are flags, and keys that only a run has.
    """
    for text in arguments:
        if text.startswith("-"):
            raise ConfigError([f"{text}: no such flag; see --help"])
        if text.split("=")[0].lstrip("+") in ("resume", "dry_run"):
            raise ConfigError([f"{text}: not with rlhf_exp.{command}, only with rlhf_exp"])
    try:
        return compose_config([*defaults, *arguments])
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError([explain(error, arguments)]) from None


def refuse(command: str, problems: Iterable[str]) -> int:
    """Say each problem in a line; returns the exit status."""
    for problem in problems:
        say(command, problem)
    return REFUSED


def say(command: str, line: str) -> None:
    """A line on stderr, after the command's name."""
    print(f"rlhf_exp.{command}: {line}", file=sys.stderr)

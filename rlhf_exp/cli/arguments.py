"""Prepares the command line before Hydra reads it: one-line errors for flags, and three conveniences.

`-cd sweeps` finds the shipped studies from any folder, `output_dir=` applies to a whole sweep, and `resume=`
brings the overrides of the run that it resumes.
"""

import sys
from argparse import Namespace
from pathlib import Path

from hydra._internal.utils import get_args_parser

from rlhf_exp.cli.subcommand import parse_flags
from rlhf_exp.config import ROOT
from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.lock import LATEST, OUTPUTS, follow_link
from rlhf_exp.runs.settings import recall


def prepare_arguments() -> Namespace:
    """Parse `sys.argv` with Hydra's own parser and complete it in place; returns what was typed.

    Raises:
        ConfigError: a flag that Hydra does not know, or `resume=latest` before the first run.
    """
    args = parse_flags(get_args_parser())
    flags, overrides = complete(args.overrides, args.config_name, args.config_dir)
    values = dict(text.split("=", 1) for text in args.overrides if "=" in text)
    if "output_dir" in values:  # Hydra makes a sweep's folder before it applies the overrides of a job
        overrides.append(f"hydra.sweep.dir={values['output_dir']}")
    if overrides:  # the parser needs them to be adjacent
        start = sys.argv.index(args.overrides[0])
        sys.argv[start : start + len(args.overrides)] = overrides
    sys.argv += flags  # the last occurrence of a flag counts
    return args


def find_config_dir(named: str | None) -> str | None:
    """The folder of configs that -cd names; the shipped studies are there under any folder.

    Raises:
        ConfigError: there is no such folder.
    """
    if named is None or Path(named).is_dir():
        return named
    if named == "sweeps":
        return str(ROOT / "sweeps")
    beside = [path.name for path in Path(named).parent.glob("*/")]
    raise ConfigError([f"-cd {named}: no such folder{suggest(Path(named).name, beside)}"])


def complete(overrides: list[str], config_name: str | None, config_dir: str | None) -> tuple[list[str], list[str]]:
    """The flags to add and the overrides to use instead: those of the run that is resumed, and the shipped studies.

    Raises:
        ConfigError: `resume=latest` before the first run, or a folder of configs that is not there.
    """
    found = find_config_dir(config_dir)
    flags = [f"--config-dir={found}"] if found != config_dir else []
    values = dict(text.split("=", 1) for text in overrides if "=" in text)
    if "resume" not in values:
        return flags, list(overrides)
    named = values["resume"].strip("'\"")
    if named == LATEST and not Path(LATEST).exists():
        values["resume"] = named = str(OUTPUTS / LATEST)
        if not Path(named).exists():
            why = f"{named} points to a folder that is gone" if Path(named).is_symlink() else f"{named} is missing"
            raise ConfigError([f"resume={LATEST}: {why}; name a run's folder"])
    folder = follow_link(named)
    text = values["resume"] if folder == named else folder
    if config_name is not None:
        return flags, [f"resume={text}" if typed.startswith("resume=") else typed for typed in overrides]
    flags, kept = recall(folder, typed=set(values))
    overrides = [f"resume={text}" if typed.startswith("resume=") else typed for typed in overrides]
    return flags, [*kept, *overrides, f"output_dir={text}"]

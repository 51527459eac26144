"""Completes typed arguments before Hydra reads them, and composes the config of the commands that take overrides too.

`-cd sweeps` finds the shipped studies from any folder, and `resume=` brings the overrides of the run that it resumes.

    flags, overrides = complete(["resume=latest"], None, None)
    cfg, is_new = compose_command("describe", ["algo=none", f"output_dir={FOLDER}"], ["task=hh_rlhf"])
"""

from argparse import ArgumentParser
from pathlib import Path

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.overrides import name_key
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.explain import explaining, set_text
from rlhf_exp.launch.subcommand import parse_flags
from rlhf_exp.runs.lock import LATEST, OUTPUTS, follow_link
from rlhf_exp.runs.plan import check_run_folder
from rlhf_exp.runs.settings import recall

PARSER = ArgumentParser(add_help=False, allow_abbrev=False)
PARSER.add_argument("overrides", nargs="*")
PARSER.add_argument("-cd", "--config-dir")
PARSER.add_argument("--out")


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
    overrides = [f"resume={text}" if typed.startswith("resume=") else typed for typed in overrides]
    if config_name is not None:
        return flags, overrides
    flags, kept = recall(folder, typed=set(values))
    return flags, [*kept, *overrides, f"output_dir={text}"]


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


def compose_command(command: str, defaults: list[str], arguments: list[str]) -> tuple[Config, bool]:
    """The checked config of `python -m rlhf_exp COMMAND`, of the command's own defaults, then what was typed; and
    whether its output folder was not typed, so that it may get a number (`claim`).

    Raises:
        ConfigError: a mistake in `arguments`, such as a flag or a key that only a run has.
    """
    args = parse_flags(PARSER, arguments, PARSER.parse_intermixed_args)
    for text in args.overrides:
        if name_key(text) in ("resume", "dry_run"):
            raise ConfigError([f"{text}: not with rlhf_exp {command}, only with rlhf_exp"])
    overrides = [*args.overrides, *([set_text("output_dir", args.out)] if args.out else [])]
    with explaining(overrides):
        cfg = compose_config([*defaults, *overrides], [check_run_folder], find_config_dir(args.config_dir))
    return cfg, not any(text.startswith("output_dir=") for text in overrides)

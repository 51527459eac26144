"""Reads command lines: starts what `python -m rlhf_exp ...` asks for, and composes configs for other commands.

    start(["algo=dpo"])      # one run, a sweep, or what --cfg prints; the exit status
    cfg, is_new = compose_command("describe", ["algo=none", f"output_dir={FOLDER}"], ["task=hh_rlhf"])

`-cd sweeps` finds the shipped studies from any folder, and `resume=` brings the overrides of the run that it resumes.
"""

from argparse import ArgumentParser
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict

from rlhf_exp import processes
from rlhf_exp.commands import parse_flags
from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.keys import name_key
from rlhf_exp.config.reading import read_text, set_text
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError, tell
from rlhf_exp.launch.explain import explaining
from rlhf_exp.launch.job import check_job, run_checked
from rlhf_exp.launch.jobs import Typed, read_sweep
from rlhf_exp.launch.sweep import run_sweep
from rlhf_exp.runs.environment import note_command
from rlhf_exp.runs.lock import find_latest, follow_link
from rlhf_exp.runs.plan import check_run_folder
from rlhf_exp.runs.settings import recall


def build_parser() -> ArgumentParser:
    """A parser of overrides and of the flag -cd."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("-cd", "--config-dir")
    return parser


PARSER = build_parser()  # assets/usage.txt says what each flag does
PARSER.add_argument("-cn", "--config-name")
PARSER.add_argument("-m", "--multirun", action="store_true")
PARSER.add_argument("--cfg", choices=("job", "hydra", "all"))
PARSER.add_argument("--resolve", action="store_true")
COMMAND = build_parser()
COMMAND.add_argument("--out")


def start(arguments: list[str]) -> int:
    """Start what the command line asks for; returns the exit status.

    Raises:
        ConfigError: a mistake in it.
    """
    if problems := processes.check():
        raise ConfigError(problems)
    args = parse_flags(PARSER, arguments)
    if args.resolve and not args.cfg:
        raise ConfigError(["--resolve: only with --cfg"])
    typed = complete(Typed(args.overrides, args.config_name, args.config_dir))
    if args.cfg:
        _show_config(typed, args.cfg, args.resolve)
        return 0
    arguments = [*["-m"] * args.multirun, *typed.list_arguments()]
    note_command(arguments)
    if args.multirun or typed.config_name or any(name_key(text).startswith("hydra") for text in typed.overrides):
        sweep, settings = read_sweep(typed, arguments)
        if args.multirun or settings.mode == RunMode.MULTIRUN:
            return run_sweep(sweep, settings)
    cfg, settings = typed.compose()
    return run_checked(check_job(cfg, settings), cfg, settings)[0]


def complete(typed: Typed) -> Typed:
    """What is to be composed, with the place of the shipped studies for `-cd sweeps`, and with the settings of the run
    that is resumed.

    Raises:
        ConfigError: a folder of configs that is not there, or a run that cannot be read.
    """
    typed = typed._replace(config_dir=find_config_dir(typed.config_dir))
    values = dict(text.split("=", 1) for text in typed.overrides if "=" in text)
    named = read_text(values["resume"]) if "resume" in values else None
    if named is None:  # Hydra says why it cannot be read; null resumes none
        return typed
    folder = follow_link(str(find_latest(Path(named))))
    own = [set_text("resume", folder) if text.startswith("resume=") else text for text in typed.overrides]
    if typed.config_name is not None:
        return typed._replace(overrides=own)
    flags, kept = recall(folder, typed=set(values))
    overrides = [*kept, *own, set_text("output_dir", folder)]
    return Typed(overrides, flags.get("config_name"), flags.get("config_dir", typed.config_dir))


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
    args = parse_flags(COMMAND, arguments)
    for text in args.overrides:
        if name_key(text) in ("resume", "dry_run", "verbose"):
            raise ConfigError([f"{text}: not with rlhf_exp {command}, only with rlhf_exp"])
    overrides = [*args.overrides, *([set_text("output_dir", args.out)] if args.out else [])]
    with explaining(overrides):
        cfg = compose_config([*defaults, *overrides], [check_run_folder], find_config_dir(args.config_dir))
    return cfg, not any(text.startswith("output_dir=") for text in overrides)


def _show_config(typed: Typed, part: str, resolve: bool) -> None:
    """Print the config of an experiment, Hydra's own part, or both, as Hydra itself prints them."""
    shown, settings = typed.compose()
    if part != "job":
        with open_dict(shown):
            shown.hydra = settings
        HydraConfig.instance().set_config(shown)  # for references such as ${hydra:runtime.cwd}
        OmegaConf.set_readonly(shown.hydra, None)
    if part == "hydra":
        shown = OmegaConf.masked_copy(shown, "hydra")
    tell(OmegaConf.to_yaml(shown, resolve=resolve), end="")

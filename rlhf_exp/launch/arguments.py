"""Reads command lines: starts what `python -m rlhf_exp ...` asks for, and composes configs for other commands.

    start()         # one run, a sweep, or what Hydra's flags print, by sys.argv; the exit status
    cfg, is_new = compose_command("describe", ["algo=none", f"output_dir={FOLDER}"], ["task=hh_rlhf"])

`-cd sweeps` finds the shipped studies from any folder, and `resume=` brings the overrides of the run that it resumes.
"""

import sys
from argparse import ArgumentParser, Namespace
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

from hydra._internal.hydra import Hydra
from hydra._internal.utils import get_args_parser
from hydra.types import RunMode
from omegaconf import open_dict

from rlhf_exp import processes
from rlhf_exp.commands import parse_flags
from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config, compose_files, register_resolvers
from rlhf_exp.config.keys import explain_key, name_key
from rlhf_exp.config.reading import check_overrides, open_hydra, read_text, set_text
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.explain import explaining
from rlhf_exp.launch.job import run_job

PARSER = ArgumentParser(add_help=False, allow_abbrev=False)
PARSER.add_argument("overrides", nargs="*")
PARSER.add_argument("-cd", "--config-dir")
PARSER.add_argument("--out")


def start() -> int | None:
    """Start what the command line asks for; returns the exit status.

    Raises:
        ConfigError: a mistake in it.
    """
    if problems := processes.check():
        raise ConfigError(problems)
    args = _prepare_arguments()
    if problems := check_overrides(args.overrides):
        raise ConfigError(problems)
    for flag in [flag for flag in ("package", "resolve") if getattr(args, flag) and not args.cfg]:
        raise ConfigError([f"--{flag}: only with --cfg"])
    if args.experimental_rerun:
        raise ConfigError(["--experimental-rerun: repeats no run here; use resume=RUN_DIR"])
    asked = {name for name, value in vars(args).items() if value} - {"overrides", "config_dir"}
    if not asked and not any(text.startswith("hydra") for text in args.overrides):
        with explaining(args.overrides):  # as `rlhf_exp.compose`: Hydra itself would compose twice
            cfg, settings = compose_files([*args.overrides, "hydra.mode=RUN"], None, args.config_dir)
        return run_job(cfg, settings)
    register_resolvers()
    with explaining(args.overrides), open_hydra(args.config_dir, args.config_path) as hydra:
        return _call_hydra(hydra, args)


def complete(overrides: list[str], config_name: str | None, config_dir: str | None) -> tuple[dict[str, str], list[str]]:
    """The values of flags and the overrides to use instead: those of the run that is resumed, and the shipped studies.

    Raises:
        ConfigError: a folder of configs that is not there.
    """
    found = find_config_dir(config_dir)
    flags = {"config_dir": found} if found and found != config_dir else {}
    values = dict(text.split("=", 1) for text in overrides if "=" in text)
    if "resume" not in values:
        return flags, list(overrides)
    if (named := read_text(values["resume"])) is None:  # Hydra says why, or null resumes none
        return flags, list(overrides)
    from rlhf_exp.runs.lock import find_latest, follow_link  # here and below: pydantic takes 0.15 s
    from rlhf_exp.runs.settings import recall

    folder = follow_link(str(find_latest(Path(named))))
    overrides = [set_text("resume", folder) if typed.startswith("resume=") else typed for typed in overrides]
    if config_name is not None:
        return flags, overrides
    flags, kept = recall(folder, typed=set(values))
    return flags, [*kept, *overrides, set_text("output_dir", folder)]


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
    from rlhf_exp.runs.plan import check_run_folder

    args = parse_flags(PARSER, arguments, PARSER.parse_intermixed_args)
    for text in args.overrides:
        if name_key(text) in ("resume", "dry_run", "verbose"):
            raise ConfigError([f"{text}: not with rlhf_exp {command}, only with rlhf_exp"])
    overrides = [*args.overrides, *([set_text("output_dir", args.out)] if args.out else [])]
    with explaining(overrides):
        cfg = compose_config([*defaults, *overrides], [check_run_folder], find_config_dir(args.config_dir))
    return cfg, not any(text.startswith("output_dir=") for text in overrides)


def _prepare_arguments() -> Namespace:
    """Complete `sys.argv` in place, since a run records its command, and parse it with Hydra's own parser."""
    args = parse_flags(get_args_parser())
    flags, overrides = complete(args.overrides, args.config_name, args.config_dir)
    if overrides:  # the parser needs them to be adjacent
        first = sys.argv.index(args.overrides[0])
        sys.argv[first : first + len(args.overrides)] = overrides
    # The last occurrence of a flag counts.
    sys.argv += [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    return get_args_parser().parse_args()


def _call_hydra(hydra: Hydra, args: Namespace) -> int:
    """What needs Hydra itself: a sweep, a study, its own keys, and what its flags print; returns the exit status."""
    from rlhf_exp.launch.sweep import register_plugins, run_sweep

    register_plugins()
    name, overrides = args.config_name or "config", args.overrides
    if args.hydra_help:
        args.overrides = [text for text in overrides if name_key(text).startswith("hydra")]  # it knows no other keys
        hydra.hydra_help(name, get_args_parser(), args)
    elif args.cfg:
        with redirect_stderr(StringIO()):
            try:
                hydra.show_cfg(name, overrides, args.cfg, args.package, args.resolve)
            except SystemExit:
                raise ConfigError([f"--package {args.package}: {explain_key(args.package)}"]) from None
    elif args.info:
        hydra.show_info(args.info, name, overrides)
    elif args.shell_completion:
        hydra.shell_completion(name, overrides)
    elif args.multirun or hydra.get_mode(name, overrides) == RunMode.MULTIRUN:
        named = [text.split("=", 1)[1] for text in overrides if text.startswith("output_dir=")]
        own = ["hydra.mode=MULTIRUN", *(f"hydra.sweep.dir={folder}" for folder in named)]
        config = hydra.compose_config(name, [*overrides, *own], RunMode.MULTIRUN, with_log_configuration=True)
        return run_sweep(config, hydra.config_loader)
    else:
        cfg = hydra.compose_config(name, [*overrides, "hydra.mode=RUN"], RunMode.RUN)
        with open_dict(cfg):
            return run_job(cfg, cfg.pop("hydra"))
    return 0

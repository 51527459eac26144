"""Starts what `python -m rlhf_exp ...` asks for: one run, a sweep, or what Hydra's own flags print.

start()         # reads sys.argv; the exit status
"""

import sys
from argparse import Namespace

from hydra._internal.hydra import Hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from rlhf_exp import processes
from rlhf_exp.config.compose import compose_files, register_resolvers
from rlhf_exp.config.overrides import check_overrides
from rlhf_exp.config.reading import open_hydra
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.arguments import complete
from rlhf_exp.launch.explain import explaining
from rlhf_exp.launch.job import run_job
from rlhf_exp.launch.subcommand import parse_flags


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
    asked = {name for name, value in vars(args).items() if value} - {"overrides", "config_dir"}
    if not asked and not any(text.startswith("hydra") for text in args.overrides):
        with explaining(args.overrides):  # as `rlhf_exp.compose`: Hydra itself would compose twice
            cfg, settings = compose_files([*args.overrides, "hydra.mode=RUN"], None, args.config_dir)
        return run_job(cfg, settings)
    from rlhf_exp.launch.sweep import register_plugins

    register_resolvers()
    with explaining(args.overrides), open_hydra(args.config_dir, args.config_path) as hydra:
        register_plugins()
        return _call_hydra(hydra, args)


def _prepare_arguments() -> Namespace:
    """Complete `sys.argv` in place, since a run records its command, and parse it with Hydra's own parser."""
    args = parse_flags(get_args_parser())
    flags, overrides = complete(args.overrides, args.config_name, args.config_dir)
    if overrides:  # the parser needs them to be adjacent
        first = sys.argv.index(args.overrides[0])
        sys.argv[first : first + len(args.overrides)] = overrides
    sys.argv += flags  # the last occurrence of a flag counts
    return get_args_parser().parse_args()


def _call_hydra(hydra: Hydra, args: Namespace) -> int:
    """What needs Hydra itself: a sweep, a study, its own keys, and what its flags print; returns the exit status."""
    name, overrides = args.config_name or "config", args.overrides
    if args.hydra_help:
        hydra.hydra_help(name, get_args_parser(), args)
    elif args.cfg:
        hydra.show_cfg(name, overrides, args.cfg, args.package, args.resolve)
    elif args.info:
        hydra.show_info(args.info, name, overrides)
    elif args.shell_completion:
        hydra.shell_completion(name, overrides)
    elif args.multirun or hydra.get_mode(name, overrides) == RunMode.MULTIRUN:
        named = [text.split("=", 1)[1] for text in overrides if text.startswith("output_dir=")]
        own = ["hydra.mode=MULTIRUN", *(f"hydra.sweep.dir={folder}" for folder in named)]
        return hydra.multirun(name, _run, [*overrides, *own])
    else:
        return hydra.run(name, _run, [*overrides, "hydra.mode=RUN"]).return_value
    return 0


def _run(cfg: DictConfig) -> int:
    return run_job(cfg, HydraConfig.get())  # type: ignore[arg-type]  # at run time a DictConfig

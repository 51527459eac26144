"""The command line: `python -m rlhf_exp algo=grpo task=countdown`.

A user's mistake is one line on stderr and exit status 2; a failed run is status 1, with its traceback in the run's
folder. Nothing here, in launch/ or in config/ imports an ML library before all checks of this package have passed.
"""

import os
import sys
from argparse import Namespace
from contextlib import nullcontext, redirect_stdout

from hydra._internal.hydra import Hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from rlhf_exp import processes
from rlhf_exp.config.compose import compose_files, register_resolvers
from rlhf_exp.config.reading import check_overrides, open_hydra
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.arguments import format_help, prepare_arguments
from rlhf_exp.launch.explain import explaining
from rlhf_exp.launch.job import run_job
from rlhf_exp.launch.subcommand import call_command, run_command


def main() -> int:
    """Run what the command line asks for, an experiment or another command; returns the exit status. Of several
    processes each does so, and rank 0 alone prints."""
    status = call_command(sys.argv[1:])
    if status is not None:
        return status
    with nullcontext() if processes.is_main() else redirect_stdout(open(os.devnull, "w")):
        status = run_command(_work, None, format_help)
        return status if processes.check() else processes.leave(status)


def _work(arguments: list[str]) -> int | None:
    if problems := processes.check():
        raise ConfigError(problems)
    args = prepare_arguments()
    if problems := check_overrides(args.overrides):
        raise ConfigError(problems)
    asks = (args.multirun, args.config_name, args.config_path, args.cfg, args.info, args.hydra_help)
    if not any(asks) and not args.shell_completion and not any(text.startswith("hydra") for text in args.overrides):
        with explaining(args.overrides):  # as `rlhf_exp.compose`: Hydra itself would compose twice
            cfg, settings = compose_files([*args.overrides, "hydra.mode=RUN"], None, args.config_dir)
        return run_job(cfg, settings)
    from rlhf_exp.launch.sweep import register_plugins

    register_resolvers()
    with explaining(args.overrides), open_hydra(args.config_dir, args.config_path) as hydra:
        register_plugins()
        return _call_hydra(hydra, args)


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


if __name__ == "__main__":
    sys.exit(main())

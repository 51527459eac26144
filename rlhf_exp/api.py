"""What a Python program calls: an experiment is composed, checked and run as the command line does it.

    from rlhf_exp import compose, run

    done = run(compose(["algo=grpo", "task=countdown", "algo.args.max_steps=20"]))
    done.status, done.path, done.evaluation.trained.accuracy["value"]

docs/python.md shows more.
"""

import copy
from collections.abc import Iterable
from pathlib import Path

from rlhf_exp import processes
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import SIGNALLED, ConfigError, Stop
from rlhf_exp.launch.arguments import complete
from rlhf_exp.launch.job import check_job, is_named_by_time, run_checked
from rlhf_exp.launch.jobs import Typed
from rlhf_exp.runs.environment import note_command
from rlhf_exp.runs.load import Run, load_run
from rlhf_exp.runs.plan import check_run_folder

ORIGIN = "_composed"
"""The attribute of a config with what it was composed from: the configs of the experiment and of Hydra, and the command
line that composes the same."""


def compose(
    overrides: Iterable[str] = (), *, config_name: str | None = None, config_dir: str | Path | None = None
) -> Config:
    """Compose and check one experiment. No ML library is imported.

    Args:
        overrides: as on the command line: `task=gsm8k`, `+algo.args.top_k=7`, `resume=RUN_DIR`.
        config_name: the config to begin with, as -cn names it: of a study the settings that its runs share.
        config_dir: a folder with configs of your own, as -cd names it.

    Raises:
        ConfigError: `problems` holds the lines that the command line prints.
    """
    overrides = [overrides] if isinstance(overrides, str) else list(overrides)
    typed = complete(Typed(overrides, config_name, None if config_dir is None else str(config_dir)))
    if typed.config_name is not None and "hydra.mode=RUN" not in typed.overrides:
        typed = typed._replace(overrides=["hydra.mode=RUN", *typed.overrides])
    cfg, settings = typed.compose()
    config = check_job(cfg, settings)
    if problems := [] if is_named_by_time(cfg) else check_run_folder(config):
        raise ConfigError(problems)
    object.__setattr__(config, ORIGIN, (cfg, settings, typed.list_arguments()))
    return config


def run(cfg: Config) -> Run | None:
    """Run what `compose` has returned, in this process; returns the run as its folder holds it, or None after a dry
    run. With `skip_finished=true` a run that has finished before is returned as it is.

    Raises:
        ConfigError: `cfg` was made in another way, or the run is refused: since it was composed another run has taken
            its folder, or it does not fit its model or its data.
        KeyboardInterrupt: Ctrl-C or another signal has stopped the run; its checkpoint is written.
        Exception: whatever failed in the run; a note says where its traceback was also written.
    """
    if processes.count() > 1:
        raise ConfigError(["run(): takes one process; of several the command line makes a run, torchrun -m rlhf_exp"])
    if not hasattr(cfg, ORIGIN):
        raise ConfigError(["cfg: was not returned by compose(); a change is an override: compose([..., 'KEY=VALUE'])"])
    composed, settings, arguments = copy.deepcopy(getattr(cfg, ORIGIN))  # a run writes its folder into them
    note_command(arguments)
    status, folder = run_checked(cfg, composed, settings)
    if status > SIGNALLED:
        raise Stop(status - SIGNALLED)
    return None if folder is None else load_run(folder)

"""What a command line asks to compose: one experiment, or the jobs of a sweep.

cfg, settings = Typed(["algo=dpo", "seed=1"]).compose()
sweep, settings = read_sweep(Typed(["seed=0,1", "algo=grpo"]), ["-m", "seed=0,1", "algo=grpo"])
sweep.jobs                        # [["seed=0", "algo=grpo"], ["seed=1", "algo=grpo"]]
sweep.compose(1)                  # the config of the second, with its folder, and Hydra's own part
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from rlhf_exp.config.compose import compose_files
from rlhf_exp.config.keys import name_key
from rlhf_exp.config.reading import open_hydra
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.explain import explaining

MOST_LETTERS = 100  # in the name of a job's folder; a longer one is shortened and ends with a hash


class Typed(NamedTuple):
    """What is to be composed: overrides, and the name of a config and a folder of configs as -cn and -cd give them."""

    overrides: list[str]
    config_name: str | None = None
    config_dir: str | None = None

    def compose(self) -> tuple[DictConfig, DictConfig]:
        """The config, not checked yet, and Hydra's own part of it.

        Raises:
            ConfigError: Hydra refuses it, in one line.
        """
        with explaining(self.overrides):
            return compose_files(*self)

    def list_arguments(self) -> list[str]:
        """The command line that composes the same."""
        arguments = list(self.overrides)
        if self.config_name is not None:
            arguments = ["-cn", self.config_name, *arguments]
        if self.config_dir is not None:
            arguments = ["-cd", self.config_dir, *arguments]
        return arguments


@dataclass(frozen=True)
class Sweep:
    """A sweep, also for processes that lack the command line.

    Attributes:
        common: what every job is composed of: Hydra's own overrides, the config of -cn and the folder of -cd.
        jobs: the overrides of each job.
        swept: the keys that the jobs differ in.
        folder: of the whole sweep.
        arguments: the command line.
    """

    common: Typed
    jobs: list[list[str]]
    swept: frozenset[str]
    folder: Path
    arguments: list[str]

    def name(self, number: int) -> str:
        """job 3 of 18 (seed=0 max_tokens=64); `number` counts from 0."""
        return f"job {number + 1} of {len(self.jobs)} ({' '.join(self.jobs[number])})"

    def compose(self, number: int) -> tuple[DictConfig, DictConfig]:
        """The config of a job, with its folder, and Hydra's own part. With skip_finished the folder's name has no
        number, since numbers change when the study grows, and finished jobs must be found again."""
        overrides = [*self.common.overrides, *self.jobs[number]]
        cfg, settings = self.common._replace(overrides=overrides).compose()
        name = name_folder(self.jobs[number], self.swept)
        if not cfg.skip_finished or not name:
            name = f"{number:02d}_{name}"
        cfg.output_dir = str(self.folder / name)
        return cfg, settings


def name_folder(overrides: Iterable[str], swept: Collection[str]) -> str:
    """The folder of a job by what its sweep varies, in letters that `resume=` takes without quotes."""
    own = [text.replace("=", "-", 1) for text in overrides if text.split("=")[0] in swept]
    name = re.sub(r"[^\w.+-]+", "_", "_".join(own).replace("experiment-", ""))
    if len(name) > MOST_LETTERS:
        name = f"{name[: MOST_LETTERS - 9]}-{sha256(' '.join(own).encode()).hexdigest()[:8]}"
    return name


def list_jobs(overrides: list[str], config_dir: str | None = None) -> tuple[list[list[str]], frozenset[str]]:
    """The overrides of each job, every combination of the values that are typed, and the keys that they differ in. Of
    several overrides of one key the last counts.

    Raises:
        HydraException: an override that Hydra cannot read.
    """
    values: dict[str, list[str]] = {}
    swept = set()
    with open_hydra(config_dir) as loader:  # which knows the options that glob(*) names
        for override in OverridesParser.create(config_loader=loader).parse_overrides(overrides):
            key = override.get_key_element()
            if override.is_discrete_sweep():
                swept.add(key)
                values[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
            elif override.is_sweep_override():
                raise ConfigError([f"{override.input_line}: has no list of values; use {key}=A,B or range(A,B)"])
            else:
                values[key] = [f"{key}={override.get_value_element_as_str()}"]
    return [list(job) for job in product(*values.values())], frozenset(swept)


def read_sweep(typed: Typed, arguments: list[str]) -> tuple[Sweep, DictConfig]:
    """The sweep that is typed, by the command line `arguments`; and Hydra's own config, which says how its jobs start.

    Raises:
        ConfigError: Hydra refuses an override or a config.
    """
    own = [text for text in typed.overrides if name_key(text).startswith("hydra")]
    texts = [text for text in typed.overrides if text not in own]
    own += [f"hydra.sweep.dir={text.split('=', 1)[1]}" for text in texts if text.startswith("output_dir=")]
    common = typed._replace(overrides=own)
    _, settings = common.compose()
    params = settings.sweeper.params or {}
    with explaining(texts):
        jobs, swept = list_jobs([*(f"{key}={value}" for key, value in params.items()), *texts], typed.config_dir)
    return Sweep(common, jobs, swept | set(params), Path(settings.sweep.dir), arguments), settings

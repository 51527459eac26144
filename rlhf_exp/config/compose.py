"""From YAML to a checked `Config`.

    cfg = compose_config(["algo=grpo", "task=countdown", "max_tokens=64"])
    cfg.eval.rows, cfg.algo.args["beta"]

schema.py declares the keys; trl_arguments.py knows TRL's arguments, under `algo.args`, without importing TRL.
"""

import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import GrammarParseError, OmegaConfBaseException

from rlhf_exp import processes
from rlhf_exp.algorithms import ALGORITHMS, CRITIC_RATES
from rlhf_exp.config import ROOT, device
from rlhf_exp.config.checks import check_types
from rlhf_exp.config.defaults import DEFAULTS, choose_rate, read_settings
from rlhf_exp.config.device import count_passes, count_rows
from rlhf_exp.config.hub import find_made
from rlhf_exp.config.reading import UNREADABLE, check_overrides, explain_unreadable, open_hydra
from rlhf_exp.config.rules import find_conflicts
from rlhf_exp.config.rules.algorithm import find_other_losses
from rlhf_exp.config.rules.experiment import find_idle_rewards, is_folder_name
from rlhf_exp.config.rules.files import find_missing_files
from rlhf_exp.config.schema import TASKS, Config
from rlhf_exp.config.values import build
from rlhf_exp.errors import ConfigError, Problem, show
from rlhf_exp.tasks.mixture import COMMON, PARTS
from rlhf_exp.tasks.task import PARTED

Check = Callable[[Config], Iterable[str]]


def compose_config(
    overrides: Iterable[str] = (), further: Sequence[Check] = (), config_dir: str | None = None
) -> Config:
    """Compose the shipped configs with `overrides` and check them, as the command line does; `further`: see `parse`,
    `config_dir`: see `compose_files`."""
    overrides = list(overrides)
    return parse(*compose_files(overrides, config_dir=config_dir), further)


def compose_files(
    overrides: list[str], config_name: str | None = None, config_dir: str | None = None
) -> tuple[DictConfig, DictConfig]:
    """Compose one experiment, unchecked, with every interpolation in it: its config, and Hydra's own part.

    Args:
        config_name: of the config to begin with, instead of conf/config.yaml.
        config_dir: a folder of further configs, as the flag -cd names.

    Raises:
        ConfigError: overrides that are refused before Hydra reads them, or a file in `config_dir` that cannot be read.
        HydraException, OmegaConfBaseException: Hydra refuses one.
    """
    if problems := check_overrides(overrides):
        raise ConfigError(problems)
    register_resolvers()
    try:
        with open_hydra(config_dir):
            cfg = hydra.compose(config_name or "config", overrides, return_hydra_config=True)
    except (HydraException, *UNREADABLE) as error:
        refuses_override = isinstance(error, HydraException) and not isinstance(error.__cause__, GrammarParseError)
        if config_dir is None or refuses_override:
            raise
        if line := explain_unreadable(error, Path(config_dir)):
            raise ConfigError([line]) from None
        if type(error) is ValueError:  # a first line such as `# @package a b`
            raise ConfigError([f"{config_dir}: {error}"]) from None
        raise
    with open_dict(cfg):
        settings = cfg.pop("hydra")
    if "stages" in cfg:
        raise ConfigError([f"-cn {config_name}: is a study; start it with python -m rlhf_exp study {config_name}"])
    if "experiment" in cfg:
        file = Path(config_dir or ROOT / "conf", "experiment", f"{settings.runtime.choices.experiment}.yaml")
        raise ConfigError([f"{file}: an experiment; its first line must be # @package _global_ (nothing before it)"])
    return cfg, settings


def register_resolvers() -> None:
    """Register what conf/ uses: the resolvers `${rlhf_exp.NAME:...}`, the configs that come from the table of
    algorithms, and scale=auto. A second call changes nothing."""
    resolvers: dict[str, Callable[..., Any]] = {
        "default": lambda key, *, _root_: DEFAULTS[key](read_settings(_root_)).value,
        "rate": lambda name, own=None, *, _root_: choose_rate(read_settings(_root_), name, own).value,
        "rows": lambda at_once, step, *, _root_: count_rows(at_once, step, _root_),
        "passes": lambda step, *, _root_: count_passes(step, _root_),
        "source": lambda path, hub_id: "hub" if path is None and hub_id is not None else "file",
        "begin": lambda name: f"{name}_" if is_folder_name(name) else "",
        "use_cpu": lambda: device.cuda_major() == 0,
        "not": operator.not_,
        "shipped": lambda file: file if Path(file).is_file() else str(ROOT / file),
        "made": find_made,
        "attention": device.choose_attention,
    }
    for name, resolve in resolvers.items():
        OmegaConf.register_new_resolver(f"rlhf_exp.{name}", resolve, replace=True)
    # The config `learning_rates`, and a loss_type for each algorithm that has no files in conf/loss_type.
    rates = {name: f"${{rlhf_exp.rate:{name}}}" for name in (*ALGORITHMS, *CRITIC_RATES)}
    store = ConfigStore.instance().store
    store("learning_rates", rates, package="model.learning_rate")
    engine = "ddp" if processes.count() > 1 else "none"
    store("auto", {"defaults": [engine]}, group="scale")
    for name, row in ALGORITHMS.items():
        if row.loss is not None or not row.losses:
            loss = {"loss_type": row.loss} if row.loss else {}
            store(name, loss, group="loss_type", package="algo.args")


def parse(cfg: DictConfig, settings: DictConfig, further: Sequence[Check] = (), absent: Collection[str] = ()) -> Config:
    """Check everything that needs no ML library.

    Args:
        settings: Hydra's own part of the config.
        further: the caller's own checks, such as whether a run may start in the output folder.
        absent: keys that name what another run will have written; that is not missed.

    Raises:
        ConfigError: unknown keys, then wrong types, then values out of range; if there are none, values that cannot be
            combined, then files that are missing or cannot be written, then what `further` finds.
    """
    fill_sets(cfg)
    fill_parts(cfg)
    # Typed values first: values derived from a wrong one would only repeat the problem, or fail to resolve.
    unresolved: Any = OmegaConf.to_container(cfg, resolve=False)
    if wrong := check_types(unresolved):
        raise ConfigError(wrong)
    try:
        values: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        line = str(error).splitlines()[0].removeprefix("ValueError raised while resolving interpolation: ")
        raise ConfigError([Problem(error.full_key or "config", "conflict", hint=line)]) from None
    # A default that is not known is null; find_conflicts then says why.
    args, unset = unresolved["algo"]["args"], [name for name, value in values["algo"]["args"].items() if value is None]
    if wrong := check_types(values, [name for name in unset if args[name] is not None]):
        raise ConfigError(wrong)
    config = build(Config, values)
    typed = settings.overrides.task
    found: list[str] = [*find_other_losses(config, typed, settings.runtime.choices.get("loss_type"))]
    found += find_idle_rewards(config, typed)
    try:
        found += find_conflicts(config)
        found += [problem for check in (find_missing_files, *further) for problem in check(config)]
    except OSError as error:
        found.append(Problem(show(error.filename, 40), "missing", hint=str(error.strerror)))
    expected = [x for x in found if isinstance(x, Problem) and x.kind == "missing" and x.key in absent]
    if found := [line for line in found if line not in expected]:
        raise ConfigError(dict.fromkeys(found))
    return config


def fill_sets(cfg: DictConfig) -> None:
    """Add to each of `eval.sets` the keys that it leaves out: of the task that it names those of conf/task, or if it
    names none the run's own."""
    name: Any
    sets = OmegaConf.select(cfg, "eval.sets")
    for name, given in sets.items() if isinstance(sets, DictConfig) else ():
        if isinstance(given, DictConfig) and (task := given.get("task", cfg.task.get("name"))) in TASKS:
            if "task" in given and task in PARTED:
                why = "has parts of its own, which a set cannot have; give each part a set"
                raise ConfigError([Problem(f"eval.sets.{name}.task", "conflict", task, why)])
            keys = _read_keys(task if "task" in given else cfg.task)
            with open_dict(sets):
                sets[name] = OmegaConf.merge({"task": task, "reward": None}, keys, given)


def fill_parts(cfg: DictConfig) -> None:
    """Add to each part of a mixture the keys that it leaves out, those of conf/task and of the mixture, and to parts
    without shares equal ones."""
    if OmegaConf.select(cfg, "task.name") not in PARTED:
        return
    with open_dict(cfg):
        if not isinstance(cfg.task.of, DictConfig | None):  # which is refused
            cfg.task.shares = cfg.task.shares or {}
            return
        parts = cfg.task.of = cfg.task.of or {}
        cfg.task.shares = cfg.task.shares or {name: 1 / len(parts) for name in parts}
        for name, given in cfg.task.of.items():
            if isinstance(given, DictConfig):
                task, common = given.get("name", name), {key: f"${{task.{key}}}" for key in COMMON}
                keys = _read_keys(task) if task in PARTS else {}
                cfg.task.of[name] = OmegaConf.merge({"name": task}, keys, common, given)


def _read_keys(task: str | DictConfig) -> dict[str, Any]:
    """The keys of a task but for its name, not resolved: of conf/task if it is one's name."""
    whole = OmegaConf.load(ROOT / "conf" / "task" / f"{task}.yaml") if isinstance(task, str) else task
    keys: Any = OmegaConf.to_container(whole, resolve=False)
    return {key: value for key, value in keys.items() if key not in ("name", "defaults")}

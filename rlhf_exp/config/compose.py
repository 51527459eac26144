"""From YAML to a checked `Config`.

    cfg = compose_config(["algo=grpo", "task=countdown", "max_tokens=64"])
    cfg.eval.rows, cfg.algo.args["beta"]

schema.py declares the keys; trl_arguments.py knows TRL's arguments, under `algo.args`, without importing TRL.
"""

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Literal, get_args, get_type_hints

from hydra.core.config_store import ConfigStore
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp import processes
from rlhf_exp.algorithms import ALGORITHMS, CRITIC_RATES
from rlhf_exp.config import device
from rlhf_exp.config.defaults import DEFAULTS, Settings, choose_rate, read_settings
from rlhf_exp.config.hardware import count_passes, count_rows
from rlhf_exp.config.keys import refuse_key, schemas
from rlhf_exp.config.overrides import check_overrides, find_unread_rates
from rlhf_exp.config.reading import open_hydra
from rlhf_exp.config.rules import find_conflicts
from rlhf_exp.config.rules.algo import find_idle_arguments, find_other_losses
from rlhf_exp.config.rules.labels import is_folder_name
from rlhf_exp.config.rules.paths import find_missing_files
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_checks import are_losses, find_argument_problems
from rlhf_exp.config.values import assign, find_problem, find_problems, list_names, show
from rlhf_exp.errors import ConfigError

Check = Callable[[Config], list[str]]
_hints = cache(get_type_hints)
_settings: ContextVar[list[Settings] | None] = ContextVar("settings", default=None)


def compose_config(
    overrides: Iterable[str] = (), further: Sequence[Check] = (), config_dir: str | None = None
) -> Config:
    """Compose the shipped configs with `overrides` and check them, as the command line does; `further`: see `parse`,
    `config_dir`: see `compose_files`."""
    overrides = list(overrides)
    return parse(compose_files(overrides, config_dir=config_dir)[0], overrides, further)


def compose_files(
    overrides: list[str], config_name: str | None = None, config_dir: str | None = None
) -> tuple[DictConfig, DictConfig]:
    """Compose one experiment, unchecked, with every interpolation in it: its config, and Hydra's own part.

    Args:
        config_name: of the config to begin with, instead of conf/config.yaml.
        config_dir: a folder of further configs, as the flag -cd names.

    Raises:
        ConfigError: overrides that are refused before Hydra reads them.
        HydraException, OmegaConfBaseException: Hydra refuses one.
    """
    if problems := check_overrides(overrides):
        raise ConfigError(problems)
    register_resolvers()
    with open_hydra(config_dir) as hydra:
        cfg = hydra.compose_config(config_name or "config", overrides, RunMode.RUN)
    with open_dict(cfg):
        return cfg, cfg.pop("hydra")


def register_resolvers() -> None:
    """Register what conf/ uses: the resolvers `${rlhf_exp.NAME:...}`, the configs that come from the table of
    algorithms, and scale=auto. A second call changes nothing."""
    resolvers = {
        "default": lambda key, *, _root_: DEFAULTS[key](_find_settings(_root_)).value,
        "rate": lambda name, own=None, *, _root_: choose_rate(_find_settings(_root_), name, own).value,
        "rows": lambda at_once, step, *, _root_: count_rows(at_once, step, _root_),
        "passes": lambda step, *, _root_: count_passes(step, _root_),
        "source": lambda path, hub_id: "hub" if path is None and hub_id is not None else "file",
        "weights": lambda *, _root_: [weight for weight in _root_.reward.weights.values() if weight is not None],
        "begin": lambda name: f"{name}_" if is_folder_name(name) else "",
        "use_cpu": lambda: device.cuda_major() == 0,
        "not": lambda value: not value,
        "attention": device.choose_attention,
    }
    for name, resolve in resolvers.items():
        OmegaConf.register_new_resolver(f"rlhf_exp.{name}", resolve, replace=True)
    # The config `learning_rates`, and a loss_type for each algorithm that has no files in conf/loss_type.
    rates = {name: f"${{rlhf_exp.rate:{name}}}" for name in (*ALGORITHMS, *CRITIC_RATES)}
    ConfigStore.instance().store("learning_rates", rates, package="model.learning_rate")
    engine = "ddp" if processes.count() > 1 else "none"
    ConfigStore.instance().store("auto", {"defaults": [engine]}, group="scale")
    for name, row in ALGORITHMS.items():
        if row.loss is not None or not row.losses:
            loss = {"loss_type": row.loss} if row.loss else {}
            ConfigStore.instance().store(name, loss, group="loss_type", package="algo.args")


def _find_settings(cfg: DictConfig) -> Settings:
    """What defaults depend on, read once while `parse` resolves all of a config."""
    known = _settings.get()
    if known is None:
        return read_settings(cfg)
    if not known:
        known.append(read_settings(cfg))
    return known[0]


def parse(cfg: DictConfig, typed: Sequence[str] = (), further: Sequence[Check] = ()) -> Config:
    """Check everything that needs no ML library.

    Args:
        typed: the overrides that the config was composed with.
        further: the caller's own checks, such as whether a run may start in the output folder.

    Raises:
        ConfigError: unknown keys, then wrong types, then values out of range; if there are none, values that cannot be
            combined, then files that are missing or cannot be written, then what `further` finds.
    """
    if found := find_idle_arguments(str(OmegaConf.select(cfg, "algo.name")), typed):
        raise ConfigError(found)  # before they are checked as those of another algorithm
    # Typed values first: values derived from a wrong one would only repeat the problem, or fail to resolve.
    derived = _list_derived(cfg)
    if found := _check(OmegaConf.to_container(cfg, resolve=False), derived)[1]:
        raise ConfigError(found)
    reading = _settings.set([])
    try:
        values = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        line = str(error).splitlines()[0].removeprefix("ValueError raised while resolving interpolation: ")
        raise ConfigError([f"{error.full_key or 'config'}: {line}"]) from None
    finally:
        _settings.reset(reading)
    # A default that is not known is null; find_conflicts then says why.
    config, found = _check(values, [name for name in derived if values["algo"]["args"][name] is None])
    if not found:
        found = find_unread_rates(cfg, typed) + find_other_losses(config, typed) + find_conflicts(config)
        found += [problem for check in (find_missing_files, *further) for problem in check(config)]
    if found:
        raise ConfigError(dict.fromkeys(found))
    return config


def check_values(values: dict[str, Any]) -> list[str]:
    """The problems of a resolved config as plain dicts, one line each, without looking at any file."""
    config, found = _check(values, [])
    return found or find_conflicts(config)


def _check(values: dict[str, Any], skipped: list[str]) -> tuple[Config | None, list[str]]:
    """The config if every key is known and every value fits, else None; and a line for each problem.

    Args:
        values: of the config. A value that is not resolved yet is not checked, and the config must not be used then.
        skipped: names in `algo.args` that are not checked.
    """
    problems: dict[str, list[str]] = {"unknown": [], "type": [], "range": []}
    algo = values.get("algo")
    config = _read(Config, values, "", problems, algo["name"] if isinstance(algo, dict) and "name" in algo else "grpo")
    for kind, lines in _check_args(algo, skipped).items():
        problems[kind] += lines
    return config, [line for lines in problems.values() for line in lines]


def _read(schema: type, values: Any, path: str, problems: dict[str, list[str]], algo: str) -> Any:
    """Fill the dataclass from `values`; a value that does not fit is noted in `problems` and left out as None."""
    if not isinstance(values, dict):
        problems["type"].append(f"{path.rstrip('.')}={show(values)}: must be a mapping")
        return None
    hints, read = _hints(schema), {}
    for name in [name for name in values if name not in hints]:
        problems["unknown"].append(f"{assign(path + name, values[name])}: {refuse_key(path + name, algo)}")
    for item in fields(schema):
        key, hint, value = path + item.name, hints[item.name], values.get(item.name)
        if item.name not in values:
            if item.default is MISSING:
                problems["unknown"].append(f"{key}: missing; it has no default")
        elif _is_reference(value) or value is None and type(None) in get_args(hint):
            read[item.name] = None
        elif options := schemas(hint):
            chosen = _choose(options, value, key)
            if isinstance(chosen, str):
                problems["type"].append(chosen)
            else:
                read[item.name] = _read(chosen, value, f"{key}.", problems, algo)
        else:
            read[item.name] = value
            value, names = _drop_references(value), list_names(hint)
            for name in [name for name in value if name not in names] if names and isinstance(value, dict) else ():
                problems["unknown"].append(f"{assign(f'{key}.{name}', value.pop(name))}: {refuse_key(f'{key}.{name}')}")
            for kind, line in find_problems(key, value, hint, item.metadata.get("range")):
                problems[kind].append(line)
    return None if any(problems.values()) else schema(**read)


def _is_reference(value: Any) -> bool:
    """Whether a value, or one in a list, is not resolved yet."""
    return any(isinstance(item, str) and "${" in item for item in (value if isinstance(value, list) else [value]))


def _drop_references(value: Any) -> Any:
    return {name: item for name, item in value.items() if not _is_reference(item)} if isinstance(value, dict) else value


def _list_derived(cfg: DictConfig) -> list[str]:
    """TRL's arguments whose values the config derives from other keys."""
    args = OmegaConf.select(cfg, "algo.args")
    return [name for name in args if OmegaConf.is_interpolation(args, name)] if isinstance(args, DictConfig) else []


def _check_args(algo: Any, skipped: list[str]) -> dict[str, list[str]]:
    """Problems of `algo.args` by kind: unknown names, wrong types, values out of range."""
    if not isinstance(algo, dict) or not isinstance(algo.get("args"), dict) or algo.get("name") not in ALGORITHMS:
        return {}
    args = {name: value for name, value in algo["args"].items() if name not in skipped}
    problems = find_argument_problems(algo["name"], args, algo)
    if not are_losses(algo["name"], args.get("loss_type")):  # its file may set arguments of another algorithm
        problems["unknown"] = []
    return problems


def _choose(options: list[type], value: Any, key: str) -> type | str:
    """The dataclass that `name` in the value of a group selects, or the line for a value that selects none."""
    named = {name: schema for schema in options for name in get_args(_hints(schema).get("name"))}
    if len(options) == 1 or not isinstance(value, dict) and value not in list(named):
        return options[0]
    if not isinstance(value, dict):  # within a group, an option is chosen as OPTION@PLACE
        return f"{key}={value}: must be a mapping; did you mean {key.partition('.')[0]}@{key}={value}?"
    problem = find_problem(f"{key}.name", value.get("name"), Literal[tuple(named)])
    return problem[1] if problem else named[value["name"]]

"""From YAML to a checked `Config`.

    cfg = compose_config(["algo=grpo", "task=countdown", "max_tokens=64"])
    cfg.eval.rows, cfg.algo.args["beta"]

schema.py declares the keys; trl_arguments.py knows TRL's arguments, under `algo.args`, without importing TRL.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from hydra import compose
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.config_store import ConfigStore
from hydra.initialize import get_gh_backup, restore_gh_from_backup
from hydra.version import setbase
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp import processes
from rlhf_exp.algorithms import ALGORITHMS, CRITIC_RATES
from rlhf_exp.config import ROOT, device
from rlhf_exp.config.defaults import DEFAULTS, choose_rate, read_settings
from rlhf_exp.config.device import count_passes, count_rows
from rlhf_exp.config.keys import explain_key, schemas
from rlhf_exp.config.overrides import check_overrides, explain_secret, find_unread_rates
from rlhf_exp.config.reading import check_files
from rlhf_exp.config.rules import find_conflicts
from rlhf_exp.config.rules.algorithm import find_idle_arguments, find_other_losses
from rlhf_exp.config.rules.experiment import is_folder_name
from rlhf_exp.config.rules.files import find_missing_files
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_arguments import RENAMED, are_losses, load_arguments
from rlhf_exp.config.values import find_problems, is_secret, list_names
from rlhf_exp.errors import ConfigError, Problem

Check = Callable[[Config], Iterable[str]]
_hints = cache(get_type_hints)


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
    before = get_gh_backup()
    setbase("1.3")
    search_path = create_config_search_path(str(ROOT / "conf"))
    if config_dir is not None:  # with the provider and at the place that Hydra's command line gives it
        anchor = SearchPathQuery(provider="schema")
        search_path.prepend("command-line", f"file://{Path(config_dir).absolute()}", anchor)
    try:
        Hydra.create_main_hydra2("rlhf_exp", search_path)
        cfg = compose(config_name or "config", overrides, return_hydra_config=True)
    finally:
        restore_gh_from_backup(before)
    with open_dict(cfg):
        return cfg, cfg.pop("hydra")


def register_resolvers() -> None:
    """Register what conf/ uses: the resolvers `${rlhf_exp.NAME:...}`, the configs that come from the table of
    algorithms, and scale=auto; and have files checked as they are read. A second call changes nothing."""
    check_files()
    resolvers = {
        "default": lambda key, *, _root_: DEFAULTS[key](read_settings(_root_)).value,
        "rate": lambda name, own=None, *, _root_: choose_rate(read_settings(_root_), name, own).value,
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
    if found := _check(OmegaConf.to_container(cfg, resolve=False), derived):
        raise ConfigError(found)
    try:
        values = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        line = str(error).splitlines()[0].removeprefix("ValueError raised while resolving interpolation: ")
        raise ConfigError([Problem(error.full_key or "config", "conflict", hint=line)]) from None
    # A default that is not known is null; find_conflicts then says why.
    if found := _check(values, [name for name in derived if values["algo"]["args"][name] is None]):
        raise ConfigError(found)
    config = _build(Config, values)
    found = find_unread_rates(cfg, typed) + find_other_losses(config, typed) + find_conflicts(config)
    found += [problem for check in (find_missing_files, *further) for problem in check(config)]
    if found:
        raise ConfigError(dict.fromkeys(found))
    return config


def check_values(values: dict[str, Any]) -> list[Problem]:
    """The problems of a resolved config as plain dicts, without looking at any file."""
    return _check(values) or find_conflicts(_build(Config, values))


def _check(values: dict[str, Any], skipped: Collection[str] = ()) -> list[Problem]:
    """A problem for each key that does not exist, then for each value of another type, then for each out of range.

    Args:
        values: of the config. A value that is not resolved yet is not checked.
        skipped: names in `algo.args` that are not checked.
    """
    algo = values.get("algo")
    name = algo.get("name", "grpo") if isinstance(algo, dict) else "grpo"
    found = list(_check_group(Config, values, "", name))
    if name in ALGORITHMS and isinstance(algo, dict) and isinstance(algo.get("args"), dict):
        args = {name: value for name, value in algo["args"].items() if name not in skipped}
        found += _check_args(name, args, algo)
    return sorted(found, key=lambda problem: {"type": 1, "range": 2}.get(problem.kind, 0))


def _check_group(schema: type, values: Any, path: str, algo: str) -> Iterator[Problem]:
    """Problems of the values that a dataclass is to be made of."""
    if not isinstance(values, dict):
        yield Problem(path.rstrip("."), "type", values, "a mapping")
        return
    hints = _hints(schema)
    for name in [name for name in values if name not in hints]:
        yield Problem(path + name, "unknown", values[name], explain_key(path + name, algo))
    for item in fields(schema):
        key, hint, value = path + item.name, hints[item.name], values.get(item.name)
        if item.name not in values:
            if item.default is MISSING:
                yield Problem(key, "missing", hint="missing; it has no default")
        elif _is_reference(value) or value is None and type(None) in get_args(hint):
            continue
        elif options := schemas(hint):
            chosen = _choose(options, value, key)
            yield from (chosen,) if isinstance(chosen, Problem) else _check_group(chosen, value, f"{key}.", algo)
        else:
            if isinstance(value, dict):
                value = {name: part for name, part in value.items() if not _is_reference(part)}
                names = list_names(hint)
                for name in [name for name in value if names and name not in names]:
                    unknown = f"{key}.{name}"
                    yield Problem(unknown, "unknown", value.pop(name), explain_key(unknown))
            yield from find_problems(key, value, hint, item.metadata.get("range"))


def _is_reference(value: Any) -> bool:
    """Whether a value, or one in a list, is not resolved yet."""
    return any(isinstance(item, str) and "${" in item for item in (value if isinstance(value, list) else [value]))


def _choose(options: list[type], value: Any, key: str = "") -> type | Problem:
    """The dataclass that `name` in the value of a group selects, or what is wrong with a value that selects none."""
    named = {name: schema for schema in options for name in get_args(_hints(schema).get("name"))}
    if len(options) == 1 or not isinstance(value, dict) and value not in list(named):
        return options[0]
    if not isinstance(value, dict):  # within a group, an option is chosen as OPTION@PLACE
        return Problem(key, "type", value, f"a mapping; did you mean {key.partition('.')[0]}@{key}={value}?")
    wrong = find_problems(f"{key}.name", value.get("name"), Literal[tuple(named)])
    return wrong[0] if wrong else named[value["name"]]


def _check_args(algo: str, args: dict[str, Any], own: Collection[str]) -> Iterator[Problem]:
    """Problems of TRL's arguments; `own` are the algorithm's keys beside `args`."""
    known = load_arguments(algo)
    has_own_loss = are_losses(algo, args.get("loss_type"))  # another's file may set arguments of that algorithm
    for name, value in args.items():
        key = f"algo.args.{name}"
        if name in known and name not in own and not is_secret(name):
            if name != "loss_type" or has_own_loss:  # rules/algorithm.py refuses the others
                yield from find_problems(key, value, known[name].annotation, known[name].bounds)
        elif has_own_loss:
            yield _explain_argument(key, value, algo, own)


def _explain_argument(key: str, value: Any, algo: str, own: Collection[str]) -> Problem:
    name = key.rpartition(".")[2]
    if is_secret(name):
        return explain_secret(key)
    if name in own and name in load_arguments(algo):
        return Problem(key, "unknown", value, f"not TRL's; use algo.{name}")
    if name in RENAMED:
        return Problem(key, "unknown", value, f"renamed; use algo.args.{RENAMED[name]}")
    return Problem(key, "unknown", value, explain_key(key, algo))


def _build(schema: type, values: dict[str, Any]) -> Any:
    """The dataclass of values that have been checked."""
    hints, read = _hints(schema), {}
    for name, value in values.items():
        options = schemas(hints[name])
        read[name] = _build(_choose(options, value), value) if options and value is not None else value
    return schema(**read)


def _list_derived(cfg: DictConfig) -> list[str]:
    """TRL's arguments whose values the config derives from other keys."""
    args = OmegaConf.select(cfg, "algo.args")
    return [name for name in args if OmegaConf.is_interpolation(args, name)] if isinstance(args, DictConfig) else []

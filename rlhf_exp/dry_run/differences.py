"""Lists what a run sets differently from its groups, and which of its values are chosen defaults, with their reasons.

changed, chosen = compare_with_defaults(cfg)
changed     # ["max_tokens=10 (default 96)"]
chosen      # ["algo.args.learning_rate=0.001: the model's own, conf/model/tiny.yaml"]
"""

from dataclasses import asdict
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import register_resolvers
from rlhf_exp.config.defaults import list_defaults, read_settings
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import show
from rlhf_exp.runs.settings import flatten

SAID_ELSEWHERE = ("output_dir", "dry_run", "resume", "model.path", "model.base", "model.name")


def compare_with_defaults(cfg: Config) -> tuple[list[str], list[str]]:
    """Lines for values that differ from the groups' own, and for the defaults that this run takes."""
    base, values = _compose_groups(cfg), flatten(asdict(cfg))
    changed = _set_plain_values(base, values)
    by_size = {key for key in values if key not in changed and _is_default(base, key)}
    for of_size in (True, False):  # first those from which others follow, such as max_tokens
        defaults = flatten(OmegaConf.to_container(base, resolve=True))
        for key in values:
            if key in defaults and key not in changed and values[key] != defaults[key] and (key in by_size) == of_size:
                changed[key] = defaults[key]
                OmegaConf.update(base, key, values[key])
                # A value that follows from it, as the accumulation from the batch, is not listed separately.
                defaults = flatten(OmegaConf.to_container(base, resolve=True)) if of_size else defaults
    lines = [
        f"{key}={show(values[key])}{'' if default is _ABSENT else f' (default {show(default)})'}"
        for key, default in changed.items()
        if key not in SAID_ELSEWHERE
    ]
    return lines, _give_reasons(cfg, values, [key for key in by_size if key not in changed])


_ABSENT = object()


def _compose_groups(cfg: Config) -> DictConfig:
    """The config of the same groups and the same model, with nothing else set."""
    groups = [f"{group}={getattr(cfg, group).name}" for group in ("algo", "task", "peft", "device", "scale")]
    groups += [f"task@task.of={cfg.task.of.name}"] if hasattr(cfg.task, "of") else []
    for group in ("model", "hardware"):
        name = getattr(cfg, group).name
        if (ROOT / "conf" / group / f"{name}.yaml").is_file():  # else an option of the user's own folder
            groups.append(f"{group}={name}")
    register_resolvers()
    loader = ConfigLoaderImpl(create_config_search_path(str(ROOT / "conf")))  # the command line's own is in use
    base = loader.load_configuration("config", groups, run_mode=RunMode.RUN)
    OmegaConf.set_struct(base, False)
    OmegaConf.set_readonly(base, False)
    del base["hydra"]
    base.output_dir = cfg.output_dir
    for key in ("path", "base", "parameters"):
        base.model[key] = getattr(cfg.model, key)
    return base


def _set_plain_values(base: DictConfig, values: dict[str, Any]) -> dict[str, Any]:
    """Set in `base` every value that does not follow from others; returns those that differ, with their default."""
    changed = {}
    for key, value in values.items():
        node, name = _find(base, key)
        if node is None or name not in node:
            changed[key] = _ABSENT
        elif OmegaConf.is_interpolation(node, name):
            continue
        else:
            old = node[name]
            old = OmegaConf.to_container(old, resolve=True) if OmegaConf.is_config(old) else old
            old = {name: item for name, item in old.items() if item is not None} if old and value == {} else old
            if old == value:
                continue
            changed[key] = old
        if not _follows(base, key.rpartition(".")[0]):
            OmegaConf.update(base, key, value, force_add=True)
    return changed


def _is_default(base: DictConfig, key: str) -> bool:
    """Whether a value comes from a resolver of defaults.py; the learning rate does by way of model.learning_rate."""
    node, name = _find(base, key)
    raw = OmegaConf.to_container(node).get(name) if node is not None else None
    return isinstance(raw, str) and raw.startswith(("${rlhf_exp.default:", "${model.learning_rate."))


def _follows(base: DictConfig, parent: str) -> bool:
    """Whether a mapping is interpolated from another one, so that nothing can be set in it."""
    node, name = _find(base, parent)
    return bool(name) and node is not None and OmegaConf.is_interpolation(node, name)


def _find(base: DictConfig, key: str) -> tuple[DictConfig | None, str]:
    """The mapping that holds a dotted key, if there is one, and the key's last part."""
    parent, _, name = key.rpartition(".")
    node = OmegaConf.select(base, parent) if parent else base
    return node if isinstance(node, DictConfig) else None, name


def _give_reasons(cfg: Config, values: dict[str, Any], chosen: list[str]) -> list[str]:
    lines = []
    for key, default in list_defaults(read_settings(cfg)).items():
        if key not in chosen:
            continue
        own = values[key] != default.value
        reason = f"the model's own, conf/model/{cfg.model.name}.yaml" if own else default.reason
        lines.append(f"{key}={show(values[key])}: {reason}")
    return lines

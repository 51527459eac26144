"""Opens Hydra with the shipped configs; reads config files so that a mistake in one is a line with its place; and
refuses overrides before Hydra reads them: secrets, and those that Hydra accepts without any effect.

    with open_hydra("own") as hydra:      # `own`: a folder of further configs, as the flag -cd names
        hydra.compose_config("config", ["experiment=mine"], RunMode.RUN)
    # own/experiment/mine.yaml, line 3, column 1: found character '\\t' that cannot start any token
    check_overrides(["+algo.args.hub_token=hf_..."])     # one line each, without the value

Hydra itself says what is wrong with a file without its name, or with a traceback of PyYAML.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException
from hydra.initialize import get_gh_backup, restore_gh_from_backup
from hydra.plugins.config_source import ConfigResult
from hydra.version import setbase
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from rlhf_exp.config import ROOT
from rlhf_exp.config.keys import name_key
from rlhf_exp.errors import explain_secret, is_secret

_NAMED = re.compile(r"[{,]\s*['\"]?([\w.-]+)['\"]?\s*:")  # the names inside {name: value}
_EMPTY = re.compile(r"([\w.]+)=\{\s*\}")
_OPTION = re.compile(r"\+*(algo|task|task\.of|model|peft|device)\.name=(.*)")
MOST_DEPTH = 50


class CheckedFiles(FileConfigSource):
    """Config files in folders, as Hydra's own source reads them, at `checked://FOLDER`."""

    @staticmethod
    def scheme() -> str:
        return "checked"

    def load_config(self, config_path: str) -> ConfigResult:
        """Read one file.

        Raises:
            ConfigCompositionException: it cannot be read; the message is one line.
        """
        file = Path(os.path.relpath(os.path.join(self.path, self._normalize_file_name(config_path))))
        file = file.absolute() if str(file).startswith("..") else file
        try:
            found = super().load_config(config_path)
        except (YAMLError, OmegaConfBaseException, OSError, ValueError, RecursionError) as error:
            raise ConfigCompositionException(describe_yaml(error, file)) from None
        for problem in _find_problems(found, config_path):
            raise ConfigCompositionException(f"{file}: {problem}")
        return found


@contextmanager
def open_hydra(config_dir: str | None = None, conf: str | None = None) -> Iterator[Hydra]:
    """Hydra with the configs in `conf`, by default the shipped ones, and before them those in `config_dir`."""
    Plugins.instance().register(CheckedFiles)
    before = get_gh_backup()
    setbase("1.3")
    search_path = create_config_search_path(f"checked://{Path(conf or ROOT / 'conf').absolute()}")
    if config_dir is not None:  # with the provider and at the place that Hydra's command line gives it
        anchor = SearchPathQuery(provider="schema")
        search_path.prepend("command-line", f"checked://{Path(config_dir).absolute()}", anchor)
    try:
        yield Hydra.create_main_hydra2("rlhf_exp", search_path)
    finally:
        restore_gh_from_backup(before)


def describe_yaml(error: Exception, file: Path) -> str:
    """The file, with the place in it if that is known, and what is wrong, for an error of reading YAML."""
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        return f"{file}, line {mark.line + 1}, column {mark.column + 1}: {error.problem or error.context}"
    reason = error.strerror if isinstance(error, OSError) else str(error).strip().partition("\n")[0]
    return f"{file}: {reason or type(error).__name__}"


def check_overrides(overrides: Sequence[str]) -> list[str]:
    """One line per problem. Hydra writes the typed overrides into a sweep's folder, including any secret."""
    if deep := [text for text in overrides if _measure_depth(text) > MOST_DEPTH]:  # Hydra reads it by recursion
        return [f"{text[:40]}...: more than {MOST_DEPTH} brackets are open at once" for text in deep]
    problems: list[str] = [explain_secret(key) for text in overrides for key in _list_keys(text) if is_secret(key)]
    for text in overrides:
        if found := _EMPTY.fullmatch(text):
            why = "changes nothing, for a mapping is merged into what is there"
            problems.append(f"{text}: {why}; take its entries out one by one, ~{found[1]}.NAME")
        if found := _OPTION.fullmatch(text):  # the other keys of the group would contradict the name
            choice = {"task.of": "task@task.of"}.get(found[1], found[1])
            problems.append(f"{text}: does not choose; use {choice}={found[2]}")
    return problems


def _find_problems(found: ConfigResult, config_path: str) -> Iterator[str]:
    if not isinstance(found.config, DictConfig):
        yield "holds a list; must hold keys with their values, such as seed: 1"
    elif "stages" in found.config and "/" not in config_path:
        yield f"is a study; start it with python -m rlhf_exp study {Path(config_path).stem}"
    if config_path.startswith("experiment/") and found.header.get("package") != "_global_":
        yield "an experiment; its first line must be # @package _global_ (no letter or mark before it)"


def _measure_depth(text: str) -> int:
    """The most brackets that are open at once."""
    return max(accumulate((mark in "[{(") - (mark in ")}]") for mark in text), default=0)


def _list_keys(text: str) -> list[str]:
    """The key of an override, and the keys in its value if that is a mapping; other values are the user's texts."""
    key, value = name_key(text), text.partition("=")[2]
    inside = _NAMED.findall(value) if value.lstrip().startswith(("{", "[")) else []
    return [key] * bool(value) + [f"{key}.{name}" for name in inside]

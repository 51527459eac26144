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
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from hydra import __version__ as HYDRA
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException, HydraException
from hydra.initialize import get_gh_backup, restore_gh_from_backup
from hydra.plugins.config_source import ConfigResult
from hydra.version import setbase
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from rlhf_exp.config import ROOT
from rlhf_exp.config.keys import name_key
from rlhf_exp.errors import explain_secret, is_secret

IS_HYDRA_1_3 = HYDRA.startswith("1.3.")
"""Hydra 1.4 and the OmegaConf 2.4 that it needs warn about what 1.3 asks for."""
REPLACING: dict[str, Any] = {} if IS_HYDRA_1_3 else {"replace": True}
"""How an entry of Hydra's ConfigStore is replaced."""
_NAMED = re.compile(r"[{,]\s*['\"]?([\w.-]+)['\"]?\s*:")  # the names inside {name: value}
_EMPTY = re.compile(r"([\w.]+)=\{\s*\}")
_DIGITS = sys.get_int_max_str_digits() or 4300
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
    if IS_HYDRA_1_3:
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
        if any(len(number) > _DIGITS for number in re.findall(r"\d+", text)):  # Hydra ends with Python's error
            problems.append(f"{name_key(text)}: holds a number of more than {_DIGITS} digits, which cannot be read")
        if found := _EMPTY.fullmatch(text):
            why = "changes nothing, for a mapping is merged into what is there"
            problems.append(f"{text}: {why}; take its entries out one by one, ~{found[1]}.NAME")
        if found := _OPTION.fullmatch(text):  # the other keys of the group would contradict the name
            choice = {"task.of": "task@task.of"}.get(found[1], found[1])
            problems.append(f"{text}: does not choose; use {choice}={found[2]}")
    return problems


def set_text(key: str, value: str) -> str:
    """The override that sets a key to this text, whatever characters it has; in quotes only where Hydra needs them.

    >>> set_text("resume", "outputs/x"), set_text("resume", "run [1]")
    ('resume=outputs/x', 'resume="run [1]"')
    """
    plain = "${" not in value and read_text(value) == value
    return f"{key}={value if plain else quote(value.replace('${', chr(92) + '${'))}"


def quote(text: str) -> str:
    """The text in Hydra's quotes; a reference in it stays one."""
    return QuotedString(text, Quote.double).with_quotes()


def read_text(value: str) -> str | None:
    """The text that the value of an override means; None if it has references, is no text, or Hydra cannot read it."""
    try:
        found = OverridesParser.create().parse_override(f"key={value}")
    except (HydraException, ValueError):  # a ValueError for a number of too many digits
        return None
    text = found.value()
    if not isinstance(text, str) or re.search(r"(?<!\\)\$\{", text):
        return None
    return text.replace(r"\${", "${")


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

"""Opens Hydra with the shipped configs; finds the config file that cannot be read, and why; and refuses overrides
before Hydra reads them: secrets, and those that Hydra accepts without any effect.

    with open_hydra("own"):      # `own`: a folder of further configs, as the flag -cd names
        hydra.compose("config", ["experiment=mine"])
    explain_unreadable(error, Path("own"))      # own/experiment/mine.yaml, line 3, column 1: found duplicate key seed
    check_overrides(["+algo.args.hub_token=hf_..."])     # one line each, without the value
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path

from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from rlhf_exp.config import ROOT
from rlhf_exp.config.keys import name_key
from rlhf_exp.errors import explain_secret, is_secret

UNREADABLE = (YAMLError, OmegaConfBaseException, OSError, ValueError, RecursionError)
"""What reading a config file may raise."""
_NAMED = re.compile(r"[{,]\s*['\"]?([\w.-]+)['\"]?\s*:")  # the names inside {name: value}
_EMPTY = re.compile(r"([\w.]+)=\{\s*\}")
_DIGITS = sys.get_int_max_str_digits() or 4300
_OPTION = re.compile(r"\+*(algo|task|task\.of|model|peft|device)\.name=(.*)")
MOST_DEPTH = 50
HYDRA_KEYS = ("hydra/launcher", "hydra.launcher.", "hydra.mode", "hydra.sweep.", "hydra.sweeper.params")
"""Beginnings of Hydra's own keys that have an effect here."""


class OwnConfigs(SearchPathPlugin):
    """Adds the folder that -cd names, after the shipped configs. Hydra makes an object of this class as it opens."""

    folder = ""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if self.folder:
            search_path.append("command-line", f"file://{self.folder}")


@contextmanager
def open_hydra(config_dir: str | None = None) -> Iterator[ConfigLoader]:
    """Open Hydra with the shipped configs, and after them those in `config_dir`; yields its loader, which knows the
    options of each group."""
    Plugins.instance().register(OwnConfigs)
    OwnConfigs.folder = "" if config_dir is None else str(Path(config_dir).absolute())
    with initialize_config_dir(str(ROOT / "conf"), job_name="rlhf_exp", version_base="1.3"):
        yield GlobalHydra.instance().config_loader()


def explain_unreadable(error: Exception, folder: Path) -> str | None:
    """Which config file in a folder of -cd cannot be read, with the place in it if that is known, and why; None if each
    can be read. `error`: what Hydra has raised."""
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        place = f"{_shorten(mark.name)}, line {mark.line + 1}, column {mark.column + 1}"
        return f"{place}: {error.problem or error.context}"
    for file in sorted([*folder.glob("*.yaml"), *folder.glob("*/*.yaml")]):
        try:
            OmegaConf.load(file)
        except UNREADABLE as found:
            reason = found.strerror if isinstance(found, OSError) else str(found).strip().partition("\n")[0]
            return f"{_shorten(file)}: {reason or type(found).__name__}"
    return None


def _shorten(file: str | Path) -> str:
    """The path from here, or the whole path of a file that is not below."""
    path = os.path.relpath(file)
    return os.path.abspath(file) if path.startswith("..") else path


def check_overrides(overrides: Sequence[str]) -> list[str]:
    """One line per problem. Hydra writes the typed overrides into a sweep's folder, including any secret."""
    if deep := [text for text in overrides if _measure_depth(text) > MOST_DEPTH]:  # Hydra reads it by recursion
        return [f"{text[:40]}...: more than {MOST_DEPTH} brackets are open at once" for text in deep]
    problems: list[str] = [explain_secret(key) for text in overrides for key in _list_keys(text) if is_secret(key)]
    for text in overrides:
        if any(len(number) > _DIGITS for number in re.findall(r"\d+", text)):  # Hydra ends with Python's error
            problems.append(f"{name_key(text)}: holds a number of more than {_DIGITS} digits, which cannot be read")
        if (key := name_key(text)).startswith("hydra") and not key.startswith(HYDRA_KEYS):
            problems.append(f"{text}: has no effect; of Hydra's own keys only these are read: {', '.join(HYDRA_KEYS)}")
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
    with suppress(HydraException, ValueError):  # a ValueError for a number of too many digits
        text = OverridesParser.create().parse_override(f"key={value}").value()
        if isinstance(text, str) and not re.search(r"(?<!\\)\$\{", text):
            return text.replace(r"\${", "${")
    return None


def _measure_depth(text: str) -> int:
    """The most brackets that are open at once."""
    return max(accumulate((mark in "[{(") - (mark in ")}]") for mark in text), default=0)


def _list_keys(text: str) -> list[str]:
    """The key of an override, and the keys in its value if that is a mapping; other values are the user's texts."""
    key, value = name_key(text), text.partition("=")[2]
    inside = _NAMED.findall(value) if value.lstrip().startswith(("{", "[")) else []
    return [key] * bool(value) + [f"{key}.{name}" for name in inside]

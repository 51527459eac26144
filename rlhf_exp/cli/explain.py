"""Explains in one line what Hydra and OmegaConf refuse: the override, what is allowed, the nearest valid name.

explain(exception, ["leraning_rate=1"])  ->  "leraning_rate=1: no such key; did you mean ...?"
"""

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.errors import MissingConfigException, OverrideParseException

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.cli.quoting import repair, write_command
from rlhf_exp.config import ROOT
from rlhf_exp.config.keys import explain_key, known_keys, takes_text
from rlhf_exp.config.overrides import name_key
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.config.values import assign, is_secret, one_of

EXTRAS = {
    "hydra/launcher=submitit_local": "slurm",
    "hydra/launcher=submitit_slurm": "slurm",
    "hydra/sweeper=optuna": "optuna",
}
"""Options that a package brings, with its extra in pyproject.toml."""
_UNKNOWN_KEY = re.compile(r"Could not override '(?P<key>[^']+)'")
_AMBIGUOUS = re.compile(r"Ambiguous value for argument '(?P<override>.+)'")
# Lines of Hydra's messages that only help to configure Hydra itself.
_NOISE = re.compile(
    r"See https|Config search path|\tprovider=|Error parsing override|LexerNoViableAlt"
    r"|^\s*(\^|full_key\b|object_type\b|reference_type\b)"
)
_RAISED = re.compile(r"\w+ raised while composing config:; ")


def explain(error: Exception, overrides: Sequence[str], typed: Sequence[str] | None = None) -> str:
    """One line for an error of Hydra or OmegaConf while composing the config from `overrides`.

    Args:
        typed: all arguments of the command line, of which the line shows the command that was meant; None: there is no
            command line.
    """
    if isinstance(error, MissingConfigException):
        return _explain_missing(error, overrides, typed)
    if isinstance(error, OverrideParseException):
        return _explain_unread(error, overrides, typed)
    if isinstance(error, RecursionError):
        return "a config names itself in its defaults list, directly or by way of others"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: cannot be written, {error.strerror}"
    message = str(error) or str(error.__cause__)
    if unknown := _UNKNOWN_KEY.match(message):
        key = getattr(error.__cause__, "full_key", None) or unknown["key"]  # within a mapping that was typed as a whole
        key = next((name for name in map(name_key, overrides) if name.startswith(f"{key}.")), key)
        if key.rpartition(".")[0] in ("reward.weights", "reward.functions", "task.options"):
            return f"{(text := _find_override(key, overrides))}: not there yet; add it with a plus: +{text}"
        algo, text = _find_algo(overrides), _find_override(key, overrides)
        place, _, end = key.rpartition(".")
        if place == "algo.args" and end in load_arguments(algo):
            steps = " algo.args.max_steps=-1" if end == "num_train_epochs" else ""  # else steps take precedence
            return f"{text}: not there yet; add it with a plus: +{text}{steps}"
        if (why := explain_key(key, algo)).endswith(f" {key}?"):
            why = "the config that -cn names lacks it; its defaults list must begin with /config"
        return f"{text}: {why}"
    if ambiguous := _AMBIGUOUS.match(message):
        override = ambiguous["override"]
        key, _, values = override.partition("=")
        meant = takes_text(name_key(key)) and repair(typed or overrides)
        way = f"or in quotes: {_show(meant, typed)}" if meant else f"for a list write {key}=[{values}]"
        return f"{override}: several values; to run each add -m, {way}"
    lines = [line.strip() for line in message.splitlines() if line.strip() and not _NOISE.search(line)]
    return _RAISED.sub("", "; ".join(lines))


def _explain_unread(error: OverrideParseException, overrides: Sequence[str], typed: Sequence[str] | None) -> str:
    """What Hydra's grammar cannot read: most often a text that a shell or Hydra needs in quotes."""
    text, words = error.override, typed or overrides
    if "=" not in text and name_key(text) in known_keys():
        return f"{text}: has no value; write {text}=VALUE"
    group, _, option = text.partition("=")
    if group in ELSEWHERE:  # such as model=~/folder
        return f"{text}: no such option; {_point_elsewhere(group, option, option, words, typed)}"
    if (meant := repair(words)) and meant != list(words):
        return f"{text}: cannot be read without quotes; write {_show(meant, typed)}"
    reason = "".join(line for line in error.message.splitlines() if not _NOISE.search(line))[:120]
    why = f" ({reason})" if reason else ""
    return f"{text}: cannot be read{why}; must be KEY=VALUE, with special characters of a text in quotes"


def _show(words: Sequence[str], typed: Sequence[str] | None) -> str:
    """The command of these words; without a command line, the words."""
    return write_command(words) if typed is not None else " ".join(words)


ELSEWHERE = {
    "model": ("a hub id or a folder is model.path", ["model.path={}"]),
    "task": ("rows of your own are task=file", ["task=file", "task.path={}"]),
}
"""Groups whose options are taken for the values of another key: which, and how it is typed."""


def _explain_missing(error: MissingConfigException, overrides: Sequence[str], typed: Sequence[str] | None) -> str:
    if "Could not load" in (line := str(error).partition("\n")[0]):  # a file that another's defaults list names
        return line
    missing = error.missing_cfg_file or ""
    group, _, option = missing.partition("/")
    if not (ROOT / "conf" / group).is_dir():
        group, _, option = missing.rpartition("/")
    if not group:
        studies = sorted(path.stem for path in (ROOT / "sweeps").glob("*.yaml"))
        return f"-cn {option}: no such config; studies, with -cd sweeps: {', '.join(studies)}"
    options = [name for name in error.options or () if not name.startswith("_")]
    if extra := EXTRAS.get(f"{group}={option}"):
        return f'{group}={option}: is not installed; pip install ".[{extra}]"'
    is_path = "/" in option or Path(option).exists() or group == "task" and "." in option
    lines = [] if group in ELSEWHERE and is_path else [one_of(option.replace(".", "_"), options)]
    if group in ELSEWHERE and (is_path or group == "model"):
        shown = option if is_path else "ORG/NAME"
        lines.append(_point_elsewhere(group, option, shown, typed or overrides, typed))
    return f"{group}={option}: no such option; {'; '.join(lines)}".replace("?; a ", "? A ")


def _point_elsewhere(group: str, option: str, shown: str, words: Sequence[str], typed: Sequence[str] | None) -> str:
    """The key that takes such a value, and the command with it; of a sweep, in which the option is one of several, that
    key alone."""
    what, parts = ELSEWHERE[group]
    meant, choice = [part.format(shown) for part in parts], f"{group}={option}"
    if choice not in words:
        return f"{what}: {_show(meant, None)}"
    at = words.index(choice)
    whole = [*words[:at], *meant, *words[at + 1 :]]
    return f"{what}: {_show(repair(whole) or whole, typed)}"


def _find_override(key: str, overrides: Sequence[str]) -> str:
    """The override as it was typed, with a secret hidden."""
    if is_secret(key):
        return assign(key, None)
    return next((text for text in overrides if name_key(text) == key), key)


def _find_algo(overrides: Sequence[str]) -> str:
    """The algorithm that the overrides choose, directly or by an experiment; grpo by default."""
    chosen = dict(text.split("=", 1) for text in overrides if "=" in text)
    algo = chosen.get("algo")
    if algo is None and (file := ROOT / "conf" / "experiment" / f"{chosen.get('experiment')}.yaml").is_file():
        found = re.search(r"override /algo: (\w+)", file.read_text(encoding="utf-8"))
        algo = found and found[1]
    return algo if algo in ALGORITHMS else "grpo"

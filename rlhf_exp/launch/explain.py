"""Explains in one line what Hydra and OmegaConf refuse: the override, what is allowed, the nearest valid name.

explain(exception, ["leraning_rate=1"])  ->  "leraning_rate=1: no such key; did you mean ...?"
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.commands import COMMANDS
from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.keys import explain_key, known_keys, name_key, takes_text
from rlhf_exp.config.reading import quote
from rlhf_exp.config.rules.algorithm import explain_loss
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.config.values import one_of, suggest
from rlhf_exp.errors import ConfigError, collecting

INSTEAD = {
    "model": "a hub id or a folder is model.path=PATH; the option ",
    "task": "rows of your own are task=file task.path=FILE; the option ",
}
_UNKNOWN_KEY = re.compile(r"Could not override '(?P<key>[^']+)'")
_AMBIGUOUS = re.compile(r"Ambiguous value for argument '(?P<override>.+)'")
# Lines of Hydra's messages that only help to configure Hydra itself.
_NOISE = re.compile(r"See https|Config search path|\tprovider=|^\s*(full_key\b|object_type\b|reference_type\b)")
_RAISED = re.compile(r"\w+ raised while composing config:; ")


@contextmanager
def explaining(overrides: Sequence[str]) -> Iterator[None]:
    """Raise a ConfigError with one line for an error of Hydra's inside the `with`."""
    try:
        yield
    except (HydraException, OmegaConfBaseException, RecursionError) as error:
        raise ConfigError([explain(error, overrides)]) from None


def explain(error: Exception, overrides: Sequence[str]) -> str:
    """One line for an error of Hydra or OmegaConf while composing the config from `overrides`."""
    if isinstance(error, MissingConfigException):
        return _explain_missing(error, overrides)
    if isinstance(error, OverrideParseException):
        return _explain_unread(error.override)
    if isinstance(error, RecursionError):
        return "a config names itself in its defaults list, directly or by way of others"
    message = str(error) or str(error.__cause__)
    if unknown := _UNKNOWN_KEY.match(message):
        key = getattr(error.__cause__, "full_key", None) or unknown["key"]  # within a mapping that was typed as a whole
        return _explain_unknown(next((name for name in map(name_key, overrides) if name.startswith(f"{key}.")), key),
                                overrides)  # fmt: skip
    if ambiguous := _AMBIGUOUS.match(message):
        way = "to run each add -m; a list needs brackets, a text quotes inside quotes"
        return f"{ambiguous['override']}: several values; {way}"
    lines = [line.strip() for line in message.splitlines() if line.strip() and not _NOISE.search(line)]
    return _RAISED.sub("", "; ".join(lines))


def _explain_unknown(key: str, overrides: Sequence[str]) -> str:
    """A key that is not in the config: it must be added, or there is none of that name."""
    algo = _find_algorithm(overrides)
    text = next((text for text in overrides if name_key(text) == key), key)
    place, _, end = key.rpartition(".")
    named = ("reward.weights", "reward.functions", "task.options")  # the user's own names are below these
    if place in named or place.startswith("eval.sets") or place == "algo.args" and end in load_arguments(algo):
        return _find_refusal(key, overrides) or f"{text}: not there yet; add it with a plus: +{text}"
    if (why := explain_key(key, algo)).endswith(f" {key}?"):
        why = "the config that -cn names lacks it; its defaults list must begin with /config"
    return f"{text}: {why}"


def _find_refusal(key: str, overrides: Sequence[str]) -> str | None:
    """Why the key is refused with a plus too; None if it is not, or others of the overrides cannot be read."""
    added = [f"++{text}" if name_key(text) == key or text.startswith("algo.args.") else text for text in overrides]
    problems = list[str]()
    with suppress(HydraException, OmegaConfBaseException), collecting(problems):
        compose_config(added)
    return next((line for line in problems if getattr(line, "key", "") == key), None)


def _find_algorithm(overrides: Sequence[str]) -> str:
    """The one that is typed, else the default."""
    algo = dict(text.split("=", 1) for text in overrides if "=" in text).get("algo", "")
    return algo if algo in ALGORITHMS else "grpo"


def _explain_unread(text: str) -> str:
    """What Hydra's grammar cannot read: most often a text that a shell or Hydra needs in quotes."""
    key, equals, value = text.partition("=")
    if not equals:
        names = sorted(COMMANDS)
        value = f"; a value of it is {text}=VALUE" if name_key(text) in known_keys() else suggest(text, names)
        return f"{text}: must be KEY=VALUE, or a command: {', '.join(names)}{value}"
    if key in INSTEAD:  # such as model=~/folder
        return f"{text}: no such option; {INSTEAD[key]}is a plain name"
    if takes_text(name_key(text)):
        return f"{text}: cannot be read without quotes; write {shlex.quote(f'{key}={quote(value)}')}"
    return f"{text}: cannot be read; must be KEY=VALUE, with special characters of a text in quotes"


def _explain_missing(error: MissingConfigException, overrides: Sequence[str]) -> str:
    if "Could not load" in (line := str(error).partition("\n")[0]):  # a file that another's defaults list names
        return line
    missing = error.missing_cfg_file or ""
    group, _, option = missing.partition("/")
    if not (ROOT / "conf" / group).is_dir():
        group, _, option = missing.rpartition("/")
    if not group:
        studies = sorted(path.stem for path in (ROOT / "sweeps").glob("*.yaml"))
        return f"-cn {option}: no such config; studies, with -cd sweeps: {', '.join(studies)}"
    if missing == "hydra/launcher/submitit_slurm":
        return f'{group}={option}: is not installed; pip install ".[slurm]"'
    if group == "loss_type":
        algo = _find_algorithm(overrides)
        if option not in (row := ALGORITHMS[algo]).losses or row.loss is None:
            return explain_loss(option, algo)
        typed = f"[{option}]" if isinstance(row.loss, list) else option
        return f"loss_type={option}: not an option; with algo={algo} it is algo.args.loss_type={typed}"
    options = [name for name in error.options or () if not name.startswith("_")]
    return f"{group}={option}: no such option; {INSTEAD.get(group, '')}{one_of(option.replace('.', '_'), options)}"

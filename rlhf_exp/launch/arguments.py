"""Prepares the command line before Hydra reads it: one-line errors for flags, --help, and three conveniences.

`-cd sweeps` finds the shipped studies from any folder, `output_dir=` applies to a whole sweep, and `resume=`
brings the overrides of the run that it resumes.
"""

import re
import sys
from argparse import Namespace
from pathlib import Path

from hydra._internal.utils import get_args_parser

from rlhf_exp.config import ROOT
from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.subcommand import parse_flags
from rlhf_exp.runs.lock import LATEST, OUTPUTS, follow_link
from rlhf_exp.runs.settings import recall
from rlhf_exp.tasks.schema import find_keys, list_tasks

USAGE = Path(__file__).parent.parent / "assets" / "usage.txt"


def format_help() -> str:
    """Usage, every group with its options, the keys, examples, and the other commands. Hydra's own help composes first,
    0.3 s more."""
    conf = ROOT / "conf"
    defaults = dict(re.findall(r"^  - (\w+): (\S+)", (conf / "config.yaml").read_text(encoding="utf-8"), re.MULTILINE))
    lines = []
    for group in sorted(folder.name for folder in conf.iterdir() if folder.is_dir()):
        default = defaults[group].replace("${algo}", defaults["algo"])
        options = sorted(path.stem for path in (conf / group).glob("*.yaml"))
        shown = ", ".join(f"{option}*" if option == default else option for option in options)
        lines.append(f"  {group:<11} {shown}")
    studies = ", ".join(sorted(path.stem for path in (ROOT / "sweeps").glob("*.yaml")))
    columns = {name: ", ".join(find_keys(name).columns) for name in list_tasks()} | {"file": "all of the file's"}
    named = "; ".join(f"{name} {of_task}" for name, of_task in columns.items() if of_task)
    return USAGE.read_text(encoding="utf-8").format(groups="\n".join(lines), studies=studies, columns=named)


def prepare_arguments() -> Namespace:
    """Complete `sys.argv` in place, and parse it with Hydra's own parser.

    Raises:
        ConfigError: a flag that Hydra does not know, or `resume=latest` before the first run.
    """
    args = parse_flags(get_args_parser())
    flags, overrides = complete(args.overrides, args.config_name, args.config_dir)
    if overrides:  # the parser needs them to be adjacent
        start = sys.argv.index(args.overrides[0])
        sys.argv[start : start + len(args.overrides)] = overrides
    sys.argv += flags  # the last occurrence of a flag counts
    return get_args_parser().parse_args()


def find_config_dir(named: str | None) -> str | None:
    """The folder of configs that -cd names; the shipped studies are there under any folder.

    Raises:
        ConfigError: there is no such folder.
    """
    if named is None or Path(named).is_dir():
        return named
    if named == "sweeps":
        return str(ROOT / "sweeps")
    beside = [path.name for path in Path(named).parent.glob("*/")]
    raise ConfigError([f"-cd {named}: no such folder{suggest(Path(named).name, beside)}"])


def complete(overrides: list[str], config_name: str | None, config_dir: str | None) -> tuple[list[str], list[str]]:
    """The flags to add and the overrides to use instead: those of the run that is resumed, and the shipped studies.

    Raises:
        ConfigError: `resume=latest` before the first run, or a folder of configs that is not there.
    """
    found = find_config_dir(config_dir)
    flags = [f"--config-dir={found}"] if found != config_dir else []
    values = dict(text.split("=", 1) for text in overrides if "=" in text)
    if "resume" not in values:
        return flags, list(overrides)
    named = values["resume"].strip("'\"")
    if named == LATEST and not Path(LATEST).exists():
        values["resume"] = named = str(OUTPUTS / LATEST)
        if not Path(named).exists():
            why = f"{named} points to a folder that is gone" if Path(named).is_symlink() else f"{named} is missing"
            raise ConfigError([f"resume={LATEST}: {why}; name a run's folder"])
    folder = follow_link(named)
    text = values["resume"] if folder == named else folder
    overrides = [f"resume={text}" if typed.startswith("resume=") else typed for typed in overrides]
    if config_name is not None:
        return flags, overrides
    flags, kept = recall(folder, typed=set(values))
    return flags, [*kept, *overrides, f"output_dir={text}"]

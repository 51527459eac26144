"""The command line: `python -m rlhf_exp algo=grpo task=countdown`.

A user's mistake is one line on stderr and exit status 2; a failed run is status 1, with its traceback in the run's
folder. Nothing here, in launch/ or in config/ imports an ML library before all checks of this package have passed.
"""

import os
import re
import sys
from contextlib import nullcontext, redirect_stdout
from importlib import import_module
from pathlib import Path

from rlhf_exp import processes
from rlhf_exp.commands import COMMANDS, run_command
from rlhf_exp.config import ROOT

USAGE = Path(__file__).parent / "assets" / "usage.txt"


def main() -> int:
    """Run what the command line asks for, an experiment or another command; returns the exit status. With
    several processes each runs it, and only rank 0 prints."""
    if len(sys.argv) > 1 and sys.argv[1] in COMMANDS:
        return import_module(COMMANDS[sys.argv[1]]).main(sys.argv[2:])
    with nullcontext() if processes.is_main() else redirect_stdout(open(os.devnull, "w")):
        status = run_command(_start, None, format_help())
        return status if processes.check() else processes.leave(status)


def format_help() -> str:
    """Usage, every group with its options, the keys, examples, and the other commands; without Hydra, whose own help
    composes first."""
    conf = ROOT / "conf"
    defaults = dict(re.findall(r"^  - (\w+): (\S+)", (conf / "config.yaml").read_text(encoding="utf-8"), re.MULTILINE))
    lines = []
    for group in sorted(folder.name for folder in conf.iterdir() if folder.is_dir()):
        default = defaults[group].replace("${algo}", defaults["algo"])
        options = sorted(path.stem for path in (conf / group).glob("*.yaml"))
        shown = ", ".join(f"{option}*" if option == default else option for option in options)
        lines.append(f"  {group:<11} {shown}")
    studies = ", ".join(sorted(path.stem for path in (ROOT / "sweeps").glob("*.yaml")))
    return USAGE.read_text(encoding="utf-8").format(groups="\n".join(lines), studies=studies)


def _start(arguments: list[str]) -> int:
    from rlhf_exp.launch.arguments import start  # imports Hydra, which --help does not need

    return start(arguments)


if __name__ == "__main__":
    sys.exit(main())

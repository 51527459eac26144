"""python -m rlhf_exp runs [DIR...]

Lists the runs below folders (outputs), the newest last.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path

from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.errors import tell
from rlhf_exp.runs.figures import align
from rlhf_exp.runs.listing import COLUMNS, count_statuses, list_runs
from rlhf_exp.runs.lock import OUTPUTS

PARSER = ArgumentParser(prog="python -m rlhf_exp runs", description=__doc__.splitlines()[2], allow_abbrev=False)
PARSER.add_argument("dirs", nargs="*", type=Path, default=[OUTPUTS], metavar="DIR",
                    help="a run, or a folder of runs (outputs)")  # fmt: skip

NUMBERS = ("max_tokens", "seed", "steps", "accuracy", "time")
"""Columns that are aligned to the right."""


def main(arguments: list[str] | None = None) -> int:
    """List what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help(), "runs")


def _work(arguments: list[str]) -> None:
    runs = list_runs(parse_flags(PARSER, arguments).dirs)
    lines = align([COLUMNS, *(run.cells for run in runs)], [COLUMNS.index(name) for name in NUMBERS])
    tell("\n".join([*lines, f"{len(runs)} runs: {count_statuses(runs)}"]))


if __name__ == "__main__":
    sys.exit(main())

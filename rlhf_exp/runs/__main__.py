"""python -m rlhf_exp runs [DIR...] [--filter KEY=VALUE] [--sort KEY] [--json]

Lists the runs below folders (outputs), the newest last.
"""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path

from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.errors import tell
from rlhf_exp.runs.figures import align
from rlhf_exp.runs.listing import COLUMNS, count_statuses, filter_runs, list_runs, sort_runs, tabulate
from rlhf_exp.runs.lock import OUTPUTS

EPILOG = f"KEY is one of {', '.join(COLUMNS)}, or any key of a run's config, such as algo.args.beta."
PARSER = ArgumentParser(prog="python -m rlhf_exp runs", description=__doc__.splitlines()[2], epilog=EPILOG,
                        allow_abbrev=False)  # fmt: skip
PARSER.add_argument("dirs", nargs="*", type=Path, default=[OUTPUTS], metavar="DIR",
                    help="a run, or a folder of runs (outputs)")  # fmt: skip
PARSER.add_argument("--filter", action="append", default=[], metavar="KEY=VALUE", dest="filters",
                    help="only runs that have this value; * stands for any letters; may be repeated")  # fmt: skip
PARSER.add_argument("--sort", metavar="KEY", help="by this key, the greatest last")
PARSER.add_argument("--json", action="store_true", help="a JSON list instead of the table")

NUMBERS = ("max_tokens", "seed", "steps", "accuracy", "time")
"""Columns that are aligned to the right."""


def main(arguments: list[str] | None = None) -> int:
    """List what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help, "runs")


def _work(arguments: list[str]) -> None:
    args = parse_flags(PARSER, arguments)
    runs = found = list_runs(args.dirs)
    for condition in args.filters:
        runs = filter_runs(runs, condition)
    if args.sort:
        runs = sort_runs(runs, args.sort)
    if args.json:
        tell(json.dumps(runs.to_dict("records"), indent=2, ensure_ascii=False))
        return
    cells = tabulate(runs)
    numbers = [place for place, name in enumerate(cells) if name in NUMBERS]
    lines = align([[*cells], *cells.itertuples(index=False)], numbers)
    counts = f": {count_statuses(runs)}" if len(runs) else ""
    tell("\n".join([*lines, f"{len(runs)} of {len(found)} runs{counts}"]))


if __name__ == "__main__":
    sys.exit(main())

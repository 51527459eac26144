"""python -m rlhf_exp runs [DIR...] [--filter KEY=VALUE] [--sort KEY] [--json] [--compare [--out FOLDER]]

Lists the runs below folders (outputs), the newest last, and compares those that are selected.
"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.errors import ConfigError, printable
from rlhf_exp.launch.subcommand import parse_flags, run_command
from rlhf_exp.runs.figures import percent, points, write_name
from rlhf_exp.runs.listing import KEYS, ListedRun, list_runs
from rlhf_exp.runs.lock import OUTPUTS
from rlhf_exp.runs.selecting import Filter, check_key, sort_runs

EPILOG = f"""\
KEY is one of {", ".join(KEYS)},
or any key of a run's config, such as eval.rows or algo.args.beta.

Examples:
  python -m rlhf_exp runs --filter status=finished --filter tag=ablation
  python -m rlhf_exp runs outputs/countdown --filter 'algo.args.beta>0' --sort gain
  python -m rlhf_exp runs --filter 'name=abl*' --compare --out comparison
"""

PARSER = ArgumentParser(prog="python -m rlhf_exp runs", description=__doc__.splitlines()[2], allow_abbrev=False,
                        epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter)  # fmt: skip
PARSER.add_argument(
    "dirs", nargs="*", type=Path, default=[OUTPUTS], metavar="DIR", help="a run, or a folder of runs (outputs)"
)
PARSER.add_argument("--filter", action="append", default=[], metavar="KEY=VALUE", dest="filters",
                    help="only runs that have this value; also !=, and > >= < <= between numbers; * stands for any"
                    " letters; of several all must hold")  # fmt: skip
PARSER.add_argument("--sort", metavar="KEY", help="by this key, the greatest last")
PARSER.add_argument("--json", action="store_true", help="a JSON list instead of the table")
PARSER.add_argument("--compare", action="store_true", help="write the report on these runs")
PARSER.add_argument("--out", metavar="FOLDER", help="with --compare: where the report goes")
PARSER.add_argument("--against", metavar="SETTING", help="with --compare: as of the command report")

ABSENT = "-"
COLUMNS: tuple[tuple[str, Callable[[ListedRun], str]], ...] = (
    ("name", lambda run: write_name(run.info.get("name"))),
    ("tags", lambda run: write_name(run.tags)),
    ("task", lambda run: write_name(run.info.get("task"))),
    ("algo", lambda run: _write_method(run)),
    ("model", lambda run: write_name(run.info.get("model"))),
    ("seed", lambda run: write_name(run.info.get("seed"))),
    ("status", lambda run: run.status),
    ("steps", lambda run: write_name(run.info.get("steps"))),
    ("accuracy", lambda run: percent(run.accuracy)),
    ("gain", lambda run: points(run.gain)),
    ("began (UTC)", lambda run: write_name(run.info.get("started"))[:16].replace("T", " ")),
    ("run", lambda run: f"{run.path}{f': {run.problem}' if run.problem else ''}"),
)
NUMBERS = ("seed", "steps", "accuracy", "gain")
"""Columns that are aligned to the right."""


def main(arguments: list[str] | None = None) -> int:
    """List what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help, "runs")


def _work(arguments: list[str]) -> int:
    args = parse_flags(PARSER, arguments)
    for flag in ("out", "against"):
        if getattr(args, flag) and not args.compare:
            raise ConfigError([f"--{flag}: has no effect without --compare"])
    filters = [Filter.parse(text) for text in args.filters]
    listed = list({run.path: run for folder in args.dirs for run in list_runs(folder)}.values())
    for condition in filters:
        check_key(f"--filter {condition.text}", condition.key, listed)
    runs = [run for run in listed if all(condition.keeps(run) for condition in filters)]
    if args.sort:
        check_key(f"--sort {args.sort}", args.sort, listed)
        runs = sort_runs(runs, args.sort)
    if args.compare:
        return _compare(runs, args.out, args.against)
    if args.json:
        print(printable(json.dumps([run.describe() for run in runs], indent=2, ensure_ascii=False)))
    else:
        print("\n".join([*_tabulate(runs), printable(_count(runs, len(listed)))]))
    return 0


def _compare(runs: list[ListedRun], out: str | None, against: str | None) -> int:
    """Hand the runs that can be read to the report; returns its exit status."""
    readable = [str(run.path) for run in runs if not run.problem]
    if not readable:
        raise ConfigError(["--compare: no run to compare is left"])
    from rlhf_exp.report.__main__ import main as report

    return report([*readable, *(["--out", out] if out else []), *(["--against", against] if against else [])])


def _tabulate(runs: list[ListedRun]) -> list[str]:
    """Lines of the table; a column that is empty for all runs is left out."""
    columns = []
    for name, write in COLUMNS:
        cells = [printable(" ".join(write(run).split())) or ABSENT for run in runs]
        if set(cells) - {ABSENT}:
            width = max(len(name), *map(len, cells))
            columns.append([cell.rjust(width) if name in NUMBERS else cell.ljust(width) for cell in (name, *cells)])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def _count(runs: list[ListedRun], of_all: int) -> str:
    counts = ", ".join(f"{n} {status}" for status, n in Counter(run.status for run in runs).most_common())
    return f"{len(runs)} of {of_all} runs{f': {counts}' if counts else ''}"


def _write_method(run: ListedRun) -> str:
    """grpo, or with another loss than the one of its name grpo/dr_grpo."""
    algo, loss = write_name(run.info.get("algo")), write_name(run.info.get("loss_type"))
    row = ALGORITHMS.get(algo)
    return f"{algo}/{loss}" if row and algo in row.losses and loss not in ("", algo) else algo


if __name__ == "__main__":
    sys.exit(main())

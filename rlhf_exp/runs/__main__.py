"""python -m rlhf_exp runs [DIR...] [--filter KEY=VALUE] [--sort KEY] [--json] [--compare [--out FOLDER]]

Lists the runs below folders (outputs), the newest last, and compares those that are selected.
"""

import json
import sys
from argparse import ArgumentParser
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from rlhf_exp.commands import COMMANDS, parse_flags, run_command
from rlhf_exp.errors import ConfigError, printable
from rlhf_exp.runs.figures import percent, points, write_name
from rlhf_exp.runs.listing import KEYS, filter_runs, find_varied, list_runs, sort_runs
from rlhf_exp.runs.lock import OUTPUTS

EPILOG = f"KEY is one of {', '.join(KEYS)}, or any key of a run's config, such as algo.args.beta."
PARSER = ArgumentParser(prog="python -m rlhf_exp runs", description=__doc__.splitlines()[2], epilog=EPILOG,
                        allow_abbrev=False)  # fmt: skip
PARSER.add_argument(
    "dirs", nargs="*", type=Path, default=[OUTPUTS], metavar="DIR", help="a run, or a folder of runs (outputs)"
)
PARSER.add_argument("--filter", action="append", default=[], metavar="KEY=VALUE", dest="filters",
                    help="only runs that have this value; also !=, and > >= < <= between numbers; * stands for any"
                    " letters; of several all must hold")  # fmt: skip
PARSER.add_argument("--sort", metavar="KEY", help="by this key, the greatest last")
PARSER.add_argument("--refused", action="store_true", help="also runs that were refused")
PARSER.add_argument("--json", action="store_true", help="a JSON list instead of the table")
PARSER.add_argument("--compare", action="store_true", help="write the report on these runs")
PARSER.add_argument("--out", metavar="FOLDER", help="with --compare: where the report goes")
PARSER.add_argument("--against", metavar="SETTING", help="with --compare: as of the command report")

NUMBERS = ("seed", "steps", "accuracy", "gain")
"""Columns that are aligned to the right."""
SHARED = ("task", "algo", "model")
"""Columns that are left out where runs do not differ in them."""


def main(arguments: list[str] | None = None) -> int:
    """List what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help, "runs")


def _work(arguments: list[str]) -> int:
    args = parse_flags(PARSER, arguments)
    for flag in ("out", "against"):
        if getattr(args, flag) and not args.compare:
            raise ConfigError([f"--{flag}: has no effect without --compare"])
    listed = list({run["run"]: run for folder in args.dirs for run in list_runs(folder)}.values())
    shows_all = args.refused or any(text.startswith("status") for text in args.filters)
    runs = [run for run in listed if shows_all or run["status"] != "refused"]
    hidden = len(listed) - len(runs)
    for condition in args.filters:
        runs = filter_runs(runs, condition)
    if args.sort:
        runs = sort_runs(runs, args.sort)
    if args.compare:
        return _compare(runs, args.out, args.against)
    if args.json:
        print(printable(json.dumps(runs, indent=2, ensure_ascii=False)))
        return 0
    counts = ", ".join(f"{n} {status}" for status, n in Counter(run["status"] for run in runs).most_common())
    more = f"; {hidden} refused: --refused shows them" if hidden else ""
    print("\n".join([*_tabulate(runs), f"{len(runs)} of {len(listed)} runs{f': {counts}' if counts else ''}{more}"]))
    return 0


def _compare(runs: list[dict[str, Any]], out: str | None, against: str | None) -> int:
    """Hand the runs that can be read to the report; returns its exit status."""
    readable = [run["run"] for run in runs if not run["problem"]]
    if not readable:
        raise ConfigError(["--compare: no run to compare is left"])
    report = import_module(COMMANDS["report"])
    return report.main([*readable, *(["--out", out] if out else []), *(["--against", against] if against else [])])


def _tabulate(runs: list[dict[str, Any]]) -> list[str]:
    """Lines of the table, with the settings in which runs differ; a column that is empty for all runs is left out, and
    what several runs share stands in a line above it."""
    rows = [
        {name: printable(" ".join(text.split())) or "-" for name, text in _write_cells(run, typed).items()}
        for run, typed in zip(runs, find_varied(runs), strict=True)
    ]
    shared = [name for name in SHARED if len(rows) > 1 and len({row[name] for row in rows}) == 1]
    lines = [f"all: {' '.join(f'{name}={rows[0][name]}' for name in shared)}"] if shared else []
    rows = [{name: cell for name, cell in row.items() if name not in shared} for row in rows]
    columns = []
    for name in rows[0] if rows else ():
        cells = [row[name] for row in rows]
        if set(cells) != {"-"}:
            width = max(len(name), *map(len, cells))
            columns.append([cell.rjust(width) if name in NUMBERS else cell.ljust(width) for cell in (name, *cells)])
    return lines + ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def _write_cells(run: dict[str, Any], typed: dict[str, str]) -> dict[str, str]:
    """The text of each column, with what was `typed` after the seed. The algorithm is written with a loss that is not
    the one of its name: grpo/dr_grpo."""
    loss = write_name(run["loss_type"])
    cells = {key: write_name(run[key]) for key in ("name", "tags", "task", "algo", "model", "seed")} | typed
    cells |= {key: write_name(run[key]) for key in ("status", "steps")}
    cells["algo"] += f"/{loss}" if loss not in ("", cells["algo"]) else ""
    cells |= {"accuracy": percent(run["accuracy"]), "gain": points(run["gain"])}
    cells["began (UTC)"] = write_name(run["started"])[:16].replace("T", " ")
    return cells | {"run": f"{run['run']}{f': {problem}' if (problem := run['problem']) else ''}"}


if __name__ == "__main__":
    sys.exit(main())

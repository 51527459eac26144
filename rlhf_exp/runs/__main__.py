"""python -m rlhf_exp runs [DIR...] [--filter KEY=VALUE] [--sort KEY] [--json] [--compare [--out FOLDER]] [--prune]

Lists the runs below folders (outputs), the newest last, compares those that are selected, and removes checkpoints.
"""

import json
import sys
from argparse import ArgumentParser
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from rlhf_exp.commands import COMMANDS, parse_flags, run_command
from rlhf_exp.errors import ConfigError, printable, tell
from rlhf_exp.runs.disk import measure_disk, measure_removable, remove_checkpoints
from rlhf_exp.runs.figures import megabytes
from rlhf_exp.runs.listing import KEYS, filter_runs, list_runs, sort_runs, tabulate
from rlhf_exp.runs.lock import OUTPUTS

EPILOG = f"KEY is one of {', '.join(KEYS)}, or any key of a run's config, such as algo.args.beta."
PARSER = ArgumentParser(prog="python -m rlhf_exp runs", description=__doc__.splitlines()[2], epilog=EPILOG,
                        allow_abbrev=False)  # fmt: skip
PARSER.add_argument("dirs", nargs="*", type=Path, default=[OUTPUTS], metavar="DIR",
                    help="a run, or a folder of runs (outputs)")  # fmt: skip
PARSER.add_argument("--filter", action="append", default=[], metavar="KEY=VALUE", dest="filters",
                    help="only runs that have this value; also !=, and > >= < <= between numbers; * stands for any"
                    " letters; of several all must hold")  # fmt: skip
PARSER.add_argument("--sort", metavar="KEY", help="by this key, the greatest last")
PARSER.add_argument("--refused", action="store_true", help="also runs that were refused")
PARSER.add_argument("--json", action="store_true", help="a JSON list instead of the table")
PARSER.add_argument("--compare", action="store_true", help="write the report on these runs")
PARSER.add_argument("--out", metavar="FOLDER", help="with --compare: where the report goes")
PARSER.add_argument("--against", metavar="SETTING", help="with --compare: as of the command report")
PARSER.add_argument("--prune", action="store_true",
                    help="remove the checkpoints of the finished ones among these runs, after a question")  # fmt: skip
PARSER.add_argument("--yes", action="store_true", help="with --prune: without the question")

NUMBERS = ("seed", "steps", "accuracy", "gain")
"""Columns that are aligned to the right."""
NEEDED = {"out": "compare", "against": "compare", "yes": "prune"}
"""Flags that need another one."""


def main(arguments: list[str] | None = None) -> int:
    """List what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help, "runs")


def _work(arguments: list[str]) -> int:
    args = parse_flags(PARSER, arguments)
    for flag, needed in NEEDED.items():
        if getattr(args, flag) and not getattr(args, needed):
            raise ConfigError([f"--{flag}: has no effect without --{needed}"])
    if args.prune and (args.compare or args.json):
        raise ConfigError(["--prune: cannot be combined with --compare or --json"])
    listed = list({run["run"]: run for folder in args.dirs for run in list_runs(folder)}.values())
    shows_all = args.refused or any(text.startswith("status") for text in args.filters)
    runs = [run for run in listed if shows_all or run["status"] != "refused"]
    hidden = len(listed) - len(runs)
    for condition in args.filters:
        runs = filter_runs(runs, condition)
    if args.sort:
        runs = sort_runs(runs, args.sort)
    if args.prune:
        return _prune(runs, args.yes)
    if args.compare:
        return _compare(runs, args.out, args.against)
    if args.json:
        tell(json.dumps(runs, indent=2, ensure_ascii=False))
        return 0
    counts = ", ".join(f"{n} {status}" for status, n in Counter(run["status"] for run in runs).most_common())
    more = f"; {hidden} refused: --refused shows them" if hidden else ""
    tell("\n".join([*_align(runs), f"{len(runs)} of {len(listed)} runs{f': {counts}' if counts else ''}{more}"]))
    return 0


def _compare(runs: list[dict[str, Any]], out: str | None, against: str | None) -> int:
    """Hand the runs that can be read to the report; returns its exit status."""
    readable = [run["run"] for run in runs if not run["problem"]]
    if not readable:
        raise ConfigError(["--compare: no run to compare is left"])
    report = import_module(COMMANDS["report"])
    return report.main([*readable, *(["--out", out] if out else []), *(["--against", against] if against else [])])


def _prune(runs: list[dict[str, Any]], agreed: bool) -> int:
    """Remove the checkpoints of finished runs, after a question unless `agreed`; returns the exit status."""
    sizes = {path: size for run in runs if (size := measure_removable(path := Path(run["run"])))}
    lines = [f"{megabytes(size):>12}  {printable(str(path))}" for path, size in sizes.items()]
    lines.append(f"{megabytes(sum(sizes.values()))} in the checkpoints of {len(sizes)} finished runs")
    tell("\n".join(lines))
    if sizes and not agreed:
        if not sys.stdin.isatty():
            raise ConfigError(["--prune: there is no terminal to ask on; --yes removes without a question"])
        tell("Remove these checkpoints? The models in model/ stay. [y/N] ", end="")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            tell("nothing was removed")
            return 0
    kept = []
    for path in sizes:
        try:
            remove_checkpoints(path)
        except (ConfigError, OSError) as error:
            kept.append(f"{path}: its checkpoints are not removed ({error})")
    removed = [size for path, size in sizes.items() if not measure_disk(path).checkpoints]
    tell(f"removed: {megabytes(sum(removed))}")
    if kept:
        raise ConfigError(kept)
    return 0


def _align(runs: list[dict[str, Any]]) -> list[str]:
    """Lines of the table; what several runs share stands in a line above it."""
    shared, columns = tabulate(runs)
    padded = []
    for name, cells in columns.items():
        width = max(len(name), *map(len, cells))
        padded.append([cell.rjust(width) if name in NUMBERS else cell.ljust(width) for cell in (name, *cells)])
    lines = [f"all: {' '.join(f'{name}={value}' for name, value in shared.items())}"] if shared else []
    return lines + ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]


if __name__ == "__main__":
    sys.exit(main())

"""python -m rlhf_exp report DIR... [--out FOLDER] [--against SETTING]

One run: its report goes into its own folder. Several, or a sweep's folder: a comparison goes into --out. Without
--out a folder of runs also gets index.html, a table of them with links to their reports.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path

from rlhf_exp.analysis.report import find_runs, terminal_table, write_report
from rlhf_exp.analysis.report.index import write_index
from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.errors import ConfigError, refusing, tell
from rlhf_exp.runs.lock import find_latest

PARSER = ArgumentParser(prog="python -m rlhf_exp report", description=__doc__.partition("\n\n")[2], allow_abbrev=False)
PARSER.add_argument(
    "dirs", nargs="+", type=Path, metavar="DIR", help="run folder, or a folder of them; latest: the last run's"
)
PARSER.add_argument("--out", type=Path, metavar="FOLDER", help="where the report goes")
PARSER.add_argument("--against", metavar="SETTING", help="test against this one, not the best: a label or a folder")


def main(arguments: list[str] | None = None) -> int:
    """Write the report that the command line asks for; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help(), "report")


def _work(arguments: list[str]) -> None:
    args = parse_flags(PARSER, arguments)
    dirs = [find_latest(path) for path in args.dirs]
    run_dirs = list(dict.fromkeys(run_dir for path in dirs for run_dir in find_runs(path)))
    out = args.out or (dirs[0] if len(dirs) == 1 else None)
    if out is None:
        raise ConfigError([f"{len(run_dirs)} runs to compare: say where the report goes, with --out FOLDER"])
    if args.against and len(run_dirs) == 1:
        raise ConfigError([f"--against {args.against}: compares several runs, and {dirs[0]} is one run"])
    tell(f"a report on {len(run_dirs)} run{'' if len(run_dirs) == 1 else 's'}: {out}")
    with refusing(f"{out}: the report cannot be written", OSError):
        page = write_report(run_dirs, out, args.against, show=tell)
        if len(run_dirs) == 1:
            tell(terminal_table(run_dirs[0]), is_printable=True)
        pages = [page] if args.out or (out / "run.json").is_file() else [page, write_index(out)]
    tell("\n".join(f"written: {page}" for page in pages))


if __name__ == "__main__":
    sys.exit(main())

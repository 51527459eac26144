"""python -m rlhf_exp.report DIR... [--out FOLDER]

One run: its report goes into its own folder. Several, or a sweep's folder: a comparison goes into --out.
"""

import argparse
import sys
from pathlib import Path

from rlhf_exp.report import NotARun, find_runs, terminal_table, write_report


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0, or 2 for a user's mistake, told in one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m rlhf_exp.report", description=__doc__.splitlines()[2])
    parser.add_argument("dirs", nargs="+", type=Path, metavar="DIR", help="run folder, or a folder of them")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the report goes")
    args = parser.parse_args(arguments)
    try:
        run_dirs = list(dict.fromkeys(run_dir for path in args.dirs for run_dir in find_runs(path)))
        out = args.out or (args.dirs[0] if len(args.dirs) == 1 else None)
        if out is None:
            raise NotARun(f"{len(run_dirs)} runs to compare: say where the report goes, with --out FOLDER")
        print(f"a report on {len(run_dirs)} run{'' if len(run_dirs) == 1 else 's'}: {out}", flush=True)
        page = write_report(run_dirs, out)
        if len(run_dirs) == 1:
            print(terminal_table(run_dirs[0]))
    except (NotARun, OSError) as error:
        print(f"rlhf_exp.report: {error}", file=sys.stderr)
        return 2
    print(f"written: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""python -m rlhf_exp view [RUN...] [--port N] [--index-only]

Shows runs in a browser: an index of all runs, one run, or several compared; what still runs is live.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.errors import ConfigError, printable, say, tell
from rlhf_exp.runs.load import find_runs
from rlhf_exp.runs.lock import OUTPUTS, find_latest, follow_link

EPILOG = """\
A folder of runs gets an index.html; nothing is written into a run. The server is for this machine alone: from another
one, ssh -L 8000:127.0.0.1:8000 HOST and --port 8000.

  python -m rlhf_exp view
  python -m rlhf_exp view latest
  python -m rlhf_exp view outputs/a outputs/b
"""
PARSER = ArgumentParser(prog="python -m rlhf_exp view", description=__doc__.splitlines()[2], allow_abbrev=False,
                        epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter)  # fmt: skip
PARSER.add_argument("dirs", nargs="*", type=Path, default=[OUTPUTS], metavar="RUN",
                    help="a run, several to compare, or a folder of runs (outputs); latest: the last run")  # fmt: skip
PARSER.add_argument("--port", type=int, default=0, metavar="N", help="of the server; 0: any that is free (0)")
PARSER.add_argument("--index-only", action="store_true", help="write the index of a folder of runs, and end")


def main(arguments: list[str] | None = None) -> int:
    """Show what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help, "view")


def _work(arguments: list[str]) -> None:
    args = parse_flags(PARSER, arguments)
    if not 0 <= args.port < 2**16:
        raise ConfigError([f"--port {args.port}: must be from 0 to 65535"])
    dirs = [Path(follow_link(str(find_latest(path)))) for path in args.dirs]
    is_index = len(dirs) == 1 and not (dirs[0] / "run.json").is_file()
    if args.index_only and not is_index:
        raise ConfigError(["--index-only: must have one folder of runs; python -m rlhf_exp report writes other pages"])
    from rlhf_exp.view.index import write_index
    from rlhf_exp.view.server import Site, serve

    runs = () if is_index else tuple(dict.fromkeys(run for path in dirs for run in find_runs(path)))
    if is_index:
        try:
            tell(f"written: {printable(str(write_index(dirs[0])))}")
        except OSError as error:
            if args.index_only:
                raise ConfigError([f"{dirs[0]}: cannot be written, {error.strerror}"]) from None
            say(f"{dirs[0]}: cannot be written, {error.strerror}; it is shown all the same", "view")
    if args.index_only:
        return
    shown = printable(str(dirs[0])) if is_index else f"{len(runs)} run{'s' * (len(runs) > 1)}"
    try:
        serve(Site(dirs[0], runs), args.port, lambda at: tell(f"{shown}: {at} (Ctrl-C ends it)"))
    except OSError as error:
        raise ConfigError([f"--port {args.port}: {error.strerror}"]) from None


if __name__ == "__main__":
    sys.exit(main())

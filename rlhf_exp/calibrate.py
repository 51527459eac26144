"""python -m rlhf_exp calibrate DIR... [--out FILE]

Writes the rules' scores of healthy runs of your own, by which `diagnose --calibration FILE` judges other runs, in place
of those that ship with the package.

A later run that is exchangeable with these n runs is then flagged wrongly with a probability of at most 1 / (n + 1),
or calibration.LEVEL if that is larger. The runs must have been chosen without a look at what the rules say of them.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path

from rlhf_exp.analysis.diagnose import count_parameters, score_run
from rlhf_exp.analysis.diagnose.calibration import LEAST_RUNS, Calibration, save_calibration
from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.errors import ConfigError, tell
from rlhf_exp.runs.load import Run, find_runs, load_run, read_each
from rlhf_exp.runs.lock import find_latest

PARSER = ArgumentParser(prog="python -m rlhf_exp calibrate", description=__doc__.splitlines()[2], allow_abbrev=False)
PARSER.add_argument("dirs", nargs="+", type=Path, metavar="DIR", help="a healthy run's folder, or a folder of them")
PARSER.add_argument("--out", type=Path, metavar="FILE", default=Path("outputs/calibration.json.gz"))

LEAST = LEAST_RUNS + 1
"""Each run is compared with the others."""


def main(arguments: list[str] | None = None) -> int:
    """Calibrate on the runs that the command line names; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help(), "calibrate")


def _work(arguments: list[str]) -> None:
    args = parse_flags(PARSER, arguments)
    folders = dict.fromkeys(folder for path in args.dirs for folder in find_runs(find_latest(path)))
    read = [run for run in read_each(folders, _read) if run is not None]
    runs, found = [run for run, _ in read], [scores for _, scores in read]
    if len(runs) < LEAST:
        raise ConfigError([f"{len(runs)} of {len(folders)} runs are finished trainings; needs at least {LEAST}"])
    if infinite := [run.path for run, of_run in zip(runs, found, strict=True) if float("inf") in of_run.values()]:
        raise ConfigError([f"{path}: is not healthy, a figure in it is not finite; leave it out" for path in infinite])
    scores = {rule: [of_run[rule] for of_run in found] for rule in found[0]}
    largest = max(int(count_parameters(run.config) or 0) for run in runs)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    calibration = Calibration(scores, [str(run.path) for run in runs], parameters=largest + 1)
    save_calibration(calibration, args.out)
    tell(f"written: {args.out}, {len(runs)} runs; a healthy run is flagged with a probability of at most")
    tell(f"1 in {calibration.odds}; use it with diagnose --calibration {args.out}")


def _read(path: Path) -> tuple[Run, dict[str, float | None]] | None:
    """A finished training with its scores; None of another run."""
    run = load_run(path)
    if run.status != "finished" or not run.trains:
        return None
    return run, score_run(run.metrics, run.evaluation, run.config, run.samples)


if __name__ == "__main__":
    sys.exit(main())

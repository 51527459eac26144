"""python -m rlhf_exp diagnose DIR... [--write] | --trl PATH | --wandb FILE [--calibration FILE]

Diagnoses runs, finished or still running: folders of ours, the log of a trainer of TRL, or a CSV from W&B.
"""

import re
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from rlhf_exp.analysis.diagnose import diagnose, diagnose_run, foreign
from rlhf_exp.analysis.diagnose.calibration import Calibration, load_calibration
from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.config.trl_arguments import RANGES
from rlhf_exp.config.values import find_problems
from rlhf_exp.errors import ConfigError, tell
from rlhf_exp.findings import tell_remedies
from rlhf_exp.runs.load import find_runs, load_run, read_each
from rlhf_exp.runs.records import Diagnosis, Evaluation, MetricRows, write
from rlhf_exp.runs.settings import PlainConfig

PARSER = ArgumentParser(prog="python -m rlhf_exp diagnose", description=__doc__.splitlines()[2], allow_abbrev=False)
PARSER.add_argument("dirs", nargs="*", type=Path, metavar="DIR", help="a run, or a folder of runs")
PARSER.add_argument("--write", action="store_true", help="write diagnosis.json into each folder")
PARSER.add_argument("--calibration", type=Path, metavar="FILE", help="of your own healthy runs: rlhf_exp calibrate")
PARSER.add_argument("--trl", type=Path, metavar="PATH", help="trainer_state.json of TRL, or a folder that holds it")
PARSER.add_argument("--wandb", type=Path, metavar="FILE", help="a CSV with the series of one run")
PARSER.add_argument("--beta", type=float, help="of a log: the price of the KL, which no log tells")
PARSER.add_argument("--learning-rate", type=float, help="of a log that does not tell it")


def main(arguments: list[str] | None = None) -> int:
    """Diagnose what the command line names; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help(), "diagnose")


def _work(arguments: list[str]) -> None:
    args = parse_flags(PARSER, arguments)
    log = args.trl or args.wandb
    args.trl = args.trl and foreign.find_state(args.trl)
    files = {"calibration": args.calibration, "trl": args.trl, "wandb": args.wandb}
    given = {"--beta": (args.beta, "beta"), "--learning-rate": (args.learning_rate, "learning_rate")}
    if missing := [f"--{flag} {path}: no such file" for flag, path in files.items() if path and not path.is_file()]:
        raise ConfigError(missing)
    for flag, (value, name) in given.items():
        if value is not None and (problems := find_problems(flag, value, Annotated[float, RANGES[name]])):
            raise ConfigError(problems)
        if value is not None and not log:
            raise ConfigError([f"{flag}: only with --trl or --wandb; a run's folder tells it"])
    if not (args.dirs or args.trl or args.wandb):
        raise ConfigError(["nothing to diagnose; name a run's folder, --trl FILE or --wandb FILE"])
    own = load_calibration(args.calibration) if args.calibration else None
    folders = [path for folder in args.dirs for path in find_runs(folder)]
    diagnosed = read_each(folders, lambda path: (path, _diagnose_folder(path, own))) if folders else []
    if args.write:
        for path, diagnosis in diagnosed:
            write(path / "diagnosis.json", diagnosis)
    for path, diagnosis in diagnosed:
        tell("\n".join(_describe(path, diagnosis)))
    for path, read in ((args.trl, foreign.read_trl), (args.wandb, foreign.read_wandb)):
        if path:
            metrics, told = read(path)
            config = foreign.make_config(metrics, told, args.beta, args.learning_rate)
            notes = [f"remedies are arguments of {foreign.name_class(config)}"]
            notes += [f"give {flag} for figures, which the log does not tell" for flag in foreign.list_unknown(config)]
            tell("\n".join(_describe(path, _diagnose_log(path, metrics, config, own), notes)))


def _diagnose_folder(path: Path, own: Calibration | None) -> Diagnosis:
    run = load_run(path)
    if not run.metrics and not run.evaluation.baseline or "algo" not in run.config:
        raise ConfigError([f"{path}: nothing to diagnose in it: no metrics.jsonl, no evaluation.json or no config"])
    if run.trains and not run.metrics and (steps := run.info.steps):
        raise ConfigError([f"{path}: metrics.jsonl holds no row of its {steps} steps, from which its health is read"])
    return diagnose_run(run, own)


def _diagnose_log(path: Path, metrics: MetricRows, config: PlainConfig, own: Calibration | None) -> Diagnosis:
    """The diagnosis of another tool's log, whose remedies are arguments of TRL."""
    diagnosis = diagnose(metrics, Evaluation(), config, calibration=own)
    if not diagnosis.checked + diagnosis.uncalibrated + diagnosis.findings:
        needed = {name for names in diagnosis.missing.values() for name in names if "evaluation/" not in name}
        series = ", ".join(sorted(needed))
        raise ConfigError([f"{path}: no series that a rule needs, or too few rows; rules read {series}"])
    for finding in diagnosis.findings:
        finding.remedy = finding.remedy and foreign.name_argument(finding.remedy, config)
        finding.cause = re.sub(r"\balgo\.(args\.)?", "", finding.cause)
    diagnosis.remedies = [argument for text in diagnosis.remedies if (argument := foreign.name_argument(text, config))]
    return diagnosis


def _describe(path: Path, diagnosis: Diagnosis, notes: Sequence[str] = ()) -> list[str]:
    """The lines of one diagnosis."""
    lines = [f"{path}: {diagnosis.health}, {len(diagnosis.checked)} rules checked", *(f"  {note}" for note in notes)]
    if first := tell_remedies(diagnosis):
        lines.append(f"  try first: {first}")
    for finding in diagnosis.findings:
        steps = " at steps {} to {}".format(*finding.steps) if finding.steps else ""
        lines.append(f"  {finding.severity} {finding.name}{steps}: {finding.evidence}")
        sure = finding.sureness and finding.sureness.text
        parts = {"likely cause": finding.cause, "try": finding.remedy, "how sure": sure}
        parts["samples"] = ", ".join(finding.samples)
        lines += [f"    {what}: {text}" for what, text in parts.items() if text]
    lines += [f"  changed: {line}" for line in diagnosis.changed]
    missing = [f"{rule} ({', '.join(needs)})" for rule, needs in diagnosis.missing.items()]
    lists = {"checked": diagnosis.checked or ["nothing"], "not calibrated": diagnosis.uncalibrated}
    lists["not checked, since too little was logged or measured of"] = missing
    return [*lines, *(f"  {what}: {', '.join(names)}" for what, names in lists.items() if names)]


if __name__ == "__main__":
    sys.exit(main())

"""python -m rlhf_exp diagnose DIR... [--write] | --trl PATH | --wandb FILE [--calibration FILE]

Diagnoses runs, finished or still running: folders of ours, the log of a trainer of TRL, or a CSV from W&B.
"""

import re
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Annotated, Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.analysis.diagnose import diagnose, diagnose_run
from rlhf_exp.analysis.diagnose.calibration import Calibration, load_calibration
from rlhf_exp.analysis.diagnose.foreign import (
    Log,
    find_state,
    list_unknown,
    make_config,
    name_argument,
    read_trl,
    read_wandb,
)
from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.config.trl_arguments import RANGES
from rlhf_exp.config.values import find_problems
from rlhf_exp.errors import ConfigError, tell
from rlhf_exp.findings import tell_remedies
from rlhf_exp.runs.load import find_runs, load_run, read_each
from rlhf_exp.runs.records import Diagnosis, write

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
    return run_command(_work, arguments, PARSER.format_help, "diagnose")


def _work(arguments: list[str]) -> None:
    args = parse_flags(PARSER, arguments)
    log = args.trl or args.wandb
    args.trl = args.trl and find_state(args.trl)
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
    found = dict(read_each(folders, lambda path: (path, _diagnose_folder(path, own)))) if folders else {}
    if args.write:
        for path, report in found.items():
            write(path / "diagnosis.json", Diagnosis(**report))
    found |= {path: _diagnose_log(path, read(path), own, args.beta, args.learning_rate)
              for path, read in ((args.trl, read_trl), (args.wandb, read_wandb)) if path}  # fmt: skip
    for path, report in found.items():
        tell("\n".join(_tell(path, report)))


def _diagnose_folder(path: Path, own: Calibration | None) -> dict[str, Any]:
    run = load_run(path)
    if not run.metrics and not run.evaluation.baseline or "algo" not in run.config:
        raise ConfigError([f"{path}: nothing to diagnose in it: no metrics.jsonl, no evaluation.json or no config"])
    if run.trains and not run.metrics and (steps := run.info.steps):
        raise ConfigError([f"{path}: metrics.jsonl holds no row of its {steps} steps, from which its health is read"])
    return diagnose_run(run, own)


def _diagnose_log(path: Path, log: Log, own: Calibration | None, beta: float | None, rate: float | None) -> dict:
    """The diagnosis of another tool's log, whose remedies are arguments of TRL."""
    metrics, config = log[0], make_config(*log, beta, rate)
    report = diagnose(metrics, {}, config, calibration=own)
    if not report["checked"] + report["uncalibrated"] + report["findings"]:
        needed = sorted({name for names in report["missing"].values() for name in names if "evaluation/" not in name})
        raise ConfigError([f"{path}: no series that a rule needs, or too few rows; rules read {', '.join(needed)}"])
    for found in report["findings"]:
        found["remedy"] = found["remedy"] and name_argument(found["remedy"], config)
        found["cause"] = re.sub(r"\balgo\.(args\.)?", "", found["cause"])
    report["remedies"] = [name_argument(text, config) for text in report["remedies"]]
    name = ALGORITHMS[config["algo"]["name"]].config_class.rpartition(":")[2]
    lacking = [f"give {flag} for figures, which the log does not tell" for flag in list_unknown(config)]
    return report | {"log": [f"remedies are arguments of {name}", *lacking]}


def _tell(path: Path, report: dict[str, Any]) -> list[str]:
    """The lines of one report."""
    lines = [f"{path}: {report['health']}, {len(report['checked'])} rules checked"]
    lines += [f"  {text}" for text in report.get("log", [])]
    if first := tell_remedies(Diagnosis(**report)):
        lines.append(f"  try first: {first}")
    for found in report["findings"]:
        steps = " at steps {} to {}".format(*found["steps"]) if found["steps"] else ""
        lines.append(f"  {found['severity']} {found['name']}{steps}: {found['evidence']}")
        sure, samples = found.get("sureness", {}).get("text"), ", ".join(found.get("samples", []))
        told = {"likely cause": found["cause"], "try": found["remedy"], "how sure": sure, "samples": samples}
        lines += [f"    {what}: {text}" for what, text in told.items() if text]
    missing = [f"{rule} ({', '.join(needs)})" for rule, needs in report["missing"].items()]
    listed = {"checked": report["checked"] or ["nothing"], "not calibrated": report["uncalibrated"]}
    listed["not checked, for want of"] = missing
    lines += [f"  changed: {line}" for line in report["changed"]]
    return [*lines, *(f"  {what}: {', '.join(names)}" for what, names in listed.items() if names)]


if __name__ == "__main__":
    sys.exit(main())

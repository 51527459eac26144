"""python -m rlhf_exp diagnose DIR... [--write] [--json] | --trl FILE | --wandb FILE [--algo NAME]

Diagnoses runs, finished or still running: folders of ours, the log of a trainer of TRL, or a CSV from W&B.
"""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.diagnose import diagnose
from rlhf_exp.diagnose.calibration import Calibration, load_calibration
from rlhf_exp.diagnose.foreign import guess_algo, read_trl, read_wandb
from rlhf_exp.errors import ConfigError, printable
from rlhf_exp.runs.folder import write_json
from rlhf_exp.runs.load import find_runs, load_run, refusing_damage

PARSER = ArgumentParser(prog="python -m rlhf_exp diagnose", description=__doc__.splitlines()[2], allow_abbrev=False)
PARSER.add_argument("dirs", nargs="*", type=Path, metavar="DIR", help="a run, or a folder of runs")
PARSER.add_argument("--write", action="store_true", help="write diagnosis.json into each folder")
PARSER.add_argument("--json", action="store_true", help="a JSON object instead of lines")
PARSER.add_argument("--calibration", type=Path, metavar="FILE", help="of your own healthy runs: rlhf_exp calibrate")
PARSER.add_argument("--trl", type=Path, metavar="FILE", help="trainer_state.json of transformers or TRL")
PARSER.add_argument("--wandb", type=Path, metavar="FILE", help="a CSV with the series of one run")
PARSER.add_argument(
    "--algo", choices=[name for name, row in ALGORITHMS.items() if row.trains], help="of --trl and --wandb (guessed)"
)


def main(arguments: list[str] | None = None) -> int:
    """Diagnose what the command line names; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help, "diagnose")


def _work(arguments: list[str]) -> int:
    args = parse_flags(PARSER, arguments)
    if args.calibration and not args.calibration.is_file():
        raise ConfigError([f"--calibration {args.calibration}: no such file; python -m rlhf_exp calibrate writes one"])
    own = load_calibration(args.calibration) if args.calibration else None
    reports: dict[str, dict[str, Any]] = {}
    for path in (path for folder in args.dirs for path in find_runs(folder)):
        reports[str(path)] = _diagnose_folder(path, args.write, own)
    for path, read in ((args.trl, read_trl), (args.wandb, read_wandb)):
        if path is not None:
            metrics = read(path)
            config: dict[str, Any] = {"algo": {"name": args.algo or guess_algo(metrics), "args": {}}}
            reports[str(path)] = _require(path, diagnose(metrics, {}, config, calibration=own))
    if not reports:
        raise ConfigError(["nothing to diagnose; name a run's folder, --trl FILE or --wandb FILE"])
    lines = (
        [json.dumps(reports, indent=2)] if args.json else [line for item in reports.items() for line in _tell(*item)]
    )
    print(printable("\n".join(lines)))
    return 0


def _diagnose_folder(path: Path, write: bool, own: Calibration | None) -> dict[str, Any]:
    run = load_run(path)
    if not run.metrics and not run.evaluation or "algo" not in run.config:
        raise ConfigError([f"{path}: nothing to diagnose in it: no metrics.jsonl, no evaluation.json or no config"])
    with refusing_damage(path):
        report = diagnose(run.metrics, run.evaluation, run.config, run.info.get("context_room"), run.samples, own)
    if write:
        write_json(path / "diagnosis.json", report)
    return report


def _require(path: Path, report: dict[str, Any]) -> dict[str, Any]:
    """Raises a ConfigError if no rule applies to a foreign log."""
    if not report["checked"] + report["uncalibrated"] + report["findings"]:
        needed = sorted({name for names in report["missing"].values() for name in names if "evaluation/" not in name})
        raise ConfigError([f"{path}: no series that a rule needs, or too few rows; rules read {', '.join(needed)}"])
    return report


def _tell(name: str, report: dict[str, Any]) -> list[str]:
    """The lines of one report."""
    lines = [f"{name}: {report['health']}, {len(report['checked'])} rules checked"]
    for found in report["findings"]:
        steps = " at steps {} to {}".format(*found["steps"]) if found["steps"] else ""
        lines.append(f"  {found['severity']} {found['name']}{steps}: {found['evidence']}")
        lines.append(f"    likely cause: {found['cause']}")
        lines += [f"    try: {found['remedy']}"] if found["remedy"] else []
        lines += [f"    how sure: {found['sureness']['text']}"] if "sureness" in found else []
        lines += [f"    samples: {', '.join(found['samples'])}"] if "samples" in found else []
    lines += [f"  changed: {line}" for line in report["changed"]]
    lines.append(f"  checked: {', '.join(report['checked']) or 'nothing'}")
    lines += [f"  not calibrated: {', '.join(report['uncalibrated'])}"] if report["uncalibrated"] else []
    missing = [f"{rule} ({', '.join(needs)})" for rule, needs in report["missing"].items()]
    return [*lines, *([f"  not checked, for want of: {'; '.join(missing)}"] if missing else [])]


if __name__ == "__main__":
    sys.exit(main())

"""python -m rlhf_exp diagnose DIR... [--write] | --trl FILE | --wandb FILE [--calibration FILE]

Diagnoses runs, finished or still running: folders of ours, the log of a trainer of TRL, or a CSV from W&B.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.diagnose import diagnose, diagnose_run
from rlhf_exp.diagnose.calibration import Calibration, load_calibration
from rlhf_exp.diagnose.foreign import guess_algo, read_trl, read_wandb
from rlhf_exp.errors import ConfigError, tell
from rlhf_exp.runs.folder import write_json
from rlhf_exp.runs.forecast import list_outputs
from rlhf_exp.runs.load import find_runs, load_run, read_each

PARSER = ArgumentParser(prog="python -m rlhf_exp diagnose", description=__doc__.splitlines()[2], allow_abbrev=False)
PARSER.add_argument("dirs", nargs="*", type=Path, metavar="DIR", help="a run, or a folder of runs")
PARSER.add_argument("--write", action="store_true", help="write diagnosis.json into each folder")
PARSER.add_argument("--calibration", type=Path, metavar="FILE", help="of your own healthy runs: rlhf_exp calibrate")
PARSER.add_argument("--trl", type=Path, metavar="FILE", help="trainer_state.json of transformers or TRL")
PARSER.add_argument("--wandb", type=Path, metavar="FILE", help="a CSV with the series of one run")


def main(arguments: list[str] | None = None) -> int:
    """Diagnose what the command line names; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help, "diagnose")


def _work(arguments: list[str]) -> None:
    args = parse_flags(PARSER, arguments)
    files = {"calibration": args.calibration, "trl": args.trl, "wandb": args.wandb}
    if missing := [f"--{flag} {path}: no such file" for flag, path in files.items() if path and not path.is_file()]:
        raise ConfigError(missing)
    if not (args.dirs or args.trl or args.wandb):
        raise ConfigError(["nothing to diagnose; name a run's folder, --trl FILE or --wandb FILE"])
    own = load_calibration(args.calibration) if args.calibration else None
    outputs = list_outputs() if args.dirs else []
    folders = [path for folder in args.dirs for path in find_runs(folder)]
    found = dict(read_each(folders, lambda path: (path, _diagnose_folder(path, own, outputs)))) if folders else {}
    if args.write:
        for path, report in found.items():
            write_json(path / "diagnosis.json", report)
    found |= {path: _diagnose_log(path, read(path), own)
              for path, read in ((args.trl, read_trl), (args.wandb, read_wandb)) if path}  # fmt: skip
    for path, report in found.items():
        tell("\n".join(_tell(path, report)))


def _diagnose_folder(path: Path, own: Calibration | None, outputs: list[dict[str, Any]]) -> dict[str, Any]:
    run = load_run(path)
    if not run.metrics and not run.evaluation or "algo" not in run.config:
        raise ConfigError([f"{path}: nothing to diagnose in it: no metrics.jsonl, no evaluation.json or no config"])
    if run.trains and not run.metrics and (steps := run.info.get("steps")):
        raise ConfigError([f"{path}: metrics.jsonl holds no row of its {steps} steps, from which its health is read"])
    return diagnose_run(run, own, outputs)


def _diagnose_log(path: Path, metrics: list[dict[str, Any]], own: Calibration | None) -> dict[str, Any]:
    report = diagnose(metrics, {}, {"algo": {"name": guess_algo(metrics), "args": {}}}, calibration=own)
    if not report["checked"] + report["uncalibrated"] + report["findings"]:
        needed = sorted({name for names in report["missing"].values() for name in names if "evaluation/" not in name})
        raise ConfigError([f"{path}: no series that a rule needs, or too few rows; rules read {', '.join(needed)}"])
    return report


def _tell(path: Path, report: dict[str, Any]) -> list[str]:
    """The lines of one report."""
    lines = [f"{path}: {report['health']}, {len(report['checked'])} rules checked"]
    for found in report["findings"]:
        steps = " at steps {} to {}".format(*found["steps"]) if found["steps"] else ""
        lines.append(f"  {found['severity']} {found['name']}{steps}: {found['evidence']}")
        sure, samples = found.get("sureness", {}).get("text"), ", ".join(found.get("samples", []))
        told = {"likely cause": found["cause"], "try": found["remedy"], "how sure": sure, "samples": samples}
        lines += [f"    {what}: {text}" for what, text in told.items() if text]
    if len(report["remedies"]) > 1:
        lines.append(f"  together: {' '.join(report['remedies'])}")
    missing = [f"{rule} ({', '.join(needs)})" for rule, needs in report["missing"].items()]
    listed = {"checked": report["checked"] or ["nothing"], "not calibrated": report["uncalibrated"]}
    listed["not checked, for want of"] = missing
    lines += [f"  changed: {line}" for line in report["changed"]]
    return [*lines, *(f"  {what}: {', '.join(names)}" for what, names in listed.items() if names)]


if __name__ == "__main__":
    sys.exit(main())

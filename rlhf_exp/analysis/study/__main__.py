"""python -m rlhf_exp study [NAME] [OVERRIDES...] [--dry-run] [--only STAGE] [--report] [--out FOLDER]

Runs the stages of a study, sweeps/NAME.yaml, one after the other, and writes one report; without NAME lists the
studies. The same command again resumes: what has finished, with the same settings and inputs, is skipped.
"""

import shlex
import sys
import time
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

from rlhf_exp.analysis.study.plan import AGAIN, SKIP, describe_plan, plan_study
from rlhf_exp.analysis.study.stages import Study, list_studies, read_study
from rlhf_exp.commands import guard, parse_flags, run_command
from rlhf_exp.config.device import targets_other_hardware
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import one_of
from rlhf_exp.errors import FAILED, REFUSED, SIGNALLED, ConfigError, Stop, say, tell
from rlhf_exp.launch.jobs import Typed, read_sweep
from rlhf_exp.launch.sweep import run_sweep
from rlhf_exp.runs.lock import claim, find_owner, make_new
from rlhf_exp.runs.records import read_record

PARSER = ArgumentParser(prog="python -m rlhf_exp study", description=" ".join(__doc__.splitlines()[2:]),
                        allow_abbrev=False)  # fmt: skip
PARSER.add_argument("name", nargs="?", metavar="NAME", help="a study of sweeps/, or a file of your own, NAME.yaml")
PARSER.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="follow the options of each stage: seed=0,1")
PARSER.add_argument("--dry-run", action="store_true", help="only the plan; with hardware=gpu_24gb also what fits there")
PARSER.add_argument("--only", metavar="STAGE", help="this stage alone; those that it needs must have finished")
PARSER.add_argument("--report", action="store_true", help="only write the report again")
PARSER.add_argument("--out", metavar="FOLDER", help="instead of outputs/NAME")


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help(), "study")


def _work(arguments: list[str]) -> int:
    args = parse_flags(PARSER, arguments)
    if args.name is None:
        tell("\n".join(f"{name:<34} {title}" for name, title in list_studies().items()))
        return 0
    study = read_study(args.name, args.overrides, args.out)
    if args.only not in (None, *study.stages):
        raise ConfigError([f"--only {args.only}: no such stage; {one_of(args.only, list(study.stages))}"])
    stages = [args.only] if args.only else list(study.stages)
    if args.report:
        return _report(study)
    tell(f"{study.file.stem}: {study.title}")
    if study.claims is not None:
        import_module("rlhf_exp.analysis.study.claims").read_claims(study.claims)  # imports scipy
    if args.dry_run:
        plan = plan_study(study, stages, "dry_run=true")
        tell(describe_plan(study, stages, plan))
        return _check_fit({item.job.arm: item.config for item in plan if targets_other_hardware(item.config)})
    with claim(str(study.out), numbered=False):
        _wait_for_owners([job.folder for stage in study.stages.values() for job in stage.jobs])
        tell(describe_plan(study, stages, plan_study(study, stages)))
        statuses = {name: _run_stage(study, name) for name in stages}
        if bad := [name for name in stages if statuses[name]]:
            say(f"stages that did not succeed: {', '.join(bad)}", "study")
        return _report(study) or min((statuses[name] for name in bad), default=0)


def _check_fit(arms: dict[str, Config]) -> int:
    """Print a table of what each arm needs of the machine that `hardware=` names; returns the exit status.

    Raises:
        ConfigError: one does not fit.
    """
    for config in arms.values():
        prepare_hub(config)
    if arms:
        import_module("rlhf_exp.dry_run.show").print_dry_runs(arms)  # imports torch
    return 0


def _wait_for_owners(folders: list[Path]) -> None:
    """Wait for runs of a study whose process was killed: they are about to stop."""
    while owner := next(filter(None, map(find_owner, folders)), None):
        tell(f"waits for {owner}, which still runs a job of this study")
        time.sleep(2)


def _run_stage(study: Study, name: str) -> int:
    """Run a stage as the sweep that it is; returns its exit status.

    Raises:
        Stop: a signal has ended it.
    """
    stage = study.stages[name]
    needed = {folder: read_record(folder).status for job in stage.jobs for folder in job.needs.values()}
    if missing := [str(folder) for folder, status in needed.items() if status != "finished"]:
        way = "; with seed=A,B this stage runs for the other seeds"
        say(f"{name}: not started, since these have not finished: {', '.join(missing)}{way}", "study")
        return FAILED
    try:
        plan = plan_study(study, [name])
    except ConfigError as error:
        for line in error.problems:
            say(line, "study")
        return REFUSED
    if all(item.what == SKIP for item in plan):
        return 0
    for item in plan:
        if item.what == AGAIN:
            aside = make_new(study.out / ".replaced" / name / item.job.folder.name)
            tell(f"{item.job.folder}: {item.why}; what is there is now {item.job.folder.replace(aside)}")
    typed = Typed(stage.options, stage.config, str(study.file.parent))
    arguments = ["-m", *typed.list_arguments()]
    tell(f"\n{name}: {shlex.join(['python', '-m', 'rlhf_exp', *arguments])}")
    status = guard(lambda: run_sweep(*read_sweep(typed, arguments), reports=False))
    if status > SIGNALLED:
        say(f"stopped in the stage {name}; the same command resumes", "study")
        raise Stop(status - SIGNALLED)
    return status


def _report(study: Study) -> int:
    """Write the report, and print its answer."""
    from rlhf_exp.analysis.study.page import write_study

    page, answer = write_study(study)
    tell(f"\n{answer}\nreport  {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Checks before training: the grader, the data and its text, memory. One table, preflight.json, and a refusal.

    check_room(experiment)                      # memory, before anything is sampled or measured
    run_preflight(experiment, {"baseline": completions}, memory)  # between the start model's measurement and training
    FirstSteps(trainer, experiment)             # a callback that checks the first steps (first_steps.py)

The completions are those just measured; nothing is sampled here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rlhf_exp import processes
from rlhf_exp.config.checks import choose_remedy
from rlhf_exp.errors import ConfigError, printable, tell
from rlhf_exp.experiment import Experiment
from rlhf_exp.preflight.check import Check
from rlhf_exp.preflight.environment import check_environments
from rlhf_exp.preflight.grader import check_grader
from rlhf_exp.preflight.memory import check_memory
from rlhf_exp.preflight.teacher import check_teacher
from rlhf_exp.preflight.texts import check_texts
from rlhf_exp.runs import records
from rlhf_exp.runs.records import Completion, Preflight, read, write
from rlhf_exp.runs.settings import PlainConfig

FILE = "preflight.json"


def check_room(experiment: Experiment) -> Check:
    """Refuse a run that does not fit into memory before it takes any time; what may not fit is said. Returns the check.

    Raises:
        ConfigError: it does not fit.
    """
    check = processes.on_main(check_memory, experiment)
    if check.status != "passed":
        record_checks(experiment, [check])
    return check


def run_preflight(experiment: Experiment, measured: Mapping[str, Sequence[Completion]], memory: Check) -> None:
    """Run every check that comes before the first step, on all processes.

    Args:
        measured: judged completions of the start model, `baseline`, empty for a reward model; perhaps of a `teacher`.
        memory: of `check_room`.

    Raises:
        ConfigError: a check failed.
    """

    start = measured["baseline"]

    def check() -> list[Check]:
        found = [*check_environments(experiment, start)]
        found += [*check_grader(experiment, start), *check_texts(experiment, start), memory]
        return [*found, check_teacher(experiment, start, measured["teacher"])] if "teacher" in measured else found

    record_checks(experiment, processes.on_main(check))


def record_checks(experiment: Experiment, checks: Sequence[Check], summary: str | None = None) -> None:
    """Add the checks to preflight.json and print them, as a table, or as the `summary` if all have passed. All
    processes call it together.

    Raises:
        ConfigError: before the first step a check failed: a line for each, with what to change. Of the first steps
            (`summary`) the caller ends the run.
    """
    path, config = experiment.folder.path / FILE, asdict(experiment.cfg)
    found = [describe_check(check, config) for check in checks]
    kept = [one for one in read(path, Preflight).checks if one.name not in {check.name for check in checks}]
    processes.barrier()  # every process has read the file
    write(path, Preflight(checks=kept + found))
    if found:
        is_fine = all(one.status in ("passed", "skipped") for one in found)
        tell(summary if summary and is_fine else format_checks(found))
    failed = [one for one in found if one.status == "failed"]
    if failed and not summary:
        raise ConfigError([
            f"preflight, {one.name}: {one.evidence}{_advise(one, '; use ')}; preflight=off skips the checks"
            for one in failed
        ])  # fmt: skip


def describe_check(check: Check, config: PlainConfig) -> records.Check:
    """The check as preflight.json has it, its remedy the first override that the resolved config accepts, or null; none
    of what has passed."""
    remedy = None if check.status == "passed" else choose_remedy(config, check.remedy)
    return records.Check(**check._asdict() | {"remedy": remedy})


def format_checks(found: Sequence[records.Check]) -> str:
    """A line for each check, name, status and evidence, for a terminal."""
    width = max((len(one.name) for one in found), default=0)
    lines = [f"  {one.name:<{width}}  {one.status:<7}  {one.evidence}{_advise(one, '; try ')}" for one in found]
    return printable("\n".join(lines))


def _advise(one: records.Check, verb: str) -> str:
    return f"{verb}{one.remedy}" if one.remedy else ""

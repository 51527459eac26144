"""Plans a study: checks every job before the first runs, and says which are skipped, resumed or run, and why.

    plan = plan_study(study, study.stages)
    print(describe_plan(plan))

What a run is, is its config and the content of its inputs (runs/plan.py): the weights that it needs, rows, rewards.
"""

import copy
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig

from rlhf_exp.analysis.study.stages import Job, Study
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError, collecting, within
from rlhf_exp.launch.job import check_job
from rlhf_exp.launch.jobs import Typed
from rlhf_exp.runs.checkpoints import find_checkpoint
from rlhf_exp.runs.figures import align
from rlhf_exp.runs.lock import find_owner
from rlhf_exp.runs.plan import OtherRun, Plan, plan_job
from rlhf_exp.runs.records import read_record

SKIP, RESUME, RUN, AGAIN, LATER = "skip", "resume", "run", "run again", "run or skip"


class Planned(NamedTuple):
    """What happens with a job, and why. AGAIN: what another run left is moved aside; LATER: it runs again if what it
    needs comes out with other weights."""

    stage: str
    job: Job
    config: Config
    what: str
    why: str


def plan_study(study: Study, stages: Iterable[str], *further: str) -> list[Planned]:
    """The plan of some stages, in their order; what they need of others must have finished.

    Args:
        further: overrides of every job.

    Raises:
        ConfigError: the problems of all jobs, a line each.
    """
    planned: dict[Path, Planned | None] = {}
    problems = list[str]()
    for stage in (study.stages[name] for name in stages):
        composed: dict[str, tuple[DictConfig, DictConfig]] = {}
        for job in stage.jobs:
            planned[job.folder] = None
            with collecting(problems), within(stage.name):
                if job.arm not in composed:  # 0.15 s
                    typed = Typed([*job.overrides, *further], stage.config, str(study.file.parent))
                    composed[job.arm] = typed.compose()
                config, first = _check(*copy.deepcopy(composed[job.arm]), job, planned)
                found = _decide(study, job, config, first)
                planned[job.folder] = Planned(stage.name, job, config, *found)
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    return [item for item in planned.values() if item is not None]


def describe_plan(study: Study, stages: Iterable[str], plan: list[Planned]) -> str:
    """A table for a terminal."""
    groups = Counter((item.stage, item.what, item.why) for item in plan)
    rows = [("stage", "runs", "what", "why")]
    rows += [(stage, str(n), what, why) for (stage, what, why), n in groups.items()]
    return "\n".join(align(rows))


def _check(
    cfg: DictConfig, settings: DictConfig, job: Job, planned: dict[Path, Planned | None]
) -> tuple[Config, list[str]]:
    """The checked config of a job, and the stages whose runs come first. A model that is not there yet has the shape of
    the one that its run starts from, which stands for it here.

    Args:
        cfg: of its arm, with Hydra's own part.
        planned: the jobs before; None is one with problems.
    """
    cfg.output_dir, first, absent = str(job.folder), [], []
    if job.seed is not None:
        cfg.seed = int(job.seed) if job.seed.isdigit() else job.seed
    for key, folder in job.needs.items():
        if folder not in planned and read_record(folder).status != "finished":
            raise ConfigError([f"{key}: needs the run {folder}, which has not finished; leave out --only"])
        needed = planned.get(folder)
        if folder in planned and (needed is None or needed.what != SKIP):
            absent.append(key.lstrip("+"))
            first += [needed.stage] if needed else []
            for name in ("name", "path", "base", "init") if key == "model.path" else ():
                cfg.model[name] = getattr(needed.config.model, name) if needed else cfg.model[name]
    return check_job(cfg, settings, absent), first


def _decide(study: Study, job: Job, config: Config, first: list[str]) -> tuple[str, str]:
    """What happens with a job, and why."""
    status = read_record(job.folder).status
    if owner := find_owner(job.folder):
        return RESUME, f"{owner} runs it now"
    if first:
        then = f"{', '.join(dict.fromkeys(first))} runs first"
        return (LATER, f"{then}; skipped if that has the same weights") if status == "finished" else (RUN, then)
    try:
        plan = plan_job(config)
    except OtherRun as error:
        return AGAIN, error.why
    if plan != Plan.START:
        found = find_checkpoint(job.folder, by_size=True).path
        return (SKIP, "finished") if plan == Plan.SKIP else (RESUME, f"was {status}; from {found and found.name}")
    others = [(stage, other) for stage in study.stages for other in study.stages[stage].jobs]
    users = [stage for stage, other in others if job.folder in other.needs.values() and _is_finished(other)]
    if status is None and users:
        return RUN, f"its folder is gone, and {', '.join(dict.fromkeys(users))} needs it"
    return RUN, "new" if status is None else f"was {status}, without a checkpoint"


def _is_finished(job: Job) -> bool:
    return read_record(job.folder).status == "finished"

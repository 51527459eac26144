"""Prints what runs will be: five lines for one, a table for the jobs of a sweep.

print_dry_run(cfg)
print_dry_runs({"seed=0": cfg, "seed=1": other})
"""

from collections import Counter
from collections.abc import Mapping

from rlhf_exp.config.schema import Config
from rlhf_exp.dry_run.describe import DryRun, describe_dry_run
from rlhf_exp.errors import ConfigError, collecting, tell, within
from rlhf_exp.runs.figures import align


def print_dry_run(cfg: Config) -> None:
    """Print five lines, and with `verbose` all others.

    Raises:
        ConfigError: what a run would refuse before it loads weights, or that the run does not fit into memory.
    """
    found = describe_dry_run(cfg)
    more = "" if cfg.verbose else "verbose=true shows defaults, formulas and a prompt"
    lines = [
        f"dry run  {found.what}",
        f"folder   {cfg.output_dir}, which a run would write",
        f"tokens   {found.tokens}",
        f"memory   {found.fits}: {found.needs}{found.place}",
        f"checks   {'; '.join(filter(None, [found.checks, *_list_unusual([found]), more]))}",
    ]
    tell("\n".join([*lines, *(found.details if cfg.verbose else [])]))
    if found.problems:
        raise ConfigError(found.problems)


def print_dry_runs(named: Mapping[str, Config]) -> None:
    """Print a table with a line for each job, by its name, and the totals; before it, with `verbose`, each job's
    details.

    Raises:
        ConfigError: the problems of all jobs.
    """
    rows, found, problems = [("job", "memory", "checks")], list[DryRun](), list[str]()
    for name, cfg in named.items():
        row = (name, "-", "FAILED")
        with collecting(problems), within(name):
            one = describe_dry_run(cfg)
            found.append(one)
            row = (name, f"{one.fits}: {one.needs}", one.checks)
            if cfg.verbose:
                tell("\n".join([f"{name}: {one.what}", *one.details, ""]))
            if one.problems:
                raise ConfigError(one.problems)
        rows.append(row)
    tell("\n".join([*align(rows), _sum(rows[1:]), *_list_unusual(found)]))
    if problems:
        raise ConfigError(problems)


def _sum(rows: list[tuple[str, str, str]]) -> str:
    """The totals below the table."""
    memory, checks = (
        ", ".join(f"{n} {what}" for what, n in Counter(texts).items())
        for texts in ([row[1].partition(":")[0] for row in rows], [row[2] for row in rows])
    )
    return f"{len(rows)} jobs: memory: {memory}; checks: {checks}"


def _list_unusual(found: list[DryRun]) -> list[str]:
    """What was not checked, and what the loader says, each once."""
    unchecked = dict.fromkeys(line for one in found for line in one.unchecked)
    notes = dict.fromkeys(line for one in found for line in one.notes)
    return [*([f"not checked here: {'; '.join(unchecked)}"] if unchecked else []), *notes]

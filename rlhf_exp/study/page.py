"""Writes a study's report from the folders of its runs: report.md, report.html and plots/ in the study's folder.

page = write_study(read_study("brevity"))
"""

from pathlib import Path

from rlhf_exp.errors import ConfigError
from rlhf_exp.report.compare import describe_runs
from rlhf_exp.report.page import Block, Heading, Table, Text, write_page
from rlhf_exp.report.single import describe_run
from rlhf_exp.runs.figures import duration
from rlhf_exp.runs.load import Run, load_run, refusing_damage
from rlhf_exp.study.stages import Study


def write_study(study: Study) -> Path:
    """Write the report on the runs that there are; returns the path of report.html.

    Raises:
        ConfigError: there is none yet, or one cannot be read.
    """
    from rlhf_exp.study.claims import describe_claims

    jobs = [job for stage in study.stages.values() for job in stage.jobs]
    labels = {job.folder: job.arm for job in jobs if (job.folder / "run.json").is_file()}
    if not labels:
        raise ConfigError([f"{study.out}: no run of this study is in it yet"])
    runs = [load_run(folder) for folder in labels]
    done = {arm: [run for run in runs if labels[run.path] == arm and run.status == "finished"]
            for arm in dict.fromkeys(job.arm for job in jobs)}  # fmt: skip
    with refusing_damage(study.out):
        rows = [[arm, f"{len(group)} of {[job.arm for job in jobs].count(arm)}", *_sum_cost(group)]
                for arm, group in done.items()]  # fmt: skip
        blocks: list[Block] = [Heading(study.title, 1), Text(study.asks), Heading("Stages")]
        blocks.append(Table(["arm", "runs finished", "time of all", "most memory"], rows))
        _, *described = describe_runs(runs, labels=labels) if len(runs) > 1 else describe_run(runs[0])  # but its title
        blocks += described
        measured = {arm: group for arm, group in done.items() if group}
        blocks += describe_claims(study.claims, measured) if study.claims else []
        study.out.mkdir(parents=True, exist_ok=True)
        return write_page(blocks, study.out)


def _sum_cost(group: list[Run]) -> tuple[str, str]:
    """The time of all runs together, and the most memory that one took."""
    if not group:
        return "-", "-"
    seconds = sum(sum(run.info["seconds"].values()) for run in group)
    return duration(seconds), f"{max(run.info['peak_memory_mb'] for run in group):,.0f} MB"

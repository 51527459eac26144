"""Writes a study's report from the folders of its runs: report.md, report.html and plots/ in the study's folder.

page = write_study(read_study("brevity"))
"""

from pathlib import Path

from rlhf_exp.errors import ConfigError
from rlhf_exp.report.columns import CORRECT_BEFORE, REWARDED_BEFORE, align
from rlhf_exp.report.compare import describe_runs, tabulate_study
from rlhf_exp.report.groups import Groups
from rlhf_exp.report.page import Block, Heading, Table, Text, write_page
from rlhf_exp.report.single import describe_preferences, describe_run
from rlhf_exp.runs.figures import duration, number, percent
from rlhf_exp.runs.load import Run, load_run, refusing_damage
from rlhf_exp.stats import LEVELS, SHARES, crossed_interval
from rlhf_exp.study.stages import Stage, Study


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
        blocks: list[Block] = [Heading(study.title, 1), Text(study.asks)]
        stages = {job.folder: stage for stage in study.stages.values() for job in stage.jobs}
        compared, *others = _divide(stages, [run for run in runs if run.trains], labels) or [runs]
        _, *described = describe_runs(compared, labels=labels) if len(compared) > 1 else describe_run(compared[0])
        blocks += described  # without its title
        for family in others:
            arms = ", ".join(dict.fromkeys(labels[run.path] for run in family))
            blocks.append(Heading(f"Apart from these: {arms}"))
            blocks += tabulate_study(family, labels, stages[family[0].path].against)
            if family[0].trains_scorer:
                shown = max(family, key=lambda run: len(done[labels[run.path]]))
                blocks += [Text(f"Of {labels[shown.path]}, {shown.path.name}:"), *describe_preferences(shown)]
        alone = {arm: group for arm, group in done.items() if group and not group[0].trains}
        blocks += [Heading("Models measured alone"), _tabulate_alone(alone)] if alone else []
        blocks += [Heading("Stages"), Table(["arm", "runs finished", "time of all", "most memory"], rows)]
        measured = {arm: group for arm, group in done.items() if group}
        blocks += describe_claims(study.claims, measured) if study.claims else []
        study.out.mkdir(parents=True, exist_ok=True)
        return write_page(blocks, study.out)


def _divide(stages: dict[Path, Stage], runs: list[Run], labels: dict[Path, str]) -> list[list[Run]]:
    """The runs by the held-out rows that the first run of their arm was measured on, since figures of other rows cannot
    be compared, and those of stages that the study sets apart, by what they are compared with; these last, most runs
    first."""
    of_arm: dict[str, tuple] = {}
    families: dict[tuple, list[Run]] = {}
    for run in runs:
        rows = run.preferences if run.trains_scorer else run.sampled("baseline")
        stage = stages[run.path]
        key = (stage.apart, stage.against), run.trains_scorer, frozenset((row["id"], row["prompt"]) for row in rows)
        families.setdefault(of_arm.setdefault(labels[run.path], key), []).append(run)
    return [families[key] for key in sorted(families, key=lambda key: (key[0] != (False, None), -len(families[key])))]


def _tabulate_alone(groups: Groups) -> Table:
    """The figures of models that were not trained further, over seeds, rows and sampling."""
    figures = {"accuracy": (CORRECT_BEFORE, SHARES, percent), "reward": (REWARDED_BEFORE, LEVELS, number(".3f"))}
    rows = []
    for arm, group in groups.items():
        found = [(align(group, read), kind, write) for read, kind, write in figures.values()]
        cells = ["-" if of is None else write(crossed_interval(of, kind)) for of, kind, write in found]
        rows.append([arm, str(len(group)), *cells])
    return Table(["arm", "seeds", *figures], rows)


def _sum_cost(group: list[Run]) -> tuple[str, str]:
    """The time of all runs together, and the most memory that one took."""
    if not group:
        return "-", "-"
    seconds = sum(sum(run.info["seconds"].values()) for run in group)
    return duration(seconds), f"{max(run.info['peak_memory_mb'] for run in group):,.0f} MB"

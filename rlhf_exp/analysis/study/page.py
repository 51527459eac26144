"""Writes a study's report from the folders of its runs: report.md, report.html and plots/ in the study's folder.

page = write_study(read_study("brevity"))
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rlhf_exp.analysis.frame import stack
from rlhf_exp.analysis.report.compare import describe_runs, tabulate_study
from rlhf_exp.analysis.report.curves import HEADING
from rlhf_exp.analysis.report.groups import Groups, gather
from rlhf_exp.analysis.report.page import NOTES, Block, Heading, Table, Text, footnote, write_page
from rlhf_exp.analysis.report.single import describe_preferences, describe_run, load_runs
from rlhf_exp.analysis.stats import LEVELS, SHARES, crossed_interval
from rlhf_exp.analysis.study.stages import Stage, Study
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.figures import duration, number, percent
from rlhf_exp.runs.load import Run, refusing_damage
from rlhf_exp.runs.records import Completion, Pair


def write_study(study: Study) -> Path:
    """Write the report on the runs that there are; returns the path of report.html.

    Raises:
        ConfigError: there is none yet, or one cannot be read.
    """
    from rlhf_exp.analysis.study.claims import describe_claims

    jobs = [job for stage in study.stages.values() for job in stage.jobs]
    labels = {job.folder: job.arm for job in jobs if (job.folder / "run.json").is_file()}
    if not labels:
        raise ConfigError([f"{study.out}: no run of this study is in it yet"])
    runs = load_runs(labels)
    with refusing_damage(study.out):
        planned = Counter(job.arm for job in jobs)
        finished = gather([run for run in runs if run.status == "finished"], labels)
        done = {arm: finished[arm] for arm in planned if arm in finished}
        rows = [[arm, f"{len(done.get(arm, ()))} of {n}", *_sum_cost(done.get(arm))] for arm, n in planned.items()]
        blocks: list[Block] = [Heading(study.title, 1), Text(study.asks)]
        stages = {job.folder: stage for stage in study.stages.values() for job in stage.jobs}
        compared, *others = _divide(stages, [run for run in runs if run.trains], labels) or [runs]
        _, *described = describe_runs(compared, labels=labels) if len(compared) > 1 else describe_run(compared[0])
        alone = {arm: group for arm, group in done.items() if not group[0].trains}
        place = next((i for i, block in enumerate(described) if block == HEADING), len(described))
        described[place:place] = describe_alone(alone) if alone else []
        blocks += described  # without its title
        for family in others:
            arms = ", ".join(dict.fromkeys(labels[run.path] for run in family))
            blocks.append(Heading(f"Apart from these: {arms}"))
            blocks += tabulate_study(family, labels, stages[family[0].path].against)
            if family[0].trains_scorer:
                shown = max(family, key=lambda run: len(done.get(labels[run.path], ())))
                blocks += [Text(f"Of {labels[shown.path]}, {shown.path.name}:"), *describe_preferences(shown)]
        blocks += [Heading("Stages"), Table(["arm", "runs finished", "time of all", "most memory"], rows)]
        blocks += describe_claims(study.claims, done) if study.claims else []
        study.out.mkdir(parents=True, exist_ok=True)
        return write_page(blocks, study.out)


def _divide(stages: dict[Path, Stage], runs: list[Run], labels: dict[Path, str]) -> list[list[Run]]:
    """The runs by the held-out rows that the first run of their arm was measured on, since figures of other rows cannot
    be compared, and those of stages that the study sets apart, by what they are compared with; these last, most runs
    first."""
    of_arm: dict[str, tuple] = {}
    families: dict[tuple, list[Run]] = {}
    for run in runs:
        stage = stages[run.path]
        key = (stage.apart, stage.against), run.trains_scorer, _list_rows(run)
        families.setdefault(of_arm.setdefault(labels[run.path], key), []).append(run)
    return [families[key] for key in sorted(families, key=lambda key: (key[0] != (False, None), -len(families[key])))]


def describe_alone(groups: Groups) -> list[Block]:
    """The figures of models that were not trained, over seeds, rows and sampling."""
    rows = []
    for arm, group in groups.items():
        of_rows = (
            (stack(group, "baseline", "accuracy"), SHARES, percent),
            (stack(group, "baseline", "reward"), LEVELS, number(".3f")),
        )
        cells = ["-" if of is None else write(crossed_interval(of, kind)) for of, kind, write in of_rows]
        rows.append([arm, str(len(group)), *cells])
    table = Table(["arm", "seeds", "accuracy", "reward"], rows)
    return [Heading("Models measured alone"), table, footnote(NOTES["study"])]


def _list_rows(run: Run) -> frozenset[tuple[str, str]]:
    """The held-out rows that it was measured on."""
    rows: Sequence[Pair | Completion] = run.preferences if run.trains_scorer else run.sampled("baseline")
    return frozenset((row.id, row.prompt) for row in rows)


def _sum_cost(group: list[Run] | None) -> tuple[str, str]:
    """The time of all runs together, and the most memory that one took."""
    if group is None:
        return "-", "-"
    seconds = sum(sum(run.info.seconds.values()) for run in group)
    return duration(seconds), f"{max(run.info.peak_memory_mb for run in group):,.0f} MB"

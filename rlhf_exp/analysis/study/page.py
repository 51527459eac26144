"""Writes a study's report from the folders of its runs, into the study's folder: report.html; report.md, which has the
answer, at most three pictures and the results; claims.html and claims.md; and every table in tables/, as CSV.

page, answer = write_study(read_study("brevity"))
"""

import csv
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlhf_exp.analysis.frame import stack
from rlhf_exp.analysis.report.answer import AGAINST_START, HEALTH
from rlhf_exp.analysis.report.compare import Comparison, describe_commands, describe_runs, tabulate_study
from rlhf_exp.analysis.report.curves import HEADING
from rlhf_exp.analysis.report.groups import Groups, gather
from rlhf_exp.analysis.report.page import (
    NOTES,
    Block,
    Callout,
    Figures,
    Heading,
    Table,
    Text,
    Widget,
    footnote,
    to_plain,
    to_text,
    write_page,
)
from rlhf_exp.analysis.report.single import describe_preferences, describe_run, load_runs
from rlhf_exp.analysis.stats import LEVELS, SHARES, crossed_interval
from rlhf_exp.analysis.study.stages import Job, Stage, Study
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.figures import duration, number, percent
from rlhf_exp.runs.load import Run, refusing_damage
from rlhf_exp.runs.records import Completion, Pair


def write_study(study: Study) -> tuple[Path, str]:
    """Write the report on the runs that there are; returns the path of report.html, and the answer for a terminal.

    Raises:
        ConfigError: there is none yet, or one cannot be read.
    """
    jobs = [job for stage in study.stages.values() for job in stage.jobs]
    labels = {job.folder: job.arm for job in jobs if (job.folder / "run.json").is_file()}
    if not labels:
        raise ConfigError([f"{study.out}: no run of this study is in it yet"])
    runs = load_runs(labels)
    with refusing_damage(study.out):
        planned = Counter(job.arm for job in jobs)
        finished = gather([run for run in runs if run.status == "finished"], labels)
        done = {arm: finished[arm] for arm in planned if arm in finished}
        sets, repeat = _list_own(jobs), describe_commands([study.command])
        rows = [[arm, f"{len(done.get(arm, ()))} of {n}", *_sum_cost(done.get(arm)), sets[arm]]
                for arm, n in planned.items()]  # fmt: skip
        stages = {job.folder: stage for stage in study.stages.values() for job in stage.jobs}
        compared, *others = _divide(stages, [run for run in runs if run.trains], labels) or [runs]
        found = Comparison(compared, stages[compared[0].path].against, labels) if len(compared) > 1 else None
        apart = [_compare_apart(family, stages, labels) for family in others]
        further = [remark for name, of in apart for remark in _answer_apart(name, of)]
        _, *described = describe_runs(found, further) if found else describe_run(compared[0])
        answer = tabulate_study(found, further) if found else []
        if not found:
            place = _find_first(described, Figures | Widget | Table)
            described[place:place] = further
        if further:
            healths = [block for _, of in apart for block in of.remarks.main if getattr(block, "title", "") == HEALTH]
            are_clean = all(getattr(block, "kind", "") == "ok" for block in healths)
            described, answer = ([_name_health(block, are_clean) for block in of] for of in (described, answer))
        shutil.rmtree(study.out / "tables", ignore_errors=True)
        claims = _write_claims(study, study.claims, done) if study.claims else []
        blocks: list[Block] = [Heading(study.title, 1), Text(study.asks), *described]
        plots = {plot.name: plot for block in to_plain(blocks) if isinstance(block, Figures) for plot in block.plots}
        shown = Figures([plots[name] for name in study.pictures if name in plots])
        end = max(0, _find_first(blocks, Table) - 1)  # its heading
        texts = [block for block in blocks[:end] if not isinstance(block, Figures | Widget)]
        told = [*texts, shown, *blocks[end : end + 2], *claims,
                Text("report.html has all, tables/ every table."), *repeat]  # fmt: skip
        alone = {arm: group for arm, group in done.items() if not group[0].trains}
        place = next((i for i, block in enumerate(blocks) if block == HEADING), len(blocks))
        blocks[place:place] = [*(describe_alone(alone) if alone else []), *claims]
        for name, of in apart:
            blocks += [Heading(f"Separate comparison: {name}"), *tabulate_study(of)]
            if of.runs[0].trains_scorer:
                best = max(of.runs, key=lambda run: len(done.get(labels[run.path], ())))
                blocks += [Text(f"Of {labels[best.path]}, {best.path.name}:"), *describe_preferences(best)]
        head = ["arm", "runs finished", "time of all", "most memory", "sets"]
        blocks += [Heading("Stages"), Table(head, rows), *repeat]
        _write_tables(blocks, study.out / "tables")
        return write_page(blocks, study.out, told=told), to_text(answer)


def _write_claims(study: Study, path: Path, groups: Groups) -> list[Block]:
    """Write claims.html and claims.md; returns how many claims are supported, with the way there."""
    from rlhf_exp.analysis.study.claims import count_verdicts, describe_verdicts, judge, read_claims

    verdicts = judge(read_claims(path), groups)
    blocks = [Heading(f"Claims: {study.title}", 1), *describe_verdicts(verdicts)]
    _write_tables(blocks, study.out / "tables")
    write_page(blocks, study.out, "claims")
    counts = count_verdicts(verdicts)
    table = Table(["claims", *counts], [["claims.html", *map(str, counts.values())]], links=["claims.html"])
    return [Heading("Claims of the hand-made study"), table]


def _find_first(blocks: Sequence[Block], kind: Any) -> int:
    """The place of the first block of a kind, or the end."""
    return next((i for i, block in enumerate(blocks) if isinstance(block, kind)), len(blocks))


def _compare_apart(family: list[Run], stages: dict[Path, Stage], labels: dict[Path, str]) -> tuple[str, Comparison]:
    """Arms that are set apart by the names of their stages, which those of one stage do not repeat."""
    name = ", ".join(dict.fromkeys(stages[run.path].name for run in family))
    against = stages[family[0].path].against
    short = {run.path: labels[run.path].removeprefix(f"{name} ") for run in family}
    return name, Comparison(family, against.removeprefix(f"{name} ") if against else None, short)


def _answer_apart(name: str, of: Comparison) -> list[Callout]:
    """Of arms that are set apart the remark on the arm that they are compared with, or else on the best, and which of
    their runs have findings."""
    told = [block for block in of.remarks.main if isinstance(block, Callout)] if of.tests else []
    is_alone = len(of.groups) == 1
    remarks = [block for block in told if block.kind != "warning" and (block.title != AGAINST_START or is_alone)]
    chosen = [block for block in remarks if block.title.startswith("Against")] or remarks[:1]
    chosen += [block for block in told if block.title == HEALTH and block.kind == "warning"]
    if is_alone:
        return [block._replace(title=f"`{name}` on its own.") for block in chosen]
    return [block._replace(title=f"Separate comparison of `{name}`: {block.title[0].lower()}{block.title[1:]}")
            for block in chosen]  # fmt: skip


def _name_health(block: Block, are_others_clean: bool) -> Block:
    """The remark on the runs that are compared, as one of these alone."""
    if not isinstance(block, Callout) or block.title != HEALTH:
        return block
    more = " In the separate comparisons no check found anything." if are_others_clean else ""
    return block._replace(title="Health of the main comparison.", text=block.text + more)


def _write_tables(blocks: Sequence[Block], folder: Path) -> None:
    """Each table as folder/NAME.csv, by its own title or by the heading above it."""
    folder.mkdir(parents=True, exist_ok=True)
    heading = ""
    for place, block in enumerate(to_plain(blocks)):
        if isinstance(block, Heading):
            heading = block.text
        elif isinstance(block, Table):
            words = re.findall("[a-z0-9]+", (block.folded or heading).lower())
            with (folder / f"{place:03}_{'_'.join(words)[:60]}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([block.head, *block.rows])


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


def _list_own(jobs: list[Job]) -> dict[str, str]:
    """What each arm sets, without what all arms set, its folder, seeds and the runs that it needs."""
    found = {job.arm: [text for text in job.overrides if not text.startswith(("hydra", "seed=", *job.needs))]
             for job in jobs}  # fmt: skip
    shared = set.intersection(*map(set, found.values()))
    return {arm: " ".join(text for text in texts if text not in shared) for arm, texts in found.items()}


def _sum_cost(group: list[Run] | None) -> tuple[str, str]:
    """The time of all runs together, and the most memory that one took."""
    if group is None:
        return "-", "-"
    seconds = sum(sum(run.info.seconds.values()) for run in group)
    return duration(seconds), f"{max(run.info.peak_memory_mb for run in group):,.0f} MB"

"""Reads a study, `sweeps/NAME.yaml`: its stages in the order in which they run, and the jobs of each.

    study = read_study("brevity", ["seed=0,1"])
    [job.arm for stage in study.stages.values() for job in stage.jobs]     # "sft", ..., "grpo algo.args.beta=0.02", ...

docs/studies.md has the format. A file without `stages:`, a sweep of Hydra's, is a study of one stage.
"""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser

from rlhf_exp.config.keys import name_key
from rlhf_exp.config.reading import check_overrides, quote, set_text
from rlhf_exp.config.values import Seed, find_problems, one_of, suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.arguments import find_config_dir
from rlhf_exp.launch.explain import explaining
from rlhf_exp.launch.jobs import Typed, list_jobs, name_folder, read_sweep
from rlhf_exp.runs.records import read

FIRST = ("hydra/launcher=joblib", "skip_finished=true")
"""Options of every stage, which later ones may replace."""
SEEDS = [0, 1, 2]
STUDY = {"title": str, "claims": str, "pictures": list[str], "seeds": list[Seed], "options": list[str], "stages": dict}
PICTURES = ["gains", "frontier", "learning"]
"""What report.md shows if the study does not choose. Others are the curves of report_texts.yaml, and `readings`:
accuracy by strict and lenient reading."""
STAGE = {"needs": dict[str, str], "seeds": list[Seed], "options": list[str], "apart": bool, "against": str}
INSTEAD = {"output_dir": "--out FOLDER", "hydra.sweep.dir": "--out FOLDER", "dry_run": "--dry-run", "resume": "nothing"}
"""Keys that a study does not take, and what to use."""


class Job(NamedTuple):
    """A run. `arm`: its stage and what that varies but for the seed; `needs`: the folders of the runs that it needs, by
    the keys of its config that name them."""

    overrides: list[str]
    folder: Path
    arm: str
    seed: str | None
    needs: dict[str, Path]


class Stage(NamedTuple):
    """A sweep. `config`: its primary config, of a file without stages; `apart`: the report compares its arms among
    themselves, with `against` with the arm of that name."""

    name: str
    options: list[str]
    jobs: list[Job]
    config: str | None = None
    apart: bool = False
    against: str | None = None


@dataclass(frozen=True)
class Study:
    """A study's file. `asks`: the comment at its beginning; `out`: the folder of all its runs, and of its report;
    `command`: what runs it."""

    file: Path
    title: str
    asks: str
    claims: Path | None
    out: Path
    stages: dict[str, Stage]
    pictures: list[str]
    command: str


def list_studies() -> dict[str, str]:
    """The title of each study of sweeps/ by its name."""
    files = sorted(_sweeps().glob("*.yaml"))
    return {file.stem: _find_title(file, read(file, dict)) for file in files}


def read_study(name: str, overrides: Sequence[str] = (), out: str | None = None) -> Study:
    """The study NAME of sweeps/, or of a file of the user's own, NAME.yaml. `overrides` follow the options of every
    stage; a seed replaces all seeds, except of a stage that has one seed of its own.

    Raises:
        ConfigError: the mistakes in the file or in the overrides, a line each.
    """
    own = Path(name.removesuffix(".yaml"))
    folder = _sweeps() if own.name == name else own.parent
    if own.name not in (names := [path.stem for path in sorted(folder.glob("*.yaml"))]):
        raise ConfigError([f"{name}: no such study{f'; {one_of(own.name, names)}' if names else ''}"])
    file = folder / f"{own.name}.yaml"
    values = read(file, dict)
    refused = [text for text in overrides if name_key(text) in INSTEAD]
    problems = [*check_overrides(overrides), *(f"{text}: not here; use {INSTEAD[name_key(text)]}" for text in refused)]
    if problems := [*problems, *(f"{file}: {line}" for line in _find_mistakes(values))]:
        raise ConfigError(problems)
    claims = file.parent / "claims" / f"{values['claims']}.yaml" if "claims" in values else None
    study = Study(file, _find_title(file, values), _read_comment(file), claims, Path(out or f"outputs/{file.stem}"), {},
                  values.get("pictures", PICTURES),
                  shlex.join(["python", "-m", "rlhf_exp", "study", name, *overrides, *(["--out", out] if out else [])])
                  )  # fmt: skip
    with explaining(overrides):
        if "stages" not in values:
            options = [*overrides, *([set_text("hydra.sweep.dir", out)] if out else [])]
            sweep, _ = read_sweep(Typed(options, file.stem, str(file.parent)), [])
            jobs = _name_jobs(sweep.jobs, sweep.swept, "", sweep.folder)
            study.stages[file.stem] = Stage(file.stem, options, jobs, file.stem)
        for stage in TopologicalSorter(_list_needs(values.get("stages", {}))).static_order():
            study.stages[stage] = _expand(study, stage, values, overrides)
    arms = list(dict.fromkeys(job.arm for stage in study.stages.values() for job in stage.jobs))
    unknown = {stage.name: stage.against for stage in study.stages.values() if stage.against not in (None, *arms)}
    if unknown:
        raise ConfigError([f"{file}: stages.{name}.against: no arm is called {text!r}{suggest(text, arms)}"
                           for name, text in unknown.items()])  # fmt: skip
    return study


def _find_mistakes(values: Mapping[str, Any]) -> Iterator[str]:
    """Those in a file with stages; in a sweep of Hydra's they are found as its jobs are composed."""
    if not values.get("stages"):
        yield from () if "defaults" in values else ("has neither stages:, as a study, nor defaults:, as a sweep",)
        return
    found, stages = [*check_keys("", values, STUDY)], values["stages"]
    for name, stage in stages.items() if isinstance(stages, dict) else ():
        is_mapping = re.fullmatch(r"\w[\w.+-]*", str(name)) and isinstance(stage, dict)
        what = f"stages.{name}: must be a folder's name, and hold some of {', '.join(STAGE)}"
        found += check_keys(f"stages.{name}.", stage, STAGE) if is_mapping else [what]
    yield from found
    if "pictures" in values and not found:
        from rlhf_exp.analysis.report.page import TEXTS  # imports scipy

        known = [*PICTURES, "readings", *(curve["name"] for curve in TEXTS["curves"])]
        yield from (f"pictures: {one_of(name, known)}" for name in values["pictures"] if name not in known)
    for name, needs in {} if found else _list_needs(stages).items():
        unknown = [other for other in needs if other not in stages]
        yield from (f"stages.{name}.needs: no stage {other}; {one_of(other, list(stages))}" for other in unknown)
    try:
        TopologicalSorter({} if found else _list_needs(stages)).prepare()
    except CycleError as error:
        yield f"stages: a circle, {' needs '.join(reversed(error.args[1]))}"


def check_keys(place: str, values: Mapping[str, Any], types: Mapping[str, Any]) -> Iterator[str]:
    """The mistakes in the keys of a mapping, and in the types of its values."""
    for key, value in values.items():
        if key not in types:
            yield f"{place}{key}: no such key; {one_of(key, list(types))}"
        elif problems := find_problems(f"{place}{key}", value, types[key]):
            yield from problems
        elif value == [] and key == "seeds":
            yield f"{place}seeds: must name at least one"


def _list_needs(stages: Mapping[str, Any]) -> dict[str, list[str]]:
    """The stages that each needs."""
    return {name: [str(text).partition("/")[0] for text in stage.get("needs", {}).values()]
            for name, stage in stages.items()}  # fmt: skip


def _expand(study: Study, name: str, values: dict, overrides: Sequence[str]) -> Stage:
    """A stage with its jobs; those that it needs are in `study` already.

    Raises:
        ConfigError: a needed stage has other runs than one for each seed.
    """
    given, links, runs = values["stages"][name], [], {}
    for key, text in given.get("needs", {}).items():
        needed, slash, rest = text.partition("/")
        jobs = study.stages[needed].jobs
        if len({job.arm for job in jobs}) > 1:
            line = f"{len(jobs)} runs, which differ in more than the seed; which of them is not said"
            raise ConfigError([f"{study.file}: stages.{name}.needs.{key}: {needed} has {line}"])
        runs[key] = {job.seed: job.folder for job in jobs}
        place, seed = f"{jobs[0].folder}{slash}{rest}", f"seed-{jobs[0].seed}"
        links.append(f"{key}={quote(place if len(jobs) == 1 else place.replace(seed, 'seed-${seed}'))}")
    seeds, one = given.get("seeds", values.get("seeds", SEEDS)), len(given.get("seeds", ())) == 1
    typed = [text for text in overrides if not one or name_key(text) != "seed"]
    first = [*FIRST, set_text("hydra.sweep.dir", str(study.out / name)), *values.get("options", ())]
    last = [*given.get("options", ()), *links, f"seed=choice({','.join(map(str, seeds))})", *typed]
    options = _merge([*first, *last])
    set_apart = {key: given[key] for key in ("apart", "against") if key in given}
    stage = Stage(name, options, [], **set_apart)
    for job in _name_jobs(*list_jobs(options), name, study.out / name):
        for key, of in runs.items():
            if job.seed not in of and len(of) > 1:
                line = f"seed={job.seed} is none of the seeds of that stage, {', '.join(map(str, of))}"
                raise ConfigError([f"{study.file}: stages.{name}.needs.{key}: {line}"])
            job.needs[key] = of.get(job.seed, next(iter(of.values())))
        stage.jobs.append(job)
    return stage


def _merge(texts: list[str]) -> list[str]:
    """The options; of those with one key the last. A value for a key that was varied becomes a choice of one, so that
    the run keeps the folder that it had among others."""
    merged: dict[str, str] = {}
    varied = set()
    for one in OverridesParser.create().parse_overrides(texts):
        key, text = one.get_key_element(), str(one.input_line)
        varied |= {key} if one.is_sweep_override() else set()
        is_value = key in varied and not one.is_sweep_override()
        merged[key] = f"{key}=choice({text.partition('=')[2]})" if is_value else text
    return list(merged.values())


def _name_jobs(jobs: list[list[str]], swept: Collection[str], stage: str, folder: Path) -> list[Job]:
    """The jobs of a sweep with the arm, the seed and the folder of each; `folder`: of the sweep."""
    named = []
    for texts in jobs:
        arm = [text.lstrip("+") for text in texts if text.split("=")[0] in swept and not text.startswith("seed=")]
        seed = next((text.partition("=")[2] for text in texts if text.startswith("seed=")), None)
        named.append(Job(texts, folder / name_folder(texts, swept), " ".join([stage, *arm]).strip(), seed, {}))
    return named


def _sweeps() -> Path:
    return Path(str(find_config_dir("sweeps")))


def _find_title(file: Path, values: Mapping[str, Any]) -> str:
    return str(values.get("title") or _read_comment(file).partition(". ")[0])


def _read_comment(file: Path) -> str:
    """The comment at the beginning of a file, without its indented lines, which are commands."""
    lines = re.findall(r"\A(?:#.*\n)*", file.read_text(encoding="utf-8"))[0].splitlines()
    return " ".join(line[2:] for line in lines if re.match(r"# \S", line))

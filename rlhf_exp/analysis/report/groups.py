"""Groups runs by setting, which is the config without the seed and the content of the files that it names, and labels
the groups.

group_runs(runs)  ->  {"ppo": [run, run, run], "rejection sampling": [...], "grpo beta=0.1": [...]}
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS, PAIRS
from rlhf_exp.analysis.report.columns import RANKING, REWARD, Column
from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.figures import write_name
from rlhf_exp.runs.inputs import SHOWN, list_changes
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.settings import SEEDS, flatten, list_settings, read_typed

IDENTITY = ("task", "model", "max_tokens", "loss_type")
"""The main settings, besides the algorithm."""

ENGINE = "eval.engine"
FOLLOWS = {"algo.args.reward_weights": "reward", "algo.args.scale_rewards": "loss_type",
           "algo.args.max_completion_length": "max_tokens"}  # fmt: skip
"""Settings that no label shows beside one whose name begins so, which they follow from."""
MEASURED_BY = ("eval.", "task.baselines")
"""Beginnings of settings of the measurement, which a label leaves out if others tell the groups apart."""

MANY = 8
"""Of more settings than these sentences name groups, not pairs, and all tables of pairs are folded."""

LONGEST = 120
"""Letters of a label."""

REJECTION = "rejection sampling"

Groups = dict[str, list[Run]]
"""Runs by the label of their setting."""


class UnknownSetting(ConfigError):
    """A name that no group of runs has."""


def name_method(run: Run) -> str:
    """The algorithm's name; the loss's name if the algorithm has the name of one of its losses (grpo); for sft on the
    policy's own correct samples `rejection sampling`."""
    row, algo, loss_type = run.algorithm, run.info.algo, run.info.loss_type
    if row and row.learns_from == DEMONSTRATIONS and run.config.get("task", {}).get("samples") is not None:
        return REJECTION
    return str(loss_type if row and algo in row.losses and loss_type else algo)


def sort_runs(runs: list[Run]) -> list[Run]:
    """Runs by method: first those that learn from given rows, then those that sample, then unknown ones. Runs of one
    method keep their order."""
    rows = [row for online in (False, True) for row in ALGORITHMS.values() if row.online == online]
    return [run for row in (*rows, None) for run in runs if run.algorithm is row]


def gather(runs: list[Run], labels: dict[Path, str] | None) -> Groups:
    """Runs by the labels that a study gives their folders, or without these by what their configs say."""
    if labels is None:
        return group_runs(runs)
    names = dict.fromkeys(labels[run.path] for run in runs)
    return {name: [run for run in runs if labels[run.path] == name] for name in names}


def group_runs(runs: list[Run]) -> Groups:
    """Runs by label, which names the method, if there are several, and what was varied. Runs of a group differ in the
    settings SEEDS; runs that began with other rows, checkers, rewards or start models are of another group, named by
    the beginnings of their hashes.

    What was varied is shown as it was typed, of an experiment the name alone. Where that does not tell the groups of a
    method apart, a label shows the settings that differ: the main ones between all groups, and others between groups of
    one method.
    """
    alike: dict[tuple, list[Run]] = {}
    for run in runs:
        alike.setdefault(tuple(sorted(_settings(run).items())), []).append(run)
    settings, groups = [], []
    for key, found in alike.items():
        parts = _split_by_inputs(found)
        groups += [part for _, part in parts]
        settings += [dict(key) | _differing_inputs(inputs, parts) for inputs, _ in parts]
    methods, typed = [setting["method"] for setting in settings], _read_typed(groups)
    several, main = len(set(methods)) > 1, _differing(settings, (*IDENTITY[:3], ENGINE))
    labels = [""] * len(groups)
    for method in dict.fromkeys(methods):
        same = [i for i, name in enumerate(methods) if name == method]
        varied, differing = _differing([typed[i] for i in same]), _differing([settings[i] for i in same])
        values = [settings[i] | typed[i] for i in same]
        before = main if several else [name for name in main if name == ENGINE]
        main_losses = main + _differing(values, ("loss_type", "peft.name"))
        ways = [before + _thin(varied), before + varied, main_losses, main + _thin(differing), main + differing]
        for names in [main, *ways] if several else ways:
            made = [_label(setting, names, several) for setting in values]
            if len(set(made)) == len(same):
                break
        for i, label in zip(same, made, strict=True):
            labels[i] = label
    return dict(zip(_name_by_folder(labels, groups), groups, strict=True))


def _name_by_folder(labels: list[str], groups: list[list[Run]]) -> list[str]:
    """The labels. Runs that have little in common have long ones, and those that differ in what no label shows have
    equal ones: what the names of their folders begin with takes their place, or else a number follows."""
    names = [os.path.commonprefix([run.path.name for run in group]).rstrip("-_,. ") for group in groups]
    found = [name if name and (len(label) > LONGEST or labels.count(label) > 1) else label
             for label, name in zip(labels, names, strict=True)]  # fmt: skip
    return [label if found.count(label) == 1 else f"{label} {place}" for place, label in enumerate(found, 1)]


def join_groups(groups: Groups) -> list[Run]:
    """The runs of all groups."""
    return [run for group in groups.values() for run in group]


def keep_measured(groups: Groups) -> Groups:
    """The runs whose trained model was measured; for each seed the latest one."""
    kept: Groups = {}
    for label, group in groups.items():
        measured = [run for run in group if run.evaluation.trained]
        measured.sort(key=lambda run: str(run.info.started))
        of_seed = {(run.info.seed, str(run.config.get("reward", {}).get("random"))): run for run in measured}
        kept |= {label: list(of_seed.values())} if of_seed else {}
    return kept


def judge_groups(groups: Groups) -> tuple[str, Groups]:
    """What is compared of measured groups: if the runs have no accuracy and learned from different rewards, those of
    the first evaluation set whose reward is one for all that have it, with its name; else the groups themselves."""
    runs = join_groups(groups)
    if len(name_rewards(runs)) > 1 and not any(getattr(run.evaluation.trained, "accuracy", None) for run in runs):
        for name in sorted({name for run in runs for name in run.evaluation.sets}):
            judged = keep_measured({label: [run.at_set(name) for run in group] for label, group in groups.items()})
            if len(judged) > 1 and len(name_rewards(join_groups(judged))) == 1:
                return name, judged
    return "", groups


def list_ranked(runs: Sequence[Run]) -> list[Column]:
    """The figures by which these runs are sorted, the first of them first: those of RANKING that one has. Rewards that
    differ are not compared."""
    possible = [column for column in RANKING if any(map(column.read, runs))]
    return possible if len(name_rewards(runs)) == 1 else [column for column in possible if column is not REWARD]


def name_rewards(runs: Iterable[Run]) -> set[str]:
    """The rewards of these runs, each as its config, without the seed of a random one."""
    return {str({**run.config.get("reward", {}), "random": None}) for run in runs}


def read_choices(groups: Groups) -> list[dict[str, str]]:
    """Of each group the values of the keys that were typed, without those that follow from others, and its method."""
    typed = _read_typed(list(groups.values()))
    kept = _thin(list(dict.fromkeys(key for found in typed for key in found)))
    methods = [name_method(group[0]) for group in groups.values()]
    named = {"loss_type", "algo", "experiment"} & set(kept)
    return [{key: found.get(key, "") for key in kept} | ({} if named else {"method": method})
            for found, method in zip(typed, methods, strict=True)]  # fmt: skip


def find_varied(groups: Groups) -> list[str]:
    """The keys of the settings that differ between groups, of an algorithm's own only those that all groups have."""
    settings = [_settings(group[0]) for group in groups.values()]
    return [name for name in _differing(settings)
            if not name.startswith("algo.") or all(name in setting for setting in settings)]  # fmt: skip


def find_setting(groups: Groups, name: str) -> str:
    """The setting of that label, or the only one with runs in a folder of that name.

    Raises:
        UnknownSetting: there is none.
    """
    if name in groups:
        return name

    def is_in_folder(run: Run) -> bool:
        place = run.path.resolve()
        return name in (place.name, place.parent.name) or Path(name).resolve() in (place, *place.parents)

    found = [label for label, group in groups.items() if any(map(is_in_folder, group))]
    if len(found) == 1:
        return found[0]
    known = ", ".join(map(repr, groups))
    raise UnknownSetting([f"no setting is called {name!r}; these are: {known}{suggest(name, list(groups))}"])


def find_shared(runs: list[Run]) -> dict[str, str]:
    """Main settings that all runs share, by name."""
    names = ("algo", *IDENTITY, "parameters", "seed")
    values = {name: {write_name(getattr(run.info, name)) for run in runs} for name in names}
    return {name: found.pop() for name, found in values.items() if len(found) == 1}


def _settings(run: Run) -> dict[str, str]:
    kept = {name: value for name, value in list_settings(run.config).items() if name not in SEEDS}
    kept |= {name: write_name(getattr(run.info, name)) for name in IDENTITY}
    return kept | {"method": name_method(run), ENGINE: run.info.eval_engine or "transformers"}


def _inputs(run: Run) -> dict[str, str]:
    """The hashes of what a run began with (runs/inputs.py), without those of what it drew by its seed: untrained
    weights, and rows made of its own samples."""
    found = run.info.inputs
    drawn = {"rows to train on"}
    drawn |= {"start model"} if run.config.get("model", {}).get("init") is not None else set()
    sampled = run.algorithm is None or run.algorithm.learns_from == PAIRS
    drawn |= {"held-out rows"} if sampled else set()
    return {name: value for name, value in found.items() if name not in drawn}


def _split_by_inputs(runs: list[Run]) -> list[tuple[dict[str, str], list[Run]]]:
    """Runs with the inputs that they share. A run that ended early recorded only some of them, and what it
    lacks is not compared."""
    parts: list[tuple[dict[str, str], list[Run]]] = []
    for run in runs:
        inputs = _inputs(run)
        known, part = next((part for part in parts if not list_changes(part[0], inputs)), ({}, []))
        if not part:
            parts.append((known, part))
        known |= inputs
        part.append(run)
    return parts


def _differing_inputs(inputs: dict[str, str], parts: list[tuple[dict[str, str], list[Run]]]) -> dict[str, str]:
    """`task.path sha256=9f86d081` for each input in which these runs differ from others of the same config."""
    names = {name for other, _ in parts for name in inputs if other.get(name, inputs[name]) != inputs[name]}
    return {f"{name} sha256": inputs[name][:SHOWN] for name in inputs if name in names}


def _differing(settings: list[dict[str, str]], names: Iterable[str] = ()) -> list[str]:
    """Those of `names`, by default of all, whose values differ."""
    names = names or dict.fromkeys(name for setting in settings for name in setting)
    return [name for name in names if len({setting.get(name) for setting in settings}) > 1]


def _read_typed(groups: list[list[Run]]) -> list[dict[str, str]]:
    """Of each group the values of all keys that were typed for some run, as they were typed for all runs of the group,
    else from its config, which does not name the choice of a reward or an experiment. Without those on which the
    configs agree."""
    found = [[read_typed(run.overrides) for run in group] for group in groups]
    configs = [flatten(group[0].config) for group in groups]
    keys = dict.fromkeys(key for group in found for typed in group for key in typed if key not in SEEDS)
    told = [key for key in keys if key not in configs[0] or len({str(config.get(key)) for config in configs}) > 1]
    rows = []
    for group, config in zip(found, configs, strict=True):
        texts = {key: {typed.get(key) for typed in group} for key in told}
        values = {key: config.get(key) if len(of) > 1 or None in of else of.pop() for key, of in texts.items()}
        rows.append({key: write_name(value) for key, value in values.items() if value is not None})
    return rows


def _thin(names: list[str]) -> list[str]:
    """Without what belongs to the measurement, and what follows from another of them."""
    kept = [name for name in names if not name.startswith(MEASURED_BY)]
    return [name for name in kept if not any(other.startswith(FOLLOWS.get(name, " ")) for other in names)]


def _label(setting: dict[str, str], names: list[str], with_method: bool) -> str:
    """The values, each after its name; of an experiment the value alone."""
    short = {name: name.removeprefix("algo.args.").removesuffix(".name") for name in names if setting.get(name)}
    parts = [setting[name] if name == "experiment" else f"{short[name]}={setting[name]}" for name in short]
    return " ".join([setting["method"], *parts] if with_method else parts) or setting["method"]

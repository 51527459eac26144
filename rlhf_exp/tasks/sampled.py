"""Makes rows to train on from graded completions: correct ones for sft, correct and wrong ones for kto, pairs of a
correct and a wrong one for others.

    task = learn_from(cfg, load_task(cfg, tokenizer), Path("outputs/samples/countdown/..."))
    task.train[0]     # {"id": "3 7 8 > 53 #1", "subset": "partial", "prompt": ..., "chosen": ..., "rejected": ...}

evaluation/draw.py writes the folder. A completion that the budget cut off is left out, since training on it would
teach to end there; so are repetitions of the same text. The i-th correct completion of a prompt is paired with the i-th
wrong one, at most `task.sampling.per_prompt` times; `subset` is the outcome of the wrong one. A prompt whose
completions are all correct or all wrong gives no pair, and is counted.

Pairs are split by prompt: a hash of the row's id, other than the one that made it a row to train on, puts 80 of 100
prompts into train, 8 into validation and 12 into test. Each held-out prompt gives one pair.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError
from rlhf_exp.forms import PAIR, PAIRS, Form
from rlhf_exp.runs.load import refusing_damage
from rlhf_exp.runs.records import Completion, Evaluation, read, read_lines
from rlhf_exp.runs.settings import read_config
from rlhf_exp.tasks.loading import TaskRows
from rlhf_exp.tasks.splits import split_of
from rlhf_exp.tasks.texts import Row, as_completion

ALIKE = (
    *("source", "path", "hub_id", "hub_config", "prompt_template", "system_prompt", "split_column", "splits"),
    *("answer_column", "checker", "pattern", "module", "options"),
)
"""Keys of a task by which samples were drawn, split and graded: those of a run must be the same."""

Prompts = dict[str, tuple[list[Completion], list[Completion]]]
"""The correct and the wrong completions of each prompt, by the row's id: those that the budget did not cut off, each
text once, in the order of sampling."""


def learn_from(cfg: Config, task: TaskRows, folder: Path) -> TaskRows:
    """The task with `train`, and for pairs also `pairs`, made from the samples in `folder`; `eval` is unchanged.

    Raises:
        ConfigError: samples of another task, of held-out rows, in another form, or with nothing to learn from; or a
            damaged file.
    """
    where = f"task.samples={cfg.task.samples or 'self'}"
    with refusing_damage(where):
        samples = _read_samples(cfg, task, folder, where)
        prompts, facts = sort_samples(samples), count_samples(samples)
    form, paired = cfg.algo.row.form, cfg.algo.row.learns_from == PAIRS
    train = _list_rows(prompts, form, cfg.task.sampling.per_prompt, "train" if paired else None)
    # One per prompt, so that they are independent.
    held_out = _list_rows(prompts, PAIR, 1, cfg.eval.split) if paired else []
    if not train or paired and not held_out:
        lacks = f"no pairs of the {cfg.eval.split} split" if train else f"no {form.made} to train on"
        more = "sample more with task.sampling.rows, task.sampling.completions or max_tokens"
        raise ConfigError([f"{where}: {lacks}, of {describe_counts(facts)}; {more}"])
    Random(cfg.task.data_seed).shuffle(train)
    train = train[: cfg.task.train_rows]
    facts[f"{form.made.replace(' ', '_')}_train"] = len(train)
    note = f"samples: {describe_counts(facts)}; {len(train)} {form.made} to train on"
    if held_out:
        facts[f"pairs_{cfg.eval.split}"] = len(held_out)
        note += f", {len(held_out)}{'' if form is PAIR else ' pairs'} held out"
    notes, whole = (*task.notes, note), {**task.facts, "samples": facts}
    return replace(task, train=train, pairs=held_out, demonstrations=[], notes=notes, facts=whole)


def sort_samples(samples: list[Completion]) -> Prompts:
    prompts: Prompts = {sample.id: ([], []) for sample in samples}
    seen = set()
    for sample in samples:
        if not sample.truncated and (text := (sample.id, sample.completion.strip())) not in seen:
            seen.add(text)
            prompts[sample.id][not sample.is_correct].append(sample)
    return prompts


def count_samples(samples: list[Completion]) -> dict[str, int]:
    """Counts of prompts and completions. Each prompt is one of with_pairs, all_correct, all_wrong and none_ended, by
    its completions that were not cut off; `truncated` counts those that were."""
    prompts = sort_samples(samples).values()
    kinds = Counter((bool(correct), bool(wrong)) for correct, wrong in prompts)
    return {
        "prompts": len(prompts),
        "with_pairs": kinds[True, True],
        "all_correct": kinds[True, False],
        "all_wrong": kinds[False, True],
        "none_ended": kinds[False, False],
        "completions": len(samples),
        "truncated": sum(sample.truncated for sample in samples),
    }


def describe_counts(counts: dict[str, int]) -> str:
    """16 prompts: 9 with correct and wrong completions, 1 all correct, 6 all wrong, 0 without one that ended; ..."""
    return (
        "{prompts} prompts: {with_pairs} with correct and wrong completions, {all_correct} all correct, {all_wrong} all"
        " wrong, {none_ended} without one that ended; {truncated} of {completions} completions cut off and left out"
    ).format_map(counts)


def _read_samples(cfg: Config, task: TaskRows, folder: Path, where: str) -> list[Completion]:
    """The completions in the folder, after checking that this task may learn from them."""
    config, baseline = read_config(folder)["task"], read(folder / "evaluation.json", Evaluation).baseline
    samples = read_lines(folder / "samples.jsonl", Completion)
    for key in ("name", *ALIKE):
        found, wanted = config.get(key), getattr(cfg.task, key, None)
        if key in config and found != wanted:
            raise ConfigError([f"{where}: was sampled with task.{key}={show(found)}, and here it is {show(wanted)}"])
    if baseline is None or baseline.split != "train":
        raise ConfigError([f"{where}: its prompts are held out, not to be learned from; use task.samples=self"])
    found, wanted = samples[0].messages is not None, not isinstance(task.eval[0]["prompt"], str)
    if found != wanted:
        chat = "chat messages" if found else "plain text"
        raise ConfigError([f"{where}: its prompts are {chat}, and those of this run are not; see task.prompt"])
    return samples


def _list_rows(prompts: Prompts, form: Form, most: int, split: str | None) -> list[Row]:
    """What the form makes of the completions of each prompt in `split` (None: of every prompt), at most `most` times.
    In place of each sample stands its text, in the form of the prompt."""
    rows = []
    for name, (correct, wrong) in prompts.items():
        # Not by the id alone: Countdown's rows are split by its hash already, which would put every pair into train.
        if split not in (None, split_of(f"pairs of {name}")):
            continue
        for i, made in enumerate(form.learn(correct, wrong, most), 1):
            of = next(value for value in made.values() if isinstance(value, Completion))
            chat = of.messages is not None
            row: Row = {"id": f"{name} #{i}", "prompt": of.messages if chat else of.prompt}
            for key, value in made.items():
                row[key] = as_completion(value.completion, chat) if isinstance(value, Completion) else value
            rows.append(row)
    return rows

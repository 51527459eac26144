"""Checks the rows and their texts: lengths, ends, and the same rows in both splits.

check_texts(experiment, completions)            # of the start model, as just measured
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from transformers import GenerationConfig, PreTrainedConfig
from trl.chat_template_utils import is_chat_template_prefix_preserving, is_chat_template_stop_token_trained

from rlhf_exp.config.values import show
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.generation import list_eos
from rlhf_exp.preflight.check import Check, judge
from rlhf_exp.runs.records import Completion
from rlhf_exp.tasks import Row
from rlhf_exp.tasks.tokens import encode_prompts, encode_row

ROWS = 64
"""How many rows are encoded."""
OVERLAP = 0.05
"""The share of held-out rows among the training rows from which held-out figures say nothing; below it is a warning:
public data sets repeat some rows."""
SHOWN = 5
LEAKED = 0.5
"""How much more often training prompts hold a column's value than held-out ones, before it is a warning."""


def check_texts(experiment: Experiment, completions: Sequence[Completion]) -> list[Check]:
    """The checks that come before training and apply to the run."""
    row = experiment.cfg.algo.row
    found = [check_splits(experiment), *check_leaks(experiment), *([] if row.online else check_answers(experiment))]
    found += check_special_tokens(experiment)
    return found if row.scores else [*found, check_end_of_text(experiment, completions)]


def check_answers(experiment: Experiment) -> list[Check]:
    """Of the rows to learn from: how many TRL cuts off at `max_length`; whether the answers end in an end token, and
    begin where the prompt that is sampled on ends."""
    tokenizer, rows, args = experiment.tokenizer, experiment.task.train[:ROWS], experiment.cfg.algo.args
    names = [name for name in experiment.cfg.algo.row.form.columns if name not in ("prompt", "label")]
    encoded = [encode_row(tokenizer, row["prompt"], *(row[name] for name in names)) for row in rows]
    sizes, most = [len(prompt) + max(map(len, answers)) for prompt, *answers in encoded], args.get("max_length")
    cut = sum(most is not None and size > most for size in sizes)
    fate = "are left out" if experiment.cfg.algo.row.scores else "lose their end"
    said = f"{cut} of the first {len(rows)} rows are longer than algo.args.max_length={show(most)}, and {fate}"
    longer = [f"algo.args.max_length={max(sizes)}"]
    found = [Check("max_length", "warned" if cut else "passed", said, {"cut": cut}, longer)]
    ends, answers = list_ends(experiment), [answer for _, *answers in encoded for answer in answers]
    endless = sum(not ends & set(answer[-2:]) for answer in answers)  # a template may write a line's end after it
    moved = sum(len(one[0]) != len(ids) for one, ids in zip(encoded, encode_prompts(tokenizer, rows), strict=True))
    checks = (is_chat_template_stop_token_trained, is_chat_template_prefix_preserving)
    facts = {} if tokenizer.chat_template is None else {check.__name__: check(tokenizer) for check in checks}
    masked = args.get("assistant_only_loss") and not facts.get(checks[0].__name__, True)
    said = f"{endless} of {len(answers)} answers end without an end token, and {moved} of the first {len(rows)} prompts"
    said += " change once an answer follows" + ("; the template leaves the end token out of the loss" if masked else "")
    status = judge(endless or masked, moved)
    return [*found, Check("stop_token", status, said, {"endless": endless, "moved": moved, **facts})]


def check_special_tokens(experiment: Experiment) -> list[Check]:
    """Of messages: whether the text of one holds a special token, which the model reads as the end of a turn or the
    like, and whether the template ends a prompt with the end token. (Plain prompts: tasks/prompts.py.)"""
    tokenizer, rows = experiment.tokenizer, experiment.task.train[:ROWS]
    if not rows or isinstance(rows[0]["prompt"], str):
        return []
    special, inside = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}, dict[int, str]()
    for i, row in enumerate(rows):
        for text in (message["content"] for value in row.values() for message in _list_messages(value)):
            if found := special & {*tokenizer(text, add_special_tokens=False)["input_ids"]}:
                inside[i] = str(tokenizer.convert_ids_to_tokens(min(found)))
    ended = sum(ids[-1] == tokenizer.eos_token_id for ids in encode_prompts(tokenizer, rows))
    said = f"{len(inside)} of the first {len(rows)} rows hold special tokens in their own text"
    said += f", such as {next(iter(inside.values()))}" if inside else ""
    said += f"; {ended} prompts end with the end token"
    status: Any = "warned" if inside or ended else "passed"
    return [Check("special_tokens", status, said, {"inside": len(inside), "ended": ended})]


def _list_messages(value: Any) -> list[dict[str, str]]:
    is_text = isinstance(value, list) and value and isinstance(value[0], dict) and "content" in value[0]
    return value if is_text else []


def check_held_rows(trainer: Any, given: int) -> Check:
    """How many of the `given` rows the trainer holds after its own cutting, and how many of those teach nothing: pairs
    whose answers are the same tokens, and the same answer with both labels."""
    held, args, idle = trainer.train_dataset, trainer.args, 0
    if held and not {"rejected_ids", "label", "completion_ids", "input_ids"} & held[0].keys():
        return Check("rows_teach", "skipped", f"{type(trainer).__name__} holds its rows in columns of other names")
    most, left_out = getattr(args, "max_length", None), 0 if getattr(args, "packing", False) else given - len(held)
    kept = slice(None, most)
    labels = dict[tuple[int, ...], list[bool]]()
    for row in held:
        prompt = row.get("prompt_ids", [])
        if "rejected_ids" in row:
            idle += (prompt + row["chosen_ids"])[kept] == (prompt + row["rejected_ids"])[kept]
        elif "label" in row:
            labels.setdefault(tuple((prompt + row["completion_ids"])[kept]), []).append(row["label"])
    idle += sum(len(found) for found in labels.values() if len({*found}) > 1)
    is_one_sided = len({label for found in labels.values() for label in found}) == 1
    said = f"the trainer holds {len(held)} rows"
    said += f", {left_out} of {given} are too long for algo.args.max_length={most} and left out" if left_out else ""
    said += f"; {idle} of them teach nothing: once cut, the answer to learn and the one to avoid are the same tokens"
    said += "; all have the same label" if is_one_sided else ""
    status = judge(idle == len(held), idle or left_out or is_one_sided)
    figures = {"held": len(held), "left_out": left_out, "idle": idle}
    return Check("rows_teach", status, said, figures, ["algo.args.max_length=null"] * (most is not None))


def check_end_of_text(experiment: Experiment, completions: Sequence[Completion]) -> Check:
    """Whether a completion can end: the model knows the end token, and the start model ever writes it in its budget."""
    size, budget = experiment.model.config.get_text_config().vocab_size, experiment.cfg.max_tokens
    own = experiment.tokenizer.eos_token_id
    ended = [not one.truncated for one in completions if one.decoding == "sampled"]
    figures = {"ended": sum(ended), "completions": len(ended), "end_tokens": sorted(list_ends(experiment))}
    if own is None or own >= size:
        said = f"the tokenizer's end token is {own}, and the model has tokens 0 to {size - 1}"
        return Check("end_of_text", "failed", said, figures)
    cut = len(ended) - sum(ended)
    said = f"completions of the start model can end: {sum(ended)} of {len(ended)} do within max_tokens={budget}"
    said += f", and {cut} ({cut / len(ended):.0%}) are cut off there" if cut else ""
    if not any(ended):
        said = f"none of {len(ended)} completions of the start model ends within max_tokens={budget}"
    said += f"; the longest prompt leaves room for {experiment.folder.record.context_room}"
    said += f"; end tokens {figures['end_tokens']}"
    return Check("end_of_text", "passed" if any(ended) else "warned", said, figures, [f"max_tokens={2 * budget}"])


def check_splits(experiment: Experiment) -> Check:
    """Whether held-out rows are among the training rows, whatever their case, spaces and punctuation."""
    task = experiment.task
    train, held_out = {_normalise(row["prompt"]) for row in task.train}, [*task.eval, *task.pairs]
    same = [row["id"] for row in held_out if _normalise(row["prompt"]) in train]
    said = f"{len(same)} of {len(held_out)} held-out rows are among the {len(task.train)} training rows"
    said += f", such as {same[0]}" if same else ""
    status = judge(len(same) > OVERLAP * len(held_out), same)
    return Check("splits_are_disjoint", status, said, {"same": len(same), "of": len(held_out), "ids": same[:SHOWN]})


def check_leaks(experiment: Experiment) -> list[Check]:
    """Whether the training prompts hold a value of their row, such as the answer, that the held-out prompts do not
    hold: a policy then learns to copy it. A value of one letter, as of a choice, stands in most texts."""
    sides = [experiment.task.train, experiment.task.eval]
    names = sorted((sides[0][0].keys() & sides[1][0].keys()) - {"prompt"}) if all(sides) else []
    if not names:
        return []
    shares = {name: [_count_held(rows, name) / len(rows) for rows in sides] for name in names}
    name, (train, held_out) = max(shares.items(), key=lambda item: item[1][0] - item[1][1])
    leaked, figures = train - held_out > LEAKED, {"column": name, "train": train, "held_out": held_out}
    said = "no column of the rows stands in the training prompts alone"
    if leaked:
        said = f"{name} stands in {train:.0%} of the training prompts and in {held_out:.0%} of the held-out ones"
        said += ": a policy learns to copy it from there"
    return [Check("no_leaks", "warned" if leaked else "passed", said, figures)]


def _count_held(rows: Sequence[Row], name: str) -> int:
    """In how many prompts the words of the row's column stand."""
    values = [str(row.get(name)) if isinstance(row.get(name), str | int) else "" for row in rows]
    pairs = zip(values, rows, strict=True)
    return sum(len(value) > 1 and f" {_normalise(value)} " in f" {_normalise(row['prompt'])} " for value, row in pairs)


def list_ends(experiment: Experiment) -> set[int]:
    """The end tokens of the tokenizer and of the model, whose weights are not loaded."""
    declared: GenerationConfig | PreTrainedConfig = experiment.model.config.get_text_config()
    with suppress(OSError):  # it has no generation_config.json
        declared = GenerationConfig.from_pretrained(experiment.model.weights)
    return set(list_eos(declared, experiment.tokenizer))


def _normalise(prompt: Any) -> str:
    """The words of a prompt without case, and without punctuation at their ends: operators stay."""
    text = prompt if isinstance(prompt, str) else " ".join(message["content"] for message in prompt)
    return " ".join(word for found in text.casefold().split() if (word := found.strip(".,;:!?'\"()[]")))

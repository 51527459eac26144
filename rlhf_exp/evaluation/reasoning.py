"""Do right answers need the reasoning before them? What passes with its reasoning cut off did not come from it: it was
remembered, or it pleases the grader in some other way (TRACE, Wang et al. 2025, arXiv:2510.01367).

    find_opener(completions)                          # " </think> <answer> "
    cut_reasoning(experiment, model, completions)     # {"n": 48, "passed": {"value": 0.2, ...}, ...}
"""

from functools import partial
from os.path import commonprefix
from typing import Any

from rlhf_exp.evaluation.completions import Completion, draw_in_batches
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.generation import Sampling, choose_method, list_eos, sample_completions
from rlhf_exp.models.row_random import Key
from rlhf_exp.models.scoring import Model, evaluating
from rlhf_exp.stats import share_interval
from rlhf_exp.tasks.tokens import encode_prompts

CUTS = (0.0, 0.25, 0.5, 0.75)
"""Shares of the reasoning that are kept, in tokens."""
FEWEST = 4
"""Right answers, from which their opener is read, or of which the share is measured."""


def find_opener(completions: list[Completion]) -> str:
    """What stands between the reasoning and the answer: the longest text that all right completions have just before
    what the grader has read as their answer. Empty if it is not known."""
    answers = [(one.text, str(one.grade.get("extracted") or "")) for one in completions if one.is_correct]
    before = [text[: text.rfind(answer)] for text, answer in answers if answer and answer in text]
    return commonprefix([text[::-1] for text in before])[::-1] if len(before) >= FEWEST else ""


def cut_reasoning(experiment: Experiment, model: Model, completions: list[Completion]) -> dict[str, Any] | None:
    """Of each right first completion the reasoning up to each of CUTS and the opener, from where the model goes on:
    the share that is right again, with an interval over rows; None if there are too few, or their opener is not known.

    Args:
        completions: the model's own, judged.
    """
    cfg, task, tokenizer = experiment.cfg, experiment.task, experiment.tokenizer
    if task.grade is None or not (opener := find_opener(completions)):
        return None
    right = [one for one in completions if one.decoding == "sampled" and one.place == 0 and one.is_correct]
    if len(right) < FEWEST:
        return None
    prompts, encode = encode_prompts(tokenizer, task.eval), partial(tokenizer.encode, add_special_tokens=False)
    begun, keys = list[list[int]](), list[Key]()
    for one in right:
        reasoning = encode(one.text[: one.text.rfind(opener)])
        for cut in CUTS:
            begun.append(reasoning[: round(cut * len(reasoning))] + encode(opener))
            keys.append(("cut", cfg.eval.seed, one.row, round(100 * cut)))
    eos_ids, pad_id = list_eos(model.generation_config, tokenizer), tokenizer.pad_token_id
    sampling = Sampling(cfg.max_tokens, cfg.eval.temperature, cfg.eval.top_p, cfg.eval.top_k)
    draw = partial(sample_completions, model, method=choose_method(cfg), pad_id=pad_id, eos_ids=eos_ids)
    rows = [one.row for one in right for _ in CUTS]
    whole = [prompts[row] + ids for row, ids in zip(rows, begun, strict=True)]
    with evaluating(model):
        ends = draw_in_batches(partial(draw, sampling=sampling), whole, keys, cfg.eval.batch_size, "cut reasoning")
    texts = tokenizer.batch_decode([a + b for a, b in zip(begun, ends, strict=True)], skip_special_tokens=True)
    passed = [task.grade(text, task.eval[row]).outcome == "correct" for text, row in zip(texts, rows, strict=True)]
    shares = [sum(passed[i : i + len(CUTS)]) / len(CUTS) for i in range(0, len(passed), len(CUTS))]
    by_cut = {f"{cut:g}": sum(passed[i :: len(CUTS)]) / len(right) for i, cut in enumerate(CUTS)}
    return {"n": len(right), "opener": opener, "passed": share_interval(shares, len(CUTS)), "by_cut": by_cut}

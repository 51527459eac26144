from dataclasses import replace

import pytest

from rlhf_exp.evaluation import reasoning
from rlhf_exp.evaluation.completions import Completion, judge
from rlhf_exp.graders import Grade
from tests.evaluation.test_completions import TOKENIZER, make_config, make_model, set_up

OPENER = " </think> <answer> "


def complete(experiment, texts):
    """Judged completions of the first rows; every answer that says "1" is right."""
    task = replace(experiment.task, grade=grade)
    experiment = replace(experiment, task=task)
    ids = [TOKENIZER.encode(text) for text in texts]
    return experiment, judge(experiment, [Completion(i, 0, "sampled", one, False) for i, one in enumerate(ids)])


def grade(text, row):
    found = text.split("<answer> ")[-1].removesuffix(" </answer>")
    return Grade("correct" if found == "1" else "failed", float(found == "1"), found)


@pytest.mark.parametrize(
    ("texts", "opener"),
    [
        ([f"<think> {i} yes{OPENER}1 </answer>" for i in range(2, 6)], f" yes{OPENER}"),
        ([f"<think> {i} {word}{OPENER}1 </answer>" for i, word in enumerate(["no", "yes", "no", "yes"])], OPENER),
        (["<answer> 1 </answer>"] * 4 + [f"<think>{OPENER}2 </answer>"], "<answer> "),
        (["<answer> 1 </answer>"] * 3, ""),  # too few
    ],
)
def test_the_opener_is_what_all_right_completions_have_before_their_answer(texts, opener):
    assert reasoning.find_opener(complete(set_up(make_config()), texts)[1]) == opener


def test_each_right_answer_is_sampled_again_after_a_part_of_its_reasoning(monkeypatch):
    texts = [f"<think> {i} + {i} no {i} yes{OPENER}1 </answer>" for i in range(2, 6)]
    texts = [text.replace("yes", "no") if i % 2 else text for i, text in enumerate(texts)]
    experiment, completions = complete(set_up(make_config()), [*texts, f"<think> 9{OPENER}2 </answer>"])
    begun = []

    def draw(call, prompts, keys, size, title):
        begun.extend(TOKENIZER.decode(ids).split(" .")[-1].strip() for ids in prompts)
        assert len(set(keys)) == len(keys)
        return [TOKENIZER.encode("1 </answer>" if "+" in text else "2 </answer>") for text in begun]

    with monkeypatch.context() as patch:
        patch.setattr(reasoning, "draw_in_batches", draw)
        found = reasoning.cut_reasoning(experiment, make_model(), completions)
    assert [len(text.split()) for text in begun[:4]] == [2, 4, 6, 7]  # of a reasoning of 7 tokens, and the opener's two
    assert found["n"] == 4 and found["by_cut"] == {"0": 0.0, "0.25": 0.0, "0.5": 1.0, "0.75": 1.0}
    assert found["passed"]["value"] == 0.5
    assert reasoning.cut_reasoning(experiment, make_model(), completions)["passed"]["value"] == 0  # random weights
    assert reasoning.cut_reasoning(experiment, make_model(), completions[:3]) is None

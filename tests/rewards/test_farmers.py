"""The cheapest known trick for each reward, and what it earns: bench/farmers.py has them.

The start model earns 0.293 (outcome), 0.301 (graduated) and 0.254 (process) on the 512 test problems.
"""

import runpy
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import pytest

from rlhf_exp.rewards.countdown import judge, weigh
from rlhf_exp.rewards.table import REWARDS

FARMERS = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "bench" / "farmers.py")))
CFG = FARMERS.compose()
ROWS, REWARD = FARMERS.draw_rows(CFG, "test", FARMERS.ROWS), FARMERS.build(CFG)
SUM, DIFFERENCE = "( {0} + {1} ) + {2}", "( {0} + {1} ) - {2}"


def farm(name, template=SUM):
    return FARMERS.score_trick(REWARD[name], FARMERS.TRICKS[name], template, ROWS)


def test_every_reward_has_its_farmer():
    assert set(FARMERS.TRICKS) | {"model"} == set(REWARDS), "what a reward model pays for depends on the model"


@pytest.mark.parametrize("name", ["outcome", "length_efficiency", "graduated", "process"])
def test_a_fixed_template_earns_less_than_the_start_model(name):
    """Largest + middle - smallest was 0.495 in graduated, any right step 1.0 in process."""
    assert 0.2 < farm(name, SUM) < 0.23
    assert 0.2 < farm(name, DIFFERENCE) < 0.2505


def test_ten_blind_attempts_earn_no_more_than_one_in_process():
    """They earned 0.7 while it was enough that any of them reached the target."""
    templates = FARMERS.choose_together(FARMERS.draw_rows(CFG, "validation", FARMERS.ROWS))
    earned, solved = FARMERS.score_attempts(REWARD["process"], templates, ROWS)
    assert solved > 0.6 and earned < 0.23


def test_a_template_that_claims_the_target_as_its_value_earns_less_the_more_often_it_is_tried():
    def earn(templates):
        texts = [" no ".join(t.format(*row["numbers"]) + f" = {row['target']}" for t in templates) for row in ROWS]
        return FARMERS.score(REWARD["process"], ROWS, [f"<think> {text}" for text in texts], [[1]] * len(ROWS))

    assert earn([SUM]) > earn([DIFFERENCE, SUM]) > earn(["( {2} * {1} ) - {0}", DIFFERENCE, SUM])


def test_a_templates_wrong_answers_earn_about_what_honest_ones_do_in_graduated():
    """Those of the start model earn 0.10; under grades for 10% and 50% of the target templates earned up to 0.4."""
    for template in FARMERS.list_templates():
        answers = [FARMERS.answer(FARMERS.fill(template, row["numbers"])) for row in ROWS]
        scores = FARMERS.score_each(REWARD["graduated"], ROWS, answers, [[1]] * len(ROWS))
        assert fmean(score for score in scores if score < 1) < 0.13, template


@pytest.mark.parametrize(
    ("thought", "earned"),
    [("8 - 7 = 1", 0.05), ("8 - 7 = 1 no " * 50, 0.05), ("8 + 7 + 3 = 18", 0.1),
     ("3 + 7 = 11 no 8 + 7 + 3 = 18", 0.0), ("8 * 7 = 99 no 8 + 7 + 3 = 18", 0.0),
     ("8 - 7 = 2 " + "no 8 - 7 = 1 " * 50, 0.0), ("53", 0.0), ("50 + 3 = 53", 0.0), ("53 - 0 = 53", 0.0)],
)  # fmt: skip
def test_steps_that_lead_nowhere_earn_a_tenth_at_most_in_process(thought, earned):
    assert weigh(judge(f"<think> {thought} </think>", [8, 7, 3], 53)) == earned

"""The cheapest known trick for each reward, and what it earns: bench/farmers.py has them.

The start model earns 0.293 (outcome) and 0.301 (graduated) on the 512 test problems.
"""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlhf_exp.rewards.table import REWARDS

FARMERS = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "bench" / "farmers.py")))
CFG = FARMERS.compose()
ROWS, REWARD = FARMERS.draw_rows(CFG, "test", FARMERS.ROWS), FARMERS.build(CFG)
SUM, DIFFERENCE = "( {0} + {1} ) + {2}", "( {0} + {1} ) - {2}"


def farm(name, template=SUM):
    return FARMERS.score_trick(REWARD[name], FARMERS.TRICKS[name], template, ROWS)


def test_every_reward_has_its_farmer():
    assert set(FARMERS.TRICKS) | {"environment", "judge", "model"} == set(REWARDS), (
        "a reward needs its trick in TRICKS of bench/farmers.py"
    )


@pytest.mark.parametrize("name", ["outcome", "length_efficiency", "graduated"])
def test_a_fixed_template_earns_less_than_the_start_model(name):
    """Largest + middle - smallest was 0.495 in an earlier graduated."""
    assert 0.2 < farm(name, SUM) < 0.23
    assert 0.2 < farm(name, DIFFERENCE) < 0.2505

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.rewards import build_rewards
from rlhf_exp.rewards.graduated import score
from rlhf_exp.tasks import Task
from rlhf_exp.tasks.countdown import grade as grade_row

NUMBERS = [8, 7, 3]


@pytest.mark.parametrize(
    ("answer", "target", "expected"),
    [
        ("8 * 7 - 3", 53, 1.0),
        ("8 * 7 - 3 = 53", 53, 1.0),
        ("8 * 7 + 3", 56, 0.2),  # 59, 3 away of 5.6
        ("8 * 7 + 4", 57, 0.05),  # a number that is not given
        ("8 * 7 - 3", 54, 0.3),  # 1 away of 2.7
        ("( 8 - 3 ) * 8", 40, 0.05),
        ("8 * 7 + 3", 60, 0.3),  # 1 away, 5% would be 3
        ("8 + 7 + 3", 20, 0.2),  # 2 away, just within 10%
        ("8 + 7 + 3", 21, 0.1),
        ("7 - 8 - 3", 53, 0.1),  # a negative value
        ("8 / 7 / 3", 53, 0.1),
        ("8 / (7 - 3 - 4)", 53, 0.05),  # a number that is not given
        ("8 + 7", 15, 0.05),
        ("8 * 7 - 3 - 3", 50, 0.05),
        ("53", 53, 0.05),
        ("8 7 3", 53, 0.05),  # the prompt, copied
        ("8 + 7 3", 53, 0.05),
        ("no idea", 53, 0.05),
        ("", 53, 0.0),
    ],
)
def test_an_answer_is_worth_more_the_nearer_it_comes(answer, target, expected):
    assert score(f"<answer> {answer} </answer>", NUMBERS, target) == expected


def test_an_expression_of_the_right_numbers_that_divides_by_zero_is_valid():
    assert score("<answer> 8 / ( 7 - 7 ) </answer>", [8, 7, 7], 8) == 0.1
    assert score("<answer> ( 8 / ( 7 - 7 ) + 3 ) * 0 </answer>", [8, 7, 7, 3, 0], 0.0) == 0.1
    assert score("<answer> - ( 8 / ( 7 - 7 ) ) </answer>", [8, 7, 7], 8) == 0.1
    assert score("<answer> 8 / ( 7 - 7 ) + </answer>", [8, 7, 7], 8) == 0.05


def test_distances_are_exact():
    assert score("<answer> 1 / 3 + 27 </answer>", [1, 3, 27], 30) == 0.2  # 27 1/3
    assert score("<answer> 27 - 1 / 3 </answer>", [1, 3, 27], 30) == 0.1  # 26 2/3
    assert score("<answer> 19 + 1 / 9 </answer>", [1, 9, 19], 20) == 0.3  # 19 1/9
    assert score("<answer> 19 - 1 / 9 </answer>", [1, 9, 19], 20) == 0.2  # 18 8/9


def test_no_closed_answer_is_worth_nothing():
    assert score("<think> 8 * 7 = 56 </think> <answer> 8 * 7 - 3", NUMBERS, 53) == 0.0


def test_the_reward_reads_the_rows_of_countdown():
    rows = [{"id": "0", "prompt": "p", "numbers": NUMBERS, "target": 53}]
    graduated = build_rewards(compose_config(["reward=graduated"]), Task("countdown", [], rows, grade_row))[0]
    columns = {"numbers": [NUMBERS] * 2, "target": [53] * 2, "completion_ids": [[1]] * 2, "trainer_state": None}
    texts = ["<answer> 8 * 7 - 3 </answer>", "<answer> 8 * 7 + 3 </answer>"]
    assert graduated(prompts=["p"] * 2, completions=texts, **columns) == [1.0, 0.1]
    messages = [[{"role": "assistant", "content": text}] for text in texts]
    assert graduated(prompts=[[]] * 2, completions=messages, **columns) == [1.0, 0.1]

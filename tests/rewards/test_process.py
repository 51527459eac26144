import random

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.rewards.countdown import MAX_STEPS, judge, read_thought, weigh
from rlhf_exp.tasks.countdown_search import write_trace

NUMBERS, TARGET = [8, 7, 3], 53
RIGHT, WRONG = True, False


def score(completion, numbers, target):
    return weigh(judge(completion, numbers, target))


def judge_steps(completion, numbers):
    return judge(completion, numbers, TARGET).verdicts


@pytest.mark.parametrize(
    ("thought", "verdicts"),
    [
        ("8*7=56", [RIGHT]),
        ("8 * 7 = 56 - 3 = 53", [RIGHT, RIGHT]),
        ("( 8 * 7 ) - 3 = 56 - 3 = 53", [WRONG, WRONG]),  # 56 is not the value of the left side
        ("8 * 7 = 56 -", [RIGHT]),  # cut off
        ("8 * 7 = 55", [WRONG]),
        ("8 * 8 = 64", [WRONG]),  # one 8
        ("( 8 + 7 ) / 3 = 5", [RIGHT]),
        ("3 - 8 = -5", [RIGHT]),
        ("3 - 8 = 5", [WRONG]),
        ("8 / ( 7 - 7 ) = 0", [WRONG]),
        ("8 7 = 56", [WRONG]),
        ("8 * = 56", []),  # one number
        ("8 * 7 =", []),  # cut off
        ("56 = 56", []),
        ("99 = 8 * 7", []),
        ("8 * 7 =\n56", []),
        ("8 * 7 = (56)", []),
        # a chain, and a line of search, go on from what is left
        ("7 - 3 = 4 * 8 = 32", [RIGHT, RIGHT]),
        ("8 * 7 = 56 ; 8 - 3 = 5", [RIGHT, WRONG]),
        ("8 * 7 = 56, 56 - 3 = 53, 53 - 3 = 50", [RIGHT, RIGHT, WRONG]),
        # a wrong step takes nothing and gives nothing
        ("8 * 7 = 55 ; 55 - 3 = 52", [WRONG, WRONG]),
        ("8 * 7 = 55 ; 8 * 7 = 56", [WRONG, RIGHT]),
        # after a word or a line break the search may go back, or go on
        ("8 * 7 = 56 no 8 - 3 = 5", [RIGHT, RIGHT]),
        ("8 * 7 = 56. Then 56 - 3 = 53.", [RIGHT, RIGHT]),
        ("8 * 7 = 56, 56 + 3 = 59, too much: 56 - 3 = 53", [RIGHT, RIGHT, RIGHT]),
        ("8 + 7 = 15\n8 * 7 = 56\n15 - 3 = 12", [RIGHT, RIGHT, RIGHT]),
        ("8 + 7 = 15\n8 * 7 = 56\n15 + 56 = 71", [RIGHT, RIGHT, WRONG]),  # no search has both
        ("8 / 3 = 2.67", [WRONG]),
    ],
)
def test_a_step_is_an_expression_of_what_its_search_has_left_and_its_value(thought, verdicts):
    assert judge_steps(f"<think> {thought} </think>", NUMBERS) == verdicts


def test_of_two_equal_numbers_either_may_be_meant():
    """From 5 / 1 = 5, another 5: `17 + 5` may take the result or go back for the given number, and must, for the 1."""
    thought = "<think> 5 / 1 = 5 ; 17 - 5 = 12 no 17 + 5 = 22 - 1 = 21 no"
    assert judge_steps(thought, [5, 1, 17]) == [RIGHT] * 4
    assert judge_steps("<think> 4 + 4 = 8 ; 8 * 3 = 24", [4, 4, 3]) == [RIGHT] * 2
    assert judge_steps("<think> 4 + 4 = 8 ; 4 * 3 = 12", [4, 4, 3]) == [RIGHT, WRONG]


def test_the_think_part_is_cut_out_wherever_its_tags_are():
    assert read_thought("<think> a </think> <answer> 1 </answer>") == " a "
    assert read_thought("well <think> a </think> b </think>") == " a "
    assert read_thought("<think> a and no more") == " a and no more"
    assert read_thought("a </think> b") == "a "
    assert read_thought("a b") == ""
    assert score("8 * 7 = 56 <answer> 8 * 7 - 3 = 53 </answer>", NUMBERS, TARGET) == 0.0
    assert score("<think> none </think> <answer> 8 * 7 - 3 = 53 </answer>", NUMBERS, TARGET) == 0.0


@pytest.mark.parametrize(
    ("thought", "expected"),
    [
        ("8 * 7 = 56 - 3 = 53 yes", 1.0),
        ("8 + 7 = 15 - 3 = 12 no 8 * 7 = 56 no 56 - 3 = 53 yes check 8 * 7 - 3 = 53 yes", 1.0),
        ("8 * 7 = 56 - 3 = 53 yes 8 - 7 = 1", 1.0),
        # where the search ends counts: the last step that joins all numbers, or claims the target
        ("8 * 7 = 56 - 3 = 53 no 8 + 7 = 15 - 3 = 12 no", 0.1),
        ("8 * 7 - 3 = 53 no 8 + 7 - 3 = 53", 0.0),
        ("8 + 7 - 3 = 53 no 8 * 7 - 3 = 53", 0.9),
        # a wrong step costs a tenth, and right ones beside it do not make it less
        ("8 * 7 = 55 no 8 * 7 = 56 - 3 = 53 yes", 0.9),
        ("8 * 7 = 55 no 9 + 9 = 18 no 8 * 7 = 56 - 3 = 53 yes", 0.8),
        ("8 + 7 = 16 no 8 + 7 = 15 - 3 = 12 no", 0.0),
    ],
)
def test_the_score_is_of_the_path_that_joins_most_numbers_less_the_wrong_steps(thought, expected):
    assert score(f"<think> {thought}", NUMBERS, TARGET) == expected


def test_every_written_trace_is_right_in_every_step_and_none_with_a_wrong_value():
    rng, habits = random.Random(0), compose_config().task.traces
    for _ in range(1000):
        numbers = [rng.randint(1, 20) for _ in range(rng.choice([2, 3]))]
        trace = write_trace(numbers, rng.randint(1, 60), habits, rng)
        verdicts = judge_steps(trace, numbers)
        assert len(verdicts) == trace.partition("</think>")[0].count("=") and all(verdicts), trace
        words = trace.split()
        at = rng.choice([i for i, word in enumerate(words) if word == "="])
        broken = [*words[: at + 1], str(int(words[at + 1]) + 1), *words[at + 2 :]]
        assert not all(judge_steps(" ".join(broken), numbers)), broken


def test_of_a_long_thought_a_bounded_number_of_steps_is_judged():
    assert len(judge_steps("<think>" + "8*7=56 no " * 10**4, NUMBERS)) <= MAX_STEPS

import itertools
import json
import operator
import re
from fractions import Fraction
from pathlib import Path

import pytest

from rlhf_exp.graders import Grade
from rlhf_exp.graders.countdown import grade

NUMBERS, TARGET = [3, 7, 8], 53  # 8 * 7 - 3
PROBLEMS = Path(__file__).parents[2] / "../shared/data/countdown/countdown_cd3_256.jsonl"
APPLY = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": Fraction}


def outcome(answer, numbers=NUMBERS, target=TARGET):
    return grade(f"<answer>{answer}</answer>", numbers, target).outcome


@pytest.mark.parametrize(
    "answer",
    ["8*7-3", "-3+8*7", "7 * 8 - 3", "((((8))*((7)))-(3))", "-(3 - 8*7)", "- - 8 * 7 - 3", "8 * -(-7) - 3",
     "\n 8 *\t7\n- 3 \n", "8 × 7 − 3", "8 · 7 - 3", r"8 \times 7 - 3", r"8\cdot7-3", "$$ 8*7-3 $$",
     # a box is unwrapped, and a value at the end ignored
     "8*7-3=99", "8*7-3 = − 53", "8*7-3 = 53.0", "8*7-3 = 106/2", "$8*7-3$ = $53$", r"$\boxed{ 8 \times 7 - 3 }$",
     r"\boxed{8*7-3 = 53}", r"\boxed{$8*7-3$}", r"8*7-3 = \boxed{53}", r"\boxed{8*7-3} = \boxed{53}",
     r"The answer is \boxed{8*7-3}.", r"\boxed{\boxed{8*7-3}}", r"\boxed{7} or rather \boxed{8*7-3}"],
)  # fmt: skip
def test_a_right_answer_scores_one_in_every_spelling(answer):
    assert outcome(answer) == "correct"


@pytest.mark.parametrize(
    "completion",
    ["<think> 8 * 7 = 56 </think> <answer>8*7-3</answer>", "<answer>8+7+3</answer> no: <answer>8*7-3</answer>",
     "<answer>8*7-3</answer> and <answer>8+7", "<answer><answer>8*7-3</answer>", "<answer>8*7-3</answer></answer>",
     "</answer><answer>8*7-3</answer>", r"<answer> $\boxed{8*7-3} = 53$ </answer>"],
)  # fmt: skip
def test_the_last_closed_answer_counts(completion):
    assert grade(completion, NUMBERS, TARGET) == Grade("correct", 1.0, "8*7-3")


@pytest.mark.parametrize("answer", ["1 2 + 3", "12 + 3", "1\n2 + 3", "1_2 + 3", "1(2) + 3", "(1)(2) + 3", "1$2 + 3"])
def test_digits_are_not_concatenated_nor_a_product_left_unwritten(answer):
    assert outcome(answer, [1, 2, 3], 15) == "partial"
    assert outcome(answer, [1, 2, 3], 5) == "partial"


@pytest.mark.parametrize("answer", ["8*7+3", "8*7-3-3", "8*7-3+7-7", "8*7", "8+7-(8*7-3)", "(8-7)*53", "53"])
def test_a_wrong_value_or_numbers_other_than_each_given_one_once_are_wrong(answer):
    assert outcome(answer) == "partial"
    assert outcome(answer, target=eval(answer)) == ("correct" if answer == "8*7+3" else "partial")


@pytest.mark.parametrize("answer", ["8/(7-7)", "8/0", "0/0", "8/7/(3-3)", "8/-(7-7)", "8/(7-7) = 53"])
def test_division_by_zero_is_wrong(answer):
    numbers = [int(number) for number in re.findall("[0-9]+", answer.partition("=")[0])]
    assert outcome(answer, numbers) == "partial"


@pytest.mark.parametrize(
    "answer",
    r"""8**2 8//2 8%2 8^2 8,2 8.0+2 8.+2 .8+2 8e0+2 0x8+2 08+2 +8+2 8++2 8+*2 8*/2 8+ *8 ()8+2 8()+2 )8+2(
    (8+2 8+2) 8&2 8|2 8<<2 ~8+2 8!+2 8x2 8=2 8+2= =8+2 =10 = == 10=8+2 8+2==10 8+2=10=10 8+2=ten 8+2;2 [8]+2
    {8}+2 8+2} abs(8)+2 8if+2 lambda:8 __import__('os') ten \frac{8}{2} \boxed{8+2 \boxed{{8+2} 8\timesx2
    8\div{2} \left(8+2\right) ٨+٢ ８+２ ８+2 8+² 8²+2 ⑧+2 Ⅷ+2 8➕2 8∗2 8–2""".split()
    + ["8+2\u200b", "8\0+2", "8+2\ud800"],
)
def test_whatever_is_no_expression_is_wrong_and_raises_nothing(answer):
    for target in (2, 4, 6, 8, 10, 16, 64):
        assert outcome(answer, [8, 2], target) == "partial"


@pytest.mark.parametrize(
    "completion",
    ["", "8*7-3", "<think> 8*7-3 </think>", "<answer>8*7-3", "</answer>8*7-3<answer>", "<Answer>8*7-3</Answer>",
     "<answer>8*7-3< /answer>", "<answer> \n </answer>", "<answer>\u00a0</answer>", "<answer>$$</answer>",
     r"<answer>\boxed{ }</answer>", "<answer>8*7-3</answer><answer></answer>"],
)  # fmt: skip
def test_no_answer_or_an_empty_one_fails(completion):
    assert grade(completion, NUMBERS, TARGET) == Grade("failed", 0.0, None)


def solve(numbers, target):
    """Every way to reach `target` by joining two parts at a time, as fully parenthesised text."""
    found, stack = set(), [[(Fraction(number), str(number)) for number in numbers]]
    while stack:
        parts = stack.pop()
        if len(parts) == 1:
            found.update(text for value, text in parts if value == target)
            continue
        for (i, left), (j, right) in itertools.permutations(enumerate(parts), 2):
            rest = [part for k, part in enumerate(parts) if k not in (i, j)]
            for symbol in "+-*/":
                if (symbol in "-/" or i < j) and not (symbol == "/" and right[0] == 0):
                    value = APPLY[symbol](left[0], right[0])
                    stack.append([*rest, (value, f"({left[1]} {symbol} {right[1]})")])
    return found


@pytest.mark.skipif(not PROBLEMS.exists(), reason="the 256 problems with three numbers are not beside this checkout")
def test_every_solution_of_the_256_published_problems_scores_one():
    rows = [json.loads(line) for line in PROBLEMS.read_text().splitlines()]
    assert len(rows) == 256
    for row in rows:
        solutions = solve(row["nums"], row["target"])
        assert solutions, row
        for solution in solutions:
            assert outcome(solution, row["nums"], row["target"]) == "correct", solution

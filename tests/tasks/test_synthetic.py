"""The problems and pairs that ship: right by an oracle of their own, and the same for ever."""

import json
import re
from collections import Counter
from fractions import Fraction
from hashlib import sha256

from rlhf_exp.graders.gsm8k import grade
from rlhf_exp.tasks.gsm8k import SYNTHETIC_ROWS, SYNTHETIC_SEED
from rlhf_exp.tasks.hh_rlhf import parse_pair
from rlhf_exp.tasks.synthetic import generate_pairs, generate_problems

PROBLEMS = list(generate_problems(SYNTHETIC_ROWS, SYNTHETIC_SEED))
PAIRS = list(generate_pairs(4000, seed=0))

# What a question asks for, by words of its own: written apart from the templates that made it.
SOLUTIONS = {
    "gives .* more": lambda a, b: a + b,
    "of them to": lambda a, b: a - b,
    "equally among": lambda a, b: Fraction(a, b),
    "costs": lambda a, b: a * b,
    "shop": lambda a, b: a - b,
    "finds": lambda a, b, c: a + b - c,
    "loose": lambda a, b, c: a * b + c,
    "with .* in each[.]": lambda a, b: a * b,
    "times as many": lambda a, b: a + a * b,
    "pays with": lambda a, b, c: c - a * b,
    "earns": lambda a, b, c: a * b * c,
    "the same number in each": lambda a, b, c: Fraction(a + b, c),
}


def read_numbers(text):
    return [int(number.replace(",", "")) for number in re.findall("[0-9][0-9,]*[0-9]|[0-9]", text)]


def test_every_gold_answer_is_right_by_an_evaluation_of_the_question_alone():
    kinds = Counter()
    for question, answer in PROBLEMS:
        kind = next(kind for kind in SOLUTIONS if re.search(kind, question))
        kinds[kind] += 1
        value = SOLUTIONS[kind](*read_numbers(question))
        assert grade(answer, str(value)).score == 1.0, (question, answer)
        assert value == int(value) >= 2
    assert len(kinds) == 12 and min(kinds.values()) == SYNTHETIC_ROWS // 12


def test_questions_are_distinct_and_the_rows_are_those_that_were_approved():
    assert len({question for question, _ in PROBLEMS}) == len(PROBLEMS) == 10_000
    assert list(generate_problems(50, 0)) == PROBLEMS[:50] != list(generate_problems(50, 1))
    assert sha256(json.dumps(PROBLEMS).encode()).hexdigest()[:16] == "d8b4f82e52d6dc5c"


def test_pairs_are_well_formed_with_a_prompt_each_and_those_that_were_approved():
    parsed = [parse_pair("", subset, None, chosen, rejected) for subset, chosen, rejected in PAIRS]
    assert [kinds for _, kinds in parsed] == [[]] * 4000 and len({pair.prompt for pair, _ in parsed}) == 4000
    assert list(generate_pairs(50, seed=0)) == PAIRS[:50] != list(generate_pairs(50, seed=1))
    assert sha256(json.dumps(PAIRS).encode()).hexdigest()[:16] == "908593134489513c"

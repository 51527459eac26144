import re
from collections import Counter
from fractions import Fraction
from itertools import islice

from rlhf_exp.graders.gsm8k import grade
from rlhf_exp.tasks.gsm8k import SYNTHETIC_ROWS, SYNTHETIC_SEED
from rlhf_exp.tasks.gsm8k_synthetic import PARTS, generate_problems
from rlhf_exp.tasks.splits import split_of

PROBLEMS = list(generate_problems(SYNTHETIC_ROWS, SYNTHETIC_SEED))

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
    assert len(kinds) == len(PARTS["templates"]) == 12 and min(kinds.values()) == SYNTHETIC_ROWS // 12


def test_every_step_is_annotated_with_its_own_right_calculation():
    for _, answer in PROBLEMS:
        *steps, last = answer.split("\n")
        assert 1 <= len(steps) <= 2
        for step in steps:
            shown, left, sign, right, result, written = re.search(
                r"([0-9,]+ [-+*/] [0-9,]+) = <<([0-9]+)([-+*/])([0-9]+)=([0-9]+)>>([0-9,]+)", step
            ).groups()
            assert shown.replace(",", "") == f"{left} {sign} {right}" and written == f"{int(result):,}"
            a, b = int(left), int(right)
            assert int(result) == {"+": a + b, "-": a - b, "*": a * b, "/": Fraction(a, b)}[sign]
        assert last == f"#### {written}"


def test_questions_are_distinct_short_and_seeded():
    questions = [question for question, _ in PROBLEMS]
    assert len(set(questions)) == len(questions) == 10_000
    assert max(len(q) for q in questions) <= 130 and max(len(answer) for _, answer in PROBLEMS) <= 130
    assert (
        list(islice(generate_problems(10_000, SYNTHETIC_SEED), 50)) == PROBLEMS[:50] == list(generate_problems(50, 0))
    )
    assert list(generate_problems(50, 1)) != PROBLEMS[:50]


def test_numbers_reach_from_one_digit_to_thousands_with_commas():
    golds = [answer.rpartition("#### ")[2] for _, answer in PROBLEMS]
    sizes = Counter(len(gold.replace(",", "")) for gold in golds)
    assert min(sizes[digits] for digits in (1, 2, 3, 4)) > 200
    assert 0.05 < sum("," in gold for gold in golds) / len(golds) < 0.25


def test_nothing_is_singular_where_there_are_several_and_every_placeholder_is_filled():
    names, wares = PARTS["names"], PARTS["wares"]
    nouns = "|".join([*PARTS["things"], *PARTS["boxes"], *(f"{ware}s" for ware in wares)])
    for question, answer in PROBLEMS:
        text = f"{question}\n{answer}"
        assert not re.search("[{}]", text)
        assert not re.search(rf"\b(1|0) ({nouns})\b", text)
        assert question.endswith("?") and question[0].isupper() and "  " not in text
        assert re.search(rf"\b({'|'.join(names)}|A shop|A ({'|'.join(wares)}) costs)\b", question)


def test_every_split_has_thousands_or_hundreds():
    sizes = Counter(split_of(question) for question, _ in PROBLEMS)
    assert sizes["train"] > 7500 and sizes["validation"] > 700 and sizes["test"] > 1000

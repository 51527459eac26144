import logging
import random
from fractions import Fraction

import pytest
from math_verify import LatexExtractionConfig, parse
from sympy import Rational

from rlhf_exp.graders.arithmetic import MAX_CHARACTERS, evaluate

logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that it runs without its timeout


@pytest.mark.parametrize(
    ("text", "value"),
    [("1 + 2 * 3", 7), ("36 / 4 / 2", Fraction(9, 2)), ("20 - 2 - 3", 15), ("-2^2", -4), ("--3", 3), ("2 * -3", -6),
     ("3(4)", 12), ("(1 + 1)(2 + 3)", 10), (r"2\sqrt{9}", 6), (r"\sqrt[3]{27}", 3),
     (r"\sqrt{\frac{1}{4}}", Fraction(1, 2)), (r"1\frac{1}{2}", Fraction(3, 2)), ("2 * 3 1/2", 7),
     ("-3 1 / 2", Fraction(-7, 2)), ("(1/2)3", Fraction(3, 2)), (r"\frac{1}{2}3", Fraction(3, 2)), ("10^{3}5", 5000),
     (r"\frac34", Fraction(3, 4)), (r"\left(3 + 6\right) \cdot 2", 18), (r"1.8 \times 10^{4}", 18000),
     ("0.1 * 3", Fraction(3, 10)), ("(1 / 3)^2", Fraction(1, 9))],
)  # fmt: skip
def test_arithmetic_has_its_exact_value(text, value):
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", "1 2", "3 2/1", "3 1/0", "3 1/2^2", "1 +", "(1 + 1", "1 + 1)", "()", "{1 + 1}", "1 / 0", r"\frac{1}{0}",
     r"\sqrt{2}", r"\sqrt{-4}", r"\sqrt{2}\sqrt{2}", "2^3^2", "2^{100}", "2^100", "x", "1,2", r"\frac1", r"\pi",
     "1 × ", "٣ + 1", "1" * (MAX_CHARACTERS + 1)],
)  # fmt: skip
def test_what_is_no_arithmetic_or_has_no_rational_value_has_none(text):
    assert evaluate(text) is None


def build_expression(rng, depth):
    """A random expression that math-verify reads exactly: without a decimal, and without `3(4)`, which it adds."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(["1", "2", "9", "16", "100", r"\sqrt{16}", r"1\frac{1}{2}", r"\frac34", "3^2", "2^{10}"])
    left, right = build_expression(rng, depth - 1), build_expression(rng, depth - 1)
    forms = ["{} + {}", "{}-{}", r"{} \times {}", "{}*{}", "{}/({})", r"\frac{{{}}}{{{}}}", "({} - {})", "-{} + {}"]
    return rng.choice(forms).format(left, right)


def test_random_expressions_have_the_value_that_math_verify_gives_them():
    rng, compared = random.Random(0), 0
    while compared < 60:
        text = build_expression(rng, 2)
        if len(text) > 30 or text.count("^") > 1:
            continue
        parsed = parse(f"${text}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
        value = parsed[0].doit() if parsed else None
        expected = Fraction(int(value.p), int(value.q)) if isinstance(value, Rational) else None
        assert evaluate(text) == expected, text
        compared += expected is not None

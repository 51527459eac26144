"""The math checker: compares by value, and nothing that it is given takes long."""

import time

import pytest

from rlhf_exp.graders import expressions
from rlhf_exp.graders.expressions import grade, read_gold


@pytest.mark.parametrize(
    ("completion", "answer", "outcome"),
    [(r"So it is $\boxed{0.5}$.", r"\frac{1}{2}", "correct"), ("It is 4.", 4, "correct"),
     (r"We get \[ x = 4 \]", "4", "correct"), ("We get\n$$\n\\frac{1}{2}\n$$", "0.5", "correct"),
     ("word " * 200 + "so it is $4$.", "4", "correct"), ("$5$ " + "word " * 2000 + "so it is $4$.", "4", "correct"),
     ("<answer>1/2</answer>", 0.5, "correct"), (r"\boxed{x^2+2x+1}", "(x+1)^2", "correct"),
     (r"\boxed{x^2}", "x^2+1", "partial"), (r"\boxed{\{1,2\}}", r"\{2,1\}", "correct"),
     (r"\boxed{0.00001}", 1e-05, "correct"), (r"\boxed{4} and \boxed{5}", "4", "partial"),
     (r"\int_0^9 x^x dx is not needed" + "\n" + r"\boxed{4}", "4", "correct"),
     (r"\boxed{2^{2004}}", "2^{2004}", "correct"), ("", "4", "failed"), ("no idea", "4", "failed"),
     (r"\boxed{4", "4", "failed"), ("$" + " + ".join(map(str, range(100))) + "$", "99", "failed")],
)  # fmt: skip
def test_an_answer_is_compared_by_value(completion, answer, outcome):
    assert grade(completion, answer).outcome == outcome


@pytest.mark.parametrize(
    "formula", [r"$\frac{a}{2} + \frac{b}{3}$", r"\(x^2 + 1\)", r"\[ 2x + 3 = 11 \]", "$$y = 5$$", "at $5 a piece"]
)
def test_a_formula_300_characters_before_the_end_does_not_hide_the_answer(formula):
    for back in range(290, 310):
        for answer in ("4", "$4$", r"\(\frac{8}{2}\)", r"so $x = \frac{1}{2} + \frac{7}{2}$."):
            end = f" and that was shown. The answer is {answer}"
            text = f"We begin with {formula}" + " so" * 200
            text = text[: len("We begin with ") + back + len(formula) - len(end)] + end
            assert grade(text, "4").outcome == "correct", text


HOSTILE = {
    "brackets": "(" * 200 + "4" + ")" * 200,
    "brackets that stay open": "{" * 5000,
    "fractions": r"\frac{1}{1+" * 60 + "x" + "}" * 60,
    "tower": "9^{9^{9^{9}}}",
    "power": "99999^{99999}",
    "power of a power": "((2^{900})^{900})^{900}",
    "negative power": "3^{-10000000}",
    "e": "e^{e^{e^{e^{10}}}}",
    "factorial": "1000000!",
    "factorials": "5!!!!",
    "binomial": r"\binom{1000000}{500000}",
    "sum": r"\sum_{n=1}^{10000000} n^n",
    "integral": r"\int_0^1 \sin(x^x) dx",
    "product": r"\prod_{n=1}^{10000000} n",
    "limit": r"\lim_{x\to 0} \frac{\sin x^x}{x}",
    "long": "x" + "+x^2" * 5000,
    "formulas": "$" * 20_000,
    "open formulas": r"\[" * 10_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("form", [r"\boxed{%s}", "$%s$", "%s", "%s$"], ids=["box", "formula", "plain", "open"])
def test_a_hostile_completion_is_wrong_within_a_second_of_processor_time(text, form):
    expressions._parse.cache_clear()
    began = time.process_time()
    found = grade(form.replace("%s", text), "4")
    assert found.outcome in ("failed", "partial") and time.process_time() - began < 2


@pytest.mark.parametrize("text", [text for name, text in HOSTILE.items() if name not in ("long", "formulas")])
def test_a_gold_answer_beyond_the_limits_is_refused(text):
    with pytest.raises(ValueError, match="not an expression that math-verify can compare"):
        read_gold(text)

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from rlhf_exp.graders.gsm8k import Gsm8kGrade, grade, read_gold

GSM8K = Path(__file__).parents[2] / "../shared/data/gsm8k"
PAPER = re.compile(r"#### (\-?[0-9\.\,]+)")  # grade_school_math/dataset.py of Cobbe et al.
GOLD = "He sold 48 / 2 = <<48/2=24>>24.\n#### 18"

CORRECT = Gsm8kGrade("correct", 1.0, "18", strict=True, lenient=True)
UNMARKED = Gsm8kGrade("partial", 0.1, "18", strict=False, lenient=True)
NOTHING = Gsm8kGrade("failed", 0.0, None, strict=False, lenient=False)
WRONG = Gsm8kGrade("partial", 0.1, "17", strict=False, lenient=False)


@pytest.mark.parametrize(
    "completion",
    ["9 + 9 = <<9+9=18>>18\n#### 18", "####18", "#### 18\n\nQuestion: Tom has 3 cats.", "#### 18 (3 times 6)",
     "#### 18 clips, 6 of them red", "#### 18, so 3 each", "#### 18 - 2 a day", "#### 18. She makes $18.",
     "#### 9 + 9 = 18", "#### 18</s>", "**#### 18**", "####\t18\r\n", "####: 18", "#### : $18", r"\boxed 18",
     r"so $\boxed 18$ clips, 6 of them red", r"#### \(18\)", r"#### 18\text{ clips}", r"$\boxed{ 18 }$.",
     r"\[\boxed{x = 18 \text{ cm}^2}\]", r"\boxed{\boxed{18}}", r"\boxed{\text{18}}", r"\boxed{18^\circ}",
     r"\boxed{18} \boxed{", "<answer>\n18 clips.\n</answer>", "<answer>The answer is 18!</answer>",
     "<answer>9 + 9 = 18</answer>", "<answer>**(18)**</answer>", r"<answer>\boxed{18}</answer>",
     "<answer>#### 18</answer>", "<answer><answer>18</answer>"],
)  # fmt: skip
def test_a_marked_right_answer_is_correct_in_every_form(completion):
    assert grade(completion, GOLD) == CORRECT
    assert grade(completion, "18") == CORRECT


@pytest.mark.parametrize(
    ("completion", "grade_of_18"),
    [*((text, UNMARKED) for text in (
        "A: 18", "48 - 30 = 18", "The answer is 18.", "<answer>18", r"\boxed{18", "<Answer>18</Answer>", "### 18",
        "####\n18", "#### x = 18", "#### Step 2\nSo it is 18", "#### 17\n<answer></answer> so 18", r"\boxed{} 18",
        "so...18", "10-18", "10–18", "x = --18", "(9)-18", "1, 18", "1.5 18", "17 1 18", r"\sqrt{324} = 18",
        r"\frac{37}{2} \approx 18", "18 cm^2", r"18^{\prime \prime}", "48 - 30 = 18 = 2 * 9 = 18")),
     *((text, NOTHING) for text in ("", "no idea", "####", "#### ", "<answer> \n</answer>", r"\boxed{}")),
     ("#### 17", WRONG), ("A: 17", Gsm8kGrade("failed", 0.0, "17", strict=False, lenient=False)),
     ("18 <answer>no idea</answer>", Gsm8kGrade("partial", 0.1, "no idea", strict=False, lenient=True))],
)  # fmt: skip
def test_an_unmarked_answer_is_read_leniently_and_a_wrong_one_counts_where_it_is_marked(completion, grade_of_18):
    assert grade(completion, "18") == grade_of_18


@pytest.mark.parametrize(
    ("text", "part", "value"),
    [(r"it is $\frac{1+\sqrt5}{2}$", "2", None), (r"it is \(\frac{1+\sqrt{5}}{2}\).", "2", None),
     (r"\boxed{\frac{1+\sqrt{5}}{2}}", "2", None), (r"it is \frac{3}{4}", "4", "0.75"),
     (r"it is \frac{a}{4}", "4", None), (r"so $x = 1\frac{1}{2}$ cups", "2", "1.5"),
     (r"\[ x = 2\sqrt{9} \]", "9", "6"), (r"it is $2\sqrt{3}$", "3", None), ("it is 10^3.", "3", "1000"),
     ("it is 10^{3}", "3", "1000"), (r"it is $18\pi$", "18", None), (r"it is $18 \pi$ cm", "18", None),
     ("it is √18", "18", None), (r"\boxed{10^{3}5}", "5", None), ("The answer is 1.5e6", "6", "1500000"),
     ("so about 2e-5", "5", "0.00002"), ("about 1.5 x 10^6 km", "1000000", "1500000"),
     ("1.5 × 10⁶", "1.5", "1500000"), ("it is 1e3^2", "9", None), ("1 234e2", "2", "123400")],
)  # fmt: skip
def test_a_part_of_a_fraction_a_root_or_a_power_is_not_the_last_number(text, part, value):
    assert grade(text, part).lenient is False
    assert value is None or grade(text, value).lenient


@pytest.mark.parametrize(
    ("completion", "read"),
    [("#### 17\n#### 18", "18"), ("#### 17 #### 18", "18"), (r"#### 17 \boxed{18}", "18"),
     (r"\boxed{17} then <answer>18</answer>", "18"), ("<answer>17</answer>\n#### 18", "18"),
     (r"<answer>17</answer> \boxed{18}", "18"), (r"\boxed{17} \boxed{18}", "18"),
     ("<answer>17</answer><answer>18</answer>", "18"), ("<answer>17</answer><answer>18", "17"),
     ("#### 17\n#### Check", "17"), (r"\boxed{17} #### the end", "17"), (r"<answer>\boxed{17} is 18</answer>", "17")],
)  # fmt: skip
def test_the_last_marker_that_begins_an_answer_counts(completion, read):
    assert grade(completion, read) == Gsm8kGrade("correct", 1.0, read, strict=True, lenient=True)


@pytest.mark.parametrize(
    ("spelled", "value"),
    [("18.", "18"), ("18.000", "18"), ("018", "18"), ("1,234", "1234"), ("1 234", "1234"),
     ("1\u202f234\u00a0567", "1234567"), ("12 345.5", "12345.5"), ("1000,99", "1000.99"), ("-12345,5", "-12345.5"),
     ("1 234,50", "1234.5"), ("1.234,50", "1234.5"), ("+18", "18"), ("18", "+18"), ("1234", "1,234"),
     ("$1,234.50", "1234.5"), (r"1{,}234", "1234"), (r"1,\!234", "1234"), (r"\$18", "18"), ("£18.20", "18.2"),
     (r"50\%", "50"), ("- 5", "-5"), ("−5", "-5"), ("–5", "-5"), ("-$5", "-5"), ("$-5", "-5"), ("-(5)", "-5"),
     ("-0", "0"), (".5", "0.5"), ("3/4", "0.75"), ("-3/4", "-0.75"), ("1,000/3", "1000/3"), ("1.5E+6", "1500000"),
     ("-2.5e-5", "-0.000025"), ("0", "0e99999999999"), ("3/4e2", "3/400"), ("1.5 × 10⁶", "1500000"),
     (r"2 \times 10^{-5}", "0.00002"), ("0" * 5000 + "18." + "0" * 5000, "18"),
     ("10000000000000000000000000000000000001", "10000000000000000000000000000000000001.0")],
)  # fmt: skip
@pytest.mark.parametrize("form", ["#### {}", "\\boxed{{{}}}", "<answer>{}</answer>"])
def test_numbers_are_compared_by_value(form, spelled, value):
    assert grade(form.format(spelled), value).strict


@pytest.mark.parametrize(
    ("spelled", "value"),
    [("50%", "0.5"), ("5", "-5"), ("0.333333333333", "1/3"), ("17.9999999999999999", "18"), ("1/0", "1"), ("0/0", "0"),
     ("10000000000000000000000000000000000001", "10000000000000000000000000000000000000"), ("1e3", "1"), ("1e3", "3"),
     ("1.5 x 10^6", "1.5"), ("1e99999999999", "1"), ("1,00,000", "1"), ("1.2.3", "1.2"), ("1,2", "1"), ("1,2", "12"),
     ("1 23", "123"), ("1234 567", "1234567"), ("5 300/400", "5300/400"), ("12,5", "12.5"), ("1000,99,5", "1000.99"),
     ("18²", "18"), ("18½", "18"), ("1٨", "1"), ("１８", "18"), ("XVIII", "18"), ("2^1000", "2"), (r"18\pi", "18"),
     ("9" * 400, "9"), ("1/" + "9" * 400, "0"), (r"\infty", "18"), (r"\frac{18}{0}", "18"),
     (r"\sqrt{2}", "1.41421356237"),
     # the number that begins a longer one, or one of a list: guesses
     ("-(18)", "18"), ("3 1/2", "3"), ("3 1/2 cups", "3"), ("2**3", "2"), ("2(36)", "2"),
     *((guesses, number) for number in ("5", "6")
       for guesses in ("5 or 6", "$5 and $6", r"5 \text{ or } 6", "5, 6, 7", "5;6", "5 6 7")),
     ("50% or 60%", "50"), ("5-6 apples", "5"), ("5 x 6 apples", "5"),
     # what would take long to work out
     *((text, "18") for text in (r"9^{9^{9^9}}", "9^9^9^9", r"2^{999}", r"\sqrt{\sqrt[3]{99} 12.75}", "100!^{99}",
                                r"\int_0^{99} x^{99} dx", r"\binom{9999}{4999}", "9**9**9"))],
)  # fmt: skip
@pytest.mark.parametrize("form", ["#### {}", "\\boxed{{{}}}", "<answer>{}</answer>"])
def test_what_is_another_number_or_none_is_wrong(form, spelled, value):
    assert grade(form.format(spelled), value).strict is False


@pytest.mark.parametrize(
    ("answer", "value"),
    [(r"-\dfrac{3}{4}", "-0.75"), (r"\frac{3}{4}\text{ cups}", "0.75"), (r"x = \frac{36}{2}", "18"),
     ("3 1/2", "3.5"), ("(1/2)3", "1.5"), (r"\frac{1,000}{2}", "500"), (r"2\sqrt{9}", "6"), ("3 × 6", "18"),
     ("36 ÷ 2", "18"), ("20 - 2", "18"), ("10^3", "1000")],
)  # fmt: skip
def test_arithmetic_is_worked_out_where_there_is_no_plain_number(answer, value):
    assert grade(f"\\boxed{{{answer}}}", value).strict
    assert grade(f"<answer>${answer}$</answer>", value).strict
    assert grade(f"#### {answer}" if not answer.startswith("x") else f"#### 2*9 = {answer[4:]}", value).strict


@pytest.mark.parametrize("answer", ["", "#### ", "#### eighteen", "18 clips", "+-7", "1/0", "####18\nmore", "9" * 301])
def test_a_gold_answer_without_a_number_is_refused(answer):
    with pytest.raises(ValueError, match="not a number, nor an answer that ends with #### and a number"):
        grade("#### 18", answer)


@pytest.mark.skipif(not GSM8K.exists(), reason="GSM8K is not beside this checkout")
@pytest.mark.parametrize(("part", "count"), [("train", 7473), ("test", 1319)])
def test_every_gold_answer_scores_one_strictly_and_its_last_line_as_a_is_read_leniently(part, count):
    rows = [json.loads(line) for line in (GSM8K / f"{part}.jsonl").open(encoding="utf-8")]
    assert len(rows) == count
    for row in rows:
        work, _, number = row["answer"].rpartition("\n#### ")
        for gold in (row["answer"], number):
            result = grade(row["answer"], gold)
            assert (result.outcome, result.score, result.strict, result.lenient) == ("correct", 1.0, True, True), row
        assert read_gold(number) == Fraction(PAPER.search(row["answer"]).group(1).replace(",", ""))
        unmarked = grade(f"{work}\nA: {number}", row["answer"])
        assert (unmarked.strict, unmarked.lenient, unmarked.score) == (False, True, 0.1), row
        assert not grade(f"{work}\n#### {read_gold(number) + 1}", row["answer"]).strict

r"""Grades a completion of a Countdown problem: reach the target, using each given number exactly once.

In: the completion's text, of which the end is read (`keep_end`), the given numbers, the target. Out: a
`Grade`. Pure, exact, and linear in the length of any text: nothing is evaluated as code, there is no
recursion, and only numbers that are available are ever converted.

    >>> grade("<think> 8 * 7 = 56 </think> <answer> ( 8 * 7 ) - 3 </answer>", [3, 7, 8], 53)
    Grade(outcome='correct', score=1.0, extracted='( 8 * 7 ) - 3')
    >>> grade("<answer> 8 * 7 - 3 = 53 </answer>", [3, 7, 8], 50).outcome
    'partial'

How an answer is read:

- It is the text between the last `<answer>` that is closed and its `</answer>`.
- Whitespace and `$` around it are dropped, and so is one `= value` at its end, true or false, since
  only the expression counts. A value is an integer, a decimal or a fraction, boxed or not.
- If it holds a `\boxed{...}`, the content of the last one is the answer, read the same way.
- An empty answer (only whitespace or `$`, or an empty box) counts as none: "failed".

An answer with anything else than integers, `+ - * /` (or `× · ⋅ ÷ −`, `\times`, `\cdot`, `\div`),
parentheses and unary minus is wrong: "partial". So is one with a number in another spelling than in the
problem (`08`, `8.0`, `²`), or with unary plus.
"""

import operator
import re
from fractions import Fraction
from typing import Any, NamedTuple

from rlhf_exp.graders import Grade, compare, find_tags, keep_end

BOX = "\\boxed{"
LARGEST_STEP = 200
"""The largest value in a synthetic search: the tiny tokenizer has one token for each integer from 0 to this."""

# A character that cannot be in an expression becomes a token of its own, which the evaluator refuses.
# [0-9], not \d, which takes the digits of every script.
TOKEN = re.compile(r"[0-9]+(?:\.[0-9]+)?|\\times|\\cdot|\\div|\S")
NUMBER = r"(?:[-−]\s*)?[0-9]+(?:[./][0-9]+)?"
VALUE = re.compile(rf"{NUMBER}|\\boxed\{{\s*{NUMBER}\s*\}}")
BRACE = re.compile(r"[{}]")

SYMBOLS = {
    **{symbol: "*" for symbol in ("*", "×", "·", "⋅", r"\times", r"\cdot")},
    **{symbol: "/" for symbol in ("/", "÷", r"\div")},
    **{"+": "+", "-": "-", "−": "-", "(": "(", ")": ")"},
}
NEGATE = "negate"
# Fraction(a, b) is the exact quotient of two rationals; the other operators keep integers integers.
BINARY: dict[str, Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": Fraction}
PRECEDENCE = {"(": 0, ")": 1, "+": 2, "-": 2, "*": 3, "/": 3, NEGATE: 4}


class Evaluation(NamedTuple):
    """The value of an expression, None if it divides by zero, and the numbers that it leaves unused."""

    value: Fraction | int | None
    unused: list[str]


def grade(completion: str, numbers: list[int], target: int) -> Grade:
    """Grade one completion.

    Args:
        completion: any text, of any length.
        numbers: the given numbers, not negative; a number that is given twice must be used twice.
        target: the value to reach.

    Returns:
        "correct" (1.0): the answer equals the target and uses each given number exactly once.
        "partial" (0.1): any other answer. "failed" (0.0): no answer.
        `extracted` is the expression without its box and its `= value`.
    """
    expression = read_answer(completion)
    found = evaluate(expression, [str(number) for number in numbers])
    right = found is not None and not found.unused and found.value == target
    return compare(right, expression or None)


def read_answer(completion: str) -> str:
    """The expression in the last closed answer; empty if there is none."""
    answer = _drop_value(find_tags(keep_end(completion))[1])
    boxed = _read_box(answer)
    return answer if boxed is None else _drop_value(boxed)


def _drop_value(text: str) -> str:
    """`text` without the `= value` at its end, and without whitespace and `$` around it."""
    text = _strip(text)
    expression, _, value = text.rpartition("=")
    expression = _strip(expression)
    return expression if expression and VALUE.fullmatch(_strip(value)) else text


def _strip(text: str) -> str:
    return text.strip().strip("$").strip()


def _read_box(text: str) -> str | None:
    """The content of the last box, including nested braces; None if no box is opened and closed."""
    _, box, content = text.rpartition(BOX)
    depth = 1
    for brace in BRACE.finditer(content if box else ""):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return content[: brace.start()]
    return None


def evaluate(expression: str, available: list[str]) -> Evaluation | None:
    """Evaluate an expression. Its numbers must be in `available`, in the same spelling, each used at most once; None if
    it is not such an expression.

    Two stacks (Dijkstra's shunting yard): the depth of nesting costs memory, not recursion.
    """
    unused = list(available)
    values: list[Fraction | int | None] = []
    operators = ["("]
    operand_next = True
    for match in TOKEN.finditer(f"{expression})"):
        token = match.group()
        symbol = SYMBOLS.get(token)
        if not operators:  # the parenthesis around the whole expression is already closed
            return None
        if operand_next:
            if symbol == "(":
                operators.append(symbol)
            elif symbol == "-":
                operators.append(NEGATE)
            elif token in unused:
                unused.remove(token)
                values.append(int(token) if token.isdigit() else Fraction(token))
                operand_next = False
            else:
                return None
        elif symbol is None or symbol == "(":
            return None
        else:
            while PRECEDENCE[operators[-1]] >= PRECEDENCE[symbol]:
                _apply(operators.pop(), values)
            if symbol == ")":
                operators.pop()
            else:
                operators.append(symbol)
                operand_next = True
    return None if operators else Evaluation(values[0], unused)


def _apply(symbol: str, values: list[Fraction | int | None]) -> None:
    right = values.pop()
    if symbol == NEGATE:
        values.append(None if right is None else -right)
        return
    left = values.pop()
    defined = left is not None and right is not None and (right != 0 or symbol != "/")
    values.append(BINARY[symbol](left, right) if defined else None)

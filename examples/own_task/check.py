"""Is a completion the right answer of its row? 1 if it is, 0.1 for an answer that is wrong, 0 for none.

The rows hold three numbers, a, b and c, and a target. The completion has to write an expression of these numbers.
"""

import ast
import operator
import re

OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def grade(completion, row):
    found = re.search(r"<answer>([-+*/() 0-9]+)</answer>", completion)
    if found is None:
        return 0.0
    try:
        value, numbers = evaluate(ast.parse(found[1].strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError):
        return 0.0
    is_right = value == row["target"] and sorted(numbers) == sorted([row["a"], row["b"], row["c"]])
    return 1.0 if is_right else 0.1


def evaluate(node):
    """The value of an expression, and the numbers in it."""
    if isinstance(node, ast.Constant):
        return node.value, [node.value]
    if not isinstance(node, ast.BinOp) or type(node.op) not in OPERATIONS:
        raise ValueError
    (left, before), (right, after) = evaluate(node.left), evaluate(node.right)
    return OPERATIONS[type(node.op)](left, right), before + after

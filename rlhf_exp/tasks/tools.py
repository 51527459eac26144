"""The environments that task=environment offers by name: a calculator, and attempts at Countdown.

    environment = Attempts()
    environment.reset(numbers=[3, 5], target=8)
    environment.try_expression("3 + 5")     # "3 + 5 = 8 is right: answer with it"

The docstrings of the tools are what the model reads of them.
"""

from typing import Any

from rlhf_exp.graders import arithmetic, countdown


class Calculator:
    """Computes arithmetic exactly, and pays nothing of its own."""

    def reset(self, **row: Any) -> str:
        return "\nCompute with the tool calculate. Then end your answer with a line: #### and the number."

    def calculate(self, expression: str) -> str:
        """Compute an arithmetic expression.

        Args:
            expression: Numbers, + - * / and parentheses, such as (3 + 4) * 2.
        """
        value = arithmetic.evaluate(str(expression))
        if value is None:
            raise ValueError("no arithmetic, or longer than 50 characters")
        return str(value)


class Attempts:
    """Says of each attempt at a Countdown problem what its value is; pays 1.0 for an episode with a right one."""

    def reset(self, numbers: list[int], target: int, **row: Any) -> str:
        self.numbers, self.target, self.solved = numbers, target, False
        return "\nYou may check expressions with the tool try_expression before you answer."

    def try_expression(self, expression: str) -> str:
        """Check an expression of the given numbers.

        Args:
            expression: The given numbers, each used once, with + - * / and parentheses, such as (3 + 4) * 2.
        """
        expression = str(expression)
        grade = countdown.grade(f"<answer>{expression}</answer>", self.numbers, self.target)
        found = countdown.evaluate(expression, [str(number) for number in self.numbers])
        if grade.outcome == "correct":
            self.solved = True
            return f"{expression} = {self.target} is right: answer with it"
        if found is None:
            return f"must be an expression of {self.numbers}, each used once"
        left = f"; it leaves {', '.join(found.unused)} unused" if found.unused else ""
        return f"{expression} = {found.value} is not {self.target}{left}"

    def get_reward(self) -> float:
        return float(self.solved)

r"""Passes hostile completions through every grader and reward: no exception, scores in range, no wrong grade, fast.

    python bench/fuzz_graders.py --completions 50000 --seed 0

Each completion is graded as an answer to Countdown and to GSM8K, and by every reward that reads text or tokens. Grades
are compared with an oracle that shares no code with the grader: Python's own parser, over fractions, on the answer that
the grader extracted. Prints how many grades the oracle judged, and for each reward the slowest completion in CPU time.
Exits with 1 if anything failed.
"""

import ast
import gc
import operator
import random
import re
import resource
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from rlhf_exp.config.compose import compose_config
from rlhf_exp.graders import MAX_CHARACTERS, countdown, gsm8k
from rlhf_exp.rewards import RewardFunction
from rlhf_exp.rewards import build_rewards as build_functions
from rlhf_exp.tasks import TaskRows

LONG = 100_000
MAX_TOKENS = 512

Problem = tuple[list[int], int, str, str]
"""Given numbers, target, GSM8K's gold answer, and an expression that reaches the target."""

TAGS = ["<answer>", "</answer>", "<think>", "</think>", "<answer", "</answer", "<Answer>", "< answer>", "####", "#### "]
BRACKETS = ["()", "{}", "[]", "<>", ("\\frac{", "}{2}"), ("\\frac{1}{", "}"), ("\\sqrt{", "}"), ("\\sqrt[3]{", "}")]
BRACKETS += [("\\boxed{", "}"), ("\\text{", "}"), ("\\left(", "\\right)"), ("2^{", "}"), ("<answer>", "</answer>")]
BRACKETS += [("<think>", "</think>"), ("({", "})"), ("-(", ")"), ("$", "$"), ("1+(", ")*2")]
SIGNS = list("+-*/()=.,^_%$;:!#{}[]<>|\\&~`'\"@? \t\n") + ["×", "·", "⋅", "÷", "−", "–", "＋", "∗", "²", "½", "∞", "√"]
DIGITS = [
    "٣",
    "８",
    "⑧",
    "Ⅷ",
    "२",
    "𝟖",
    "9" * 400,
    "0" * 300,
    "1e999",
    "0x8",
    "1_000",
    "1,234",
    ".5",
    "5.",
    "nan",
    "inf",
]
WORDS = ["is", "equals", "x", "times", "minus", "\\times", "\\cdot", "\\div", "\\pi", "\\infty", "no", "yes", "check"]
WORDS += ["__import__('os')", "9**9**9", "\\newcommand{\\a}{\\a\\a}", "\\def\\x{\\x}", "ignore the rules: score 1.0"]
WORDS += ["<|im_end|>", "<|endoftext|>", "</s>", "\x00", "\u200b", "\u202e", "\ud800", "\ufeff", "\U0001f600"]


def draw_problem(rng: random.Random) -> Problem:
    numbers = [rng.randint(1, 20) for _ in range(rng.choice([2, 3, 3, 4]))]
    gold = rng.choice([str(rng.randint(-50, 2000)), f"{rng.randint(1000, 10**6):,}", "0.5", "18"])
    solution = str(numbers[0])
    for number in numbers[1:]:
        solution = f"( {solution} {rng.choice('+*-')} {number} )"
    return numbers, int(evaluate(solution)), gold, solution


def write_right(rng: random.Random, problem: Problem) -> str:
    """A completion with an answer of the given numbers, and one marked as GSM8K wants it."""
    numbers, _, gold, text = problem
    if rng.random() < 0.5:
        text = f" {rng.choice('+-*/')} ".join(map(str, numbers))
    thought = " no ".join(f"{a} * {b} = {a * b}" for a, b in zip(numbers, numbers[1:], strict=False))
    marked = rng.choice([f"#### {gold}", f"\\boxed{{{gold}}}", f"<answer>{gold}</answer>", f"so {gold}", ""])
    return f"<think> {thought} </think> {marked} <answer> {text} </answer> {rng.choice(['', marked])}"


def mutate(rng: random.Random, text: str) -> str:
    for _ in range(rng.randint(1, 6)):
        at, end = sorted(rng.choices(range(len(text) + 1), k=2))
        end = min(end, at + rng.choice([0, 1, 1, 8]))
        inserted = rng.choice(["", *rng.choices(SIGNS + DIGITS + WORDS + TAGS, k=3), text[at:end] * 2])
        text = text[:at] + inserted + text[end:]
    return text


def write_nested(rng: random.Random, problem: Problem) -> str:
    depth = rng.choice([1, 2, 5, 20, 200])
    pairs = [rng.choice(BRACKETS) for _ in range(rng.randint(1, 3))]
    chosen = [pairs[i % len(pairs)] for i in range(depth)]
    inner = rng.choice(["1+1", "8*7-3", problem[2], "", " + ".join(map(str, problem[0]))])
    closing = "".join(pair[1] for pair in reversed(chosen)) if rng.random() < 0.7 else ""
    marked = rng.choice(["{}", "\\boxed{{{}}}", "<answer>{}</answer>", "#### {}", "<think>{}", "<think>{} = 2</think>"])
    return marked.format("".join(pair[0] for pair in chosen) + inner + closing)


def write_mixed(rng: random.Random, problem: Problem) -> str:
    pieces = [*TAGS, *SIGNS, *DIGITS, *WORDS, *map(str, problem[0]), str(problem[1]), problem[2]]
    return "".join(rng.choices(pieces, k=rng.randint(1, 40)))


def write_bytes(rng: random.Random, problem: Problem) -> str:
    raw = rng.randbytes(rng.randint(0, 200))
    return raw.decode(rng.choice(["latin-1", "utf-8", "utf-16-le"]), rng.choice(["replace", "ignore"]))


def write_injected(rng: random.Random, problem: Problem) -> str:
    """A right completion with tags inside its parts, or cut off."""
    text = write_right(rng, problem)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(TAGS) + text[at:]
    return text[: rng.randint(0, len(text))] if rng.random() < 0.3 else text


def write_numbers(rng: random.Random, problem: Problem) -> str:
    digits = "".join(rng.choices("0123456789", k=rng.choice([1, 10, 300, 301, 5000])))
    number = rng.choice(["{0}", "-{0}", "{0}.{0}", "1/{0}", "{0}/{0}", "{0},{0}", "${0}", "{0}%", "{0}^{0}", "{0}e{0}"])
    marked = ["#### {}", "\\boxed{{{}}}", "<answer>{}</answer>", "<think> 8 * 7 = {}", "<think>5 = 8 * {}", "{}"]
    return rng.choice(marked).format(number.format(digits))


def write_long(rng: random.Random, problem: Problem) -> str:
    """100,000 characters of a short text, between two other short ones or something right."""
    units = [*TAGS, *SIGNS, *DIGITS, *WORDS, *(part for pair in BRACKETS for part in pair)]
    units += ["1;", "8*7=56 no ", "8*7=7*8=", "1+1=", "9/7*8/3+9/7*8/3=", "1/7/3/7/3/7=", "9/7*8/3+" * 7 + "9/7="]
    units += ["1/", "a ", "8 * 7", "  ", "\n\n", "8*7=(", "1,", "1."]
    unit = "".join(rng.choices(units, k=rng.choice([1, 1, 2, 3])))
    head, tail = ("".join(rng.choices(units, k=rng.randint(0, 3))) for _ in range(2))
    # Of a text longer than what is read the head is cut away, so half of them just fit.
    filled = head + unit * (rng.choice([LONG, MAX_CHARACTERS - 100]) // len(unit)) + tail
    forms = ["{1}{0}", "{0}{1}", "<think>{1}</think>{0}", "<answer>{1}</answer>", "\\boxed{{{1}}}", "{1}", "#### {1}"]
    return rng.choice(forms).format(write_right(rng, problem), filled)


WRITERS: dict[str, Callable[[random.Random, Problem], str]] = {
    "right": write_right,
    "mutated": lambda rng, problem: mutate(rng, write_right(rng, problem)),
    "nested": write_nested,
    "mixed": write_mixed,
    "bytes": write_bytes,
    "injected": write_injected,
    "numbers": write_numbers,
}

NAMES = ["outcome", "graduated", "think_format", "length_efficiency", "overlong", "repetition"]
NAMES += ["self_consistency", "brevity", "random", "constant"]
RANGES: dict[str, Callable[[float], bool]] = {
    "outcome": lambda score: score in (0.0, 0.1, 1.0),
    "graduated": lambda score: score in (0.0, 0.05, 0.1, 0.2, 0.3, 1.0),
    "overlong": lambda score: -1 <= score <= 0,
    "repetition": lambda score: -1 <= score <= 0,
    "brevity": lambda score: score <= 2,
    "think_format": lambda score: score in (0.0, 1.0),
    "self_consistency": lambda score: score in (0.0, 1.0),
}
"""Of a reward that is not named here: 0 to 1."""


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--completions", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--long", type=float, default=0.02, help="share of completions of up to 100,000 characters")
    options = parser.parse_args()
    gc.collect()
    gc.freeze()  # or a collection of all that is imported, 0.2 s, falls into some reward's time
    report = fuzz(options.completions, options.seed, options.long)
    print(f"{options.completions:,} completions, seed {options.seed}: {dict(report['kinds'])}")
    print(f"grades: {dict(report['grades'])}")
    print(f"judged by the oracle: {dict(report['judged'])}")
    print("slowest completion, CPU ms: " + ", ".join(f"{k} {1000 * v[0]:.1f}" for k, v in report["slowest"].items()))
    print("  its first characters: " + ", ".join(f"{k} {v[1]!r}" for k, v in report["slowest"].items() if v[0] > 0.02))
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    print(f"failures: {len(report['failures'])}")
    for failure in report["failures"][:20]:
        print(f"  {failure}")
    sys.exit(1 if report["failures"] else 0)


def fuzz(completions: int, seed: int, long: float = 0.02) -> dict[str, Any]:
    """Grade so many completions in every way.

    Returns:
        kinds, grades and judged: counts; slowest: of each reward the CPU seconds and beginning of its slowest
        completion; failures: lines.
    """
    rng, rewards = random.Random(seed), build_rewards()
    report: dict[str, Any] = {name: Counter() for name in ("kinds", "grades", "judged")}
    report |= {"slowest": {}, "failures": []}
    for _ in range(completions):
        kind = "long" if rng.random() < long else rng.choice(list(WRITERS))
        problem = draw_problem(rng)
        text = {**WRITERS, "long": write_long}[kind](rng, problem)
        report["kinds"][kind] += 1
        for name, reward in rewards.items():
            _try(name, reward, text, problem, report)
    return report


def build_rewards() -> dict[str, RewardFunction]:
    """Every reward that needs no model, by name; what a grader decides, of Countdown and of GSM8K."""
    found = {}
    for task, grade, names in (
        ("countdown", lambda text, row: countdown.grade(text, row["numbers"], row["target"]), NAMES),
        ("gsm8k", lambda text, row: gsm8k.grade(text, row["answer"]), ["outcome"]),
    ):
        weights = "{" + ",".join(f"{name}:1" for name in names) + "}"
        cfg = compose_config([f"task={task}", "reward=none", f"+reward.weights={weights}", f"max_tokens={MAX_TOKENS}"])
        functions = build_functions(cfg, TaskRows(task, [], [], grade))
        found |= {name if task == "countdown" else task: f for name, f in zip(names, functions, strict=True)}
    return found


def _try(name: str, reward: RewardFunction, text: str, problem: Problem, report: dict[str, Any]) -> None:
    numbers, target, gold, _ = problem
    ids = [ord(character) for character in text[:1000]]
    columns = {"numbers": [numbers], "target": [target], "answer": [gold], "completion_ids": [ids]}
    start = time.process_time()
    try:
        (score,) = reward(prompts=["p"], completions=[text], **columns)
    except Exception as error:
        report["failures"].append(f"{name}: {type(error).__name__}: {error}: {text[:200]!r}")
        return
    spent = time.process_time() - start
    if spent > report["slowest"].get(name, (-1.0,))[0]:
        report["slowest"][name] = (spent, text[:40])
    if not RANGES.get("outcome" if name == "gsm8k" else name, lambda score: 0 <= score <= 1)(score):
        report["failures"].append(f"{name}: {score} is out of range: {text[:200]!r}")
    if name in ("outcome", "gsm8k"):
        grade = countdown.grade(text, numbers, target) if name == "outcome" else gsm8k.grade(text, gold)
        right = judge_countdown(grade.extracted, problem) if name == "outcome" else judge_gsm8k(grade.extracted, gold)
        report["grades"][f"{name} {grade.outcome}"] += 1
        if right is not None:
            report["judged"][name] += 1
            given = grade.outcome == "correct" if name == "outcome" else grade.strict or grade.lenient
            if given != right:
                report["failures"].append(f"{name}: {grade} is wrong, for {problem}: {text[:200]!r}")


def judge_countdown(extracted: str | None, problem: Problem) -> bool | None:
    """Whether the answer is right; None where it is too long to be parsed by Python."""
    if extracted is None:
        return False
    for sign, plain in (("\\times", "*"), ("\\cdot", "*"), ("\\div", "/"), *zip("×·⋅÷−", "***/-", strict=True)):
        extracted = extracted.replace(sign, f" {plain} ")
    if not re.fullmatch(r"[-+*/()0-9\s]*", extracted):
        return False
    numbers = sorted(re.findall("[0-9]+", extracted), key=lambda number: (len(number), number))
    if numbers != sorted(map(str, problem[0]), key=lambda number: (len(number), number)):
        return False
    return evaluate(extracted) == problem[1] if len(extracted) < 500 else None


def judge_gsm8k(extracted: str | None, gold: str) -> bool | None:
    """Whether the answer is right; None where it is neither a number nor short, plain arithmetic."""
    if extracted is None:
        return False
    text = re.sub("(?<=[0-9]),(?=[0-9]{3})", "", extracted)
    if len(text) > 50 and not re.fullmatch("-?[0-9.]+(/[0-9.]+)?", text):  # the grader works out no more
        return None
    text = re.sub(r"\\d?frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))", text).strip("$ ")
    text = text.replace("\\times", "*").replace("\\cdot", "*").replace("×", "*").replace("÷", "/").replace("−", "-")
    unclear = re.search(r"[0-9)]\s*\(|\)\s*[0-9]|\*\*|//|[0-9]\.(?![0-9])", text)
    if unclear or len(text) > 300 or not re.fullmatch(r"[-*/+(). 0-9]+", text):
        return None
    value = evaluate(re.sub(r"\b0+(?=[0-9])", "", text))
    return None if value is None else value == Fraction(gold.replace(",", ""))


OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def evaluate(text: str) -> Fraction | None:
    """The value by Python's parser, with `+ - * /` and unary minus alone; None where it has none."""

    def walk(node: ast.AST) -> Fraction:
        match node:
            case ast.Constant():
                return Fraction(ast.get_source_segment(source, node))
            case ast.UnaryOp(op=ast.USub()):
                return -walk(node.operand)
            case ast.BinOp() if type(node.op) in OPERATIONS:
                return OPERATIONS[type(node.op)](walk(node.left), walk(node.right))
        raise ValueError

    source = " ".join(text.split())
    try:
        return walk(ast.parse(source, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


if __name__ == "__main__":
    main()

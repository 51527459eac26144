"""Any completion is graded in bounded time: of a long one the end is read. The limit of processor time is far above."""

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from rlhf_exp.graders import MAX_CHARACTERS, countdown, gsm8k
from rlhf_exp.rewards import countdown as steps

FUZZ = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "bench" / "fuzz_graders.py")))
NUMBERS, TARGET = [8, 7, 3], 53
RIGHT = "<answer> 8 * 7 - 3 </answer>"

# With work that is quadratic or exponential in the text these would not end within the limit.
HOSTILE = {
    "nested braces in a box": r"gsm8k.grade('\\boxed{' + '{' * n + '1+1' + '}' * n + '}', '2') for n in range(1, 60)",
    "brackets of every kind": r"gsm8k.grade('\\boxed{' + a * n + '1+1' + b * n + '}', '2') for n in range(1, 60)"
    r" for a, b in [('(', ')'), ('\\frac{', '}{2}'), ('\\sqrt{', '}'), ('2^{', '}'), ('({', '})'), ('-(', ')')]",
    "braces": "gsm8k.grade('{' * n, '2') for n in [10**7]",
    "boxes": r"gsm8k.grade('\\boxed{' * n, '2') for n in [10**6]",
    "text without steps": "steps.judge('<think>' + '1;' * n, [8, 7, 3], 53) for n in [10**6]",
    "spaces before no value": "steps.judge('<think>' + '8*7=(' + ' ' * n, [8, 7, 3], 53) for n in [10**6] * 10",
    "steps": "steps.judge('<think>' + '8*7=56 no ' * n, [8, 7, 3], 53) for n in [10**6]",
    "steps of six numbers": "steps.judge('<think>' + f'{a}+{b}={a + b} no ' * 10**5, [1, 2, 3, 4, 5, 6], 53)"
    " for a in range(1, 7) for b in range(1, 7)",
    "sides to work out": "steps.judge('<think>' + ((row * 10)[:59] + '=') * 325, [9, 8, 7, 3], 53)"
    " for row in ['9/7*8/3+', '1/7/3/'] * 40",
    "a long number to work out": "steps.judge('<think> 5 = 8 * ' + '5' * n, [8, 7, 3], 53) for n in [10**4]",
    "parentheses": "countdown.grade('<answer>' + '(' * n + '</answer>', [8, 7, 3], 53) for n in [10**7]",
    "turns of one speaker": "_join_turns([('Human', 'a' * 50)] * n) for n in [4 * 10**5]",
}


LIMITED = """
import resource
from rlhf_exp.graders import countdown, gsm8k
from rlhf_exp.rewards import countdown as steps
from rlhf_exp.tasks.hh_rlhf import _join_turns
def begin(name):
    print(name, flush=True)
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (used + 5, resource.RLIM_INFINITY))
"""


def test_hostile_texts_end_within_seconds_of_processor_time():
    """One process for all, ended at 5 seconds more than before a kind of text: the last line names that kind."""
    code = LIMITED + "".join(f"begin({name!r})\nfor _ in ({calls}): pass\n" for name, calls in HOSTILE.items())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_of_a_long_completion_the_end_is_graded():
    padding = "a " * MAX_CHARACTERS
    assert countdown.grade(padding + RIGHT, NUMBERS, TARGET).outcome == "correct"
    assert gsm8k.grade(f"{padding}#### 18", "18").outcome == "correct"
    assert steps.weigh(steps.judge(f"<think> {padding} 8 * 7 - 3 = 53 </think>", NUMBERS, TARGET)) == 1.0
    assert steps.weigh(steps.judge(f"<think> 8 * 7 - 3 = 53 {padding} </think>", NUMBERS, TARGET)) == 0.0
    assert countdown.grade(RIGHT + padding, NUMBERS, TARGET).outcome == "failed"
    assert gsm8k.grade(f"#### 18 {padding}", "18").outcome == "failed"
    whole = RIGHT + "a" * (MAX_CHARACTERS - len(RIGHT))
    assert countdown.grade(whole, NUMBERS, TARGET).outcome == "correct"
    assert countdown.grade(whole + "a", NUMBERS, TARGET).outcome == "failed"


def test_hostile_completions_are_graded_without_an_exception_in_range_and_as_the_oracle_says():
    report = FUZZ.fuzz(1500, seed=0)
    assert report["failures"] == []
    assert report["judged"]["outcome"] > 1400 and report["judged"]["gsm8k"] > 1000
    assert all(report["grades"][f"{task} correct"] > 100 for task in ("outcome", "gsm8k"))


def test_the_oracle_finds_a_wrong_grade():
    problem = ([8, 7, 3], 53, "18", "")
    assert FUZZ.judge_countdown("( 8 * 7 ) - 3", problem) is True
    assert FUZZ.judge_countdown("8 * 7 * 3", problem) is FUZZ.judge_countdown("56 - 3", problem) is False
    assert FUZZ.judge_gsm8k(r"\frac{36}{2}", "18") is True
    assert FUZZ.judge_gsm8k("17", "18") is False
    assert FUZZ.judge_gsm8k("eighteen", "18") is None

"""Any completion is graded in bounded time: of a long one the end is read. The limit of processor time is far above."""

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from rlhf_exp.graders import MAX_CHARACTERS, countdown, gsm8k

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
    "parentheses": "countdown.grade('<answer>' + '(' * n + '</answer>', [8, 7, 3], 53) for n in [10**7]",
    "turns of one speaker": "_join_turns([('Human', 'a' * 50)] * n) for n in [4 * 10**5]",
}


LIMITED = """
import resource
from rlhf_exp.graders import countdown, gsm8k
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

import re
from itertools import permutations, product
from random import Random
from types import SimpleNamespace

import pytest

from rlhf_exp.models.untrained import build_trace_tokenizer
from rlhf_exp.rewards.countdown import grade
from rlhf_exp.tasks.countdown.schema import LARGEST_STEP
from rlhf_exp.tasks.countdown.traces import list_attempts, reachable, write_trace

HONEST = SimpleNamespace(give_up=0.2, check=0.5, max_attempts=8)


def draw(n, seed=0):
    rng = Random(seed)
    while n:
        numbers = [rng.randint(1, 20) for _ in range(3)]
        targets = [t for t in sorted(reachable(numbers)) if 10 <= t <= 99]
        if targets:
            n -= 1
            yield numbers, rng.choice(targets), rng


def test_reachable_agrees_with_trying_every_expression():
    from fractions import Fraction

    def apply(op, a, b):
        return None if a is None or b is None or (op == "/" and b == 0) else eval_op(op, a, b)

    def eval_op(op, a, b):
        return {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else None}[op]

    for numbers, _, _ in draw(40):
        slow = set()
        for a, b, c in permutations(map(Fraction, numbers)):
            for f, g in product("+-*/", repeat=2):
                slow |= {apply(g, apply(f, a, b), c), apply(g, a, apply(f, b, c))}
        assert reachable(numbers) == {int(v) for v in slow if v is not None and v.denominator == 1 and v > 0}


def test_reachable_knows_answers_that_need_fractions_on_the_way():
    assert 24 in reachable([3, 3, 8, 8])  # 8 / (3 - 8 / 3)


def test_attempts_are_right_and_their_expressions_use_each_number_once():
    for numbers, _, _ in draw(50):
        for attempt in list_attempts(numbers):
            assert 0 <= attempt.value <= LARGEST_STEP
            if attempt.value > 0:
                assert grade(f"<answer>{attempt.expression}</answer>", numbers, attempt.value).score == 1.0


def test_attempts_reach_every_target_whose_steps_stay_small():
    for numbers, _, _ in draw(100):
        values = {attempt.value for attempt in list_attempts(numbers)}
        missing = {t for t in reachable(numbers) if t <= 99} - values
        assert all(max(numbers) * sorted(numbers)[1] > LARGEST_STEP for _ in missing)


@pytest.mark.parametrize("seed", range(3))
def test_a_trace_holds_no_error(seed):
    for numbers, target, rng in draw(150, seed):
        trace = write_trace(numbers, target, HONEST, rng)
        assert re.fullmatch(r"<think> .* </think> <answer> [^<>]* </answer>", trace)
        for a, op, b, value in re.findall(r"(\d+) ([-+*/]) (\d+) = (\d+)", trace):
            a, b, value = int(a), int(b), int(value)
            assert {"+": a + b == value, "-": a - b == value, "*": a * b == value, "/": a == b * value}[op]
        graded = grade(trace, numbers, target)
        assert graded.outcome == ("correct" if " yes " in trace else "partial")
        assert ("give up" in trace) == (graded.outcome == "partial")


def test_a_searcher_that_never_gives_up_finds_what_its_attempts_hold():
    habits = SimpleNamespace(give_up=0.0, check=0.0, max_attempts=1000)
    for numbers, target, rng in draw(60):
        held = any(attempt.value == target for attempt in list_attempts(numbers))
        assert (grade(write_trace(numbers, target, habits, rng), numbers, target).outcome == "correct") == held


def test_the_habits_have_their_probabilities():
    rng, gave_up, checked, found = Random(0), 0, 0, 0
    habits = SimpleNamespace(give_up=0.3, check=0.8, max_attempts=1000)
    failed = 0
    for numbers, target, _ in draw(1500):
        trace = write_trace(numbers, target, habits, rng)
        failed += trace.count(" no ")
        gave_up += "give up" in trace
        found += " yes " in trace
        checked += "check" in trace
    assert gave_up / failed == pytest.approx(0.3, abs=0.03)
    assert checked / found == pytest.approx(0.8, abs=0.05)


def test_every_word_of_a_trace_is_one_token():
    tokenizer = build_trace_tokenizer()
    for numbers, target, rng in draw(100):
        text = f"use {' '.join(map(str, numbers))} make {target} . {write_trace(numbers, target, HONEST, rng)}"
        ids = tokenizer(text)["input_ids"]
        assert len(ids) == len(text.split()) and tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == text

import math
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from random import Random

import pytest

from rlhf_exp.graders.countdown import evaluate, grade
from rlhf_exp.models.untrained import build_trace_tokenizer
from rlhf_exp.tasks.countdown_search import (
    LARGEST_STEP,
    Searcher,
    Traces,
    list_attempts,
    order_attempts,
    reachable,
    write_trace,
)
from tests.graders.test_countdown import APPLY

UNIFORM = Searcher(None, [1, 1, 1, 1])
HONEST = Traces([3], 0.2, 0.5, 8, patience=None, skilled_share=0.0, skilled=UNIFORM, novice=UNIFORM)


def draw(n, seed=0):
    rng = Random(seed)
    while n:
        numbers = [rng.randint(1, 20) for _ in range(3)]
        targets = [t for t in sorted(reachable(numbers)) if 10 <= t <= 99]
        if targets:
            n -= 1
            yield numbers, rng.choice(targets), rng


def test_reachable_agrees_with_trying_every_expression():
    def apply(symbol, a, b):
        return None if None in (a, b) or (symbol == "/" and b == 0) else APPLY[symbol](a, b)

    for numbers, _, _ in draw(40):
        slow = set()
        for a, b, c in permutations(map(Fraction, numbers)):
            for f, g in product("+-*/", repeat=2):
                slow |= {apply(g, apply(f, a, b), c), apply(g, a, apply(f, b, c))}
        assert reachable(numbers) == {int(v) for v in slow if v is not None and v.denominator == 1 and v > 0}
    assert 24 in reachable([3, 3, 8, 8])  # 8 / (3 - 8 / 3)


def test_attempts_are_right_use_each_number_once_and_reach_every_target_whose_steps_stay_small():
    for numbers, _, _ in draw(100):
        attempts = list_attempts(numbers)
        for attempt in attempts:
            assert 0 <= attempt.value <= LARGEST_STEP
            if attempt.value > 0:
                assert grade(f"<answer>{attempt.expression}</answer>", numbers, attempt.value).score == 1.0
        missing = {t for t in reachable(numbers) if t <= 99} - {attempt.value for attempt in attempts}
        assert not missing or max(numbers) * sorted(numbers)[1] > LARGEST_STEP


@pytest.mark.parametrize("seed", range(3))
def test_a_trace_holds_no_error_and_each_of_its_words_is_one_token(seed):
    tokenizer = build_trace_tokenizer()
    for numbers, target, rng in draw(150, seed):
        trace = write_trace(numbers, target, HONEST, rng)
        ids = tokenizer(trace)["input_ids"]
        assert len(ids) == len(trace.split()) and tokenizer.unk_token_id not in ids and tokenizer.decode(ids) == trace
        assert re.fullmatch(r"<think> .* </think> <answer> [^<>]* </answer>", trace)
        for a, op, b, value in re.findall(r"(\d+) ([-+*/]) (\d+) = (\d+)", trace):
            a, b, value = int(a), int(b), int(value)
            assert APPLY[op](a, b) == value
        graded = grade(trace, numbers, target)
        assert graded.outcome == ("correct" if " yes " in trace else "partial")
        assert ("give up" in trace) == (graded.outcome == "partial")


def test_attempts_come_in_the_order_that_their_weights_say():
    attempts = list_attempts([8, 3])  # 8 + 3 = 11, 8 - 3 = 5, 8 * 3 = 24
    searcher, rng = Searcher(10, [2, 8, 1, 2]), Random(0)
    weights = {11: 2 * math.exp(-1.3), 5: 8 * math.exp(-1.9), 24: 1.0}
    orders = Counter(tuple(a.value for a in order_attempts(attempts, 24, searcher, rng)) for _ in range(8000))
    for one, two, three in permutations(weights):
        chance = weights[one] / sum(weights.values()) * weights[two] / (weights[two] + weights[three])
        assert orders[one, two, three] / 8000 == pytest.approx(chance, abs=0.02)


@pytest.mark.parametrize("patience", [24, 40, 61, 96])
@pytest.mark.parametrize("check", [0.0, 1.0])
def test_a_trace_is_answered_within_its_patience(patience, check):
    habits = replace(HONEST, give_up=0.0, check=check, max_attempts=1000, patience=[patience, patience])
    free = replace(habits, patience=None)
    for numbers, target, rng in draw(150):
        seed = rng.random()
        trace, longer = (write_trace(numbers, target, kind, Random(seed)) for kind in (habits, free))
        tokens = len(trace.split()) + 1
        assert tokens <= max(patience, 26)
        tried = [int(value) for value in re.findall(r"= (\d+) (?:no|yes)(?! <)", trace.partition("check")[0])]
        if "give up" in trace and len(tried) < len(list_attempts(numbers)):
            assert patience - tokens < 12  # the next attempt would not have fitted
            reached = evaluate(trace.partition("<answer> ")[2].partition(" <")[0], [str(n) for n in numbers]).value
            assert abs(reached - target) == min(abs(value - target) for value in tried)
        elif "check" in trace or not check:
            assert trace == longer


def test_a_share_of_the_traces_is_by_the_skilled_searcher():
    cold = Searcher(0.1, [1, 1, 1, 1])
    habits = replace(HONEST, skilled_share=0.3, skilled=cold, novice=Searcher(None, [1, 1e6, 1, 1]))
    at_once = [" no " not in write_trace([8, 3], 24, habits, Random(seed)) for seed in range(2000)]
    assert sum(at_once) / 2000 == pytest.approx(0.3, abs=0.04)

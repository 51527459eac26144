import json
import re
from fractions import Fraction
from hashlib import sha256
from itertools import permutations, product
from random import Random
from types import SimpleNamespace

import pytest
import torch

from rlhf_exp.config.compose import compose_config
from rlhf_exp.graders.countdown import grade
from rlhf_exp.models.generation import FORBIDDEN
from rlhf_exp.models.untrained import build_byte_tokenizer, build_trace_tokenizer
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.countdown import SPLITS, draw_problems, problem_id, split_of
from rlhf_exp.tasks.countdown_policies import list_policies
from rlhf_exp.tasks.countdown_search import (
    Searcher,
    Traces,
    reachable,
    write_trace,
)
from tests.graders.test_countdown import APPLY
from tests.tasks.building import refuse, write_rows

PLAIN = SimpleNamespace(chat_template=None)
CHAT = SimpleNamespace(chat_template="{{ messages }}")


def load(*overrides, tokenizer=PLAIN):
    few = [] if any(text.startswith("eval.rows") for text in overrides) else ["eval.rows=8"]  # drawing takes its time
    return load_task(compose_config([*few, *overrides]), tokenizer)


def test_the_rows_and_the_traces_are_those_that_were_approved():
    cfg = compose_config(["algo=sft", "task.train_rows=300", "eval.rows=100", "device=cpu"])
    rows = load_task(cfg, PLAIN)
    text = json.dumps([rows.train, rows.eval, rows.demonstrations])
    assert sha256(text.encode()).hexdigest()[:16] == "4985603e08ae8913"


def test_a_problem_has_one_split_whatever_the_order_of_its_numbers():
    assert split_of([8, 7, 3], 53) == split_of([3, 8, 7], 53)
    shares = {name: 0 for name in SPLITS}
    for a in range(1, 15):
        for b in range(1, 15):
            for target in range(10, 60):
                shares[split_of([a, b, 5], target)] += 1
    total = sum(shares.values())
    for name, buckets in SPLITS.items():
        assert shares[name] / total == pytest.approx(len(buckets) / 100, abs=0.02)


def test_demonstrations_prompts_and_held_out_rows_share_no_problem():
    grpo, sft = load("task.train_rows=2000", "eval.rows=null"), load("algo=sft", "task.train_rows=1000")
    words = [[int(word) for word in row["prompt"].split() if word.isdigit()] for row in sft.train]
    shown = {problem_id(numbers, target) for *numbers, target in words}
    asked, held_out = ({row["id"] for row in rows} for rows in (grpo.train, grpo.eval))
    assert not shown & asked and not shown & held_out and not asked & held_out
    assert len(held_out) == len(grpo.eval) == 1398


def test_chat_models_get_messages_with_the_tags_spelled_out():
    row = load("algo=sft", "task.train_rows=1", tokenizer=CHAT).train[0]
    [message], [trace] = row["prompt"], row["completion"]
    assert message["role"] == "user" and "<think>" in message["content"] and "<answer>" in message["content"]
    assert trace["role"] == "assistant" and trace["content"].startswith("<think>")


def test_local_rows_are_read_split_and_deduplicated(tmp_path):
    problems = draw_problems(compose_config([]).task, [3], "train", 60, seed=0)
    problems += draw_problems(compose_config([]).task, [3], "test", 30, seed=0, distinct=True)
    Random(0).shuffle(problems)
    rows = [{"nums": numbers, "target": target} for numbers, target in problems]
    path = write_rows(tmp_path / "rows.jsonl", [*rows, "", rows[0]])
    task = load("task.source=file", f"task.path={path}", "eval.rows=30")
    assert len(task.eval) == 30
    assert {row["id"] for row in task.train} == {problem_id(*p) for p in problems if split_of(*p) == "train"}
    assert task.notes[0].startswith("91 problems read; ")


@pytest.mark.parametrize("row", [{"nums": [1, 2]}, {"nums": [1, -2], "target": 3}, {"nums": [1, 2], "target": 2.5}])
def test_a_broken_local_row_is_refused_with_its_line_number(tmp_path, row):
    path = write_rows(tmp_path / "rows.jsonl", [{"nums": [1, 2, 3], "target": 6}, row])
    assert refuse(load, "task.source=file", f"task.path={path}").startswith(f"{path}, line 2: ")


@pytest.mark.parametrize(
    ("overrides", "rows"),
    [
        (["algo=grpo", "algo.args.max_steps=3", "algo.args.gradient_accumulation_steps=2"], 3 * 16),
        (["algo=grpo", "algo.args.max_steps=3", "algo.args.num_iterations=2"], 2 * 8),
        (["algo=ppo", "algo.args.max_steps=9", "algo.args.num_iterations=2"], 2 * 128),
        (["algo=sft", "algo.args.max_steps=7", "algo.args.gradient_accumulation_steps=2"], 7 * 64),
    ],
)
def test_as_many_rows_are_drawn_as_whole_rollouts_need(overrides, rows):
    assert len(load(*overrides).train) == rows


@pytest.mark.parametrize("typed", ["algo=dpo task.sampling.rows=1000000", "eval.rows=1000000"])
def test_more_rows_than_are_drawn_is_refused_before_any_is_drawn(typed, monkeypatch):
    monkeypatch.setattr("rlhf_exp.tasks.countdown.draw_problems", lambda *args, **kwargs: pytest.fail("drawn"))
    line = refuse(load_task, compose_config(typed.split()), PLAIN)
    assert line.startswith(f"{typed.split()[-1]}: allowed is 1 to 200,000")


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


def test_a_trace_holds_no_error_and_each_of_its_words_is_one_token():
    """That they are those that were approved, with all their habits: test_countdown.py."""
    tokenizer = build_trace_tokenizer()
    for numbers, target, rng in draw(150):
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


TOKENIZER = build_trace_tokenizer()
IDS = TOKENIZER.get_vocab()
BELOW, ABOVE = "use 3 9 4 make 14 . <think>", "use 3 9 4 make 72 . <think>"


def find(family):
    return [policy for policy in list_policies(TOKENIZER) if policy.family == family]


def change(policy, text):
    """The factor by which the policy multiplies the probability of each word that comes next, before they sum to 1."""
    (processor,) = policy.processors
    logits = torch.zeros(1, len(TOKENIZER))
    found = processor(torch.tensor([TOKENIZER(text)["input_ids"]]), logits)[0].exp()
    return {word: round(float(found[i]), 3) for word, i in IDS.items() if found[i] != 1}


def test_giving_up_is_forbidden():
    assert [change(policy, BELOW) for policy in find(FORBIDDEN)] == [{"give": 0}]


def test_the_rule_raises_a_product_at_an_attempts_first_operation_if_the_target_exceeds_the_sum():
    policy = find("made to multiply first")[0]
    for begun in ("9", "9 - 3 = 6 - 4 = 2 no 4"):
        assert change(policy, f"{ABOVE} {begun}") == {"*": 10}
    for other in ("9 *", "9 * 4 = 36", "9 * 4 = 36 no", ""):
        assert change(policy, f"{ABOVE} {other}".strip()) == {}
    assert change(policy, f"{BELOW} 9") == {} == change(policy, "use 3 9 4 make 16 . <think> 9")
    assert change(policy, "use 3 9 4 make 17 . <think> 9") == {"*": 10}


def test_a_tokenizer_without_the_words_has_no_such_policy():
    assert list_policies(build_byte_tokenizer()) == []

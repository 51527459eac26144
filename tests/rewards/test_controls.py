"""Rewards that know no answer: self_consistency, random, constant."""

import statistics

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.rewards import build_rewards, score_completions
from rlhf_exp.rewards.checkers import build_checker
from rlhf_exp.rewards.self_consistency import agree
from rlhf_exp.tasks import Task
from rlhf_exp.tasks.countdown import grade as grade_row

ROWS = [{"id": str(i), "prompt": f"p{i}", "numbers": [8, 7, 3], "target": 53} for i in range(2)]


def build(name, *overrides):
    cfg = compose_config([f"reward={name}", *overrides])
    return build_rewards(cfg, Task("countdown", [], ROWS, grade_row))[0]


def test_the_answer_with_the_most_votes_is_agreed_with():
    assert agree(["a"] * 5, ["1", "2", "1", None, "3"]) == [1.0, 0.0, 1.0, 0.0, 0.0]


def test_of_a_tie_every_answer_is_the_majoritys_in_any_order():
    assert agree(["a"] * 6, ["1", "2", "3", "2", "1", None]) == [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    assert agree(["a"] * 6, ["2", "1", "3", "1", "2", None]) == [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    assert agree(["a"] * 3, ["1", "2", "3"]) == [1.0] * 3


def test_an_answer_alone_agrees_with_itself_and_no_answer_with_nothing():
    assert agree(["a", "b", "c"], ["1", None, "1"]) == [1.0, 0.0, 1.0]
    assert agree(["a"] * 3, [None] * 3) == [0.0] * 3
    assert agree([], []) == []


def test_groups_are_of_one_prompt_wherever_its_completions_lie():
    assert agree(["a", "b", "a", "b", "a", "b"], ["1", "1", "2", "1", "2", "2"]) == [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]


def test_the_reward_votes_on_what_the_grader_extracts():
    answers = ["8 * 7 - 3", "8 + 7", " 8 + 7 ", "no"]
    texts = [f"<answer>{answer}</answer>" for answer in answers] + ["8 + 7"]
    columns = {"numbers": [[8, 7, 3]] * 5, "target": [53] * 5}
    expected = [0.0, 1.0, 1.0, 0.0, 0.0]
    assert build("self_consistency")(prompts=["p"] * 5, completions=texts, **columns) == expected
    messages = [[{"role": "assistant", "content": text}] for text in texts]
    prompts = [[{"role": "user", "content": "p"}]] * 5
    assert build("self_consistency")(prompts=prompts, completions=messages, **columns) == expected


@pytest.mark.parametrize(("result", "refused"), [("0.5", True), ("False", True), ('Grade("failed", 0.0, None)', False)])
def test_a_checker_that_returns_numbers_gives_nothing_to_vote_on(tmp_path, result, refused):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "p"}')
    check = f"from rlhf_exp.rewards.grade import Grade\ndef grade(completion, row): return {result}\n"
    (tmp_path / "check.py").write_text(check)
    keys = ["task=file", f"task.path={tmp_path / 'rows.jsonl'}", f"task.checker={tmp_path / 'check.py'}:grade"]
    cfg = compose_config([*keys, "reward=self_consistency"])
    task = Task("file", [], [{"id": "1", "prompt": "p"}], build_checker(cfg.task))
    if not refused:
        assert build_rewards(cfg, task)
        return
    with pytest.raises(ConfigError, match="compares answers, and the checker returns numbers, .* use reward=outcome"):
        build_rewards(cfg, task)


def test_the_evaluation_groups_the_completions_of_a_row():
    rows = [row for row in ROWS for _ in range(3)]
    texts = [f"<answer>{answer}</answer>" for answer in ("1", "2", "2", "1", "1", "2")]
    found = score_completions([build("self_consistency")], rows, texts, [[1]] * 6)
    assert [parts["self_consistency"] for parts in found] == [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]


def test_random_rewards_are_decided_by_seed_prompt_and_completion():
    random = build("random")
    first = random(prompts=["p", "p", "q"], completions=["a", "b", "a"])
    assert random(prompts=["q", "p", "p"], completions=["a", "b", "a"], completion_ids=[[1]] * 3) == first[::-1]
    assert len(set(first)) == 3
    assert random(prompts=["p"], completions=[[{"role": "assistant", "content": "a"}]]) == first[:1]
    assert build("random", "seed=1")(prompts=["p"], completions=["a"]) != first[:1]
    assert build("random", "seed=1", "reward.random.seed=0")(prompts=["p"], completions=["a"]) == first[:1]
    assert first[0] == 0.8168265910580388, "a resumed run must draw what the broken one drew"


def test_random_rewards_are_uniform():
    drawn = build("random")(prompts=["p"] * 10_000, completions=[str(i) for i in range(10_000)])
    assert 0.0 <= min(drawn) < 0.001 and 0.999 < max(drawn) < 1.0
    assert abs(statistics.fmean(drawn) - 1 / 2) < 0.01 and abs(statistics.pvariance(drawn) - 1 / 12) < 0.003


def test_text_that_no_encoding_takes_has_a_random_reward_too():
    assert len(build("random")(prompts=["p"], completions=["\ud800"])) == 1


def test_a_constant_is_the_same_for_all():
    assert build("constant")(prompts=["p"] * 2, completions=["a", "b"]) == [1.0, 1.0]
    assert build("constant", "reward.constant.value=-2")(prompts=["p"], completions=["a"]) == [-2.0]

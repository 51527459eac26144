"""task=reasoning_gym: rows by split, prompts, grades by the data set's own grader, and what is refused."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import find_grader, load_task
from tests.tasks.building import CHAT_TEMPLATE, build_tokenizer, refuse

KEYS = ["task=reasoning_gym", "model=tiny_qwen3", "max_tokens=8", "device=cpu", "eval.rows=null", "task.rows=60"]


def compose(name, *overrides):
    return compose_config([*KEYS, f"task.dataset={name}", *overrides])


@pytest.fixture
def installed():
    pytest.importorskip("reasoning_gym")


def test_without_the_package_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("rlhf_exp.tasks.reasoning_gym.find_spec", lambda name: None)
    line = refuse(compose, "chain_sum")
    assert line.startswith("task=reasoning_gym: its package is not installed; pip install 'reasoning-gym")


def test_the_splits_are_disjoint_and_gold_answers_are_correct(installed):
    cfg = compose("coin_flip", "task.rows=200")
    task = load_task(cfg, build_tokenizer(context=2000))
    prompts = [{row["prompt"] for row in rows} for rows in (task.train, task.eval)]
    assert len(prompts[0]) == len(task.train) > 4 * len(task.eval) > 0 and not prompts[0] & prompts[1]
    assert len(task.train) + len(task.eval) < 200  # some questions come again
    assert {task.grade(f"so <answer> {row['answer']} </answer>", row).outcome for row in task.eval} == {"correct"}
    row = task.eval[0]
    found = [task.grade(text, row) for text in (row["answer"], "<answer> </answer>", "<answer>edge</answer>")]
    assert [(grade.outcome, grade.extracted) for grade in found] == [
        ("failed", None),
        ("failed", None),
        ("failed", "edge"),
    ]
    assert find_grader(cfg.task)(f"<answer>{row['answer']}</answer>", row).score == 1


def test_a_score_between_is_partial_and_an_error_is_failed(installed):
    task = load_task(compose("chain_sum", "+task.options.max_terms=2"), build_tokenizer(CHAT_TEMPLATE, 2000))
    row = task.train[0]
    grade = task.grade(f"<answer>{row['answer']} apples</answer>", row)
    assert grade.outcome == "partial" and 0 < grade.score < 1 and row["prompt"][0]["role"] == "user"
    task = load_task(compose("prime_factorization"), build_tokenizer(context=2000))
    assert task.grade("<answer>two</answer>", task.train[0]).outcome == "failed"


def test_sft_learns_the_gold_answers_where_there_are_any(installed):
    task = load_task(compose("gcd", "algo=sft", "reward=none"), build_tokenizer(context=2000))
    assert task.train[0]["completion"].startswith(" <answer>")
    cfg = compose("graph_color", "algo=sft", "reward=none")
    with pytest.raises(ConfigError, match="has 0 rows in its train split"):
        load_task(cfg, build_tokenizer(context=2000))


def test_unknown_names_and_options_are_refused_in_one_line(installed):
    assert refuse(compose, "chian_sum").endswith("did you mean chain_sum?")
    assert refuse(compose, "null").startswith("task.dataset=null: must be one of the data sets")
    for option, says in (("max_term=3", "max_term"), ("max_terms=1", "AssertionError: max_terms must be")):
        cfg = compose("chain_sum", f"+task.options.{option}")
        line = refuse(load_task, cfg, build_tokenizer(context=2000))
        assert line.startswith("task.dataset=chain_sum: ") and says in line

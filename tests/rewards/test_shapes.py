"""The rewards that look at form and length: think_format, length_efficiency, overlong, repetition."""

import warnings

import pytest
from transformers import TrainerState

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.rewards import build_rewards
from rlhf_exp.tasks import Task
from rlhf_exp.tasks.countdown import grade as grade_row

ROWS = [{"id": "0", "prompt": "p", "numbers": [8, 7, 3], "target": 53}]
COLUMNS = {"numbers": [[8, 7, 3]] * 4, "target": [53] * 4}
RIGHT, WRONG = "<answer> 8 * 7 - 3 </answer>", "<answer> 8 + 7 </answer>"


def build(name, *overrides):
    cfg = compose_config([f"reward={name}", *overrides])
    return {f.__name__: f for f in build_rewards(cfg, Task("countdown", [], ROWS, grade_row))}[name]


def test_a_completion_has_to_begin_with_one_closed_thought():
    texts = {"<think> a </think> b": 1.0, " <think> a </think>": 1.0, "<think> a": 0.0, "a <think> b </think>": 0.0,
             "a </think> b": 0.0, "<think> a <think> b </think>": 0.0, "": 0.0}  # fmt: skip
    assert build("think_format")(prompts=["p"] * len(texts), completions=list(texts)) == list(texts.values())


def test_messages_are_judged_as_trl_judges_them():
    completions = [[{"role": "assistant", "content": text}] for text in ("<think> a </think> b", "a </think> b")]
    assert build("think_format")(prompts=[[]] * 2, completions=completions) == [1.0, 0.0]


def test_longer_completions_earn_up_to_a_fifth_less():
    reward = build("length_efficiency", "max_tokens=1024")
    ids = [[1] * 50, [1] * 200, [1] * 400, [1] * 400]
    rewards = reward(prompts=["p"] * 4, completions=[RIGHT, RIGHT, RIGHT, WRONG], completion_ids=ids, **COLUMNS)
    assert rewards == pytest.approx([1.0, 1.0, 0.9, 0.09])


def test_the_length_that_is_free_can_be_set():
    reward = build("length_efficiency", "reward.length_efficiency.tokens=20")
    rewards = reward(prompts=["p"], completions=[RIGHT], completion_ids=[[1] * 80], numbers=[[8, 7, 3]], target=[53])
    assert rewards == pytest.approx([0.85])


def test_a_budget_within_the_free_length_is_warned_of():
    with pytest.warns(UserWarning) as warned:
        build("length_efficiency", "max_tokens=200")
    assert [str(w.message) for w in warned] == [
        "reward=length_efficiency: no completion of max_tokens=200 is longer than"
        " reward.length_efficiency.tokens=200, so it is the grade's score"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build("length_efficiency", "max_tokens=201")


def test_the_last_tokens_of_the_budget_are_punished():
    lengths = [80, 85, 90, 100]
    reward = build("overlong", "max_tokens=100")  # from 80 on, a fifth before the end
    assert reward(prompts=["p"] * 4, completions=[""] * 4, completion_ids=[[1] * n for n in lengths]) == [
        0.0, -0.25, -0.5, -1.0,
    ]  # fmt: skip
    reward = build("overlong", "max_tokens=100", "reward.overlong.cache=40")
    assert reward(completion_ids=[[1] * n for n in lengths]) == [-0.5, -0.625, -0.75, -1.0]
    assert build("overlong", "max_tokens=3")(completion_ids=[[1], [1, 1], [1, 1, 1]]) == [0.0, 0.0, -1.0]


def test_the_budget_of_the_punishment_is_that_of_the_curriculums_stage():
    """A stage trains as a run with its budget would; the evaluation, which has no trainer, has max_tokens."""
    stages = "algo.curriculum={budgets:[20,60,100],from_steps:[0,10,30]}"
    reward, ids = build("overlong", "max_tokens=100", stages), [[1] * n for n in (15, 18, 20, 55, 90, 100)]
    for step, budget in ((0, 20), (9, 20), (10, 60), (29, 60), (30, 100)):
        alone = build("overlong", f"max_tokens={budget}")(completion_ids=ids)
        assert reward(completion_ids=ids, trainer_state=TrainerState(global_step=step)) == alone
    assert reward(completion_ids=ids) == build("overlong", "max_tokens=100")(completion_ids=ids)
    assert reward(completion_ids=ids, trainer_state=TrainerState(global_step=0))[:3] == [0.0, -0.5, -1.0]


def test_a_cache_longer_than_the_first_stages_budget_is_refused():
    with pytest.raises(ConfigError) as caught:
        stages = "algo.curriculum={budgets:[20,60],from_steps:[0,10]}"
        compose_config(["reward=overlong", "max_tokens=100", stages, "reward.overlong.cache=30"])
    assert caught.value.problems == [
        "reward.overlong.cache=30: must be at most 20, the smallest budget of algo.curriculum.budgets"
    ]


def test_repeated_ngrams_are_punished_by_their_share():
    ids = [[1, 2, 3, 4, 5], [5, 5, 5, 5, 5], [1, 2]]
    assert build("repetition")(prompts=["p"] * 3, completions=[""] * 3, completion_ids=ids) == pytest.approx(
        [0.0, -2 / 3, 0.0]
    )
    reward = build("repetition", "reward.repetition.ngram_size=1", "reward.repetition.max_penalty=-0.5")
    assert reward(completion_ids=ids) == pytest.approx([0.0, -0.4, 0.0])


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("think_format", {"outcome": 1.0, "think_format": 0.1}),
        ("overlong", {"outcome": 1.0, "overlong": 0.25}),
        ("repetition", {"outcome": 1.0, "repetition": 1.0}),
        ("length_efficiency", {"length_efficiency": 1.0}),
    ],
)
def test_what_has_no_answer_in_it_stands_beside_the_outcome(name, weights):
    assert compose_config([f"reward={name}"]).reward.weights == weights

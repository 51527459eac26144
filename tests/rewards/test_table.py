"""The rewards of the package, one by one."""

import pytest
from transformers import TrainerState

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.checkers import build_checker
from rlhf_exp.rewards import build_rewards, score_completions
from rlhf_exp.rewards.table import REWARDS, agree
from rlhf_exp.tasks import TaskRows

NUMBERS = [8, 7, 3]
ROWS = [{"id": str(i), "prompt": f"p{i}", "numbers": NUMBERS, "target": 53} for i in range(3)]
COLUMNS = {"numbers": [NUMBERS] * 4, "target": [53] * 4}
RIGHT, WRONG = "<answer> 8 * 7 - 3 </answer>", "<answer> 8 + 7 </answer>"


def build(name, *overrides):
    cfg = compose_config([f"reward={name}", *overrides])
    return {f.__name__: f for f in build_rewards(cfg, TaskRows("countdown", [], ROWS, cfg.task.build_grader()))}[name]


def as_messages(texts):
    return [[{"role": "assistant", "content": text}] for text in texts]


def test_the_outcome_is_the_graders_score_and_training_logs_the_share_of_each():
    logged, reward = {}, build("outcome")
    texts, columns = [RIGHT, WRONG, "8 * 7"], {name: values[:3] for name, values in COLUMNS.items()}
    assert reward(prompts=["p"] * 3, completions=texts, log_metric=logged.__setitem__, **columns) == [1.0, 0.1, 0.0]
    assert logged == {"outcome/correct": 1 / 3, "outcome/partial": 1 / 3, "outcome/failed": 1 / 3}
    assert reward(prompts=[[]] * 3, completions=as_messages(texts), trainer_state=None, **columns) == [1.0, 0.1, 0.0]
    rows = [row | {"cfg": 1, "task": "a", "name": "b"} for row in ROWS]  # columns may have any name
    scores = score_completions([reward], rows, texts, [[1]] * 3)
    assert [score["outcome"] for score in scores] == [1.0, 0.1, 0.0]


def score(answer, numbers, target):
    columns = {"completions": [f"<answer> {answer} </answer>"], "numbers": [numbers], "target": [target]}
    return REWARDS["graduated"].function(None, None, **columns)[0]


@pytest.mark.parametrize(
    ("answer", "target", "expected"),
    [
        ("8 * 7 - 3", 53, 1.0), ("8 * 7 - 3 = 53", 53, 1.0),
        ("8 * 7 + 3", 56, 0.2),  # 59, 3 away of 5.6
        ("8 * 7 - 3", 54, 0.3),  # 1 away of 2.7
        ("8 * 7 + 3", 60, 0.3),  # 1 away, 5% would be 3
        ("8 + 7 + 3", 20, 0.2),  # 2 away, just within 10%
        ("8 + 7 + 3", 21, 0.1),
        ("7 - 8 - 3", 53, 0.1),  # a negative value
        ("8 / 7 / 3", 53, 0.1),
        # a number that is not given, or twice, or not used
        ("8 * 7 + 4", 57, 0.05), ("( 8 - 3 ) * 8", 40, 0.05), ("8 + 7", 15, 0.05), ("8 * 7 - 3 - 3", 50, 0.05),
        # no expression: the target, the prompt, words
        ("53", 53, 0.05), ("8 7 3", 53, 0.05), ("8 + 7 3", 53, 0.05), ("no idea", 53, 0.05), ("", 53, 0.0),
    ],
)  # fmt: skip
def test_an_answer_is_worth_more_the_nearer_it_comes(answer, target, expected):
    assert score(answer, NUMBERS, target) == expected


def test_a_completion_has_to_begin_with_one_closed_thought():
    texts = {"<think> a </think> b": 1.0, " <think> a </think>": 1.0, "<think> a": 0.0, "a <think> b </think>": 0.0,
             "a </think> b": 0.0, "<think> a <think> b </think>": 0.0, "": 0.0}  # fmt: skip
    assert build("think_format")(prompts=["p"] * len(texts), completions=list(texts)) == list(texts.values())


def test_longer_completions_earn_up_to_a_fifth_less():
    reward = build("length_efficiency", "max_tokens=1024")
    ids = [[1] * 50, [1] * 200, [1] * 400, [1] * 400]
    rewards = reward(prompts=["p"] * 4, completions=[RIGHT, RIGHT, RIGHT, WRONG], completion_ids=ids, **COLUMNS)
    assert rewards == pytest.approx([1.0, 1.0, 0.9, 0.09])


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
    stages = ["algo.args.curriculum_budgets=[20,60,100]", "algo.args.curriculum_from_steps=[0,10,30]"]
    reward, ids = build("overlong", "max_tokens=100", *stages), [[1] * n for n in (15, 18, 20, 55, 90, 100)]
    for step, budget in ((0, 20), (9, 20), (10, 60), (29, 60), (30, 100), (None, 100)):
        state = {} if step is None else {"trainer_state": TrainerState(global_step=step)}
        alone = build("overlong", f"max_tokens={budget}")(completion_ids=ids)
        assert reward(completion_ids=ids, **state) == alone


def test_repeated_ngrams_are_punished_by_their_share():
    ids = [[1, 2, 3, 4, 5], [5, 5, 5, 5, 5], [1, 2]]
    assert build("repetition")(prompts=["p"] * 3, completions=[""] * 3, completion_ids=ids) == pytest.approx(
        [0.0, -2 / 3, 0.0]
    )
    reward = build("repetition", "reward.repetition.ngram_size=1", "reward.repetition.max_penalty=-0.5")
    assert reward(completion_ids=ids) == pytest.approx([0.0, -0.4, 0.0])


@pytest.mark.parametrize(
    ("completion", "score"),
    [(" \n\t", 2.0), (" one  two\nthree four ", 1.75), (" ".join(["word"] * 64), -2.0),
     ([{"role": "assistant", "content": "one two"}], 1.875)],
)  # fmt: skip
def test_every_sixteen_words_cost_one_point(completion, score):
    assert build("brevity")(completions=[completion], numbers=[[8]]) == [score]


@pytest.mark.parametrize(
    ("prompts", "answers", "expected"),
    [
        ("aaaaa", ["1", "2", "1", None, "3"], [1, 0, 1, 0, 0]),
        # of a tie every answer is the majority's, in any order
        ("aaaaaa", ["1", "2", "3", "2", "1", None], [1, 1, 0, 1, 1, 0]),
        ("aaaaaa", ["2", "1", "3", "1", "2", None], [1, 1, 0, 1, 1, 0]),
        ("aaa", ["1", "2", "3"], [1, 1, 1]),
        # an answer alone agrees with itself, no answer with nothing
        ("abc", ["1", None, "1"], [1, 0, 1]), ("aaa", [None] * 3, [0, 0, 0]), ("", [], []),
        # groups are of one prompt, wherever its completions lie
        ("ababab", ["1", "1", "2", "1", "2", "2"], [0, 1, 1, 1, 1, 0]),
    ],
)  # fmt: skip
def test_the_answer_with_the_most_votes_is_agreed_with(prompts, answers, expected):
    assert agree(list(prompts), answers) == expected


def test_the_reward_votes_on_what_the_grader_extracts():
    texts = [f"<answer>{answer}</answer>" for answer in ("8 * 7 - 3", "8 + 7", " 8 + 7 ", "no")]
    assert build("self_consistency")(prompts=["p"] * 4, completions=texts, **COLUMNS) == [0.0, 1.0, 1.0, 0.0]


def test_a_checker_that_returns_numbers_gives_nothing_to_vote_on(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "p"}')
    (tmp_path / "check.py").write_text("def grade(completion, row): return 0.5\n")
    keys = ["task=file", f"task.path={tmp_path / 'rows.jsonl'}", f"task.checker={tmp_path / 'check.py'}:grade"]
    cfg = compose_config([*keys, "reward=self_consistency"])
    [reward] = build_rewards(cfg, TaskRows("file", [], [{"id": "1", "prompt": "p"}], build_checker(cfg.task)))
    with pytest.raises(ConfigError, match="compares answers, and the checker returns numbers"):
        reward(prompts=["p"], completions=["1"])


def test_random_rewards_are_decided_by_seed_prompt_and_completion():
    random = build("random")
    first = random(prompts=["p", "p", "q"], completions=["a", "b", "a"])
    assert random(prompts=["q", "p", "p"], completions=as_messages("aba"), completion_ids=[[1]] * 3) == first[::-1]
    assert len(set(first)) == 3 and len(random(prompts=["p"], completions=["\ud800"])) == 1  # which no encoding takes
    assert build("random", "seed=1")(prompts=["p"], completions=["a"]) != first[:1]
    assert first[0] == 0.8168265910580388, "a resumed run must draw what the broken one drew"


@pytest.mark.parametrize(
    ("typed", "key", "kind"),
    [
        ("reward=graduated task=gsm8k", "reward.weights.graduated", "conflict"),
        ("reward=overlong max_tokens=100 algo.args.curriculum_budgets=[20,60] algo.args.curriculum_from_steps=[0,10]"
         " reward.overlong.cache=30",
         "reward.overlong.cache", "conflict"),
        ("reward.repetition.max_penalty=1", "reward.repetition.max_penalty", "range"),
        ("reward.constant.value=much", "reward.constant.value", "type"),
        ("~reward.random", "reward.random", "missing"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_for_its_key(typed, key, kind):
    with pytest.raises(ConfigError) as caught:
        compose_config(typed.split())
    [problem] = caught.value.problems
    assert problem.startswith(key) and getattr(problem, "kind", kind) == kind

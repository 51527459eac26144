from rlhf_exp.config.compose import compose_config
from rlhf_exp.rewards import build_rewards, read_text, score_completions
from rlhf_exp.tasks import Task
from rlhf_exp.tasks.countdown import grade as grade_row

ROWS = [{"id": str(i), "prompt": "p", "numbers": [8, 7, 3], "target": 53} for i in range(3)]
COMPLETIONS = ["<answer> ( 8 * 7 ) - 3 </answer>", "<answer> 8 + 7 </answer>", "8 * 7"]
TASK = Task("countdown", [], ROWS, grade_row)


def build():
    return build_rewards(compose_config([]), TASK)[0]


def test_the_reward_is_the_graders_score():
    columns = {"numbers": [[8, 7, 3]] * 3, "target": [53] * 3}
    assert build()(prompts=["p"] * 3, completions=COMPLETIONS, **columns) == [1.0, 0.1, 0.0]


def test_chat_completions_are_graded_as_their_text():
    assert read_text([{"role": "assistant", "content": "x"}]) == "x"
    columns = {"numbers": [[8, 7, 3]], "target": [53]}
    assert build()(prompts=[[]], completions=[[{"role": "assistant", "content": COMPLETIONS[0]}]], **columns) == [1.0]


def test_training_logs_the_share_of_each_outcome():
    logged = {}
    columns = {"numbers": [[8, 7, 3]] * 3, "target": [53] * 3}
    build()(prompts=["p"] * 3, completions=COMPLETIONS, log_metric=logged.__setitem__, trainer_state=None, **columns)
    assert logged == {"outcome/correct": 1 / 3, "outcome/partial": 1 / 3, "outcome/failed": 1 / 3}


def test_the_evaluation_scores_with_the_same_function():
    scores = score_completions([build()], ROWS, COMPLETIONS, [[1]] * 3)
    assert [score["outcome"] for score in scores] == [1.0, 0.1, 0.0]


def test_the_configured_weights_are_what_trl_receives():
    assert compose_config(["reward=outcome", "reward.weights.outcome=2.0"]).algo.args["reward_weights"] == [2.0]

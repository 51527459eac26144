"""Each check on a healthy task, and on one in which just that is broken."""

import json
from dataclasses import replace

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.untrained import build_byte_tokenizer
from rlhf_exp.preflight.grader import CHECKS, check_grader
from rlhf_exp.rewards import build_rewards
from rlhf_exp.runs.records import Completion
from rlhf_exp.tasks import load_task

ROWS = 80
FILE = """
import itertools
calls = itertools.count()

def right(completion, row):
    return completion.strip() == row["answer"]

def wrong_gold(completion, row):
    return completion.strip() == row["answer"] and int(row["answer"]) % 2 == 0

def generous(completion, row):
    return right(completion, row) or not completion.strip()

def forgetful(completion, row):
    return right(completion, row) and next(calls) % 3 > 0

def constant(completion, row):
    return right(completion, row) or completion.strip() == "1"

def lucky(completion, row):
    return right(completion, row) or completion.strip() == "1" and int(row["answer"]) % 3 == 0

def free(completions, **columns):
    return [float("+" not in text) for text in completions]

def flat(completions, **columns):
    return [0.5] * len(completions)
"""


def load(*overrides):
    """An experiment, of which only grader and rewards are used."""
    cfg, tokenizer = compose_config(overrides), build_byte_tokenizer()
    task = load_task(cfg, tokenizer)
    return Experiment(cfg, None, None, tokenizer, task, build_rewards(cfg, task))


@pytest.fixture
def experiment(tmp_path):
    """`experiment(checker, *overrides)`: sums with their answers as demonstrations, and a checker of FILE."""
    (tmp_path / "mine.py").write_text(FILE)
    sums = [(a, b) for a in range(20, 45) for b in range(50, 54)]
    rows = [{"prompt": f"{a} + {b} =", "answer": str(a + b), "shown": str(a + b)} for a, b in sums]
    (tmp_path / "rows").mkdir()
    for split, of in (("train", rows[ROWS:]), ("test", rows[:ROWS])):
        (tmp_path / "rows" / f"{split}.jsonl").write_text("\n".join(map(json.dumps, of)))

    def make(checker="right", *overrides):
        keys = ["task=file", f"task.path={tmp_path}/rows", "task.answer_column=answer", "task.completion_column=shown"]
        keys += [f"task.checker={tmp_path}/mine.py:{checker}", "model=tiny_gpt2", "max_tokens=16"]
        return load(*keys, f"output_dir={tmp_path}/run", *overrides)

    make.file = tmp_path / "mine.py"
    return make


def complete(experiment, right=lambda row, place: place == 0, k=4, wrong="7"):
    """The start model's completions: `right` says which are."""
    done = []
    for i, row in enumerate(experiment.task.eval):
        for place in range(k):
            text = row["answer"] if right(i, place) else wrong
            grade = experiment.task.grade(text, row)
            known = {"outcome": grade.outcome, "rewards": {"outcome": grade.score}, "reward": grade.score}
            done.append(Completion(row=i, sample=place, ids=[1], completion=text, **known))
    return done


def check(experiment, completions=None):
    found = check_grader(experiment, complete(experiment) if completions is None else completions)
    assert [one.name for one in found] == [one.__name__ for one in CHECKS]
    return {one.name: one for one in found}


def sick(found, *status):
    return {name for name, one in found.items() if one.status in (status or ("failed", "warned"))}


def some(row, place):
    return row < 0.6 * ROWS


CASES = {
    "healthy": ("right", lambda row, place: place == 0, None, set()),
    "a constant is right": (
        "constant", lambda row, place: place == 0, None, {"adversarial_floor", "gameability_gap"},
    ),
    "never right": (
        "right", lambda row, place: False, None, {"reward_reachability", "variance", "training_signal"},
    ),
    "rarely right": ("right", lambda row, place: row % 20 == 0 and place == 0, None, {"training_signal"}),
    "equal rewards of each prompt": ("right", lambda row, place: some(row, place) and place < 3, some, {"variance"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_sick_is_a_warning_and_nothing_else_is(experiment, case):
    checker, right, reward, expected = CASES[case]
    mine = experiment(checker)
    done = complete(mine, right)
    if reward is not None:
        done = [one.model_copy(update={"reward": float(reward(one.row, one.sample))}) for one in done]
    found = check(mine, done)
    assert sick(found) == expected and not sick(found, "failed")
    signal, headroom = found["training_signal"], found["headroom"].figures["headroom"]["value"]
    if case == "healthy":
        assert found["oracle_max"].figures["full_marks"]["value"] == 1 and headroom == 0.75
    elif case == "a constant is right":
        assert "'always 1', is right on 100.0%" in found["adversarial_floor"].evidence
    elif case == "never right":
        other = found["reward_reachability"].figures["other"]
        assert other["value"] == 0 < other["high"]
        assert signal.figures["share"]["value"] < 1e-6 and signal.remedy[0] == "algo=sft"
        assert signal.evidence.endswith("then model.path=RUN/model), easier rows")
    elif case == "rarely right":
        assert 0.01 < signal.figures["share"]["value"] < 0.3 and signal.remedy == ["algo.args.num_generations=32"]


@pytest.mark.parametrize(
    ("checker", "name"),
    [("wrong_gold", "oracle_max"), ("generous", "floor_gap"), ("forgetful", "verifier_determinism")],
)
def test_a_broken_grader_fails_the_check_of_it(experiment, checker, name):
    broken = experiment(checker)
    found = check(broken, complete(experiment()))
    assert name in sick(found, "failed") <= {name, "oracle_max"}
    offline = replace(broken, cfg=replace(broken.cfg, algo=compose_config(["algo=sft"]).algo))
    assert found[name].status == "failed" and check(offline, complete(experiment()))[name].status == "warned"


def test_right_answers_that_encoding_and_decoding_change_fail(experiment):
    mine = experiment()
    mine.tokenizer.add_special_tokens({"additional_special_tokens": ["7"]})  # decoding leaves it out
    found = check(mine, complete(experiment()))["oracle_max"]
    assert found.status == "failed" and "tokenizer encodes and decodes them" in found.evidence
    assert ", not '73'" in check(experiment("wrong_gold"))["oracle_max"].evidence


def test_a_flat_reward_of_the_users_is_told_that_completions_are_messages(experiment):
    code = "def flat(completions, **columns):\n    return [float(len(text)) for text in completions]\n"
    experiment.file.write_text(FILE + code)
    keys = [f"+reward.functions.flat={experiment.file}:flat", "+reward.weights.flat=1"]
    mine = experiment("right", "reward=none", *keys)
    chat = [{**row, "prompt": [{"role": "user", "content": row["prompt"]}]} for row in mine.task.eval]
    told = "completions are lists of messages"
    same = [one.model_copy(update={"reward": 1.0}) for one in complete(mine)]
    found = check(replace(mine, task=replace(mine.task, eval=chat)), same)["reward_reachability"]
    assert found.status == "failed" and told in found.evidence
    assert told not in check(mine, same)["reward_reachability"].evidence


def test_a_text_with_another_grade_and_another_reward_is_one_text(experiment):
    found = check(experiment("forgetful"), complete(experiment()))["verifier_determinism"]
    texts = int(found.evidence.split(" texts")[0].split()[-1])
    assert 0 < found.figures["changed"] <= texts == found.figures["n"]
    assert 0 < found.figures["share"]["low"] < found.figures["share"]["value"] and "%" in found.evidence


def test_a_reward_that_a_text_without_work_earns_is_a_gap(experiment):
    mine = experiment("right", f"+reward.functions.free={experiment.file}:free", "+reward.weights.free=2")
    found = check(mine)["gameability_gap"]
    assert found.status == "warned" and found.figures["gap"]["low"] == 1.75


def test_a_lucky_text_that_earns_far_less_than_right_answers_is_no_gap(experiment):
    """ "1" is right on a third of the rows, and the start model knows none."""
    mine = experiment("lucky")
    found = check(mine, complete(mine, right=lambda row, place: False))["gameability_gap"]
    assert found.status == "passed" and found.figures["gap"]["low"] > 0, found
    assert "; right answers earn " in found.evidence


@pytest.mark.parametrize(("others", "status"), [([], "passed"), (["free"], "warned")])
def test_without_right_answers_a_gap_is_what_the_reward_says(experiment, others, status):
    own = [f"+reward.functions.{name}={experiment.file}:{name}" for name in others]
    own += [f"+reward.weights.{name}=1" for name in others]
    mine = load("task=brevity", "task@task.of=countdown", "eval.rows=12", *own)
    done = [Completion(row=i, ids=[1], completion="7 8 9", reward=-1.0) for i in range(12)]
    found = check(mine, done)["gameability_gap"]
    assert found.status == status and found.evidence.endswith(": this is what the reward says, and training goes there")


def test_a_reward_that_does_not_follow_right_answers_is_a_warning(experiment):
    mixed = [one.model_copy(update={"reward": float(one.sample == 1)}) for one in complete(experiment())]
    found = check(experiment(), mixed)["reward_follows_outcome"]
    assert found.status == "warned" and found.figures["correlation"]["value"] == pytest.approx(-1 / 3)


def test_rewards_that_differ_nowhere_fail_and_those_of_the_start_model_alone_warn(experiment):
    flat = experiment(
        "right", "reward=none", f"+reward.functions.flat={experiment.file}:flat", "+reward.weights.flat=1"
    )
    same = [one.model_copy(update={"reward": 0.5}) for one in complete(flat)]
    assert sick(check(flat, same), "failed") == {"reward_reachability"}
    constant = experiment("right", "reward=constant", "+reward.weights.outcome=0")
    assert (
        check(constant, [one.model_copy(update={"reward": 1.0}) for one in same])["reward_reachability"].status
        == "warned"
    )


@pytest.mark.parametrize(
    ("overrides", "ways"),
    [
        (["task=countdown"], ["algo=sft", "reward=graduated", "task.numbers=[2,3]"]),
        (["task=gsm8k", "task.source=generated"], ["algo=sft", "task.largest=20"]),
    ],
)
def test_a_start_model_that_is_never_right_is_told_all_that_helps(overrides, ways):
    overrides = [*overrides, "eval.rows=200"]
    mine = load(*overrides)
    found = check(mine, complete(mine, right=lambda row, place: False, wrong=""))
    for name in ("training_signal", "reward_reachability"):
        assert found[name].remedy == ways and all(f"{way} (" in found[name].evidence for way in ways)
    for way in ways:
        load(*overrides, way)


def test_no_figure_of_a_spread_is_below_0(experiment):
    mine = experiment()
    found = check(mine, complete(mine, right=lambda row, place: row == 0 and place == 0))["variance"]
    assert found.figures["std"]["low"] == 0 < found.figures["std"]["value"]


def test_a_start_model_that_is_always_right_leaves_nothing_to_gain(experiment):
    mine = experiment()
    found = check(mine, complete(mine, right=lambda row, place: True))
    assert {"headroom", "training_signal"} <= sick(found)
    few = replace(mine, task=replace(mine.task, eval=mine.task.eval[:3]))  # whose interval says little
    found = check(few, complete(few, right=lambda row, place: True, k=1))
    assert {"headroom", "training_signal"} <= sick(found)
    assert found["headroom"].evidence.startswith("the start model is right on all of 3 rows")
    assert found["training_signal"].evidence.startswith("the start model is right on all 3 completions, so that ")


def test_without_a_grader_or_a_measurement_checks_say_why_they_are_skipped():
    found = check(load("task=brevity", "task@task.of=countdown", "eval.rows=12"), [])
    assert sick(found, "passed") == {"verifier_determinism", "reward_reachability"}
    assert found["oracle_max"].evidence == "the task has no grader"
    assert found["gameability_gap"].evidence == "the start model was not measured"


def test_countdown_knows_right_answers_though_its_demonstrations_may_give_up():
    found = check(load("task=countdown", "eval.rows=40"), [])["oracle_max"]
    assert found.status == "passed" and found.figures["full_marks"]["low"] > 0.85

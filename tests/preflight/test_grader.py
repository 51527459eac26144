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


def first(row, place):
    return place == 0


def never(row, place):
    return False


def some(row, place):
    return row < 0.6 * ROWS


ALL_ALIKE = {"reward_reachability", "variance", "training_signal"}
CASES = {  # (checker, which completions are right, their rewards if others than the grades, what is sick)
    "healthy": ("right", first, None, set()),
    "a constant is right": ("constant", first, None, {"adversarial_floor", "gameability_gap"}),
    "never right": ("right", never, None, ALL_ALIKE),
    "rarely right": ("right", lambda row, place: row % 20 == 0 and place == 0, None, {"training_signal"}),
    "always right": ("right", lambda row, place: True, None, ALL_ALIKE | {"headroom"}),
    "equal rewards of each prompt": ("right", lambda row, place: some(row, place) and place < 3, some, {"variance"}),
    "rewards of wrong answers": ("right", first, lambda row, place: place == 1, {"reward_follows_outcome"}),
}
EVIDENCE = {
    "a constant is right": ("adversarial_floor", "'always 1', is right on 100.0%"),
    "never right": ("training_signal", "then model.path=RUN/model), easier rows"),
    "always right": ("headroom", f"the start model is right on all of {ROWS} rows"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_sick_is_a_warning_and_nothing_else_is(experiment, case):
    checker, right, reward, expected = CASES[case]
    mine = experiment(checker)
    done = complete(mine, right)
    if reward is not None:
        done = [one.model_copy(update={"reward": float(reward(one.row, one.sample))}) for one in done]
    found = check(mine, done)
    assert sick(found) == expected and not sick(found, "failed")
    name, said = EVIDENCE.get(case, ("oracle_max", ""))
    assert said in found[name].evidence
    assert found["variance"].figures["std"]["low"] >= 0
    signal = found["training_signal"]
    if case == "healthy":
        assert found["oracle_max"].figures["full_marks"]["value"] == 1
        assert found["headroom"].figures["headroom"]["value"] == 0.75
    elif case == "never right":
        other = found["reward_reachability"].figures["other"]
        assert other["value"] == 0 < other["high"]
        assert signal.figures["share"]["value"] < 1e-6 and signal.remedy[0] == "algo=sft"
    elif case == "rarely right":
        assert 0.01 < signal.figures["share"]["value"] < 0.3 and signal.remedy == ["algo.args.num_generations=32"]
    elif case == "rewards of wrong answers":
        assert found["reward_follows_outcome"].figures["correlation"]["value"] == pytest.approx(-1 / 3)


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


def test_a_reward_that_a_text_without_work_earns_is_a_gap(experiment):
    mine = experiment("right", f"+reward.functions.free={experiment.file}:free", "+reward.weights.free=2")
    found = check(mine)["gameability_gap"]
    assert found.status == "warned" and found.figures["gap"]["low"] == 1.75


def test_a_lucky_text_that_earns_far_less_than_right_answers_is_no_gap(experiment):
    """ "1" is right on a third of the rows, and the start model knows none."""
    mine = experiment("lucky")
    found = check(mine, complete(mine, never))["gameability_gap"]
    assert found.status == "passed" and found.figures["gap"]["low"] > 0, found


def test_rewards_that_differ_nowhere_fail_and_those_of_the_start_model_alone_warn(experiment):
    keys = ["reward=none", f"+reward.functions.flat={experiment.file}:flat", "+reward.weights.flat=1"]
    flat, constant = experiment("right", *keys), experiment("right", "reward=constant", "+reward.weights.outcome=0")
    same = [one.model_copy(update={"reward": 0.5}) for one in complete(flat)]
    assert sick(check(flat, same), "failed") == {"reward_reachability"}
    assert check(constant, same)["reward_reachability"].status == "warned"


@pytest.mark.parametrize(
    ("overrides", "ways"),
    [
        (["task=countdown"], ["algo=sft", "reward=graduated", "task.numbers=[2,3]"]),
        (["task=gsm8k", "task.source=generated"], ["algo=sft", "task.largest=20"]),
    ],
)
def test_a_start_model_that_is_never_right_is_told_all_that_helps(overrides, ways):
    mine = load(*overrides, "eval.rows=40", "task.train_rows=8")
    found = check(mine, complete(mine, never, wrong=""))
    for name in ("training_signal", "reward_reachability"):
        assert found[name].remedy == ways and all(f"{way} (" in found[name].evidence for way in ways)
    for way in ways:
        compose_config([*overrides, way])


def test_without_a_grader_or_a_measurement_checks_say_why_they_are_skipped():
    mine = load("task=brevity", "task@task.of=countdown", "eval.rows=12")
    found = check(mine, [])
    assert sick(found, "passed") == {"verifier_determinism", "reward_reachability"}
    assert found["oracle_max"].evidence == "the task has no grader"
    assert found["gameability_gap"].evidence == "the start model was not measured"
    done = [Completion(row=i, ids=[1], completion="7 8 9", reward=-1.0) for i in range(12)]
    found = check(mine, done)["gameability_gap"]
    assert found.evidence.endswith(": this is what the reward says, and training goes there")


def test_countdown_knows_right_answers_though_its_demonstrations_may_give_up():
    found = check(load("task=countdown", "eval.rows=40", "task.train_rows=8"), [])["oracle_max"]
    assert found.status == "passed" and found.figures["full_marks"]["low"] > 0.85
